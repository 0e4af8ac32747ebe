"""One shard's placement, in the order of the objective: what must be, bytes, leaders."""

from __future__ import annotations

from kafka_reassignment.planner.placing.balance import move_for_balance
from kafka_reassignment.planner.placing.closing import close_gaps, gaps_left
from kafka_reassignment.planner.placing.forced import place_forced
from kafka_reassignment.planner.placing.leaders import level_leaders, reorder_leaders, surplus
from kafka_reassignment.planner.placing.work import Partitions, Work
from kafka_reassignment.planner.shard_goals import ShardGoals

SMALLER = 3
"""Times that smaller replicas are tried where receivers get too few to lead their part of the partitions."""


def place(partitions: Partitions, orders: ShardGoals) -> Work:
    """Decide the new replicas of a shard's partitions; rows that stay as they are are left out."""
    work = _placed(partitions, orders, None)
    if not orders.balance_leaders or not orders.alone or not surplus(work.leader_room):
        return work
    if orders.bounds is not None:
        # Few large replicas bring a new broker its bytes, but nothing to lead: as many bytes in more, smaller ones do.
        average = int(orders.inflow.sum()) // max(1, surplus(orders.leader_room.tolist()))
        tried = [work, *(_placed(partitions, orders, average >> times) for times in range(SMALLER))]
        work = min(tried, key=lambda w: (gaps_left(w), surplus(w.leader_room)))
    level_leaders(work)
    return work


def _placed(partitions: Partitions, orders: ShardGoals, largest: int | None) -> Work:
    work = Work(partitions, orders)
    place_forced(work)
    move_for_balance(work, largest)
    close_gaps(work)
    if orders.balance_leaders:
        reorder_leaders(work)
    return work
