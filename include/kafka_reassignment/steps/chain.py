"""Where the chain of batches stands."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_reassignment.errors import (
    StoppedError,
)
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.go_ahead import require_go_ahead, stopped_text


def first_batch(run: RunContext) -> int | None:
    """Return the first batch that is not finished, or None when all are.

    Raises:
        ReassignmentInProgressError: another reassignment has the cluster by now.
    """
    plan = run.plan()
    finished = run.record.finished_batches()
    unfinished = [n for n in range(1, plan.batches + 1) if n not in finished]
    with run.audited("start_batches") as event:
        if unfinished:
            require_go_ahead(run)
        event.summary = f"{len(finished)} of {plan.batches} batches finished" + (
            f"; starting batch {unfinished[0]}" if unfinished else "; nothing to start"
        )
    return unfinished[0] if unfinished else None


def batches_finished(run: RunContext) -> BatchesProgress:
    """Return how far the chain is; its end is told in the audit trail.

    Raises:
        StoppedError: somebody stopped the reassignment.
    """
    progress = batches_progress(run.record)
    if not progress.complete and (why := stopped_text(run.record)):
        raise StoppedError(why)
    if progress.complete:
        with run.audited("wait_for_batches") as event:
            event.summary = progress.text
    return progress


@dataclass(frozen=True, slots=True)
class BatchesProgress:
    """How far the chain of batches is."""

    finished: int
    batches: int
    next_batch: int
    detail: str = ""

    @property
    def complete(self) -> bool:
        """Whether every batch is finished."""
        return self.finished >= self.batches

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.finished} of {self.batches} batches finished" + (f"; {self.detail}" if self.detail else "")


def batches_progress(record: Record) -> BatchesProgress:
    """Return how far the chain is, from the record alone."""
    plan = record.plan_in_force()
    batches = plan.batches if plan else 0
    finished = record.finished_batches()
    left = [n for n in range(1, batches + 1) if n not in finished]
    told = record.progress() if left else None
    detail = f"batch {told.batch}: {told.text}" if told and told.batch in left else ""
    return BatchesProgress(len(finished), batches, left[0] if left else batches, detail)
