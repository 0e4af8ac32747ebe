"""What every step works with, whether it may go on, and how it leaves its audit event."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

from kafka_reassignment.advice import (
    CANCEL_DAG_ID,
    DAG_ID,
    RESUME_DAG_ID,
    Advice,
    Correct,
    Rerun,
    Trigger,
    WaitUntil,
    advice_as_data,
    with_connection,
)
from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.decisions.single_batch_controller import controller_of
from kafka_reassignment.errors import (
    InvalidRequestError,
    LockLostError,
    OtherAirflowError,
    ReassignmentError,
    RecordError,
    RecordsMissingError,
    StoppedError,
    advise_rerun,
    overtaken,
)
from kafka_reassignment.model import Batch, ClusterDescription, PartitionState, TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor, AuditEvent, EventOutcome
from kafka_reassignment.record.models import ClusterLock, FrozenPlan, RecordedRequest, is_same_airflow
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.request.names import DEFAULT_KAFKA_CONNECTION_ID
from kafka_reassignment.steps.base.recorded_batch import planned_batch


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


class Log(Protocol):
    """What a step needs of a logger: Airflow's and the standard library's both have it."""

    def info(self, msg: str, /, *args: object) -> object:
        """Log what the step does."""

    def warning(self, msg: str, /, *args: object) -> object:
        """Log what a person should look at."""


@dataclass
class AuditDraft:
    """The audit event of a step while the step runs; written once, when the step ends.

    A step that has to wait drops it (``is_dropped``): its next look leaves the event.
    """

    summary: str = ""
    outcome: EventOutcome = "succeeded"
    facts: dict[str, Any] = field(default_factory=dict)
    is_dropped: bool = False

    def note_replicas_after(self, seen: Mapping[TopicPartition, PartitionState]) -> None:
        """Add what the cluster shows of the partitions since the step has acted."""
        self.facts["replicas_after"] = {
            str(p): {"replicas": list(state.replicas), "isr": sorted(state.isr), "leader": state.leader}
            for p, state in sorted(seen.items())
        }


@dataclass(frozen=True)
class RunContext:
    """One try of one step: the cluster it acts on, the record it writes, and who asked.

    What never changes during a run (``controller``, ``recorded``, ``request``) is read once per try. ``now`` and
    ``sleep`` are given so that tests need not wait. ``instance`` is the Airflow that this is a run of: several may
    share a record store. ``described`` is what the cluster said of itself when the try began, where it was asked.
    ``has_run`` says whether Airflow still has the run of the reassignment, given the DAG that it is of; it is asked
    only where an error's advice names a task of that run. ``has_task`` says whether that run has a task, given its id:
    a DAG of one's own need not have all of them.
    """

    cluster: ClusterPort
    store: RecordStore
    record: Record
    actor: Actor
    log: Log
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = time.sleep
    instance: str = ""
    described: ClusterDescription | None = None
    has_run: Callable[[str], bool] = lambda _: True
    has_task: Callable[[str], bool] = lambda _: True

    @cached_property
    def controller(self) -> Controller:
        """What the cluster's controller takes."""
        return controller_of(self.described or self.cluster.describe_cluster())

    @cached_property
    def recorded(self) -> RecordedRequest:
        """Who asked for what, and when.

        Raises:
            RecordError: this reassignment has no record.
            RecordsMissingError: the records of the cluster are away.
        """
        try:
            return self.record.recorded_request()
        except RecordError:
            self.record.require_records()
            raise

    @property
    def request(self) -> ReassignmentRequest:
        """What was asked for."""
        return self.recorded.request

    @contextmanager
    def audited(
        self, step: str, batch: int | None = None, *, started_at: datetime | None = None
    ) -> Iterator[AuditDraft]:
        """Run a step and leave one audit event, whatever its end; an error passes on after its event is written."""
        draft = AuditDraft()
        began = started_at or self.now()
        try:
            yield draft
        except RecordsMissingError as error:
            advise_rerun(error, self.actor.task_id or step, batch)
            raise  # an event would be written below the place at which the share is to be mounted
        except BaseException as error:
            advise_rerun(error, self.actor.task_id or step, batch)
            if isinstance(error, ReassignmentError):
                if batch is not None:
                    self._advise_what_is_there(error)
                if named := self._connection_to_name():
                    error.name_connection(named)
            draft.outcome, draft.summary = "failed", f"{type(error).__name__}: {error}"
            if isinstance(error, ReassignmentError) and error.advice:
                draft.facts["advice"] = advice_as_data(error.advice)
            self.write_event(step, batch, began, draft)
            raise
        if not draft.is_dropped:
            self.write_event(step, batch, began, draft)

    def _advise_what_is_there(self, error: ReassignmentError) -> None:
        """Advise to resume where a task of the reassignment's run would be rerun, and that run was deleted.

        A run of a DAG of one's own is named; it goes on in the project's DAG only once it was stopped.
        """

        def is_of_its_run(item: Advice) -> bool:
            return isinstance(item, Rerun) and item.batch is None and item.reassignment_id is None

        if not any(map(is_of_its_run, error.advice)) or self.has_run(DAG_ID):
            return
        own, begun_by = self.record.reassignment_id, self.record.audit.dag_that_began()
        is_in_own_dag = begun_by not in {"", DAG_ID}
        problem, advice = f"{error.problem}. Its run {own}", error.advice
        if is_in_own_dag:
            problem += f", of the DAG {begun_by},"
        if is_in_own_dag and self.has_run(begun_by):
            error.problem = f"{problem} is there"
        else:
            error.problem = f"{problem} was deleted"
            ways = [Trigger(dag_id, {"reassignment_id": own}) for dag_id in (CANCEL_DAG_ID, RESUME_DAG_ID)]
            resume = ways if is_in_own_dag else ways[1:]
            advice = tuple(way for item in advice for way in (resume if is_of_its_run(item) else [item]))
        error.set_advice(*advice)

    def for_this_cluster(self, advice: Iterable[Advice]) -> tuple[Advice, ...]:
        """Return advice whose DAGs are to be triggered for this cluster, not for that of the form's default connection."""
        named = self._connection_to_name()
        return tuple(with_connection(each, named) if named else each for each in advice)

    def _connection_to_name(self) -> str | None:
        """The connection of the request, where it is not the form's default."""
        with suppress(RecordError):  # what the advice is about matters more
            if self.record.exists and (named := self.request.kafka_conn_id) != DEFAULT_KAFKA_CONNECTION_ID:
                return named
        return None

    def write_event(self, step: str, batch: int | None, started_at: datetime, draft: AuditDraft) -> None:
        """Append a draft to the audit trail."""
        plan = self.record.plan_in_force()
        written = self.record.audit.append(
            AuditEvent(
                sequence=0,
                previous_hash="",
                cluster_id=self.record.cluster_id,
                reassignment_id=self.record.reassignment_id,
                step=step,
                batch=batch,
                actor=self.actor,
                started_at=started_at,
                finished_at=self.now(),
                outcome=draft.outcome,
                summary=draft.summary,
                plan_hash=plan.plan_hash if plan else None,
                facts=draft.facts,
            )
        )
        self.log.info("%s: %s (audit event %d)", draft.outcome, draft.summary or step, written.sequence)

    @property
    def is_of_this_airflow(self) -> bool:
        """Whether this Airflow has begun the reassignment, or nobody has yet."""
        return not self.record.exists or is_same_airflow(self.recorded.instance, self.instance)

    @property
    def is_its_own_order(self) -> bool:
        """Whether the step is of the very run that has begun the reassignment: what it orders was written before it began.

        The run of another DAG on the same schedule has the same id.
        """
        has_its_id = self.actor.run_id == self.record.reassignment_id
        return has_its_id and self.record.audit.dag_that_began() in {"", self.actor.dag_id}

    def note_replicas_after(self, event: AuditDraft, partitions: Collection[TopicPartition]) -> None:
        """Add to the event of a step that has acted what the cluster shows of the partitions now.

        The step has acted whether or not the cluster answers, so an error is noted and does not pass on.
        """
        try:
            seen = self.cluster.describe_partitions(sorted({p.topic for p in partitions}))
        except ReassignmentError as error:
            event.facts["replicas_after"] = f"not seen: {error}"
            return
        event.note_replicas_after({p: seen[p] for p in partitions if p in seen})

    @property
    def may_act(self) -> bool:
        """Whether the reassignment has the lock of the cluster now and is not stopped: what it cancels or submits is its own."""
        return self.record.stopped() is None and self.is_own(self.store.lock_owner(self.record.cluster_id))

    def require_go_ahead(self, recorded: RecordView | None = None, *, only_plans: bool = False) -> None:
        """Refuse to go on when the reassignment is stopped, is to be validated only, or has not the cluster's lock.

        Only looks, and takes nothing.

        Args:
            recorded: of the look that asks; by default what the record shows now. The lock is always read now.
            only_plans: the step changes nothing in the cluster, so that a validation may take it.

        Raises:
            InvalidRequestError: only a validation was asked for.
            StoppedError: it was stopped.
            OtherAirflowError: another Airflow has begun it.
            ReassignmentInProgressError: another reassignment has the lock of the cluster.
            LockLostError: nobody has the lock.
            RecordsMissingError: the records of the cluster are away.
        """
        refuse_stopped(recorded or self.record)
        self.refuse_other_airflow()
        if not only_plans:
            self.refuse_validate_only()
        cluster_id, own = self.record.cluster_id, self.record.reassignment_id
        owner = self.store.lock_owner(cluster_id)
        if self.is_own(owner):
            return
        retake = Rerun(self.locking_task)
        if owner is not None:
            raise self.store.locked_by(owner, cluster_id, retake)
        self.record.require_records()
        raise LockLostError(
            f"Reassignment {own} has not the lock of cluster {cluster_id} any more, expected it to have it; found it released",
            retake,
        )

    @property
    def locking_task(self) -> str:
        """The task of the reassignment's run that takes the cluster's lock, as things are now."""
        is_chained = self.record.frozen_plan() is not None and self.has_task("start_batches")
        return "start_batches" if is_chained else "preflight"

    def refuse_validate_only(self) -> None:
        """Make sure that something may be moved.

        Raises:
            InvalidRequestError: only a validation was asked for.
        """
        if not self.record.exists or not self.request.validate_only:
            return
        own = self.record.reassignment_id
        # Where the DAG has no task that ends a validation, its lock would keep others waiting.
        is_locked = self.is_own(self.store.lock_owner(self.record.cluster_id))
        raise InvalidRequestError(
            f"Reassignment {own} asks for a validation only, expected a request that moves something",
            *((Trigger(CANCEL_DAG_ID, {"reassignment_id": own}),) if is_locked else ()),
            Correct("trigger a new run without validate_only"),
        )

    def refuse_other_airflow(self, instead: str = "trigger a new run with an id of its own") -> None:
        """Make sure that no other Airflow has begun a reassignment of this id.

        Args:
            instead: what to do where one has; ``{instance}`` stands for its name.

        Raises:
            OtherAirflowError: one has.
        """
        if not self.is_of_this_airflow:
            recorded = self.recorded
            raise OtherAirflowError(
                f"Reassignment {self.record.reassignment_id} of cluster {self.record.cluster_id} was begun at "
                f"{recorded.started_at:%Y-%m-%d %H:%M:%S %Z} by the Airflow {recorded.instance}, and this is the Airflow "
                f"{self.instance}",
                Correct(
                    f"{instead.format(instance=recorded.instance)}, or, if this Airflow takes the other's place, set "
                    f"[kafka_reassignment] instance to {recorded.instance}"
                ),
            )

    def is_own(self, owner: ClusterLock | None) -> bool:
        """Whether this is the lock of this reassignment."""
        return owner is not None and owner.is_of(self.record.reassignment_id, self._begun_by)

    @property
    def _begun_by(self) -> str:
        """The Airflow that has begun the reassignment, or would: people may stop it from another one."""
        return self.recorded.instance if self.record.exists else self.instance

    def lock_of_another(self) -> ClusterLock | None:
        """Return the lock of the cluster where another reassignment has it; None where this one has it, or none has.

        Raises:
            RecordDamagedError: the lock is not readable.
        """
        owner = self.store.lock_owner(self.record.cluster_id)
        return None if self.is_own(owner) else owner

    def take_lock(
        self, *, requested_by: str, then: Sequence[Advice] = (), instead_of: ClusterLock | None = None
    ) -> bool:
        """Lock the cluster for this reassignment; return whether it had not the lock before.

        ``then`` is what to do once the lock is free, where it is refused.

        Raises:
            ReassignmentInProgressError: another one has the lock of the cluster, and it is not ``instead_of``.
            OvertakenError, StoppedError: this one was finished or stopped since, so that nobody would unlock it again.
        """
        own = ClusterLock(
            reassignment_id=self.record.reassignment_id,
            since=self.now(),
            requested_by=requested_by,
            instance=self.instance,
        )
        if self.store.acquire(self.record.cluster_id, own, instead_of=instead_of, then=then) is not own:
            return False
        # This try may have stood still, while another one did all there is to do.
        if self.record.is_reported or self.record.stopped() is not None:
            self.release_lock()
            refuse_stopped(self.record)
            raise overtaken(f"reassignment {self.record.reassignment_id} is finished")
        return True

    @property
    def lock_number(self) -> int:
        """The number of the cluster's lock, for a release on the ground of a look that begins now."""
        return self.store.lock(self.record.cluster_id).last_number()

    def release_lock(self, *, seen: int | None = None) -> bool:
        """Unlock the cluster if this reassignment has locked it, not since ``seen``; return whether it had."""
        own = self.record.reassignment_id
        return self.store.release(self.record.cluster_id, own, instance=self._begun_by, at=self.now(), seen=seen)

    def plan(self) -> FrozenPlan:
        """Return the plan in force: the frozen one, with the batches that were re-batched since.

        Raises:
            RecordError: there is none yet.
        """
        return self.record.require_plan(self.record.plan_in_force())

    def batch(self, number: int) -> Batch:
        """Return one batch as it is planned now, without withdrawn partitions.

        Raises:
            RecordError: the plan has no such batch.
        """
        return planned_batch(RecordView(self.record), number)


def refuse_stopped(recorded: Record | RecordView) -> None:
    """Make sure that a reassignment is not stopped.

    Raises:
        StoppedError: who stopped it, when and why, and how it goes on.
    """
    command = recorded.stopped()
    if command is None:
        return
    record = recorded.record if isinstance(recorded, RecordView) else recorded
    raise StoppedError(
        f"Reassignment {record.reassignment_id} was stopped by {command.by} at {command.at:%Y-%m-%d %H:%M:%S %Z}"
        + (f": {command.reason}" if command.reason else ""),
        *way_on_from_stop(record, command),
    )


def way_on_from_stop(record: Record, command: RunCommand) -> tuple[Advice, ...]:
    """Return what leads on from a stop. What was superseded is not resumed while its partitions may be elsewhere by then."""
    if not command.superseded_by:
        return (Trigger(RESUME_DAG_ID, {"reassignment_id": record.reassignment_id}),)
    return (
        WaitUntil(f"reassignment {command.superseded_by}, which took its place, has ended"),
        Correct(
            "ask for what is still wanted of this one in a new request, or resume this one if that one has moved nothing"
        ),
    )
