"""Letting a reassignment go on that was stopped, or whose run was deleted."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_reassignment.advice import CANCEL_DAG_ID, DAG_ID, RESUME_DAG_ID, Correct, Rerun, Trigger
from kafka_reassignment.errors import InvalidRequestError, RecordDamagedError
from kafka_reassignment.model import Step
from kafka_reassignment.plan.store import read_targets_of
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.moves import confirmed_view
from kafka_reassignment.steps.limits import move_from_start
from kafka_reassignment.steps.stopped.between_steps import begun_partitions


def resume(run: RunContext, *, by: str, reason: str = "", has_run: bool = True, dag_id: str = DAG_ID) -> None:
    """Let a reassignment go on that was stopped, or whose run was deleted.

    It goes on from its first unfinished batch, when its batches are started again. Partitions that the stop took back
    to their original replicas, though first steps of theirs were finished, are moved from there after all others. Does
    nothing in a run that has done it before, and died after it. One run lifts one stop: not what is ordered after that.

    Args:
        run: the reassignment.
        by: who asks for it.
        reason: why.
        has_run: whether Airflow has a run of the reassignment, which a task of it could be cleared in.
        dag_id: the DAG in which it goes on.

    Raises:
        OtherAirflowError: another Airflow has begun it, and has its run.
        ReassignmentInProgressError: another one has the lock of the cluster.
        InvalidRequestError: it is not stopped and has its run, be it of another DAG, or nothing of it is left to do; or
            it was stopped since this run has resumed it; or the run of its id in the DAG is another's.
    """
    run.refuse_other_airflow(f"trigger {RESUME_DAG_ID} in the Airflow {{instance}}")
    if not run.record.exists:  # no event says so: where a share is away, it would hide that
        raise InvalidRequestError(
            f"Cluster {run.record.cluster_id} has no reassignment {run.record.reassignment_id}: there is nothing to resume",
            Correct("give the run id of a reassignment that Browse, Kafka reassignments lists"),
        )
    with run.audited("resume") as event:
        commands = run.record.run_commands.all()
        last = commands[-1] if commands else None
        if last is not None and last.stopped:
            if any(not c.stopped and c.is_of(run.actor) for c in commands) or _has_resumed_before(run):
                raise _stopped_since(run, last)
            _refuse_finished(run)
            _refuse_run_of_another(run, commands, has_run=has_run, dag_id=dag_id)
            _refuse_while_locked(run)
            if again := _taken_back(run):
                move_from_start(run, again, event)
            _lift(run, last, RunCommand(at=run.now(), by=by, run_id=run.actor.run_id, stopped=False, reason=reason))
        elif (last is not None and last.is_of(run.actor)) or _has_resumed_before(run):
            event.outcome, event.summary = "skipped", "this run has resumed it before"
            return
        else:
            _refuse_what_is_not_stopped(run, has_run=has_run, dag_id=dag_id)
            _refuse_while_locked(run)
        event.summary = f"resumed by {by}" + (f": {reason}" if reason else "")


def _refuse_run_of_another(run: RunContext, commands: Sequence[RunCommand], *, has_run: bool, dag_id: str) -> None:
    """Make sure that the run of this id in the DAG is not that of another cluster's reassignment: it would be started over."""
    begun_by = run.record.audit.dag_that_began()
    if not has_run or begun_by in {"", dag_id} or any(not c.stopped for c in commands):
        return
    own = run.record.reassignment_id
    raise InvalidRequestError(
        f"Reassignment {own} was begun by the DAG {begun_by}, and {dag_id} has a run of the same id, which is not its own. Nothing "
        "was changed",
        Correct(
            f"resume it by a DAG of your own, whose ResumeOperator has a trigger_dag_id without a run {own}; or trigger "
            f"a new run of {dag_id}, with what is left to do"
        ),
    )


def _lift(run: RunContext, stop: RunCommand, command: RunCommand) -> None:
    """Let it go on after a stop, unless there is another command since."""

    def decide(last: RunCommand | None) -> tuple[RunCommand | None, None]:
        if last == stop:
            return command, None
        if last is not None and not last.stopped and last.is_of(run.actor):
            return None, None  # written, and the answer of the store was lost
        raise _stopped_since(run, last or stop)

    run.record.run_commands.change(decide)


def _stopped_since(run: RunContext, command: RunCommand) -> InvalidRequestError:
    own = run.record.reassignment_id
    return InvalidRequestError(
        f"Reassignment {own} was {'stopped' if command.stopped else 'resumed'} by {command.by} at "
        f"{command.at:%Y-%m-%d %H:%M:%S %Z}, since this run of {RESUME_DAG_ID} has begun to resume it. This run lifts no stop that is later",
        Trigger(RESUME_DAG_ID, {"reassignment_id": own}),
    )


def _refuse_while_locked(run: RunContext) -> None:
    """Make sure that no other reassignment has the lock: its plan may count on what this one was stopped with."""
    if (owner := run.lock_of_another()) is not None:
        again = Trigger(RESUME_DAG_ID, {"reassignment_id": run.record.reassignment_id})
        raise run.store.locked_by(owner, run.record.cluster_id, again)


def _has_resumed_before(run: RunContext) -> bool:
    """Whether an earlier try has resumed what was not stopped.

    Only the audit trail says so: its batch goes on meanwhile, and what was submitted before a command counts as
    cancelled.
    """
    own = run.actor.run_id
    if not own:
        return False
    events = run.record.audit.latest(LATEST_EVENTS)
    try:
        return any(e.step == "resume" and e.outcome == "succeeded" and e.actor.run_id == own for e in events)
    except RecordDamagedError:
        return False  # what a damaged trail hides keeps nobody from resuming


def _refuse_what_is_not_stopped(run: RunContext, *, has_run: bool, dag_id: str) -> None:
    """Make sure that a reassignment which is not stopped has lost its run, and something is left to do."""
    own = run.record.reassignment_id
    _refuse_finished(run)
    if has_run:
        raise InvalidRequestError(
            f"Reassignment {own} is not stopped: there is nothing to resume. If it does not go on, a task of it has failed",
            Rerun("start_batches"),
        )
    if (begun_by := run.record.audit.dag_that_began()) not in {"", dag_id}:
        raise InvalidRequestError(
            f"Reassignment {own} is not stopped, and was begun by the DAG {begun_by}: it cannot go on in {dag_id} beside it",
            Correct(
                f"clear what has failed in its run of {begun_by}, or trigger {CANCEL_DAG_ID} with {own} and resume it then"
            ),
        )


def _refuse_finished(run: RunContext) -> None:
    """Refuse what has its report: a stop of it was for a roll back, and its run would be green though all is back."""
    if run.record.is_reported:
        raise InvalidRequestError(
            f"Reassignment {run.record.reassignment_id} is finished: there is nothing to resume",
            Correct("trigger a new run for what is to be moved now"),
        )


def _taken_back(run: RunContext) -> list[str]:
    """Partitions at their original replicas although first steps of theirs are in finished batches; not those that the stop has found there."""
    others = run.record.withdrawn_partitions() | run.record.settled.found_there()
    begun = {p for p in begun_partitions(RecordView(run.record)) if str(p) not in others}
    wholes = read_targets_of(run.record.plan_ref(), begun) if begun else {}
    view = confirmed_view(run, [Step(whole) for whole in wholes.values()])
    return [
        str(p)
        for p, whole in sorted(wholes.items())
        if p in view.partitions and view.partitions[p].replicas == whole.current
    ]
