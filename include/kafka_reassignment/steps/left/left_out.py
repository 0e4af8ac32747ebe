"""Partitions that leave their batch because another client moved, cancelled or changed them; the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_reassignment.advice import Rerun
from kafka_reassignment.decisions.moves import NEVER_BEGUN, disturbed, phase
from kafka_reassignment.errors import NotSubmittedError, name_some, overtaken
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext, refuse_stopped
from kafka_reassignment.steps.base.moves import as_texts, format_reasons
from kafka_reassignment.steps.base.recorded_batch import without


def submission(recorded: RecordView, number: int) -> SubmittedBatch | None:
    """Return what was submitted of a batch; None when it was not, or when a stop has cancelled it since."""
    submitted = recorded.submitted(number)
    return None if submitted is None or _is_ordered_since(recorded, submitted) else submitted


def refuse_submitted_since(recorded: RecordView, before: SubmittedBatch, number: int) -> SubmittedBatch:
    """Return what is submitted of a batch, which is still what was submitted when a look at it began.

    Raises:
        OvertakenError: a stop has cancelled it since, or it was submitted once more.
    """
    submitted = submission(recorded, number)
    if submitted is None or submitted.submitted_at != before.submitted_at:
        raise overtaken(f"batch {number} was stopped or submitted again since this look at it began")
    return submitted


def _is_ordered_since(recorded: RecordView, submitted: SubmittedBatch) -> bool:
    """Whether there is an order to stop or to go on since. By its number: the times of two workers are those of two clocks."""
    number, command = recorded.numbered_run_command()
    if submitted.run_command is not None:
        return number > submitted.run_command
    return command is not None and command.at >= submitted.submitted_at


def leave_out_disturbed(run: RunContext, recorded: RecordView, batch: Batch, view: View) -> Batch:
    """Return the batch without the partitions that another client has its hand on; they are recorded with the reason.

    Nothing is taken for another client's doing that this reassignment's own stop or withdrawal has done. Does nothing
    to a batch that was not submitted.

    Raises:
        StoppedError: the reassignment was stopped.
        NotSubmittedError: a partition is in the batch and was never submitted.
        OvertakenError: it was stopped, or submitted again, since the look.
    """
    before = submission(recorded, batch.number)
    found = disturbed(batch, view, before.done_before) if before is not None else {}
    if before is None or not found:
        return batch
    # Read after the look: what a stop or a withdrawal cancelled, it had ordered before.
    now = RecordView(run.record)
    refuse_stopped(now)
    submitted, withdrawn = refuse_submitted_since(now, before, batch.number), now.withdrawn_partitions()
    batch = without(batch, withdrawn)
    reasons = as_texts({p: why for p, why in found.items() if str(p) not in withdrawn})
    if not reasons:
        return batch
    _require_submitted(batch, view, submitted)
    event, began = AuditDraft(facts={"left_out": reasons}), run.now()
    run.record.write_submitted(
        batch.number,
        submitted.model_copy(
            update={
                "accepted": tuple(p for p in submitted.accepted if p not in reasons),
                "left_out": submitted.left_out | reasons,
                "retried_later": tuple(p for p in submitted.retried_later if p not in reasons),
                "changed_by_others": tuple(sorted({*submitted.changed_by_others, *reasons})),
            }
        ),
    )
    event.summary = (
        f"left out of batch {batch.number}: {format_reasons({p: found[p] for p in found if str(p) in reasons})}"
    )
    run.write_event("leave_out", batch.number, began, event)
    run.log.warning("%s. The rest of the batch goes on", event.summary)
    return without(batch, reasons)


def _require_submitted(batch: Batch, view: View, submitted: SubmittedBatch) -> None:
    """Make sure that what stands at its beginning was submitted: else nobody has cancelled it.

    What is left may have been re-batched while the batch was being submitted.
    """
    never = [
        s.partition
        for s in batch.steps
        if str(s.partition) not in submitted.accepted and phase(s, view).phase in NEVER_BEGUN
    ]
    if never:
        raise never_submitted(batch, never)


def never_submitted(batch: Batch, partitions: Sequence[TopicPartition]) -> NotSubmittedError:
    """Return the error of a batch of which some partitions were never submitted."""
    return NotSubmittedError(
        f"Batch {batch.number}: {name_some(partitions)} of {len(batch.steps)} partitions were never submitted",
        Rerun("submit_batch", batch=batch.number),
    )


def left_out_for_good(run: RunContext) -> dict[str, str]:
    """Return by partition why it was left out for good: the steps that follow one that was not made are stale, which says nothing."""
    plan = run.plan()
    left_out: dict[str, str] = {}
    tried_again: set[str] = set()
    for number in range(1, plan.batches + 1):
        submitted = run.record.submitted(number)
        if submitted is not None:
            over = {*submitted.accepted, *(tried_again & submitted.left_out.keys())}
            left_out = submitted.left_out | {p: why for p, why in left_out.items() if p not in over}
            tried_again = (tried_again - over) | {*submitted.retried_later}
    return left_out
