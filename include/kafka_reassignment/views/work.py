"""How much of a plan is done, in bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.record.models import FinishedBatch


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes to copy of all batches, and those of them that are copied."""

    bytes_to_copy: int
    bytes_done: int

    @property
    def bytes_left(self) -> int:
        """Bytes that are still to be copied."""
        return self.bytes_to_copy - self.bytes_done

    @property
    def share(self) -> float:
        """Copied part, 0 to 1; 1 where nothing is to be copied."""
        return self.bytes_done / self.bytes_to_copy if self.bytes_to_copy else 1.0


def work_of(
    plan: PlanSummary,
    finished: Collection[int],
    ends: Iterable[FinishedBatch],
    *,
    batch: int | None,
    bytes_left: int | None,
) -> Work:
    """Return how much of a plan is done: finished batches, and of another one what the latest look has seen to be left.

    What a finished batch did not copy, because it was withdrawn, left out or deleted, is neither done nor left of it.

    Args:
        plan: with the bytes of each batch.
        finished: numbers of the batches that are.
        ends: of some of them; the others count as planned.
        batch: the current one.
        bytes_left: of the current one, by the latest look.
    """
    not_copied = {
        end.number: plan.batches[end.number - 1].bytes_to_copy - end.bytes_copied
        for end in ends
        if end.number <= len(plan.batches)
    }
    planned = sum(b.bytes_to_copy for b in plan.batches) - sum(not_copied.values())
    done = sum(b.bytes_to_copy - not_copied.get(b.number, 0) for b in plan.batches if b.number in finished)
    current = next((b for b in plan.batches if b.number == batch and b.number not in finished), None)
    if current is not None and bytes_left is not None:
        done += max(0, current.bytes_to_copy - bytes_left)
    return Work(planned, done)
