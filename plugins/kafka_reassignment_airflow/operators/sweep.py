"""The step of ``kafka_throttle_sweep``."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from kafka_reassignment.advice import Correct, Trigger
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    ReassignmentError,
    is_worth_a_retry,
    name_some,
)
from kafka_reassignment.record.debts import Debtor, debts
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment_airflow.arguments import is_given
from kafka_reassignment_airflow.base import ReassignmentStepOperator, actor_of, requested_by, translate_errors
from kafka_reassignment_airflow.context import open_run
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import SWEEP_DAG_ID
from kafka_reassignment_airflow.settings import instance


class SweepThrottlesOperator(ReassignmentStepOperator):
    """Restore the throttle configs of reassignments that are over and still owe some (KIP-179), in every cluster.

    Each cluster that the records show in debt is opened by the connection that its reassignments were asked for with. One
    that cannot be opened keeps none of the others waiting; the task then fails and names it.

    Left behind when it dies: the lock of the cluster, until Airflow's retry; debts stay in their journals.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters; the reassignment id
        is that of the sweep itself.

    :param kafka_conn_id: only the cluster of this connection; every cluster when empty (templated).
    """

    def __init__(self, *, kafka_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(kafka_conn_id=kafka_conn_id or "", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Sweep one cluster, or all."""
        if is_given(self.kafka_conn_id):
            result: dict[str, Any] = super().execute(context)
            return result
        with translate_errors(self.log):
            return self._sweep_all(context)

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Sweep one cluster; return what came of each reassignment's debts."""
        done = sweep(run, by=requested_by(context))
        for reassignment_id, summary in done.summaries.items():
            self.log.info("%s: %s", reassignment_id, summary)
        if not done.summaries:
            self.log.info("No reassignment of cluster %s owes anything", run.record.cluster_id)
        return {"summaries": done.summaries, "left": list(done.left)}

    def _sweep_all(self, context: Context) -> dict[str, Any]:
        """Sweep each cluster in debt.

        Raises:
            ClusterUnavailableError: a cluster did not answer; the others are done.
            InvalidRequestError: no connection leads to a cluster, or a record is not readable; the others are done.
        """
        store = record_store()
        known = debts(store)
        for cluster_id in set(store.clusters()) - {d.cluster_id for d in known.debtors}:
            store.release(
                cluster_id, str(self.reassignment_id), instance=instance()
            )  # of a try that died when all was paid
        if not known.debtors:
            self.log.info("No reassignment of any cluster owes anything")
        done: dict[str, Any] = {"summaries": {}, "left": []}
        failed: list[ReassignmentError] = [InvalidRequestError(text) for text in known.unreadable]
        for debtor in known.debtors:
            try:
                of_cluster = self._sweep_cluster(debtor, context)
            except ReassignmentError as error:
                self.log.warning("%s", error)
                failed.append(error)
                continue
            done["summaries"] |= of_cluster["summaries"]
            done["left"] += of_cluster["left"]
        if failed:
            kind = ClusterUnavailableError if any(map(is_worth_a_retry, failed)) else InvalidRequestError
            raise kind(" ".join(map(str, failed)))
        return done

    def _sweep_cluster(self, debtor: Debtor, context: Context) -> dict[str, Any]:
        reasons: list[str] = []
        passing = False
        for kafka_conn_id in debtor.connection_ids:
            try:
                with open_run(
                    kafka_conn_id,
                    lambda _store, _cluster: str(self.reassignment_id),
                    actor=actor_of(context),
                    log=self.log,
                ) as run:
                    if run.record.cluster_id == debtor.cluster_id:
                        return self.run_step(run, context)
                    reasons.append(f"connection '{kafka_conn_id}' leads to cluster {run.record.cluster_id} now")
            except ReassignmentError as error:
                passing = passing or is_worth_a_retry(error)
                reasons.append(str(error).rstrip("."))
        problem = (
            f"Cluster {debtor.cluster_id} is owed throttle configs by {name_some(debtor.owing)}, which could not be "
            f"restored: {'; '.join(reasons) or 'its records name no connection'}"
        )
        if passing:
            raise ClusterUnavailableError(problem, Trigger(SWEEP_DAG_ID))
        raise InvalidRequestError(
            problem,
            Correct(
                f"create an Airflow connection to the cluster, and trigger {SWEEP_DAG_ID} with it as kafka_conn_id"
            ),
        )
