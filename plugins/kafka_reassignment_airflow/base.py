"""What the operators share: opening the run, which errors are worth a retry, triggering a DAG run, deferring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunLink, TriggerDagRunOperator
from airflow.sdk import BaseOperator, BaseOperatorLink, Context, TaskInstanceState
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError

from kafka_reassignment.advice import Correct, Rerun
from kafka_reassignment.errors import (
    InvalidRequestError,
    InvalidSetupError,
    ReassignmentError,
    advise_rerun,
    is_worth_a_retry,
)
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done, SizeSamples, Waiting, WaitResult, audited_look
from kafka_reassignment_airflow.arguments import read_integer, read_number
from kafka_reassignment_airflow.context import open_run
from kafka_reassignment_airflow.form.words import in_form_words
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.links import LINKS
from kafka_reassignment_airflow.metrics import publish
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, task_name
from kafka_reassignment_airflow.triggers.base import WaitEnded, WaitTrigger
from kafka_reassignment_airflow.triggers.batch import BatchTrigger
from kafka_reassignment_airflow.urls import Opened

LONGER_WHEN_CLOSE = 3
"""How many times as long a task looks by itself before it defers, while its wait is expected to end soon."""

SHORTEST_PAUSE_SECONDS = 0.25
"""Between two looks of a task whose wait is expected to end at once. It is a second, or half of the time that is expected, otherwise."""

OWN_RUN = "{{ run_id }}"
"""The id (a template) of the reassignment that the task's own run is."""

RECORD_OF_NO_REASSIGNMENT = "{{ dag.dag_id }}__{{ run_id }}"
"""The id (a template) of a run that has a record and a lock of its own. A run id alone would not do: Airflow makes that
of a scheduled run from its time, so a reassignment may have the same one."""


@contextmanager
def translate_errors(log: Any) -> Iterator[None]:
    """Log an error's message by itself, and turn one that no retry can fix into one that Airflow does not retry."""
    try:
        yield
    except ReassignmentError as error:
        # A setting may have the name of a field, and is no field.
        is_of_form = isinstance(error, InvalidRequestError) and not isinstance(error, InvalidSetupError)
        text = in_form_words(str(error)) if is_of_form else str(error)
        log.error("%s", text)
        if is_worth_a_retry(error):
            raise
        raise AirflowFailException(text) from None  # one stack trace in the log; the error stays its context


FAILED = frozenset({TaskInstanceState.FAILED, TaskInstanceState.UPSTREAM_FAILED})


@dataclass(frozen=True, slots=True)
class TasksBefore:
    """Tasks before another one in its run, in their order: which have failed, whatever they are, and which steps have not succeeded."""

    failed: tuple[str, ...]
    not_done: tuple[str, ...]


class ReassignmentStepOperator(BaseOperator):
    """One step of a reassignment: observe, decide, act, record.

    Every subclass may run twice, be killed anywhere, and run again days later.

    :param kafka_conn_id: connection of the cluster (templated).
    :param reassignment_id: identity of the reassignment: the id of the DAG run that plans it, by default the task's own
        (templated).
    """

    template_fields: Sequence[str] = ("kafka_conn_id", "reassignment_id")
    ui_color = "#e8f1fa"
    operator_extra_links: Collection[BaseOperatorLink] = LINKS
    opened: Opened | None = None
    """What this try is about, once the cluster has answered."""
    is_of_reassignment: ClassVar[bool] = True
    """Whether its record is that of a reassignment, which has a page."""
    begins_reassignment: ClassVar[bool] = False
    """Whether it opens the record, so that the other steps are tasks of its DAG, or of runs that these start."""

    def __init__(
        self,
        *,
        kafka_conn_id: str = KafkaReassignmentHook.default_conn_name,
        reassignment_id: str = OWN_RUN,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.reassignment_id = reassignment_id
        self._named = reassignment_id  # before a template is rendered

    def execute(self, context: Context) -> Any:
        """Open the run and execute the step; its result goes to XCom."""
        with self.run_context(context) as run:
            return self.run_step(run, context)

    @abstractmethod
    def run_step(self, run: RunContext, context: Context) -> Any:
        """Execute the step, through ``kafka_reassignment.steps``."""

    @contextmanager
    def run_context(self, context: Context) -> Iterator[RunContext]:
        """Open the cluster and the record for one try; errors are translated for Airflow."""

        def which(store: RecordStore, cluster_id: str) -> str:
            return self.which_reassignment(store, cluster_id, context)

        with (
            translate_errors(self.log),
            self._advising_rerun(context),
            open_run(
                self.kafka_conn_id,
                which,
                actor=actor_of(context),
                log=self.log,
                has_run=lambda dag_id, reassignment_id: self.has_run(dag_id, reassignment_id, context),
                has_task=lambda task_id, reassignment_id: self.has_task(task_id, reassignment_id, context),
            ) as run,
        ):
            self.opened = Opened(run.record.cluster_id, run.record.reassignment_id)
            yield run

    @contextmanager
    def _advising_rerun(self, context: Context) -> Iterator[None]:
        """Let an error of the cluster that ends the task's last try say what is to be rerun."""
        try:
            yield
        except ReassignmentError as error:
            advise_rerun(error, context["ti"].task_id, self.batch_of_event)
            raise

    @property
    def batch_of_event(self) -> int | None:
        """The batch in the audit trail and in advice; None where the step is not of a batch."""
        return None

    def has_run(self, dag_id: str, reassignment_id: str, context: Context) -> bool:
        """Whether Airflow has the run of a reassignment in a DAG; that of a step in a DAG of another name is its own run, which is there."""
        ti = context["ti"]
        if ti.dag_id != BATCH_DAG_ID:
            return True
        try:
            return bool(ti.get_dr_count(dag_id=dag_id, run_ids=[reassignment_id]))
        except AirflowRuntimeError:  # it is asked about an error, which says more than this one
            return True

    def has_task(self, task_id: str, reassignment_id: str, context: Context) -> bool:
        """Whether the run of a reassignment has a task of this name; that of a step in another run is taken to have all of them."""
        dag = self.get_dag()
        is_own = context["dag_run"].run_id == reassignment_id
        if dag is None or not (is_own or any(self._is_begun_by(task) for task in dag.tasks)):
            return True
        return any(task_id in (known, task_name(known)) for known in dag.task_ids)

    def _is_begun_by(self, task: object) -> bool:
        """Whether a task of the same DAG begins the reassignment of this one: it names it in the same way."""
        return isinstance(task, ReassignmentStepOperator) and task.begins_reassignment and task._named == self._named

    def tasks_before(self, context: Context) -> TasksBefore:
        """Return which tasks before this one in its run have not ended well; of those in its own mapped group, its own index counts."""
        run_id, ti = context["dag_run"].run_id, context["ti"]
        states = ti.get_task_states(dag_id=self.dag_id, run_ids=[run_id]).get(run_id, {})
        before, group = self.get_flat_relative_ids(upstream=True), self.get_closest_mapped_task_group()

        def states_of(task: BaseOperator | MappedOperator) -> set[str | None]:
            if group is not None and task.get_closest_mapped_task_group() is group:
                return {states.get(f"{task.task_id}_{ti.map_index}")}
            return _states_of(task, states)

        tasks = [t for t in self.dag.topological_sort() if t.task_id in before]
        steps = [t for t in tasks if isinstance(t, ReassignmentStepOperator)]
        return TasksBefore(
            failed=tuple(t.task_id for t in tasks if FAILED & states_of(t)),
            not_done=tuple(step.task_id for step in steps if states_of(step) != {TaskInstanceState.SUCCESS}),
        )

    def which_reassignment(self, store: RecordStore, cluster_id: str, context: Context) -> str:
        """Return the reassignment this step belongs to."""
        if self._named == OWN_RUN and not isinstance(self.reassignment_id, str):
            return str(context["dag_run"].run_id)  # a native template made a number of it: of 2026_11_26 it is 20261126
        return str(self.reassignment_id)


class BatchStepOperator(ReassignmentStepOperator):
    """One step of one batch.

    :param batch: number of the batch, counted from 1 (templated). By default 1: all there is in a plan of one batch.
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "batch")

    def __init__(self, *, batch: int | str = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch = batch

    @property
    def batch_number(self) -> int:
        """The rendered batch number.

        Raises:
            InvalidRequestError: it is not a whole number from 1 on.
        """
        number = read_integer("batch", self.batch)
        if number < 1:
            raise InvalidRequestError(
                f"Batch is {number}, expected a whole number from 1 on",
                Correct("the batch DAG is started by kafka_reassignment; by hand give reassignment_id and batch"),
            )
        return number

    @property
    def batch_of_event(self) -> int | None:
        """The batch in the audit trail and in advice."""
        return self.batch_number


@dataclass(frozen=True, slots=True)
class DagRunToTrigger:
    """Which DAG run is to be triggered; without ``conf`` an existing run keeps its own. ``note`` is what Airflow shows beside it."""

    dag_id: str
    run_id: str
    conf: dict[str, Any] | None = None
    note: str | None = None


def refuse_paused(context: Context, dag_id: str, *, asked_by: str) -> None:
    """Make sure that the runs of a DAG would start; ``asked_by`` is the task that would trigger them.

    Raises:
        InvalidRequestError: the DAG is paused.
    """
    if context["ti"].get_dag(dag_id).is_paused:
        raise InvalidRequestError(
            f"DAG {dag_id} is paused, so that its run would stay queued; nothing was done",
            Correct(f"unpause {dag_id} in Airflow"),
            Rerun(asked_by),
        )


class TriggerReassignmentRunOperator(ReassignmentStepOperator, TriggerDagRunOperator):
    """A step that ends by triggering a DAG run: ``which_run`` says which one.

    It fails before it does anything when that DAG is paused, unless ``may_be_paused``.

    :param trigger_dag_id: the DAG (templated).
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "trigger_dag_id")
    operator_extra_links: Collection[BaseOperatorLink] = (*LINKS, TriggerDagRunLink())  # type: ignore[assignment]
    may_be_paused: ClassVar[bool] = False

    def execute(self, context: Context) -> Any:
        """Decide with the run open, then trigger with it closed, as Airflow's own operator does."""
        if not self.may_be_paused:
            with translate_errors(self.log):
                refuse_paused(context, self.trigger_dag_id, asked_by=self.task_id)
        chosen: DagRunToTrigger | None = super().execute(context)
        if chosen is None:
            return None
        self.trigger_dag_id, self.trigger_run_id, self.conf = chosen.dag_id, chosen.run_id, chosen.conf
        self.note = chosen.note  # of Airflow 3.3; earlier ones pass it over
        return TriggerDagRunOperator.execute(self, context)

    def run_step(self, run: RunContext, context: Context) -> DagRunToTrigger | None:
        """Decide."""
        return self.which_run(run, context)

    @abstractmethod
    def which_run(self, run: RunContext, context: Context) -> DagRunToTrigger | None:
        """Return the DAG run to trigger; None when there is nothing to trigger."""


class DeferringStepOperator(ReassignmentStepOperator):
    """A step that waits: it looks; while there is something to wait for it looks again for a short while, then defers.

    The trigger calls the same function of ``kafka_reassignment.steps`` as the task. Not Airflow's own sensor class:
    that one fails without a retry when its deferral times out. Here the task is woken at its deadline and says itself
    what was not reached.

    :param poll_seconds: seconds between two looks of the trigger (templated).
    :param patience_seconds: how many seconds the task looks by itself, at least once a second, before it defers
        (templated). It stays up to three times as long while what it waits for is expected within that time. Short
        waits end within it, and a deferral has a cost of its own: the first look of the trigger is after
        ``poll_seconds``, the task starts once more, and there is the race of apache/airflow#71580.
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "poll_seconds", "patience_seconds")
    ui_color = "#fdf3e1"
    step_name: ClassVar[str]
    """The step in the audit trail."""

    def __init__(self, *, poll_seconds: float | str = 10, patience_seconds: float | str = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds

    def run_step(self, run: RunContext, context: Context) -> str:
        """Look for the first time; return what is done."""
        return self._wait(run, context, run.now())

    def resume(self, context: Context, event: WaitEnded, started_at: str) -> str:
        """Look again after the trigger fired; return what is done."""
        self.log.info("Woken: %s", event["reason"])
        with self.run_context(context) as run:
            return self._wait(run, context, datetime.fromisoformat(started_at))

    def _wait(self, run: RunContext, context: Context, started_at: datetime) -> str:
        samples = SizeSamples.by_clock_of(run)
        patience = timedelta(seconds=read_number("patience_seconds", self.patience_seconds))
        began = run.now()
        while True:
            result = audited_look(
                run,
                self.step_name,
                lambda: self.look(run, started_at, samples),
                batch=self.batch_of_event,
                started_at=started_at,
            )
            if not isinstance(result, Waiting):
                publish(run)
                self.over(run, context, result)
                return result.message
            self.log.info("%s", result.reason)
            is_close = result.seconds_left is not None and result.seconds_left <= patience.total_seconds()
            if run.now() >= began + patience * (LONGER_WHEN_CLOSE if is_close else 1):
                break
            run.sleep(
                1.0 if result.seconds_left is None else min(1.0, max(SHORTEST_PAUSE_SECONDS, result.seconds_left / 2))
            )
        publish(run)
        self.held(run, context, result)
        trigger = self.trigger(
            run,
            actor=actor_of(context).model_dump(),
            started_at=started_at.isoformat(),
            deadline=result.until.isoformat(),
            poll_seconds=read_number("poll_seconds", self.poll_seconds),
        )
        self.defer(trigger=trigger, method_name="resume", kwargs={"started_at": started_at.isoformat()})
        raise AssertionError("defer() always raises")

    def held(self, run: RunContext, context: Context, waiting: Waiting) -> None:
        """Leave the reason where a person finds it while the task is deferred: as its XCom ``waits_for``."""
        context["ti"].xcom_push(key="waits_for", value=waiting.reason)

    def over(self, run: RunContext, context: Context, done: Done) -> None:
        """Do what follows the end of a wait; here nothing."""

    @abstractmethod
    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look once, through the step's own function."""

    @abstractmethod
    def trigger(
        self, run: RunContext, *, actor: dict[str, Any], started_at: str, deadline: str, poll_seconds: float
    ) -> WaitTrigger:
        """Return the trigger that goes on looking."""


class DeferringBatchOperator(BatchStepOperator, DeferringStepOperator):
    """A step of one batch that waits; ``trigger_class`` goes on looking."""

    trigger_class: ClassVar[type[BatchTrigger]]
    template_fields: Sequence[str] = (*DeferringStepOperator.template_fields, "batch")

    def trigger(self, run: RunContext, **waiting: Any) -> BatchTrigger:
        """Return the trigger that goes on looking."""
        return self.trigger_class(
            kafka_conn_id=self.kafka_conn_id,
            reassignment_id=run.record.reassignment_id,
            batch=self.batch_number,
            **waiting,
        )


def actor_of(context: Context) -> Actor:
    """Return who asked for the run and which try of which task this is."""
    ti, run = context["ti"], context["dag_run"]
    return Actor(
        requested_by=requested_by(context),
        dag_id=ti.dag_id,
        run_id=run.run_id,
        task_id=ti.task_id,
        try_number=ti.try_number,
    )


def requested_by(context: Context) -> str:
    """Return the Airflow user who triggered the run, or how it came about."""
    run = context["dag_run"]
    return run.triggering_user_name or f"Airflow ({run.run_type})"


def _states_of(task: BaseOperator | MappedOperator, states: Mapping[str, str | None]) -> set[str | None]:
    """Return the states of a task, given those of a run; a mapped one, or one of a mapped group, is there as ``<task_id>_<map_index>``."""
    task_id = task.task_id
    if not isinstance(task, MappedOperator) and task.get_closest_mapped_task_group() is None:
        return {states.get(task_id)}
    return {s for name, s in states.items() if name.rpartition("_")[0] == task_id and name.rpartition("_")[2].isdigit()}
