"""One shard's placement, in the order of the objective: forced changes, bytes, leaders."""

from __future__ import annotations

from kafka_reassignment.planner.placing.balance import move_for_balance
from kafka_reassignment.planner.placing.closing import close_gaps, gaps_left
from kafka_reassignment.planner.placing.forced import place_forced
from kafka_reassignment.planner.placing.leaders import level_leaders, reorder_leaders, surplus
from kafka_reassignment.planner.placing.shard_placement import Partitions, ShardPlacement
from kafka_reassignment.planner.shard_goals import ShardGoals

SMALLER_TRIES = 3
"""Attempts with smaller replicas when receivers get too few replicas to lead their part of the partitions."""


def place(partitions: Partitions, goals: ShardGoals) -> ShardPlacement:
    """Decide the new replicas of a shard's partitions; unchanged rows are left out."""
    placement = _placed(partitions, goals, None)
    if not goals.balance_leaders or not goals.alone or not surplus(placement.leader_room):
        return placement
    if goals.bounds is not None:
        # A few large replicas give a new broker its bytes but little to lead. More and smaller replicas give it both.
        average = int(goals.inflow.sum()) // max(1, surplus(goals.leader_room.tolist()))
        tried = [placement, *(_placed(partitions, goals, average >> times) for times in range(SMALLER_TRIES))]
        placement = min(tried, key=lambda w: (gaps_left(w), surplus(w.leader_room)))
    level_leaders(placement)
    return placement


def _placed(partitions: Partitions, goals: ShardGoals, largest: int | None) -> ShardPlacement:
    placement = ShardPlacement(partitions, goals)
    place_forced(placement)
    placement.keep_what_a_dead_broker_holds()
    move_for_balance(placement, largest)
    close_gaps(placement)
    if goals.balance_leaders:
        reorder_leaders(placement)
    return placement
