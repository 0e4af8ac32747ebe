"""The moves in flight, their owners and their progress (KIP-240, KIP-179).

No audit event is written and no lock is needed: they may run beside a reassignment, and any number of times.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.views.describe import describe
from kafka_reassignment.views.listing import list_reassignments
from kafka_reassignment.views.selection import DescribeQuery
from kafka_reassignment_airflow.base import RunningReassignmentOperator


class ListReassignmentsOperator(RunningReassignmentOperator):
    """List what is in flight, its owners, the current batch and what is left of the plan; the result is JSON values.

    ``in_flight`` of the result is what kafka-reassign-partitions takes. Changes nothing, so nothing is left behind.
    """

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Return the listing."""
        listing = list_reassignments(
            run.cluster, run.store, reassignment_id=self.reassignment_id or None, sleep=run.sleep
        )
        for line in listing.lines():
            self.log.info("%s", line)
        return listing.as_json()


class DescribeReassignmentOperator(RunningReassignmentOperator):
    """Describe the current batch, or what the run's params choose; the result is JSON values, the log has the table.

    Reads the params ``partitions``, ``topics``, ``reassignment_json`` and ``watch_seconds``. Changes nothing, so nothing
    is left behind.
    """

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Return the description."""
        params = context["params"]
        asked = DescribeQuery.of(
            reassignment_id=self.reassignment_id,
            partitions=params["partitions"] or (),
            topics=params["topics"] or (),
            reassignment_json=params["reassignment_json"],
        )
        told = describe(
            run.cluster, run.store, asked, watch_seconds=params["watch_seconds"], now=run.now, sleep=run.sleep
        )
        for line in (*told.notes, *told.lines()):
            self.log.info("%s", line)
        self.log.info("Replicas:\n%s", told.table)
        return told.as_json()
