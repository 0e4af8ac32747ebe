"""The steps of one batch that act: set the throttle, submit, drop, clear the throttle, start the next batch."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_reassignment.decisions.cancel import hung_drops
from kafka_reassignment.decisions.moves import (
    Phase,
    drops_to_submit,
    expansions_to_submit,
    phase,
)
from kafka_reassignment.errors import (
    BatchIncompleteError,
    NotSubmittedError,
    PartialRefusalError,
    ReassignmentError,
    ReassignmentInProgressError,
    ThrottleInUseError,
    UnsafeDropError,
    error_of,
    name_some,
)
from kafka_reassignment.model import Batch, Refusal, Replicas, TopicPartition, View
from kafka_reassignment.record.models import FinishedBatch, SubmittedBatch
from kafka_reassignment.steps.context import AuditDraft, RunContext
from kafka_reassignment.steps.limits import revise
from kafka_reassignment.steps.moves import (
    DOUBTFUL,
    as_texts,
    cancel,
    confirmed_view,
    format_reasons,
    left_to_copy,
    slices_of,
    submit,
    wait_until_settled,
)
from kafka_reassignment.steps.recorded_batch import taking_part, whole_batch
from kafka_reassignment.steps.supersede import supersede_foreign
from kafka_reassignment.steps.throttle import adopt_debts, ensure_throttle, restore_configs
from kafka_reassignment.steps.view import observe

BATCH_STEPS = (
    "admit",
    "set_throttle",
    "submit_batch",
    "sense_isr_catch_up",
    "drop_old_replicas",
    "clear_throttle",
    "start_next_batch",
)
"""The steps of a batch in their order: names of tasks and of audit events."""


def set_throttle(run: RunContext, number: int) -> None:
    """Put the batch's throttle in place, journal first; nothing to do when nothing is left to copy."""
    with run.audited("set_throttle", number) as event:
        run.require_go_ahead()
        batch = run.batch(number)
        left = left_to_copy(batch, observe(run.cluster, batch.partitions))
        if not left.steps:
            event.summary = f"batch {number} has nothing left to copy; no throttle is set"
            return
        ensure_throttle(run, left, event)
        event.summary = f"throttle of batch {number} in place"


def submit_batch(run: RunContext, number: int) -> None:
    """Submit the expansions that the controller does not have yet, under the throttle.

    Stale partitions and those the controller refuses are left out of the batch and reported; the rest
    goes on.

    Raises:
        PartialRefusalError, or the error of the one kind: the controller refused every partition.
        ReassignmentInProgressError: the controller takes one batch at a time, and has another.
        ThrottleMissingError: the throttle could not be put in place.
    """
    with run.audited("submit_batch", number) as event:
        run.require_go_ahead()
        batch = run.batch(number)
        view = confirmed_view(run, batch.steps, DOUBTFUL - {Phase.NOT_SUBMITTED})
        view, kept = supersede_foreign(run, batch, view, event)
        wanted = expansions_to_submit(batch, view)
        if wanted.to_submit:
            ensure_throttle(run, left_to_copy(batch, view), event)
        to_submit = run.controller.submissions(batch, view, wanted.to_submit) if wanted.to_submit else {}
        refused = submit(run, view, to_submit)
        if refused and (busy := run.controller.busy_message(refused)):
            raise ReassignmentInProgressError(f"Batch {number} was not submitted: {busy} Then rerun this step")
        left_out = as_texts({**wanted.stale, **wanted.foreign, **kept, **wanted.waiting, **refused})
        run.record.write_submitted(
            number,
            SubmittedBatch(
                submitted_at=run.now(),
                accepted=tuple(str(p) for p in batch.partitions if str(p) not in left_out),
                left_out=left_out,
                retried_later=tuple(str(p) for p in (*wanted.waiting, *wanted.foreign)),
            ),
        )
        event.facts |= {
            "submitted": {str(p): list(r) for p, r in to_submit.items()},
            "replicas_before": {str(p): list(s.replicas) for p, s in sorted(view.partitions.items())},
            "left_out": left_out,
        }
        event.summary = f"{len(to_submit) - len(refused)} expansions submitted" + (
            f"; left out {len(left_out)}: {name_some(f'{p}: {r}' for p, r in left_out.items())}" if left_out else ""
        )
        if refused and len(refused) == len(batch.steps):
            raise _all_refused(batch, refused)
        for partition, reason in left_out.items():
            run.log.warning("Left out of batch %d: %s: %s", number, partition, reason)


def drop_old_replicas(run: RunContext, number: int) -> None:
    """Submit the targets of the batch, each slice right after a look at its ISR.

    Raises:
        UnsafeDropError: some partitions cannot be dropped now; those that could were.
        NotSubmittedError: the batch was never submitted.
    """
    with run.audited("drop_old_replicas", number) as event:
        run.require_go_ahead()
        batch = taking_part(run.record, run.batch(number))
        if run.record.submitted(number) is None:
            raise NotSubmittedError(
                f"Batch {number} was never submitted: nothing can be dropped. Rerun submit_batch first"
            )
        view = _freed(run, batch, confirmed_view(run, batch.steps), event)
        if view.in_flight:
            ensure_throttle(run, left_to_copy(batch, view), event)
        dropped: dict[TopicPartition, Replicas] = {}
        kept: dict[TopicPartition, str] = {}
        refused: dict[TopicPartition, Refusal] = {}
        for part in slices_of(batch):
            now = observe(run.cluster, part.partitions)
            wanted = drops_to_submit(part, now)
            kept |= wanted.waiting
            refused |= submit(run, now, wanted.to_submit)
            dropped |= wanted.to_submit
            if refused and run.controller.busy_message(refused):
                break
        event.facts |= {
            "submitted": {str(p): list(r) for p, r in dropped.items()},
            "replicas_before": {str(p): list(s.replicas) for p, s in sorted(view.partitions.items())},
            "refused": as_texts(refused),
            "kept": as_texts(kept),
        }
        if refused:
            raise PartialRefusalError(len(dropped) - len(refused), refused, "Fix the cause and rerun this step")
        if kept:
            raise UnsafeDropError(
                f"Batch {number}: old replicas of {len(kept)} partitions were kept: {format_reasons(kept)}. The other "
                f"{len(dropped)} are dropped. Rerun sense_isr_catch_up and what follows"
            )
        wait_until_settled(run, batch)
        event.summary = f"batch {number}: {len(dropped)} partitions submitted to their target"


def _freed(run: RunContext, batch: Batch, view: View, event: AuditDraft) -> View:
    """Cancel earlier drops of ours that hang for ever, so that their targets can be submitted again."""
    hung = hung_drops(batch.steps, view)
    if not hung:
        return view
    run.log.warning(
        "Kafka never completes these, as another client's move was under way: cancelled: %s", format_reasons(hung)
    )
    event.facts["freed"] = as_texts(hung)
    cancel(run, list(hung))
    return confirmed_view(run, batch.steps)


def clear_throttle(run: RunContext, number: int) -> None:
    """Restore what the throttle replaced; refuse while our moves are in flight, fail when the batch is not done.

    Raises:
        ThrottleInUseError: moves of ours are in flight; nothing was cleared.
        BatchIncompleteError: cleared, but the batch is not at its target.
    """
    with run.audited("clear_throttle", number) as event:
        whole = whole_batch(run.record, number)
        view = confirmed_view(run, whole.steps)
        ours = [s.partition for s in whole.steps if s.partition in view.in_flight and phase(s, view).ours]
        if ours:
            raise ThrottleInUseError(
                f"Refusing to clear the replication throttle: {len(ours)} of {len(whole.steps)} partitions of batch "
                f"{number} are still reassigning ({name_some(ours)}). Without the throttle they would copy at full speed. "
                "Rerun the failed step: the batch goes on from where it is, and this task with it"
            )
        if run.request.supersede:
            event.facts["debts_taken_over"] = list(adopt_debts(run))
        owed = restore_configs(run, event)
        taking = taking_part(run.record, run.batch(number))
        at = {s.partition: phase(s, view) for s in taking.steps}
        undone = {p: f"{now.phase}: {now.reason}" for p, now in at.items() if now.phase not in {Phase.DONE, Phase.GONE}}
        event.summary = "earlier throttle values restored" + (f"; still owed: {name_some(owed)}" if owed else "")
        if undone:
            raise BatchIncompleteError(
                f"The throttle is cleared, but batch {number} is not done: {len(undone)} of {len(taking.steps)} partitions "
                f"are not at their target: {format_reasons(undone)}. Rerun submit_batch and what follows: they do what is left, and "
                "leave out what another client has changed"
            )
        submitted = run.record.submitted(number)
        run.record.write_finished(
            FinishedBatch(
                number=number,
                partitions=len(taking.steps),
                bytes_copied=taking.bytes_to_copy,
                started_at=submitted.submitted_at if submitted else run.now(),
                finished_at=run.now(),
                left_out=submitted.left_out if submitted else {},
            )
        )


def next_batch(run: RunContext, number: int) -> int | None:
    """Return the number of the batch to start next, or None after the last.

    Raises:
        BatchIncompleteError: this batch is not finished.
    """
    with run.audited("start_next_batch", number) as event:
        if run.record.finished(number) is None:
            raise BatchIncompleteError(
                f"Batch {number} is not finished, so batch {number + 1} must not start. Clear the failed tasks of this run"
            )
        revise(run, number, event)
        if number >= run.plan().batches:
            event.outcome, event.summary = "skipped", f"batch {number} was the last one"
            return None
        event.summary = f"starting batch {number + 1} of {run.plan().batches}"
        return number + 1


def _all_refused(batch: Batch, refused: Mapping[TopicPartition, Refusal]) -> ReassignmentError:
    """The error of the one kind there is (KIP-179), else of all of them together."""
    next_step = "Nothing of this batch was started; fix the cause and rerun this step"
    if len({refusal.code for refusal in refused.values()}) > 1:
        return PartialRefusalError(0, refused, next_step)
    doing = f"every one of the {len(refused)} partitions of batch {batch.number} ({name_some(sorted(refused))})"
    return error_of(next(iter(refused.values())), doing, next_step)
