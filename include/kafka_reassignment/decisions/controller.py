"""What a controller takes, and how: chosen once from the description of the cluster, so that no step asks for its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_reassignment.decisions.cancel import Settling
from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.model import Batch, Refusal, Replicas, Step, TopicPartition, View


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What keeps the controller from finishing a batch whose targets are all in sync.

    ``held_up`` has the brokers whose replicas it waits for, by partition: old ones, that are no part of the target.
    """

    reason: str
    held_up: Mapping[TopicPartition, Replicas]


class Controller:
    """A controller with the reassignment API (KIP-455, Kafka 2.4 and later): takes any number of batches, and cancels.

    Pure: each method decides from what the cluster shows.

    Attributes:
        slice_size: partitions per submission: replies are per partition (F13), and a drop stalls its partitions a
            moment (F35).
        busy_seconds: how long a submission waits for the controller to be free of an earlier one.
        max_batch: most partitions of a batch; None for any number.
        can_cancel: whether a move in flight can be cancelled.
        ends_in_sync: whether a move that is at its target and not in flight had all of it in sync when it ended.
        lists_adding: whether a move in flight lists as adding only what was not there before.
        takes_several: whether it takes a batch while an earlier one is in flight.
    """

    slice_size: int = 100
    busy_seconds: int = 0
    max_batch: int | None = None
    can_cancel: bool = True
    ends_in_sync: bool = True
    lists_adding: bool = True
    takes_several: bool = True

    def submissions(
        self, _batch: Batch, _seen: View, expansions: Mapping[TopicPartition, Replicas]
    ) -> dict[TopicPartition, Replicas]:
        """Return what to submit in order to expand the partitions of a batch."""
        return dict(expansions)

    def is_busy(self, _refusal: Refusal) -> bool:
        """Whether a refusal says that an earlier submission has to complete first."""
        return False

    def unfinished(self, _seen: View) -> Unfinished | None:
        """Return why a batch whose targets are all in sync cannot be dropped yet; None when it can."""
        return None

    def left_to_join(self, step: Step, seen: View) -> Replicas:
        """Return the adding replicas for which a step at its target has to be waited for all the same."""
        if self.ends_in_sync or phase(step, seen).phase is not Phase.DONE:
            return ()
        # One on a dead broker is waited for by nobody: its batch may have ended before.
        return tuple(b for b in step.reassignment.adding if b in seen.live_brokers - seen.in_sync(step.partition))

    def settle(self, decided: Settling, _seen: View) -> Settling:
        """Return how stopped steps are settled on this controller."""
        return decided

    def busy_message(self, refused: Mapping[TopicPartition, Refusal]) -> str | None:
        """Return the words of a refusal by which the controller is busy; None when there is none."""
        return next((r.message for r in refused.values() if self.is_busy(r)), None)
