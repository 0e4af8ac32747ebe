"""The steps of raising a topic's partition count, in the order of the ``kafka_partition_count`` DAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from kafka_reassignment.steps import partition_count
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment_airflow.asked import fields_of_request
from kafka_reassignment_airflow.base import ReassignmentStepOperator, requested_by


class PartitionCountPreflightOperator(ReassignmentStepOperator):
    """Check the request against the cluster and open the record of this run.

    Nothing is written to the cluster, and no lock is taken. Left behind when it dies half-way: nothing, or the
    record, which its rerun finds to be its own.

    :param request: fields of ``PartitionCountRequest``: ``topic``, ``partitions`` and, where wanted,
        ``exclude_brokers``, ``validate_only``; a dict or JSON of one (templated). Another ``kafka_conn_id`` than the
        task's own is refused.
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "request")

    def __init__(self, *, request: Mapping[str, Any] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request = request

    def run_step(self, run: RunContext, context: Context) -> None:
        """Check everything that can be checked before planning."""
        fields = fields_of_request(self.request, self.kafka_conn_id, context)
        partition_count.preflight(run, fields, requested_by(context))


class PlanPlacementOperator(ReassignmentStepOperator):
    """Place the new partitions by racks and load, let the cluster check them, and freeze the placement.

    Nothing is changed in the cluster. Safe to retry: a frozen placement is kept. Its result is the placement in words.
    Left behind when it dies half-way: nothing, or the frozen placement.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> str:
        """Plan, and return the placement for people."""
        return partition_count.plan_placement(run)


class CreatePartitionsOperator(ReassignmentStepOperator):
    """Add the planned partitions to the topic; skipped where only validation was asked for.

    The controller adds all or none. Safe to retry: partitions that an earlier try has added are known by their
    replicas, and a topic that another client has grown gets none. Left behind when it dies half-way: nothing, or all of
    the new partitions.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Add what is not there."""
        if not partition_count.create_partitions(run):
            raise AirflowSkipException("Validated only: nothing is added")


class VerifyPartitionCountOperator(ReassignmentStepOperator):
    """Compare the new partitions with their placement: there, on their replicas, led, in sync.

    Only looks, so nothing is left behind when it dies half-way.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> str:
        """Fail unless everything is as planned; return what is there."""
        return partition_count.verify(run)
