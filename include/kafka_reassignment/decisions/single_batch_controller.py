"""What is different where the controller takes one batch at a time and cannot cancel it: Kafka below 2.4."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_reassignment.decisions.cancel import Cancels, Settling
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Batch, Replicas, TopicPartition, View
from kafka_reassignment.text import format_brokers


def that_can_complete(
    batch: Batch, seen: View, expansions: Mapping[TopicPartition, Replicas]
) -> dict[TopicPartition, Replicas]:
    """Return what to submit instead of these expansions.

    Such a controller completes nothing while a replica that stays is out of sync, and meanwhile takes nothing
    else, the drop included. So where an old replica is out of sync, on a dead broker mostly, the target
    itself is submitted: the controller adds first and removes when the whole target is in sync.
    """
    moves = {step.partition: step.reassignment for step in batch.steps}
    return {
        p: expanded if set(moves[p].removing) <= seen.in_sync(p) else moves[p].target
        for p, expanded in expansions.items()
    }


def not_finished(seen: View) -> str | None:
    """Say what keeps the controller from finishing the batch, though every target is in sync; None when it has.

    Until then it takes no drop: an old replica that is out of sync has to come back first.
    """
    if not seen.in_flight:
        return None
    held_up = sorted({b for p, f in seen.in_flight.items() for b in f.target if b not in seen.in_sync(p)})
    told = f"the controller has not finished {name_some(sorted(seen.in_flight))} and takes no other batch meanwhile"
    return f"{told}; broker {format_brokers(held_up)} is out of sync: bring it back" if held_up else told


def in_turn(decided: Settling, seen: View) -> Settling:
    """Return how stopped steps come to rest where nothing can be cancelled: what is in flight goes on, the rest waits.

    When the batch is done its partitions are at rest in between, and are taken back by ``settling`` itself.
    """
    if not seen.in_flight:
        return decided
    goes_on = {
        p: f"Kafka below 2.4 cannot cancel: it goes on to {format_brokers(seen.in_flight[p].target)}, and can be taken back then"
        for p in decided.cancels.to_cancel
    }
    later = dict.fromkeys(decided.to_submit, "its turn comes when the controller has finished what is in flight")
    cancels = Cancels(carry_on={**decided.cancels.carry_on, **goes_on}, foreign=decided.cancels.foreign)
    return Settling(cancels, stranded={**decided.stranded, **later}, settled=decided.settled)
