"""What all step operators share: opening the cluster and the record, and which errors are worth a retry."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from kafka_reassignment.errors import InvalidRequestError, ReassignmentError, is_worth_a_retry
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.hooks.record import record_store


@contextmanager
def translate_errors(log: Any) -> Iterator[None]:
    """Log an error's message by itself, and turn one that no retry can mend into one that Airflow does not retry."""
    try:
        yield
    except ReassignmentError as error:
        log.error("%s", error)
        if is_worth_a_retry(error):
            raise
        raise AirflowFailException(str(error)) from error


class ReassignmentStepOperator(BaseOperator):
    """One step of a reassignment: observe, decide, act, record.

    Every subclass may run twice, be killed anywhere, and run again days later.

    :param kafka_conn_id: connection of the cluster (templated; by default the run's param of that name).
    :param reassignment_id: run id of the ``kafka_reassignment`` run it belongs to (templated; by default this run's).
    """

    template_fields: Sequence[str] = ("kafka_conn_id", "reassignment_id")
    ui_color = "#e8f1fa"

    def __init__(
        self,
        *,
        kafka_conn_id: str = "{{ params.kafka_conn_id }}",
        reassignment_id: str = "{{ run_id }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.reassignment_id = reassignment_id

    def execute(self, context: Context) -> Any:
        """Run the step; its result goes to XCom."""
        with self.telling_errors(), self.open_run(context) as run:
            return self.run_step(run, context)

    @abstractmethod
    def run_step(self, run: RunContext, context: Context) -> Any:
        """Do it, through ``kafka_reassignment.steps``."""

    def telling_errors(self) -> AbstractContextManager[None]:
        """See ``translate_errors``."""
        return translate_errors(self.log)

    def which_reassignment(self, store: RecordStore, cluster_id: str, context: Context) -> str:
        """Return the reassignment this step belongs to."""
        return self.reassignment_id

    @contextmanager
    def open_run(self, context: Context) -> Iterator[RunContext]:
        """Open the cluster and the record for one try."""
        with KafkaReassignmentHook(self.kafka_conn_id).get_conn() as cluster:
            store = record_store()
            cluster_id = cluster.describe_cluster().cluster_id
            record = store.record(cluster_id, self.which_reassignment(store, cluster_id, context))
            yield RunContext(cluster=cluster, store=store, record=record, actor=actor_of(context), log=self.log)


class RunningReassignmentOperator(ReassignmentStepOperator):
    """A step that is about a reassignment another run has started.

    :param reassignment_id: its run id (templated; by default the run's param of that name). Empty means the one that
        holds the cluster, and this very run where none does.
    """

    def __init__(self, *, reassignment_id: str = "{{ params.reassignment_id or '' }}", **kwargs: Any) -> None:
        super().__init__(reassignment_id=reassignment_id, **kwargs)

    def which_reassignment(self, store: RecordStore, cluster_id: str, context: Context) -> str:
        """Return the id given, that of the cluster's holder, or this run's."""
        if self.reassignment_id:
            return self.reassignment_id
        held = store.lock_owner(cluster_id)
        return held.reassignment_id if held else context["dag_run"].run_id


class BatchStepOperator(ReassignmentStepOperator):
    """One step of one batch.

    :param reassignment_id: as above (templated; by default the run's param of that name).
    :param batch: number of the batch, counted from 1 (templated; by default the run's param of that name).
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "batch")

    def __init__(
        self,
        *,
        reassignment_id: str = "{{ params.reassignment_id }}",
        batch: int | str = "{{ params.batch }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(reassignment_id=reassignment_id, **kwargs)
        self.batch = batch

    @property
    def batch_number(self) -> int:
        """The rendered batch number.

        Raises:
            InvalidRequestError: it is not a whole number from 1 on.
        """
        text = str(self.batch)
        if not (text.isascii() and text.isdigit() and int(text) >= 1):
            raise InvalidRequestError(
                f"Batch is {text[:60]!r}, expected a whole number from 1 on. "
                "The batch DAG is started by kafka_reassignment; by hand give reassignment_id and batch"
            )
        return int(text)


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
