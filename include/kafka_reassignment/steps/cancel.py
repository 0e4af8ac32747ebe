"""Stopping a reassignment, or some of its partitions: cancel what is in flight, settle all of it, clear, report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_reassignment.decisions.cancel import Settling, settling
from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.errors import (
    InvalidRequestError,
    ThrottleInUseError,
    UnknownTopicOrPartitionError,
    UnsafeDropError,
    name_some,
)
from kafka_reassignment.model import Step, TopicPartition, View
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.operator_commands import RunCommand, WithdrawCommand
from kafka_reassignment.record.record import Record
from kafka_reassignment.request.topics import partition_matches
from kafka_reassignment.steps.context import AuditDraft, RunContext
from kafka_reassignment.steps.moves import as_texts, cancel, confirmed_view, format_reasons, submit
from kafka_reassignment.steps.recorded_batch import whole_batch
from kafka_reassignment.steps.throttle import restore_configs
from kafka_reassignment.steps.waiting import Done, Waiting, WaitResult, waiting_step


@dataclass(frozen=True, slots=True)
class CancelScope:
    """What is to be cancelled: ``partitions`` by name (``orders-3``), topic or topic pattern, all when empty.

    ``foreign`` includes moves that other clients started; without it none of these is touched.
    """

    partitions: tuple[str, ...] = ()
    foreign: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the reassignment as a whole is meant."""
        return not self.partitions

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition is meant."""
        return self.is_whole or partition_matches(partition, self.partitions)


@dataclass
class CancelResult:
    """What a cancel did and what it leaves, by partition; plain values, for a task's result."""

    cancelled: dict[str, str] = field(default_factory=dict)
    carried_on: dict[str, str] = field(default_factory=dict)
    settled: dict[str, list[int]] = field(default_factory=dict)
    stranded: dict[str, str] = field(default_factory=dict)
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
            (len(self.foreign), "another client's, left alone"),
            (len(self.refused), "refused by the controller"),
        )
        return ", ".join(f"{count} {what}" for count, what in counted if count) or "nothing was in flight"


def stop(run: RunContext, scope: CancelScope, *, by: str, reason: str = "") -> None:
    """Order that the reassignment does nothing more, or that some of its partitions take no further part.

    Safe at any time and to repeat. Steps of it that run at this moment end before their next submission.

    Raises:
        InvalidRequestError: there is no such reassignment, and nothing foreign is asked for.
        UnknownTopicOrPartitionError: a name fits nothing.
    """
    with run.audited("stop") as event:
        event.facts = {"partitions": list(scope.partitions), "foreign": scope.foreign, "reason": reason}
        known = run.record.exists
        if not known and not scope.foreign:
            raise InvalidRequestError(
                f"There is no reassignment {run.record.reassignment_id} of cluster {run.record.cluster_id} to stop. Name one "
                "as 'reassignment_id', or set 'foreign' to cancel moves that were started elsewhere"
            )
        planned = _planned(run.record, scope) if known else ()
        if not scope.is_whole:
            _check_names(scope, [*planned, *run.cluster.list_reassignments()])
        if not known:
            event.summary = "only moves that were started elsewhere are meant; there is nothing to stop"
        elif scope.is_whole:
            if run.record.stopped() is None:
                run.record.run_commands.append(RunCommand(at=run.now(), by=by, stopped=True, reason=reason))
            event.summary = f"stopped by {by}" + (f": {reason}" if reason else "")
        else:
            new = [str(p) for p in planned if str(p) not in run.record.withdrawn_partitions()]
            if new:
                run.record.withdraw_commands.append(WithdrawCommand(at=run.now(), by=by, partitions=tuple(new)))
            event.summary = f"{len(planned)} partitions withdrawn by {by}: {name_some(planned)}"


def cancel_moves(run: RunContext, scope: CancelScope) -> CancelResult:
    """Cancel what is in flight where that is safe, and bring back what is in between; say what each leaves.

    Looks and acts once; ``settle_moves`` goes on until all is settled.
    """
    with run.audited("cancel_moves") as event:
        result, _ = _act(run, scope)
        event.facts = vars(result)
        event.summary = result.in_words
        return result


@waiting_step
def settle_moves(run: RunContext, scope: CancelScope, started_at: datetime) -> WaitResult:
    """Wait until everything in scope is settled, at its current or at its target replicas.

    Each look cancels and submits what can be settled now, with an audit event of its own.

    ``Failed`` with:
        InvalidRequestError: the reassignment was resumed; its moves are not for this step to cancel.
        UnsafeDropError: something is not settled at the deadline.
    """
    if scope.is_whole and run.record.exists and run.record.stopped() is None:
        raise InvalidRequestError(
            f"Reassignment {run.record.reassignment_id} is not stopped any more: it was resumed, so nothing more of it is "
            "cancelled. To stop it again, trigger kafka_reassignment_cancel"
        )
    result, decided = _act(run, scope)
    if decided.complete:
        return Done(f"{len(decided.settled)} partitions settled", facts=vars(result))
    if result.has_acted:
        event = AuditDraft(summary=result.in_words, facts=vars(result))
        run.write_event("cancel_moves", None, run.now(), event)
    waiting = {**decided.cancels.to_cancel, **decided.cancels.carry_on, **decided.stranded}
    deadline = started_at + _time_to_settle(run)
    if run.now() >= deadline:
        raise UnsafeDropError(
            f"{len(waiting)} partitions did not settle in time: {format_reasons(waiting)}. They stay under the throttle. "
            "Fix the brokers that are named, then rerun this step"
        )
    return Waiting(_waiting_text(decided), until=deadline)


def clear_after_stop(run: RunContext, scope: CancelScope) -> None:
    """Restore the throttle configs of a stopped reassignment.

    Raises:
        ThrottleInUseError: moves of it are in flight still.
    """
    with run.audited("clear_throttle") as event:
        if not scope.is_whole or not run.record.exists:
            event.outcome, event.summary = "skipped", "the rest of the reassignment goes on under its throttle"
            return
        steps = _steps_under_way(run.record)
        in_flight = confirmed_view(run, steps).in_flight
        if in_flight:
            raise ThrottleInUseError(
                f"Refusing to clear the replication throttle: {name_some(sorted(in_flight))} of {len(steps)} partitions are "
                "still reassigning. Rerun settle_moves first"
            )
        owed = restore_configs(run, event)
        event.summary = "earlier throttle values restored" + (f"; still owed: {name_some(owed)}" if owed else "")


def report_stop(run: RunContext, scope: CancelScope) -> str:
    """Say where everything is now, give the cluster back when the whole was stopped, and return the text."""
    with run.audited("report_stop") as event:
        lines = [f"Reassignment {run.record.reassignment_id} of cluster {run.record.cluster_id}"]
        if run.record.exists:
            lines += _where_it_stands(run, scope)
        else:
            left = run.cluster.list_reassignments()
            lines.append(
                f"{len(left)} moves are in flight in the cluster" + (f": {name_some(sorted(left))}" if left else "")
            )
        if scope.is_whole and run.record.exists:
            run.store.release(run.record.cluster_id, run.record.reassignment_id)
            lines.append("the cluster is free for another reassignment")
        event.summary = "; ".join(lines[1:])
        return "\n".join(lines)


def resume(run: RunContext, *, by: str, reason: str = "") -> None:
    """Let a stopped reassignment go on: from its first unfinished batch, when its batches are started again.

    Raises:
        ReassignmentInProgressError: another one has the lock of the cluster.
        InvalidRequestError: it is not stopped.
    """
    with run.audited("resume") as event:
        if run.record.stopped() is None:
            raise InvalidRequestError(
                f"Reassignment {run.record.reassignment_id} is not stopped. If it does not go on, clear its failed tasks"
            )
        run.record.run_commands.append(RunCommand(at=run.now(), by=by, stopped=False, reason=reason))
        event.summary = f"resumed by {by}" + (f": {reason}" if reason else "")


def _act(run: RunContext, scope: CancelScope) -> tuple[CancelResult, Settling]:
    """Cancel and submit what can be settled now."""
    steps = _steps_in(run.cluster, run.record, scope)
    view = confirmed_view(run, steps)
    decided = _decide(run.controller, steps, view, scope)
    refused = cancel(run, decided.cancels.to_cancel)
    refused |= submit(run, view, decided.to_submit, although_stopped=True)
    return (
        CancelResult(
            cancelled={str(p): left for p, left in decided.cancels.to_cancel.items() if p not in refused},
            carried_on={str(p): why for p, why in decided.cancels.carry_on.items() if p not in decided.to_submit},
            settled={str(p): list(r) for p, r in decided.to_submit.items() if p not in refused},
            stranded=as_texts(decided.stranded),
            foreign=as_texts(decided.cancels.foreign),
            refused=as_texts(refused),
        ),
        decided,
    )


def _decide(controller: Controller, steps: Collection[Step], view: View, scope: CancelScope) -> Settling:
    decided = settling(steps, view, foreign_too=scope.foreign)
    return controller.settle(decided, view)


def _time_to_settle(run: RunContext) -> timedelta:
    """As long as a batch may take."""
    return timedelta(minutes=run.request.catch_up_timeout_minutes if run.record.exists else 24 * 60)


def _waiting_text(decided: Settling) -> str:
    waiting = {**decided.cancels.carry_on, **decided.stranded}
    return f"{len(decided.settled)} partitions settled; waiting: {format_reasons(waiting) or 'to see what was submitted done'}"


def _steps_in(cluster: ClusterPort, record: Record, scope: CancelScope) -> list[Step]:
    ours = [s for s in _steps_under_way(record) if scope.has(s.partition)] if record.exists else []
    return [*ours, *(_foreign_steps(cluster, scope, ours) if scope.foreign else ())]


def _steps_under_way(record: Record) -> list[Step]:
    """The steps of the first batch that is not finished: no other can have moves in flight."""
    plan = record.plan_in_force()
    finished = record.finished_batches()
    number = next((n for n in range(1, (plan.batches if plan else 0) + 1) if n not in finished), None)
    return list(whole_batch(record, number).steps) if number else []


def _foreign_steps(cluster: ClusterPort, scope: CancelScope, ours: Iterable[Step]) -> list[Step]:
    own = {s.partition for s in ours}
    return [
        Step(flight.as_reassignment(partition))
        for partition, flight in cluster.list_reassignments().items()
        if partition not in own and scope.has(partition)
    ]


def _planned(record: Record, scope: CancelScope) -> list[TopicPartition]:
    if scope.is_whole or record.frozen_plan() is None:
        return []
    return [move.partition for move in read_target(record.plan_uri) if scope.has(move.partition)]


def _check_names(scope: CancelScope, partitions: Collection[TopicPartition]) -> None:
    for name in scope.partitions:
        if not any(CancelScope((name,)).has(p) for p in partitions):
            raise UnknownTopicOrPartitionError(
                f"'partitions' names {name!r}, which fits no partition of this reassignment and none in flight. Expected "
                "'orders-3', a topic, or a pattern of topics; correct it"
            )


def _where_it_stands(run: RunContext, scope: CancelScope) -> list[str]:
    plan = run.record.plan_in_force()
    finished = run.record.finished_batches()
    if not scope.is_whole:
        return [f"{len(run.record.withdrawn_partitions())} partitions take no further part; the rest goes on"]
    return [
        f"stopped after {len(finished)} of {plan.batches if plan else 0} batches",
        (
            "its finished batches stay as they are: to move them back, trigger kafka_reassignment with the job roll_back "
            f"and roll_back_of {run.record.reassignment_id}"
        ),
    ]
