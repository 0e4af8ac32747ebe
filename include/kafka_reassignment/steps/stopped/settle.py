"""One look at what was stopped: cancel and submit what can be settled now, at the pace of drops."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kafka_reassignment.advice import Advice, StartBrokers, WaitUntil
from kafka_reassignment.decisions.cancel import Settling, settling
from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.errors import InvalidRequestError, ReassignmentInProgressError
from kafka_reassignment.model import Refusal, Replicas, TopicPartition, View
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.moves import as_texts, cancel, confirmed_view, submit
from kafka_reassignment.steps.base.view import observe, observe_replicas
from kafka_reassignment.steps.left.left_over import to_end_moves, to_lower_min_insync
from kafka_reassignment.steps.stopped.settled_notes import note_taken_back, orders_to_note
from kafka_reassignment.steps.stopped.stopped_steps import StoppedSteps, stopped_steps

WAITS_FOR_BROKERS = "wait_for_brokers"
"""The event of a stop from which on it waits for nothing but brokers that are down."""


@dataclass
class CancelResult:
    """What a cancel did and what it leaves, by partition; plain values, for a task's result."""

    cancelled: dict[str, str] = field(default_factory=dict)
    carried_on: dict[str, str] = field(default_factory=dict)
    settled: dict[str, list[int]] = field(default_factory=dict)
    stranded: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def has_acted(self) -> bool:
        """Whether the controller took a cancel or a submission."""
        return bool(self.cancelled or self.settled)

    @property
    def in_words(self) -> str:
        """One line for people; nothing in it that did not happen."""
        counted = (
            (len(self.cancelled), "cancelled"),
            (len(self.carried_on), "carried on, since a cancel is not possible or not safe"),
            (len(self.settled), "between two assignments and now submitted to one"),
            (len(self.stranded), "stranded in between"),
            (len(self.left), "left between two assignments, since either would take copies"),
            (len(self.above), "with more replicas than before the reassignment"),
            (len(self.foreign), "moved by others, left alone"),
            (len(self.refused), "refused by the controller"),
        )
        return ", ".join(f"{count} {what}" for count, what in counted if count) or "nothing was in flight"


def act(run: RunContext, recorded: RecordView, scope: CancelScope) -> tuple[CancelResult, Settling, View]:
    """Cancel and submit what can be settled now; return what was done, and what was decided before, on which view.

    What a busy controller refuses is stranded for now, for its reason.

    A cancel starts a new leader epoch as a drop does (F38), so both have the same pace: a slice, each right after a
    look at it.
    """
    stopped = stopped_steps(run, recorded, scope)
    view = confirmed_view(run, stopped.seen_steps)
    decided = decide(run.controller, stopped, view, scope)
    due = {*decided.cancels.to_cancel, *decided.to_submit}
    cancelled: dict[TopicPartition, str] = {}
    submitted: dict[TopicPartition, Replicas] = {}
    refused: dict[TopicPartition, Refusal] = {}
    for part in in_slices([s for s in stopped.steps if s.partition in due], run.controller.slice_size) if due else ():
        now = observe(run.cluster, [s.partition for s in part])
        # Read after the look: it may have been resumed, or all of it settled and submitted by another reassignment.
        recorded = RecordView(run.record)
        refuse_resumed(run, recorded, scope)
        stopped_now = stopped_steps(run, recorded, scope).only({s.partition for s in part})
        latest = decide(run.controller, stopped_now, now, scope)
        note_taken_back(run, orders_to_note(run, recorded, scope), stopped_now.wholes, latest.to_submit)
        cancelled |= latest.cancels.to_cancel
        submitted |= latest.to_submit
        refused |= cancel(run, latest.cancels.to_cancel, now)
        refused |= submit(run, now, latest.to_submit, None)
    if busy := run.controller.busy_message(refused):
        later = {p: r for p, r in decided.to_submit.items() if p not in submitted or p in refused}
        decided = replace(
            decided,
            to_submit={p: r for p, r in decided.to_submit.items() if p not in later},
            stranded={**decided.stranded, **dict.fromkeys(later, busy)},
        )
    return (
        CancelResult(
            cancelled={str(p): left for p, left in cancelled.items() if p not in refused},
            carried_on={str(p): why for p, why in decided.cancels.carry_on.items() if p not in submitted},
            settled={str(p): list(r) for p, r in submitted.items() if p not in refused},
            stranded=as_texts(decided.stranded),
            left=as_texts(decided.left),
            above=as_texts(decided.above),
            foreign=as_texts(decided.cancels.foreign),
            refused=as_texts(refused),
        ),
        decided,
        view,
    )


def decide(controller: Controller, stopped: StoppedSteps, view: View, scope: CancelScope) -> Settling:
    """Return how stopped steps are settled on this controller."""
    settles = settling(
        stopped.steps,
        view,
        wholes=stopped.wholes,
        theirs=stopped.left_to_others,
        foreign_too=scope.foreign,
        steps_unknown=stopped.back,
        lists_adding=controller.lists_adding,
    )
    decided = controller.settle(settles, view)
    foreign = {**decided.cancels.foreign, **stopped.of_owner}
    return replace(decided, cancels=replace(decided.cancels, foreign=foreign))


def ending(run: RunContext, recorded: RecordView, stopped: StoppedSteps, view: View, scope: CancelScope) -> Settling:
    """Return, as ``decide``, how steps are settled at the end of a stop: of a whole one ``settle_moves`` may have left some."""
    decided = decide(run.controller, stopped, view, scope)
    if not (scope.is_whole and decided.waits_for_brokers_alone):
        return decided
    ends_at = goes_without_at(run, recorded)
    return decided if ends_at is None or run.now() < ends_at else decided.leaving()


def goes_without_at(run: RunContext, recorded: RecordView) -> datetime | None:
    """Return when a stop that waits for brokers that are down, and for nothing else, ends without them; None where none waits so.

    What is taken out of a batch alone waits with the batch.
    """
    latest, order = run.record.audit.latest(LATEST_EVENTS), recorded.stopped()
    last = next((e for e in latest if e.step in {WAITS_FOR_BROKERS, "cancel_moves"}), None)
    if order is None or last is None or last.step != WAITS_FOR_BROKERS or last.started_at < order.at:
        return None
    return last.started_at + timedelta(minutes=run.request.wait_for_broker_minutes)


def refuse_resumed(run: RunContext, recorded: RecordView, scope: CancelScope) -> None:
    """Refuse to end a reassignment that is at work again, for example in a task that is cleared days later.

    Raises:
        InvalidRequestError: it was resumed.
    """
    if scope.is_whole and run.record.exists and recorded.stopped() is None:
        raise InvalidRequestError(
            f"Reassignment {run.record.reassignment_id} is not stopped any more: it was resumed, so nothing more of it is "
            "cancelled here",
            scope.again(run.record),
        )


def to_free_controller(run: RunContext, own: Collection[TopicPartition]) -> tuple[Advice, ...]:
    """Return what helps where the controller takes one batch at a time and has another client's; nothing where it has none.

    Args:
        run: whose cluster it is.
        own: partitions of this reassignment: their moves are no other client's.
    """
    if run.controller.takes_several:
        return ()
    wait = WaitUntil("the controller has finished what it has")
    try:
        theirs = {p: flight for p, flight in run.cluster.list_reassignments().items() if p not in own}
    except ReassignmentInProgressError:  # it never finishes that: the refusal says what a person has to do
        return (wait,)
    return (*to_end_moves(observe_replicas(run.cluster, theirs)), wait) if theirs else ()


def what_settles(stopped: StoppedSteps, seen: View) -> tuple[Advice, ...]:
    """Return what the stopped partitions that are seen wait for, and a person can bring: brokers, or a lower min.insync.replicas."""
    down = {b for s in seen.partitions.values() for b in s.replicas} - seen.live_brokers
    moves = [stopped.wholes.get(s.partition, s.reassignment) for s in stopped.steps if s.partition in seen.partitions]
    shorter_end = {m.partition: min(m.current, m.target, key=len) for m in moves}
    too_few = {p: r for p, r in shorter_end.items() if len(r) < seen.min_insync_replicas.get(p.topic, 1)}
    start = (StartBrokers(tuple(sorted(down))),) if down else ()
    return (*start, *((to_lower_min_insync(too_few, seen),) if too_few else ()))
