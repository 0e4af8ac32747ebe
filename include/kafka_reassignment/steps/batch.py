"""The steps of one batch: their order; set the throttle, submit, start the next batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from kafka_reassignment.advice import Correct, Rerun, WaitUntil, advice_from_data
from kafka_reassignment.decisions.moves import (
    Expansions,
    Phase,
    expansions_to_submit,
    phase,
    to_begin,
)
from kafka_reassignment.decisions.windows import MaintenanceWindows, StartDecision, fits, past_deadline
from kafka_reassignment.errors import (
    PASSING_REFUSALS,
    BatchIncompleteError,
    ControllerBusyError,
    LockLostError,
    PartialRefusalError,
    ReassignmentError,
    ReassignmentInProgressError,
    ThrottleRefusedError,
    WindowClosedError,
    error_of,
    name_some,
    overtaken,
)
from kafka_reassignment.model import Batch, Refusal, TopicPartition, View
from kafka_reassignment.record.audit import LATEST_EVENTS, AuditEvent
from kafka_reassignment.record.models import ProgressNote, SubmittedBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.approval_rules import ApprovalRules, refuse_unapproved
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.cut_again import cut_around_dead
from kafka_reassignment.steps.base.estimates import end_in_words, estimate_of
from kafka_reassignment.steps.base.finished import is_finished_batch, refuse_finished
from kafka_reassignment.steps.base.inbound import as_large_as_now, note_sizes, take_sizes
from kafka_reassignment.steps.base.moves import (
    DOUBTFUL,
    as_texts,
    confirmed_view,
    freed,
    left_to_copy,
)
from kafka_reassignment.steps.base.recorded_batch import begun_names, without
from kafka_reassignment.steps.base.view import observe_replicas
from kafka_reassignment.steps.base.waiting import SizeSamples
from kafka_reassignment.steps.found import (
    Begin,
    begun_steps,
    changed_already,
    changed_by_others,
    expanded_by_others,
    found_until_now,
    under_way,
)
from kafka_reassignment.steps.left.blocked import can_others_move, has_waited, not_tried_often
from kafka_reassignment.steps.left.left_open import changed_since, has_left_open, left_open_by
from kafka_reassignment.steps.limits import has_left_for_later, revise
from kafka_reassignment.steps.stopped.settle import to_free_controller
from kafka_reassignment.steps.supersede import supersede_foreign
from kafka_reassignment.steps.throttle import ensure_throttle
from kafka_reassignment.steps.throttling.idle_throttle import clear_idle_throttle, refuse_unlisted
from kafka_reassignment.steps.throttling.raising import raise_to_whole

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
    if is_finished_batch(run, "set_throttle", number):
        return
    with run.audited("set_throttle", number) as event:
        run.require_go_ahead()
        batch = run.batch(number)
        left = left_to_copy(batch, observe_replicas(run.cluster, batch.partitions))
        if not left.steps:
            event.summary = f"batch {number} has nothing left to copy; no throttle is set"
            return
        try:
            ensure_throttle(run, left, event)
        except ThrottleRefusedError:
            # No try comes after this one, and Airflow runs no teardown of a setup that has failed.
            clear_idle_throttle(run, RecordView(run.record), number)
            raise
        event.summary = f"throttle of batch {number} in place"


def submit_batch(run: RunContext, number: int, rules: ApprovalRules | None = None) -> None:
    """Submit the expansions that the controller does not have yet, under the throttle.

    Stale partitions and those the controller refuses are left out of the batch and reported; the rest
    goes on.

    Args:
        run: of the reassignment.
        number: of the batch.
        rules: when a plan is to be approved, besides where its request asks for that.

    Raises:
        InvalidRequestError: only a validation was asked for.
        NotApprovedError: the plan has to be approved, and is not.
        PartialRefusalError, or the error of the one kind: the controller refused every partition.
        ReassignmentInProgressError: the controller takes one batch at a time, has another, and nothing of this one.
        ThrottleMissingError: the throttle could not be put in place.
        WindowClosedError: it is run after the maintenance window that the batch was admitted in; nothing was submitted.
    """
    if is_finished_batch(run, "submit_batch", number):
        return
    with run.audited("submit_batch", number) as event:
        run.require_go_ahead()
        refuse_unapproved(run, rules or ApprovalRules())
        batch, earlier = run.batch(number), run.record.submitted(number)
        recorded = RecordView(run.record)
        found = found_until_now(recorded, number)
        changed = changed_already(batch, found, earlier)
        batch = without(batch, changed)
        is_repeated = has_left_open(recorded) or earlier is not None
        view = confirmed_view(run, batch.steps, DOUBTFUL if is_repeated else DOUBTFUL - {Phase.NOT_SUBMITTED})
        changed |= changed_since(run, batch, view) if is_repeated else {}
        batch = without(batch, changed)
        view = freed(run, begun_steps(recorded, batch, found), view, event, of=batch)
        _require_open_window(run, recorded, batch, view)
        view, kept = supersede_foreign(run, batch, view, event, lambda: _refuse_overtaken(run, number, earlier))
        view, others = changed_by_others(run, recorded, batch, view, found)
        batch, changed = without(batch, others), changed | others
        theirs = expanded_by_others(run, recorded, batch, view)
        wanted = expansions_to_submit(batch, view).leaving(theirs)
        left = left_to_copy(without(batch, as_texts(theirs)), view)
        if wanted.to_submit:
            ensure_throttle(run, left, event)
        to_submit = run.controller.submissions(batch, view, wanted.to_submit) if wanted.to_submit else {}
        of_others = frozenset(map(str, wanted.foreign))
        begin = Begin(run, batch, view, found, under_way(batch, view, wanted, found), others, of_others)

        def check() -> None:
            _refuse_overtaken(run, number, earlier)
            refuse_unlisted(run, left)

        refused = begin.submit(to_submit, check)
        # What it is busy with may be this batch: a rerun asks for what was left out before.
        if refused and not wanted.already and (busy := run.controller.busy_message(refused)):
            raise ControllerBusyError(
                f"Batch {number} was not submitted: {busy}",
                *(to_free_controller(run, batch.partitions) or (WaitUntil("the controller has finished what it has"),)),
                Rerun("submit_batch", batch=number),
            )
        retried = _retried(
            run, batch, view, wanted, refused, has_got_on=bool(wanted.already) or len(refused) < len(to_submit)
        )
        left_out = others | as_texts({**wanted.stale, **wanted.foreign, **kept, **wanted.waiting, **refused})
        _refuse_overtaken(run, number, earlier)
        run.record.write_submitted(
            number,
            SubmittedBatch(
                submitted_at=run.now(),
                accepted=tuple(str(p) for p in batch.partitions if str(p) not in left_out),
                left_out=left_out | changed,
                retried_later=retried.later,
                went_behind=retried.behind,
                changed_by_others=tuple(changed),
                given_up=retried.given_up,
                run_command=begin.run_command,
                done_before=_done_before(run, recorded, batch, view, earlier),
            ),
        )
        event.facts |= {
            "submitted": {str(p): list(r) for p, r in to_submit.items()},
            "replicas_before": {str(p): list(s.replicas) for p, s in sorted(view.partitions.items())},
            "left_out": left_out,
        }
        run.note_replicas_after(event, batch.partitions)
        event.summary = f"{len(to_submit) - len(refused)} expansions submitted" + (
            f"; left out {len(left_out)}: {name_some(f'{p}: {r}' for p, r in left_out.items())}" if left_out else ""
        )
        if refused and len(refused) == len(batch.steps) and not retried.passing:
            raise _all_refused(batch, refused)
        for partition, reason in left_out.items():
            run.log.warning("Left out of batch %d: %s: %s", number, partition, reason)
        raise_to_whole(run, RecordView(run.record), left, event)


@dataclass(frozen=True, slots=True)
class _Retried:
    """What a later batch tries again, what of that only lets others go first, and what was waited for in vain."""

    later: tuple[str, ...]
    behind: tuple[str, ...]
    given_up: tuple[str, ...]
    passing: Sequence[TopicPartition]


def _retried(
    run: RunContext,
    batch: Batch,
    view: View,
    wanted: Expansions,
    refused: Mapping[TopicPartition, Refusal],
    *,
    has_got_on: bool,
) -> _Retried:
    """Decide which partitions that were not submitted a later batch tries again."""
    number, waiting = batch.number, tuple(map(str, wanted.waiting))
    passing = [p for p, refusal in refused.items() if refusal.code in PASSING_REFUSALS]
    cut = cut_around_dead(run, [s for s in batch.steps if s.partition in wanted.waiting], view)
    waits = waiting and (
        bool(cut) or has_got_on or can_others_move(run, RecordView(run.record), number, batch.partitions)
    )
    again = [*cut, *([*wanted.foreign, *passing] if has_got_on or number < run.plan().batches else ())]
    behind = tuple(str(p) for p in wanted.waiting if p not in cut) if waits else ()
    in_vain = waiting and not waits and has_waited(run, number)
    if not waits and not in_vain:  # blocked since the batch was admitted
        again += wanted.waiting
    around_dead = {p: wanted.waiting[p] for p in cut}
    later = (*behind, *map(str, not_tried_often(run, number, again, around_dead)))
    return _Retried(later, behind, waiting if in_vain else (), passing)


def _done_before(
    run: RunContext, recorded: RecordView, batch: Batch, view: View, earlier: SubmittedBatch | None
) -> tuple[str, ...]:
    """Return what is at its target though nothing of the batch was submitted.

    What any try has begun with is not among it, also before a stop that was lifted since, nor what an earlier batch has
    left open: that one has submitted it. Of what was submitted before, that is what it has found so, has left out, or
    has never had, because the batch was cut again since. Where an earlier version may have submitted the batch, nothing
    more is.
    """
    done = [s.partition for s in batch.steps if phase(s, view).phase is Phase.DONE]
    if done and begun_names(recorded, batch.number) is None:
        return tuple(str(p) for p in done if earlier is not None and str(p) in earlier.done_before)
    if earlier is not None:
        submitted = {*earlier.accepted, *earlier.changed_by_others} - {*earlier.done_before}
        done = [p for p in done if str(p) not in submitted]
    notes = run.record.found_notes(batch.number).all() if done else []
    last_of_order = {note.run_command: note for note in notes}  # earlier ones name what was not taken as well
    begun = {p for note in last_of_order.values() for p in note.partitions}
    done = [p for p in done if str(p) not in begun]
    opened = left_open_by(recorded) if done else {}
    return tuple(str(p) for p in done if str(p) not in opened)


def _refuse_overtaken(run: RunContext, number: int, earlier: SubmittedBatch | None) -> None:
    """Make sure that no other try has submitted the batch since this one looked.

    It may have been dropped since: then its expansion would copy again what was dropped. Or a part of it was left open
    or left out since: then the record of this try would hide it.

    Raises:
        OvertakenError: one has.
    """
    submitted = run.record.submitted(number)
    if submitted is not None and (earlier is None or _said(submitted) != _said(earlier)):
        raise overtaken(
            f"batch {number} was submitted at {submitted.submitted_at:%H:%M:%S} UTC, or left something out since; nothing more is submitted"
        )
    refuse_finished(run, number)


def _said(submitted: SubmittedBatch) -> SubmittedBatch:
    """What a look has left open or left out since is part of it; since when it waits for dead brokers alone is not."""
    return submitted.model_copy(update={"only_blocked_since": None})


LATE_SECONDS = 600.0
"""How much later a batch may be submitted than it was admitted: two tasks run in between, each with its retries."""


def _require_open_window(run: RunContext, recorded: RecordView, batch: Batch, view: View) -> None:
    """Refuse to begin what ends outside the request's maintenance windows; what has begun is completed at any time.

    The batch was admitted in a window that is long enough, but that may be long ago: its task died or failed since, and
    runs again. It may end ``LATE_SECONDS`` after the window.
    """
    spec, now = run.request.maintenance, run.now()
    beginning = to_begin(batch, view, supersede=run.request.supersede)
    if spec.is_at_any_time or not beginning.steps:
        return
    closed = past_deadline(spec, now)
    if closed is None:
        samples = SizeSamples.by_clock_of(run)
        take_sizes(run, beginning, view, samples, once=True)
        expected = estimate_of(run, recorded, as_large_as_now(beginning, view, samples)).seconds
        closed = _too_late(spec, now, expected)
    if closed is not None:
        clear_idle_throttle(run, recorded, batch.number)
        raise WindowClosedError(
            f"Batch {batch.number} was admitted earlier and is not submitted now: {closed}",
            Rerun("admit", batch=batch.number),
        )


def _too_late(spec: MaintenanceWindows, now: datetime, expected: float | None) -> str | None:
    """Return why what would have fitted earlier ends too late; None where it may begin.

    The window may have closed since: it counts as it was ``LATE_SECONDS`` ago, unless nobody knows how long it takes.
    """
    fit = fits(spec, now, None if expected is None else max(0.0, expected - LATE_SECONDS))
    if fit.decision is StartDecision.START:
        return None
    if expected is not None:
        earlier = fits(spec, now - timedelta(seconds=LATE_SECONDS), expected)
        if earlier.decision is StartDecision.START:
            return None
    return fit.reason


def next_batch(run: RunContext, number: int, failed_tasks: Sequence[str] = ()) -> int | None:
    """Return the number of the batch to start next, or None when there is none to start.

    A rerun days later starts it as well, so that a chain that was cut goes on; but not where this reassignment was
    stopped or is another Airflow's, and not what is finished.

    Args:
        run: of the reassignment.
        number: of the batch that ends.
        failed_tasks: tasks of its run that have failed, in their order: Airflow takes the state of a run from its last
            task alone, so that one has to fail with them.

    Raises:
        BatchIncompleteError: this batch is not finished, or a task of its run has failed.
        LockLostError, ReassignmentInProgressError: batches are left, and this reassignment has not the cluster's lock.
        InfeasiblePlanError: what is left needs more batches than the limits allow.
    """
    with run.audited("start_next_batch", number) as event:
        if run.record.finished(number) is None:
            run.record.require_records()
            raise _not_finished(run, number, failed_tasks)
        if failed_tasks:
            raise BatchIncompleteError(
                f"Batch {number} is finished, but not all of its run is done: {name_some(failed_tasks, 10)} failed",
                Rerun(failed_tasks[0], batch=number),
            )
        if nothing := _nothing_to_start(run, number):
            event.outcome, event.summary = "skipped", nothing
            return None
        _require_lock(run, number)
        revise(run, number, event, then=Rerun("start_next_batch", batch=number))
        if number >= run.plan().batches:
            event.outcome, event.summary = "skipped", f"batch {number} was the last one"
            return None
        note_sizes(run, number + 1, again=False)
        event.summary = (
            f"batch {number + 1} of {run.plan().batches} is to start"  # Airflow is asked for its run after this
        )
        event.summary += f"; {ends}" if (ends := end_in_words(run, RecordView(run.record))) else ""
        return number + 1


def _not_finished(run: RunContext, number: int, failed_tasks: Sequence[str]) -> BatchIncompleteError:
    """With the advice of the step that has failed, so that one state has one advice."""
    problem = f"Batch {number} is not finished, so batch {number + 1} must not start"
    failure = root_failure(run.record.audit.latest(LATEST_EVENTS), number)
    # An earlier task leaves no event where the record cannot be found: the cluster, whose id that needs, is away.
    is_later = failure is not None and failed_tasks and failure.actor.task_id not in {"", failed_tasks[0]}
    if failure is None or is_later or failure.step == "start_next_batch":  # its rerun alone would fail again
        return BatchIncompleteError(problem, Rerun(failed_tasks[0] if failed_tasks else "admit", batch=number))
    advice = advice_from_data(failure.facts.get("advice")) or (Rerun(failure.step, batch=number),)
    return BatchIncompleteError(f"{problem}: {failure.step} has failed", *advice)


def _nothing_to_start(run: RunContext, number: int) -> str | None:
    """Why no batch may be started after this one, which is finished."""
    if run.record.finished(number + 1) is not None:
        return f"batch {number + 1} is finished as well: nothing to start"
    if command := run.record.stopped():
        return f"the reassignment was stopped by {command.by}: nothing is started"
    if not run.is_of_this_airflow:
        return f"the Airflow {run.recorded.instance} has begun the reassignment, and starts its batches: nothing is started"
    if run.record.is_reported:
        return "the reassignment is finished: nothing is started"
    has_more = number < run.plan().batches or has_left_for_later(RecordView(run.record), number)
    if not has_more and not run.is_own(run.store.lock_owner(run.record.cluster_id)):
        return f"batch {number} was the last one, and this reassignment does not have the lock of the cluster any more"
    return None


def _require_lock(run: RunContext, number: int) -> None:
    """Make sure that the next batch may begin; without it ``wait_for_batches`` would wait for that for ever."""
    try:
        run.require_go_ahead()
    except (LockLostError, ReassignmentInProgressError) as error:
        error.add_advice(Rerun("start_next_batch", batch=number))  # what takes the lock again leaves this one failed
        raise


def _all_refused(batch: Batch, refused: Mapping[TopicPartition, Refusal]) -> ReassignmentError:
    """The error of the one kind there is (KIP-179), else of all of them together."""
    advice = (
        Correct("fix what the controller names: nothing of this batch was started"),
        Rerun("submit_batch", batch=batch.number),
    )
    if len({refusal.code for refusal in refused.values()}) > 1:
        return PartialRefusalError(0, refused, *advice)
    doing = f"every one of the {len(refused)} partitions of batch {batch.number} ({name_some(sorted(refused))})"
    return error_of(next(iter(refused.values())), doing, *advice)


def root_failure(latest: Iterable[AuditEvent], batch: int, note: ProgressNote | None = None) -> AuditEvent | None:
    """Return the event of the step at which a batch has failed; not those of the steps that fail because of it.

    Args:
        latest: the last ``LATEST_EVENTS`` of the reassignment, newest first; no more are taken than it needs.
        batch: its number.
        note: its latest progress: one that is later than all that failed was left by a step that was run again, and
            waits.
    """
    of_batch = (e for e in latest if e.batch == batch and e.step in BATCH_STEPS)
    failed = list(takewhile(lambda e: e.outcome == "failed", of_batch))
    if failed and note is not None and note.batch == batch and note.at > failed[0].finished_at:
        return None
    return min(failed, key=lambda e: BATCH_STEPS.index(e.step), default=None)
