"""Partitions that their batch goes on without, because a broker of theirs has died since they were submitted, or its log dir has failed.

Their moves stay as they are: they are not cancelled, the old replicas stay, and so does their throttle. The rest of the
batch drops its old replicas and clears its throttle, later batches go on, and a batch after all others takes them up
again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kafka_reassignment.decisions.moves import Phase, blocked_by_dead_brokers, disturbed, is_half_way, phase
from kafka_reassignment.model import Batch, InFlight, Step, TopicPartition, View
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.cut_again import cut_around_dead
from kafka_reassignment.steps.base.moves import as_texts, format_reasons
from kafka_reassignment.steps.base.recorded_batch import whole_batch, without
from kafka_reassignment.steps.base.waiting import deadline_of
from kafka_reassignment.steps.left.blocked import can_others_move, not_tried_often
from kafka_reassignment.steps.left.left_out import refuse_submitted_since, submission


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A step that was left open, and the batch that left it."""

    step: Step
    batch: int


def leave_open(
    run: RunContext,
    recorded: RecordView,
    batch: Batch,
    view: View,
    waiting: Collection[TopicPartition],
    started_at: datetime,
    failed: Mapping[TopicPartition, str] | None = None,
) -> tuple[Batch, datetime | None]:
    """Return the batch without the partitions that it goes on without from now on, and when it goes on without others.

    It waits for the time of the request once nothing but dead brokers and failed log dirs holds it up. Then it goes on without these
    partitions, if that lets anything get on: the rest of the batch, a later one, or a later step of these, cut again
    without the dead broker. None is left open more than twice, so that a broker that comes and goes does not keep the
    reassignment from ending; what is cut again, not more than twice for one dead broker. A controller that takes one
    batch at a time would take no other meanwhile, so nothing is left open there.

    Args:
        run: of the reassignment.
        recorded: what its record showed when the look began.
        batch: what takes part in it.
        view: what is seen of it.
        waiting: which of it are not done.
        started_at: when the step began to wait.
        failed: which of it wait for a replica whose log dir has failed, and why; None where nobody has looked.

    Raises:
        OvertakenError: the batch was stopped, or submitted again, since the look.
    """
    held_up = {**(failed or {}), **blocked_by_dead_brokers(batch, view)}
    blocked = {p: why for p, why in held_up.items() if p in waiting}
    before = submission(recorded, batch.number)
    if before is None or not (blocked or before.only_blocked_since):
        return batch, None
    now = RecordView(run.record)  # it may have changed since, and is written back
    submitted = refuse_submitted_since(now, before, batch.number)
    if not blocked or len(blocked) < len(set(waiting)) or not run.controller.takes_several:
        _note_since(run, batch.number, submitted, None)
        return batch, None
    since = submitted.only_blocked_since or run.now()
    until = min(since + timedelta(minutes=run.request.wait_for_broker_minutes), deadline_of(run, started_at))
    if run.now() < until:
        _note_since(run, batch.number, submitted, since)
        return batch, until
    if not _worth_leaving(run, now, batch, blocked, view):
        return batch, None
    event, began = AuditDraft(facts={"left_open": as_texts(blocked)}), run.now()
    run.record.write_submitted(
        batch.number,
        submitted.model_copy(
            update={"left_open": submitted.left_open | as_texts(blocked), "only_blocked_since": None},
        ),
    )
    event.summary = f"batch {batch.number} goes on without {format_reasons(blocked)}: a later batch takes them up again"
    run.write_event("leave_open", batch.number, began, event)
    run.log.warning("%s", event.summary)
    return without(batch, as_texts(blocked)), None


def goes_on_in_words(goes_on_at: datetime | None) -> str:
    """Say when a batch goes on without what dead brokers or failed log dirs hold up; empty where it does not."""
    if goes_on_at is None:
        return ""
    return f"; nothing else is left: from {goes_on_at:%H:%M:%S} UTC on it goes on without these if that helps"


def left_open(recorded: RecordView) -> dict[TopicPartition, LeftOpen]:
    """Return the steps that finished batches have left open and that no later one has taken up again."""
    return _steps_of(recorded, left_open_by(recorded))


def still_open(recorded: RecordView) -> dict[TopicPartition, LeftOpen]:
    """Return the steps that are left open and that no stop has settled which was lifted since: what is there of them is ours."""
    return _steps_of(recorded, still_open_by(recorded))


def still_open_by(recorded: RecordView) -> dict[str, int]:
    """Return by partition which batch has left it open, as ``still_open``; the plan is not read."""
    opened = left_open_by(recorded)
    if opened and recorded.numbered_run_command()[0]:
        orders = {n: s.order if (s := recorded.submitted(n)) else 0 for n in {*opened.values()}}
        opened = {p: n for p, n in opened.items() if p not in recorded.lifted_since(orders[n])}
    return opened


def _steps_of(recorded: RecordView, opened: Mapping[str, int]) -> dict[TopicPartition, LeftOpen]:
    found: dict[TopicPartition, LeftOpen] = {}
    for number in sorted(set(opened.values())):
        for step in whole_batch(recorded, number).steps:
            if opened.get(str(step.partition)) == number:
                found[step.partition] = LeftOpen(step, number)
    return found


def left_open_by(recorded: RecordView) -> dict[str, int]:
    """Return by partition which finished batch has left it open; those that no later one has taken up again."""
    finished = sorted(recorded.finished_batches())
    if not finished:
        return {}
    last = recorded.record.finished(finished[-1])
    if last is not None and last.left_open is not None:
        return last.left_open
    # A file of an earlier version. The plan is revised when a batch leaves anything open, at the latest before the next
    # one begins.
    latest = recorded.submitted(finished[-1])
    if not has_left_open(recorded) and not (latest and latest.left_open):
        return {}
    opened: dict[str, int] = {}
    for number in finished:
        opened = left_open_after(opened, number, recorded.submitted(number))
    return opened


def left_open_reasons(recorded: RecordView) -> dict[str, tuple[int, str]]:
    """Return by partition which finished batch has left it open, and why."""
    opened = left_open_by(recorded)
    left_by = {n: s for n in set(opened.values()) if (s := recorded.submitted(n)) is not None}
    reasons = {n: {**s.left_out, **s.left_open} for n, s in left_by.items()}
    return {p: (n, why) for p, n in opened.items() if (why := reasons.get(n, {}).get(p)) is not None}


def left_open_after(opened: Mapping[str, int], number: int, submitted: SubmittedBatch | None) -> dict[str, int]:
    """Return what is left open after a batch, given what was before: what it took up, or others have changed, is over.

    What it has left out is not: it is as it was, and by the step of this batch now.
    """
    if submitted is None:
        return dict(opened)
    over = {*submitted.accepted, *submitted.changed_by_others}
    still = {p: number if p in submitted.left_out else by for p, by in opened.items() if p not in over}
    return still | dict.fromkeys(submitted.left_open, number)


def left_open_at_end(
    recorded: RecordView, batch: Batch, submitted: SubmittedBatch | None, view: View
) -> dict[str, int]:
    """Return what is left open at the end of a batch, as ``left_open_after``: of what it has left out only what is half-way still.

    What is no state of its step is so by the step that was left open before: an earlier step of it was not made.

    Args:
        recorded: what the record shows.
        batch: all that was planned of it.
        submitted: what was submitted of it.
        view: what is seen of it.
    """
    before = left_open_by(recorded)
    after = left_open_after(before, batch.number, submitted)
    left_out = before.keys() & after.keys() & (submitted.left_out.keys() if submitted else set())
    opened = left_open(recorded) if left_out else {}
    for step in (s for s in batch.steps if str(s.partition) in left_out):
        name = str(step.partition)
        if phase(step, view).phase is Phase.STALE:
            after[name] = before[name]
        if step.partition not in view.in_flight and not any(
            is_half_way(s, view) for s in (step, opened[step.partition].step)
        ):
            del after[name]
    return after


def without_left_open(
    recorded: RecordView, in_flight: Mapping[TopicPartition, InFlight]
) -> dict[TopicPartition, InFlight]:
    """Return those of some moves in flight that are not ones that this reassignment has left open."""
    if not in_flight:
        return dict(in_flight)
    opened, view = left_open(recorded), View(frozenset(), {}, in_flight)
    return {p: f for p, f in in_flight.items() if p not in opened or not phase(opened[p].step, view).ours}


def changed_since(run: RunContext, batch: Batch, view: View) -> dict[str, str]:
    """Return which partitions of a batch another client has its hand on since they were submitted, and what it did.

    With this batch, where its submission is repeated, or with the one that has left them open.
    """
    recorded = RecordView(run.record)
    opened = left_open(recorded) if has_left_open(recorded) else {}
    earlier = submission(recorded, batch.number)
    accepted = frozenset(earlier.accepted) if earlier else frozenset[str]()

    def is_submitted(step: Step) -> bool:
        left = opened.get(step.partition)
        if str(step.partition) in accepted:
            return True
        if (
            left is None or left.step.reassignment != step.reassignment
        ):  # one that was cut again since is submitted by this batch
            return False
        before = submission(recorded, left.batch)
        return before is not None and str(step.partition) in before.left_open

    return as_texts(disturbed(replace(batch, steps=tuple(filter(is_submitted, batch.steps))), view))


def has_left_open(recorded: RecordView) -> bool:
    """Whether earlier batches had left anything open when the plan was revised last: leaving something open leads to that."""
    revision = recorded.last_revision()
    return revision is not None and bool(revision.left_open)


def _worth_leaving(
    run: RunContext, recorded: RecordView, batch: Batch, blocked: Mapping[TopicPartition, str], view: View
) -> bool:
    cut = cut_around_dead(run, batch.steps, view)
    helps = len(blocked) < len(batch.steps) or bool(cut) or can_others_move(run, recorded, batch.number, blocked)
    around_dead = {p: why for p, why in blocked.items() if p in cut}
    # Last, because it reads what was submitted of every earlier batch.
    return helps and len(not_tried_often(run, batch.number, list(blocked), around_dead)) == len(blocked)


def _note_since(run: RunContext, number: int, submitted: SubmittedBatch, since: datetime | None) -> None:
    if submitted.only_blocked_since != since:
        run.record.write_submitted(number, submitted.model_copy(update={"only_blocked_since": since}))
