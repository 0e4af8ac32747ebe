"""The step of ``kafka_throttle_sweep``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import Context

from kafka_reassignment.advice import Correct, Trigger
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    ConnectionNotFoundError,
    InvalidRequestError,
    ReassignmentError,
    ReassignmentInProgressError,
    RecordError,
    is_worth_a_retry,
    name_some,
)
from kafka_reassignment.record.debts import Debts, debts
from kafka_reassignment.record.models import is_same_airflow
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request.names import DEFAULT_KAFKA_CONNECTION_ID
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.sweep import Sweep, sweep
from kafka_reassignment_airflow.arguments import is_given
from kafka_reassignment_airflow.base import (
    RECORD_OF_NO_REASSIGNMENT,
    ReassignmentStepOperator,
    actor_of,
    requested_by,
    translate_errors,
)
from kafka_reassignment_airflow.context import open_run
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import SWEEP_DAG_ID
from kafka_reassignment_airflow.settings import instance


class SweepThrottlesOperator(ReassignmentStepOperator):
    """Restore the throttle configs of reassignments that are over and still owe some (KIP-179), in every cluster.

    Each cluster that the records show in debt is opened by the connection that its reassignments were asked for with.
    One that cannot be opened keeps none of the others waiting, nor does a damaged object of the record, nor a move that
    Kafka never completes and that keeps a throttle in place; the task then fails and names it. A cluster that no
    connection here leads to is left to the Airflow that has a reassignment at work there.

    Left behind when it dies: the lock of the cluster, until Airflow's retry; debts stay in their journals.

    :param kafka_conn_id: only the cluster of this connection; every cluster when empty (templated).
    :param reassignment_id: the name by which it locks a cluster (templated). A run id alone would not do: Airflow makes
        that of a scheduled run from its time, so a reassignment may have the same one.
    """

    is_of_reassignment: ClassVar[bool] = False

    def __init__(
        self,
        *,
        kafka_conn_id: str | None = None,
        reassignment_id: str = RECORD_OF_NO_REASSIGNMENT,
        **kwargs: Any,
    ) -> None:
        super().__init__(kafka_conn_id=kafka_conn_id or "", reassignment_id=reassignment_id, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Sweep one cluster, or all."""
        if is_given(self.kafka_conn_id):
            result: dict[str, Any] = super().execute(context)
            return result
        with translate_errors(self.log):
            return self._sweep_all(context)

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Sweep one cluster; return what came of each reassignment's debts.

        Raises:
            ReassignmentError: an object of its record is damaged, or a move that never ends keeps a throttle; what can
                be restored is.
        """
        done = self._sweep(run, context, str(self.kafka_conn_id))
        if done.for_a_person:
            raise _as_one(done.for_a_person)
        return _result([done])

    def _sweep_all(self, context: Context) -> dict[str, Any]:
        """Sweep each cluster in debt; what is wrong in one of them keeps none of the others waiting.

        Raises:
            RecordUnavailableError: the store does not answer.
            ReassignmentError: a cluster could not be swept, an object of its record is damaged, or a move that never
                ends keeps a throttle; the others are done.
        """
        store = record_store()
        done: list[Sweep] = []
        failed: list[ReassignmentError] = []
        for cluster_id in store.clusters():
            try:
                known = debts(store, cluster_id)
                failed += known.damaged_journals
                swept = self._serve(store, known, context)
                failed += swept.for_a_person
                done.append(swept)
            except ReassignmentError as error:
                self.log.warning("%s", error)
                failed.append(error)
        if failed:
            raise _as_one(failed)
        result = _result(done)
        if not result["summaries"]:
            self.log.info("No reassignment of any cluster owes anything")
        return result

    def _serve(self, store: RecordStore, known: Debts, context: Context) -> Sweep:
        if known.owing:
            return self._sweep_cluster(store, known, context)
        # Of a try that died when all was paid.
        store.release(known.cluster_id, str(self.reassignment_id), instance=instance())
        return Sweep({})

    def _sweep_cluster(self, store: RecordStore, known: Debts, context: Context) -> Sweep:
        reasons: list[str] = []
        passing = not_found = False
        for kafka_conn_id in known.connection_ids:
            try:
                with open_run(
                    kafka_conn_id,
                    lambda _store, _cluster: str(self.reassignment_id),
                    actor=actor_of(context),
                    log=self.log,
                ) as run:
                    if run.record.cluster_id == known.cluster_id:
                        return self._sweep(run, context, kafka_conn_id)
                    reasons.append(f"connection '{kafka_conn_id}' leads to cluster {run.record.cluster_id} now")
            except (RecordError, ReassignmentInProgressError):
                raise  # about the record or its lock: another connection to the cluster would meet the same
            except ConnectionNotFoundError as error:
                not_found = True
                reasons.append(str(error).rstrip("."))
            except ReassignmentError as error:
                passing = passing or is_worth_a_retry(error)
                reasons.append(str(error).rstrip("."))
        if not passing and (busy := self._at_work_elsewhere(store, known)):
            return Sweep(dict.fromkeys(known.owing, busy))
        reasons += [str(error) for error in known.damaged_requests]
        problem = (
            f"Cluster {known.cluster_id} is owed throttle configs by {name_some(known.owing)}, which could not be "
            f"restored: {'; '.join(reasons) or 'its records name no connection'}"
        )
        if passing:
            raise ClusterUnavailableError(problem, Trigger(SWEEP_DAG_ID))
        kind = ConnectionNotFoundError if not_found else InvalidRequestError
        raise kind(
            problem,
            Correct(
                f"create an Airflow connection to cluster {known.cluster_id}, and trigger {SWEEP_DAG_ID} with it as "
                "kafka_conn_id"
            ),
        )

    def _at_work_elsewhere(self, store: RecordStore, known: Debts) -> str:
        """Say that a reassignment of another Airflow is at work on a cluster that none of the connections here leads to.

        It pays what earlier ones owe, and that Airflow has its own sweep. Empty where that is not so.
        """
        owner = store.lock_owner(known.cluster_id)
        if owner is None or is_same_airflow(owner.instance, instance()):
            return ""
        if not store.is_locked_for_long(known.cluster_id, owner):
            return ""
        text = f"cluster {known.cluster_id} is locked by {owner.reassignment_id} of the Airflow {owner.instance}, whose sweep looks after it"
        self.log.info("No connection here leads to it: %s", text)
        return text

    def _sweep(self, run: RunContext, context: Context, kafka_conn_id: str) -> Sweep:
        done = sweep(run, by=requested_by(context))
        if kafka_conn_id != DEFAULT_KAFKA_CONNECTION_ID:  # what holds up a sweep may have no request that names it
            for error in done.for_a_person:
                error.name_connection(kafka_conn_id)
        for reassignment_id, summary in done.summaries.items():
            self.log.info("%s: %s", reassignment_id, summary)
        if not done.summaries and not done.for_a_person:
            self.log.info("No reassignment of cluster %s owes anything", run.record.cluster_id)
        return done


def _result(done: Sequence[Sweep]) -> dict[str, Any]:
    return {
        "summaries": {name: text for each in done for name, text in each.summaries.items()},
        "left": [name for each in done for name in each.left],
    }


def _as_one(failed: Sequence[ReassignmentError]) -> ReassignmentError:
    """Return what failed as one error, which is a passing one where one of them is.

    The words of each are in it once, and so is each piece of advice: two may have met the same.
    """
    each = list({str(error): error for error in failed}.values())
    if len(each) == 1:
        return each[0]
    kind = ClusterUnavailableError if any(map(is_worth_a_retry, each)) else InvalidRequestError
    one = kind(". ".join(str(error).removesuffix(".") for error in each))
    advice = [advice for error in each for advice in error.advice]
    one.advice = tuple(a for n, a in enumerate(advice) if a not in advice[:n])  # the words of each have it already
    return one
