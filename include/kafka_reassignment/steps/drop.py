"""Dropping the old replicas of a batch, each slice right after a look at its ISR."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

from kafka_reassignment.advice import Advice, Rerun
from kafka_reassignment.decisions.moves import Phase, drops_to_submit, phase
from kafka_reassignment.errors import (
    PASSING_REFUSALS,
    NotSubmittedError,
    PartialRefusalError,
    UnsafeDropError,
)
from kafka_reassignment.model import Batch, Refusal, Replicas, TopicPartition, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.cut_again import dead_that_leave
from kafka_reassignment.steps.base.finished import finished_batch, require_unfinished
from kafka_reassignment.steps.base.inbound import note_sizes
from kafka_reassignment.steps.base.moves import (
    Submitting,
    as_texts,
    confirmed_view,
    format_reasons,
    freed,
    slices_of,
    submit,
)
from kafka_reassignment.steps.base.progress_note import write_note
from kafka_reassignment.steps.base.recorded_batch import planned_batch, taking_part
from kafka_reassignment.steps.base.view import observe, observe_replicas
from kafka_reassignment.steps.base.waiting import Done, Waiting, WaitResult, bounded_step, deadline_of
from kafka_reassignment.steps.catch_up import to_let_catch_up
from kafka_reassignment.steps.leaders import elect_moved_leaders
from kafka_reassignment.steps.left.left_open import goes_on_in_words, leave_open
from kafka_reassignment.steps.left.left_out import leave_out_disturbed, submission
from kafka_reassignment.steps.left.left_over import to_lower_min_insync
from kafka_reassignment.steps.left.taken_out import still_copying, taken_out
from kafka_reassignment.steps.stopped.settle import to_free_controller
from kafka_reassignment.steps.throttle import keep_throttled

SETTLE_SECONDS = 5
"""How long a look stays for its own drops to show as done; they copy nothing, so most do. The next look sees the rest."""


@bounded_step
def drop_old_replicas(run: RunContext, number: int, started_at: datetime) -> WaitResult:
    """Wait until every partition of the batch is at its target; each look drops what may be dropped now.

    Each slice is submitted right after a look at its ISR. What may not be dropped now (a replica of the target has
    left the ISR) keeps all its replicas, and the next look tries again. When all are there, the new preferred
    leaders are elected (KIP-435 does so in the step that adds them). An audit event says what a look is about to
    drop before it does; a look that submitted something and has to wait leaves another one. Partitions that another
    client moved or cancelled are left out; the rest goes on. So does it without partitions of which a broker is
    dead, after a while (``leave_open``). What a cancel has taken out of the batch and carries on is waited for.

    ``Failed`` with:
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
        NotSubmittedError: the batch was never submitted.
        PartialRefusalError: the controller refuses some drops for a reason that does not pass.
        UnsafeDropError: the time that the request allows, counted from ``started_at``, is over.
    """
    if done := finished_batch(run, number):
        return done
    recorded, began = RecordView(run.record), run.now()
    batch = taking_part(recorded, planned_batch(recorded, number))
    about_throttle = keep_throttled(run, recorded, batch, Rerun("drop_old_replicas", batch=number))
    run.require_go_ahead(recorded)
    if submission(recorded, number) is None:
        raise NotSubmittedError(
            f"Batch {number} was never submitted: nothing can be dropped", Rerun("submit_batch", batch=number)
        )
    view = confirmed_view(run, batch.steps)
    batch = leave_out_disturbed(run, recorded, batch, view)
    event = AuditDraft()
    view = freed(run, batch.steps, view, event)
    announced = _announced(run, batch, view, began)
    looked = _drop_now(run, batch, announced.targets)
    says_more = bool(announced.is_new or looked.accepted)
    event.facts |= {
        "submitted": {str(p): list(looked.dropped[p]) for p in looked.accepted},
        "replicas_before": {str(p): list(s.replicas) for p, s in sorted(view.partitions.items())},
        "refused": as_texts(looked.refused),
        "kept": as_texts(looked.kept),
    }
    event.summary = f"batch {number}: {len(looked.accepted)} partitions submitted to their target"
    final = {p: refusal for p, refusal in looked.refused.items() if refusal.code not in PASSING_REFUSALS}
    if final:
        run.write_event("drop_old_replicas", number, began, event)
        accepted = len(looked.dropped) - len(final)
        raise PartialRefusalError(accepted, final, Rerun("drop_old_replicas", batch=number))
    waiting = {**looked.kept, **{p: f"it is refused now: {r}" for p, r in looked.refused.items()}}
    if looked.dropped and number < (plan.batches if (plan := recorded.plan_in_force()) else 0):
        note_sizes(run, number + 1)  # while brokers take up the drop: the next batch need not measure for so long
    unsettled, settled = _unsettled(run, batch, set(waiting), stay=bool(looked.dropped))
    if looked.dropped:
        event.note_replicas_after(settled.partitions)
    batch, goes_on_at = leave_open(run, recorded, batch, view, [*waiting, *unsettled], started_at)
    waiting = {p: why for p, why in waiting.items() if p in batch.partitions}
    unsettled = [p for p in unsettled if p in batch.partitions]
    deadline = deadline_of(run, started_at)
    if not waiting and not unsettled:
        elections = elect_moved_leaders(run, batch, settled)
        event.facts |= elections.facts
        if elections.facts["elected"] or elections.refused:
            event.summary += f"; {elections.in_words}"
        if run.now() >= deadline or not (result := _waits_for_a_cancel(run, recorded, number, deadline)):
            return Done(event.summary, event.facts)
        if says_more or "freed" in event.facts or elections.facts["elected"]:
            run.write_event("drop_old_replicas", number, began, event)
        return result
    if says_more or "freed" in event.facts:
        run.write_event("drop_old_replicas", number, began, event)
    waiting |= _not_reached(run, looked, unsettled, settled)
    text = f"batch {number}: {len(batch.steps) - len(waiting)} of {len(batch.steps)} partitions are at their target; old replicas are kept: {format_reasons(waiting)}{goes_on_in_words(goes_on_at)}{about_throttle}"
    missing = {s.partition: s.reassignment.target for s in batch.steps if s.partition in waiting}
    to_go_on = _to_go_on(run, batch, missing, looked, settled)
    if run.now() >= deadline:
        too_few = {p: r for p, r in missing.items() if len(r) < view.min_insync_replicas.get(p.topic, 1)}
        raise UnsafeDropError(
            f"Waited {run.request.catch_up_timeout_minutes} min for {text}",
            *to_go_on,
            *((to_lower_min_insync(too_few, view),) if too_few else ()),
            Rerun("sense_isr_catch_up", batch=number),
        )
    write_note(run, recorded, number, text, to_go_on, goes_on_at)
    return Waiting(text, until=deadline)


def _not_reached(
    run: RunContext, looked: _Looked, unsettled: Sequence[TopicPartition], seen: View
) -> dict[TopicPartition, str]:
    """Return why each is not at its target. After a refusal of a busy controller the look asks for no more."""
    submitted, busy = {*looked.dropped, *seen.in_flight}, run.controller.busy_message(looked.refused)
    return {
        p: f"the controller is busy: {busy}"
        if busy and p not in submitted
        else "its target is submitted and not reached yet"
        for p in unsettled
    }


def _to_go_on(
    run: RunContext, batch: Batch, missing: Mapping[TopicPartition, Replicas], looked: _Looked, seen: View
) -> tuple[Advice, ...]:
    """Return the advice to bring back what is waited for, and to end what keeps the controller busy.

    ``missing`` has the target of each partition that is waited for.
    """
    unfinished = run.controller.unfinished(seen)
    waits_for = {p: (*r, *(unfinished.held_up.get(p, ()) if unfinished else ())) for p, r in missing.items()}
    is_busy = run.controller.busy_message(looked.refused) is not None
    return (
        *to_let_catch_up(waits_for, seen, dead_that_leave(run, batch.steps, seen)),
        *(to_free_controller(run, batch.partitions) if is_busy else ()),
    )


def _waits_for_a_cancel(run: RunContext, recorded: RecordView, number: int, deadline: datetime) -> Waiting | None:
    """Wait for what was taken out of the batch and still copies because of us; the throttle is cleared after that."""
    out = taken_out(recorded, number)
    if not out.steps:
        return None
    view = observe_replicas(run.cluster, out.partitions)
    copying = set(still_copying(out.steps, view))
    steps = [s for s in out.steps if s.partition in copying]
    if not steps:
        return None
    reasons = {s.partition: phase(s, view).reason for s in steps}
    text = (
        f"batch {number}: every partition is at its target; kafka_reassignment_cancel has withdrawn {len(steps)} of its partitions, which "
        f"still copy: {format_reasons(reasons)}"
    )
    advice = to_let_catch_up({s.partition: s.reassignment.target for s in steps}, view)
    write_note(run, recorded, number, text, advice)
    return Waiting(text, until=deadline)


@dataclass
class _Looked:
    dropped: dict[TopicPartition, Replicas] = field(default_factory=dict)
    kept: dict[TopicPartition, str] = field(default_factory=dict)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)

    @property
    def accepted(self) -> list[TopicPartition]:
        """Return what was dropped, and not refused."""
        return [p for p in self.dropped if p not in self.refused]


@dataclass(frozen=True, slots=True)
class _Announced:
    """What may be dropped at this look; ``is_new``: the audit trail did not say so yet."""

    targets: frozenset[TopicPartition]
    is_new: bool


def _announced(run: RunContext, batch: Batch, view: View, began: datetime) -> _Announced:
    """Record what this look may drop, before it does: no replica goes that the audit trail does not name, whatever comes then."""
    targets = drops_to_submit(batch, view).to_submit
    if targets:
        facts: dict[str, object] = {
            "targets": {str(p): list(r) for p, r in targets.items()},
            "replicas_before": {str(p): list(view.partitions[p].replicas) for p in targets},
        }
        text = f"batch {batch.number}: {len(targets)} partitions are about to be submitted to their target"
        if facts == _announced_last(run, batch.number):  # the controller may refuse them at each look for hours
            return _Announced(frozenset(targets), is_new=False)
        run.write_event("drop_old_replicas", batch.number, began, AuditDraft(text, "begun", facts))
    return _Announced(frozenset(targets), is_new=bool(targets))


def _announced_last(run: RunContext, number: int) -> Mapping[str, object]:
    """What the last look of the batch was about to drop, where no other step has left an event since."""
    latest = takewhile(lambda e: (e.step, e.batch) == ("drop_old_replicas", number), run.record.audit.latest(2, []))
    return next((e.facts for e in latest if e.outcome == "begun"), {})


def _drop_now(run: RunContext, batch: Batch, announced: Collection[TopicPartition]) -> _Looked:
    """Submit those of the announced targets that may be submitted now, slice by slice."""
    looked = _Looked()
    for part in slices_of(batch):
        now = observe(run.cluster, part.partitions)
        wanted = drops_to_submit(part, now)
        due = {p: target for p, target in wanted.to_submit.items() if p in announced}
        looked.kept |= wanted.waiting
        looked.kept |= dict.fromkeys(
            wanted.to_submit.keys() - due.keys(), "it may be dropped now, and the next look does"
        )
        looked.refused |= submit(run, now, due, Submitting(batch, lambda _: require_unfinished(run, batch.number)))
        looked.dropped |= due
        if looked.refused and run.controller.busy_message(looked.refused):
            break
    return looked


def _unsettled(
    run: RunContext, batch: Batch, waiting: set[TopicPartition], *, stay: bool
) -> tuple[list[TopicPartition], View]:
    """Return the partitions that are on the way to their target, and what is seen; stay a moment where some were submitted just now."""
    until = run.now() + timedelta(seconds=SETTLE_SECONDS if stay else 0)
    while True:
        view = observe_replicas(run.cluster, batch.partitions)
        unsettled = [
            s.partition
            for s in batch.steps
            if s.partition not in waiting and phase(s, view).phase not in {Phase.DONE, Phase.GONE}
        ]
        if not unsettled or run.now() >= until:
            return unsettled, view
        run.sleep(0.2)
