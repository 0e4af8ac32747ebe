"""Waiting until the ISR of every partition of a batch holds its whole target."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from kafka_reassignment.advice import Advice, Rerun, StartBrokers, advice_as_data
from kafka_reassignment.decisions.catch_up import catch_up
from kafka_reassignment.decisions.controller import Unfinished
from kafka_reassignment.decisions.moves import never_completes, producers_wait_in_words
from kafka_reassignment.decisions.progress import HELD_UP, Motion, Progress, progress
from kafka_reassignment.decisions.progress_shown import SpeedPoint, progress_shown
from kafka_reassignment.decisions.quota_use import quota_uses
from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.decisions.stuck import blocked_by_failed_log_dirs, copies_nothing, stuck_brokers
from kafka_reassignment.errors import CatchUpTimeoutError
from kafka_reassignment.model import Batch, Replicas, TopicPartition, View
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.auto_rate import adjust_rate_to_signals
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.cut_again import dead_that_leave
from kafka_reassignment.steps.base.estimates import ExpectedEnd, copied_so_far, expected_end
from kafka_reassignment.steps.base.finished import finished_batch
from kafka_reassignment.steps.base.moves import confirmed_view, format_reasons
from kafka_reassignment.steps.base.progress_note import write_note
from kafka_reassignment.steps.base.recorded_batch import planned_batch, taking_part
from kafka_reassignment.steps.base.view import tiered_topics
from kafka_reassignment.steps.base.waiting import (
    Done,
    SizeSamples,
    Waiting,
    WaitResult,
    bounded_step,
    deadline_of,
    minutes_until,
)
from kafka_reassignment.steps.correction import correct_rates
from kafka_reassignment.steps.left.left_open import goes_on_in_words, leave_open
from kafka_reassignment.steps.left.left_out import leave_out_disturbed, never_submitted, submission
from kafka_reassignment.steps.left.left_over import leaderless_though_up, to_elect
from kafka_reassignment.steps.rate import adjust_rate_to_health
from kafka_reassignment.steps.stuck import to_get_on
from kafka_reassignment.steps.throttle import keep_throttled
from kafka_reassignment.steps.throttling.raising import finish_raise
from kafka_reassignment.text import format_brokers


@bounded_step
def sense_isr_catch_up(run: RunContext, number: int, started_at: datetime, samples: SizeSamples) -> WaitResult:
    """Wait until the ISR of every partition of the batch holds its whole target; ``Waiting`` has the progress line.

    Each look puts the throttle back where it is missing, adjusts the rate to the cluster's health, or by what auto rate
    sees, where the request asks for that, and replaces the progress note of the record. Partitions that another client
    moved or cancelled are left out of the batch; the rest goes on. So does it without partitions of which a broker is
    dead or a log dir has failed, after a while (``leave_open``).

    ``Failed`` with:
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now. NotSubmittedError:
        the batch was never submitted. CatchUpTimeoutError: the time that the request and the copies at their rate
        allow, counted from ``started_at``, is over.
    """
    if done := finished_batch(run, number):
        return done
    recorded = RecordView(run.record)
    batch = taking_part(recorded, planned_batch(recorded, number))
    about_throttle = keep_throttled(run, recorded, batch, Rerun("sense_isr_catch_up", batch=number))
    run.require_go_ahead(recorded)
    view = confirmed_view(run, batch.steps)
    taken = submission(recorded, number)
    submitted = taken is not None
    about_auto_rate, watch = "", None
    if submitted or view.in_flight:
        adjust_rate_to_health(run, recorded, batch.partitions)
        about_auto_rate, watch = adjust_rate_to_signals(run, recorded, batch)
        finish_raise(run, recorded, batch)
    batch = leave_out_disturbed(run, recorded, batch, view)
    seen = catch_up(batch, view, submitted=submitted)
    if seen.not_submitted:
        raise never_submitted(batch, seen.not_submitted)
    failed = _look_for_failed_log_dirs(run, recorded, batch, view, seen.waiting, samples)
    batch, goes_on_at = leave_open(run, recorded, batch, view, seen.waiting, started_at, failed)
    seen = catch_up(batch, view, submitted=submitted)
    if seen.complete:
        if unfinished := run.controller.unfinished(view):
            return _waits_for_controller(run, recorded, number, unfinished, view, started_at)
        seen = catch_up(batch, view, submitted=submitted, controller=run.controller)
        if seen.complete:
            return Done(f"batch {number}: {len(seen.in_sync)} partitions have their whole target in sync")
        _take_sample(run, recorded, batch, view, samples)  # of what is left to join
    now = run.now()
    copied = _progress(run, recorded, batch, view, samples)
    deadline = deadline_of(run, started_at, copying=number if copied.is_copying else None)
    blocked = {**failed, **seen.blocked} if goes_on_at else seen.blocked
    if blocked:  # the whole batch waits for it, however little is left to copy
        copied = replace(copied, seconds_left=None)
    nowhere = copies_nothing(copied, _lowest_rate(recorded))
    if now >= deadline:
        nowhere |= {(p, b) for p in seen.held_up_by_kept for b in seen.waiting[p]}
    hung = _never_completing(seen.waiting, view)
    completing = {
        p: brokers for p, brokers in seen.waiting.items() if p not in hung
    }  # of the others only a cancel helps
    stuck = stuck_brokers(completing, view, samples.seen[-1], nowhere)
    if now >= deadline:
        waiting = {p: seen.blocked.get(p, f"waits for broker {format_brokers(b)}") for p, b in seen.waiting.items()}
        raise CatchUpTimeoutError(
            f"Batch {number}: {len(seen.waiting)} of {len(batch.steps)} partitions did not catch up within "
            f"{minutes_until(deadline, started_at)} min: {format_reasons(waiting)}. They continue under the throttle",
            *to_let_catch_up(seen.waiting, view, dead_that_leave(run, batch.steps, view)),
            *to_get_on(run, recorded, completing, view, stuck, blocked=seen.blocked),
            *_to_end(run, hung),
            Rerun("sense_isr_catch_up", batch=number),
        )
    correct_rates(run, recorded, batch, view, samples)
    held_up = [r for r in copied.replicas if r.motion in HELD_UP]
    end = ExpectedEnd() if held_up or blocked else expected_end(recorded, run.request, run.now())
    text = f"batch {number}: {copied}" + (f"; blocked: {format_reasons(blocked)}" if blocked else "")
    text += goes_on_in_words(goes_on_at) + about_throttle + about_auto_rate + producers_wait_in_words(batch, view)
    text += f"; {end.words}" if end.words else ""
    get_nowhere = stuck or any(r.motion is Motion.WILL_NEVER_FINISH for r in held_up)
    advice: tuple[Advice, ...] = (
        *to_let_catch_up(seen.waiting, view, dead_that_leave(run, batch.steps, view)),
        *_to_end(run, hung),
        *(to_get_on(run, recorded, completing, view, stuck, blocked=seen.blocked) if get_nowhere else ()),
    )
    run.record.write_progress(
        ProgressNote(
            batch=number,
            at=now,
            text=text,
            bytes_left=copied.bytes_left,
            partitions_measured=len(batch.steps),
            bytes_per_second=copied.bytes_per_second,
            seconds_left=copied.seconds_left,
            partitions_waiting=len(seen.waiting),
            partitions_blocked=len(blocked),
            copied=copied_so_far(run, recorded, batch, copied.bytes_left),
            watch=watch,
            ends_at=end.at,
            goes_on_at=goes_on_at,
            advice=tuple(advice_as_data(advice)),
            shown=progress_shown(copied, view, now, _history(recorded, number)),
            quota_uses=quota_uses(batch, view, samples.seen, now, taken.submitted_at if taken else None),
        )
    )
    return Waiting(text, until=deadline, seconds_left=copied.seconds_left)


def _waits_for_controller(
    run: RunContext,
    recorded: RecordView,
    number: int,
    unfinished: Unfinished,
    view: View,
    started_at: datetime,
) -> Waiting:
    """Wait until the controller has finished a batch whose targets are all in sync.

    Raises:
        CatchUpTimeoutError: the time that the request allows is over.
    """
    deadline = deadline_of(run, started_at)
    text = f"batch {number}: every target is in sync, but {unfinished.reason}"
    advice = to_let_catch_up(unfinished.held_up, view)
    if run.now() >= deadline:
        raise CatchUpTimeoutError(
            f"Waited {minutes_until(deadline, started_at)} min for {text}",
            *advice,
            Rerun("sense_isr_catch_up", batch=number),
        )
    write_note(run, recorded, number, text, advice)
    return Waiting(text, until=deadline)


def to_let_catch_up(
    waiting: Mapping[TopicPartition, Replicas],
    view: View,
    leaving: Mapping[TopicPartition, Collection[int]] | None = None,
) -> tuple[Advice, ...]:
    """Return the advice to bring back what is waited for: brokers that are down, and leaders that Kafka does not elect.

    Args:
        waiting: by partition, the brokers that it waits for.
        view: of these partitions.
        leaving: which of these are down and only leave (``dead_that_leave``): they are asked for where nothing else is
            down. They may be gone for good, and once the others are back it goes on around them.
    """
    offline = {p: s for p, s in view.partitions.items() if p in waiting and s.leader is None}
    leading = {b for s in offline.values() for b in s.may_lead}
    down = leading - view.live_brokers
    for partition, brokers in waiting.items():
        dead = {*brokers} - view.live_brokers
        down |= dead.difference((leaving or {}).get(partition, ())) or dead
    start = (StartBrokers(tuple(sorted(down))),) if down else ()
    return (*start, *to_elect(leaderless_though_up(view) & offline.keys(), view))


def _never_completing(waiting: Collection[TopicPartition], view: View) -> list[TopicPartition]:
    return [p for p in sorted(waiting) if (flight := view.in_flight.get(p)) and never_completes(flight)]


def _to_end(run: RunContext, hung: Collection[TopicPartition]) -> tuple[Advice, ...]:
    """Return the advice about moves of ours that Kafka never completes (F34): no wait ends them."""
    return (CancelScope(partitions=tuple(map(str, hung))).again(run.record),) if hung else ()


def _history(recorded: RecordView, number: int) -> tuple[SpeedPoint, ...]:
    """What the looks before have shown of this batch."""
    earlier = recorded.progress()
    return earlier.shown.history if earlier and earlier.batch == number and earlier.shown else ()


def _lowest_rate(recorded: RecordView) -> int | None:
    """Of those that are in force because of us, or of another client that has a lower one."""
    journal = recorded.journal()
    return min((*journal.rates_set.values(), *(r.bytes_per_second for r in journal.lower_rates)), default=None)


def _look_for_failed_log_dirs(
    run: RunContext,
    recorded: RecordView,
    batch: Batch,
    view: View,
    waiting: Mapping[TopicPartition, Replicas],
    samples: SizeSamples,
) -> Mapping[TopicPartition, str]:
    """Take a sample where anything is waited for; return by partition which log dir that it needs has failed."""
    if not waiting:
        return {}
    _take_sample(run, recorded, batch, view, samples)
    return blocked_by_failed_log_dirs(waiting, view, samples.seen[-1])


def _take_sample(run: RunContext, recorded: RecordView, batch: Batch, view: View, samples: SizeSamples) -> None:
    rates_set = recorded.journal().rates_set
    leaders = {p: s.leader for p, s in view.partitions.items() if s.leader is not None}
    samples.take(run.cluster, batch.brokers & view.live_brokers, batch.partitions, rates_set, leaders)


def _progress(run: RunContext, recorded: RecordView, batch: Batch, view: View, samples: SizeSamples) -> Progress:
    return progress(
        batch,
        view,
        samples.seen,
        asked_bytes_per_second=rate_in_force(run.request, recorded.journal()),
        remote_storage_topics=tiered_topics(run.cluster, {p.topic for p in batch.partitions}),
    )
