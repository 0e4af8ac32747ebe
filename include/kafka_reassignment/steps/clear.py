"""Clearing the throttle of a batch, and recording that the batch is finished."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_reassignment.advice import CANCEL_DAG_ID, Advice, Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.errors import (
    BatchIncompleteError,
    NotSettledError,
    ThrottleInUseError,
    name_some,
)
from kafka_reassignment.model import Batch, Step, TopicPartition
from kafka_reassignment.record.models import FinishedBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.estimates import copied_of
from kafka_reassignment.steps.base.finished import is_finished_batch
from kafka_reassignment.steps.base.moves import (
    confirmed_view,
    format_reasons,
    freed,
)
from kafka_reassignment.steps.base.recorded_batch import (
    begun_batch,
    planned_batch,
    taken_up,
    taking_part,
    whole_batch,
    without,
)
from kafka_reassignment.steps.base.view import observe_replicas
from kafka_reassignment.steps.left.left_open import left_open_at_end, still_open_by
from kafka_reassignment.steps.left.left_out import leave_out_disturbed, refuse_submitted_since, submission
from kafka_reassignment.steps.left.taken_out import not_settled, still_copying, taken_out
from kafka_reassignment.steps.throttle import throttle_in_words
from kafka_reassignment.steps.throttling.kept_throttle import restore_or_raise
from kafka_reassignment.steps.throttling.restore import adopt_debts
from kafka_reassignment.text import format_brokers


def clear_throttle(run: RunContext, number: int) -> None:
    """Restore what the throttle replaced where nothing needs it; refuse while the batch copies, fail when it is not done.

    What other batches and other reassignments of the cluster still need stays, and so does what the batch's own
    partitions need that it has left open.

    Raises:
        ThrottleInUseError: something of this batch copies because of us; nothing was cleared.
        BatchIncompleteError: cleared, but the batch is not at its target.
        NotSettledError: what a cancel has taken out of the batch still copies, and nothing was cleared; or it is
            half-way. The cancel finds that by the batch, as long as the batch is not finished.
        OvertakenError: it was stopped, or submitted again, since the look.
    """
    if is_finished_batch(run, "clear_throttle", number):
        return
    with run.audited("clear_throttle", number) as event:
        recorded = RecordView(run.record)
        submitted, before = recorded.submitted(number), submission(recorded, number)
        opened = submitted.left_open if submitted else {}
        whole, begun = (without(b, opened) for b in (whole_batch(recorded, number), begun_batch(recorded, number)))
        view = confirmed_view(run, whole.steps, look=observe_replicas)
        view = freed(run, begun.steps, view, event, of=whole)
        if ours := still_copying(begun.steps, view):
            copying = [s for s in taken_out(recorded, number).steps if s.partition in ours]
            about_throttle = throttle_in_words(run, recorded)  # no other task may be looking after it
            if len(copying) == len(ours):
                raise _waits_for_a_cancel(run, number, "stays", not_settled(copying, view))
            raise ThrottleInUseError(
                f"Refusing to clear the replication throttle: {len(ours)} of {len(whole.steps)} partitions of batch "
                f"{number} are still reassigning ({name_some(ours)}). Without the throttle they would copy at full speed{about_throttle}",
                *_way_on(run, number),
            )
        if run.request.supersede and run.lock_of_another() is None:
            event.facts["debts_taken_over"] = list(adopt_debts(run))
        event.summary = str(restore_or_raise(run, event, never_begun=_never_begun(recorded, whole)))
        recorded = RecordView(run.record)
        if before is not None:
            refuse_submitted_since(recorded, before, number)
        view = confirmed_view(run, whole.steps, look=observe_replicas)  # others may have changed it since
        taking = leave_out_disturbed(run, recorded, taking_part(recorded, planned_batch(recorded, number)), view)
        at = {s.partition: phase(s, view) for s in taking.steps}
        undone = {p: f"{now.phase}: {now.reason}" for p, now in at.items() if now.phase not in {Phase.DONE, Phase.GONE}}
        submitted = run.record.submitted(number)  # what was left out just now is in it
        if submitted is None:  # later steps go by it: it says whose the partitions of a finished batch are
            undone = {s.partition: "there is no record of its submission" for s in taking.steps}
        joining = {s.partition: run.controller.left_to_join(s, view) for s in taking.steps}
        undone |= {p: f"broker {format_brokers(b)} of it still copies" for p, b in joining.items() if b}
        if undone:
            raise BatchIncompleteError(
                f"The throttle is cleared, but batch {number} is not done: {len(undone)} of {len(taking.steps)} partitions "
                f"are not done: {format_reasons(undone)}",
                *_way_on(run, number),
            )
        over = run.record.settled.no_longer_ours()
        out = [s for s in taken_out(RecordView(run.record), number).steps if str(s.partition) not in over]
        if left := not_settled(out, view):
            raise _waits_for_a_cancel(run, number, "is cleared", left)
        if before is not None:
            refuse_submitted_since(RecordView(run.record), before, number)
        there = without(taking, {str(p) for p, now in at.items() if now.phase is Phase.GONE})
        run.record.write_finished(
            FinishedBatch(
                number=number,
                partitions=len(there.steps),
                bytes_copied=without(there, submitted.done_before if submitted else ()).bytes_to_copy,
                started_at=submitted.submitted_at if submitted else run.now(),
                finished_at=run.now(),
                left_out={**submitted.left_out, **submitted.left_open} if submitted else {},
                copied=copied_of(run.record.progress(), number),
                left_open=left_open_at_end(recorded, whole, submitted, view),
            )
        )


def _never_begun(recorded: RecordView, whole: Batch) -> list[Step]:
    """Return the steps that a batch has found changed by others, or left out though no batch has begun with them.

    What they would add copies because of others; what does because of an earlier step keeps its throttle.
    """
    number = whole.number
    found, submitted = recorded.found(number), recorded.submitted(number)
    if found is None:
        return []
    # What was superseded may copy what is left out.
    names = {*submitted.left_out} if submitted and not recorded.record.superseded() else set()
    if names:
        names -= {p for note in recorded.record.found_notes(number).all() for p in note.partitions}
        names -= taken_up([recorded.record])
    names |= found.changed_by_others.keys()
    if names:  # some of what a step adds may be there because of one that was left open
        names -= still_open_by(recorded).keys()
    return [s for s in whole.steps if str(s.partition) in names]


def _waits_for_a_cancel(
    run: RunContext, number: int, throttle: str, left: Mapping[TopicPartition, str]
) -> NotSettledError:
    """Return the error about what was taken out of a batch, and copies still or is between two ends."""
    return NotSettledError(
        f"The throttle {throttle}, and batch {number} is not done: kafka_reassignment_cancel has withdrawn {len(left)} "
        f"of its partitions, and has not settled them yet: {format_reasons(left)}",
        *_way_on(run, number, settle=CancelScope(partitions=tuple(map(str, sorted(left))))),
    )


def _way_on(run: RunContext, number: int, *, settle: CancelScope | None = None) -> tuple[Advice, ...]:
    """What brings the batch on, once what was taken out of it is settled, or to an end where it may not go on."""
    own = run.record.reassignment_id
    is_stopped = run.record.stopped() is not None
    if (owner := run.lock_of_another()) is not None:
        wait = WaitUntil(f"reassignment {owner.reassignment_id}, which has the cluster now, has ended")
        return (wait,) if is_stopped else (wait, Rerun(run.locking_task))
    if is_stopped:
        return (Trigger(CANCEL_DAG_ID, {"reassignment_id": own}),)
    if settle is not None:
        return (settle.again(run.record), Rerun("clear_throttle", batch=number))
    return (Rerun("submit_batch", batch=number),)
