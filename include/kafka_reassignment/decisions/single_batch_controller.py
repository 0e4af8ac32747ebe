"""The controller of Kafka below 2.4: it takes one batch at a time and cannot cancel it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafka_reassignment.decisions.cancel import Cancels, Settling
from kafka_reassignment.decisions.controller import Controller, Unfinished
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Batch, ClusterDescription, Refusal, Replicas, TopicPartition, View
from kafka_reassignment.ports import MAX_PARTITIONS
from kafka_reassignment.text import format_brokers


class SingleBatchController(Controller):
    """Takes one batch at a time, and all of it at once: another is refused until the whole of it is done.

    So a submission is as large as it may be. One that copies nothing is done in a second.
    """

    slice_size = MAX_PARTITIONS
    busy_seconds = 60
    max_batch = MAX_PARTITIONS
    can_cancel = False
    ends_in_sync = False  # one that takes over counts what is at its target as done
    lists_adding = False
    takes_several = False

    def submissions(
        self, batch: Batch, seen: View, expansions: Mapping[TopicPartition, Replicas]
    ) -> dict[TopicPartition, Replicas]:
        """Return the expansions, or the target itself where an old replica is out of sync.

        The controller completes nothing while a replica that stays is out of sync, on a dead broker mostly, and takes
        no drop meanwhile. Given the target, it adds first and removes when the whole target is in sync.
        """
        moves = {step.partition: step.reassignment for step in batch.steps}
        return {
            p: expanded if set(moves[p].removing) <= seen.in_sync(p) else moves[p].target
            for p, expanded in expansions.items()
        }

    def is_busy(self, refusal: Refusal) -> bool:
        """Whether another batch is there; newer controllers have no reason for this refusal."""
        return refusal.code == "REASSIGNMENT_IN_PROGRESS"

    def unfinished(self, seen: View) -> Unfinished | None:
        """Return what keeps the controller from finishing the batch: an old replica that is out of sync has to come back."""
        if not seen.in_flight:
            return None
        out_of_sync = {p: tuple(b for b in f.target if b not in seen.in_sync(p)) for p, f in seen.in_flight.items()}
        held_up = {p: brokers for p, brokers in out_of_sync.items() if brokers}
        there = (
            f"the controller has not finished {name_some(sorted(seen.in_flight))} and takes no other batch meanwhile"
        )
        if held_up:
            brokers = sorted(set().union(*held_up.values()))
            there += f"; broker {format_brokers(brokers)} is out of sync: bring it back"
        return Unfinished(there, held_up)

    def settle(self, decided: Settling, seen: View) -> Settling:
        """Let what is in flight go on, and the rest wait: nothing can be cancelled.

        When the batch is done its partitions are settled half-way, and are taken back by ``settling`` itself.
        """
        if not seen.in_flight:
            return decided
        goes_on = {
            p: f"Kafka below 2.4 cannot cancel: it goes on to {format_brokers(seen.in_flight[p].target)}, and can be "
            "taken back then"
            for p in decided.cancels.to_cancel
        }
        later = dict.fromkeys(decided.to_submit, "its turn comes when the controller has finished what is in flight")
        cancels = Cancels(carry_on={**decided.cancels.carry_on, **goes_on}, foreign=decided.cancels.foreign)
        return replace(decided, cancels=cancels, to_submit={}, stranded={**decided.stranded, **later})


def controller_of(description: ClusterDescription) -> Controller:
    """Return the controller a cluster has."""
    return Controller() if description.has_reassignment_api else SingleBatchController()
