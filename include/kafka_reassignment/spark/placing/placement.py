"""One shard's placement, in the order of the objective: what must be, bytes, leaders."""

from __future__ import annotations

from kafka_reassignment.spark.orders import Orders
from kafka_reassignment.spark.placing.balance import move_for_balance
from kafka_reassignment.spark.placing.closing import close_gaps
from kafka_reassignment.spark.placing.forced import place_forced
from kafka_reassignment.spark.placing.leaders import reorder_leaders
from kafka_reassignment.spark.placing.work import Partitions, Work


def place(partitions: Partitions, orders: Orders) -> Work:
    """Decide the new replicas of a shard's partitions; rows that stay as they are are left out."""
    work = Work(partitions, orders)
    place_forced(work)
    move_for_balance(work)
    close_gaps(work)
    if orders.balance_leaders:
        reorder_leaders(work)
    return work
