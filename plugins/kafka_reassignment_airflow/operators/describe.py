"""The moves in flight, their owners and their progress (KIP-240, KIP-179).

No audit event is written and no lock is needed: they may run beside a reassignment, and any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.views.describe import describe
from kafka_reassignment.views.listing import list_reassignments
from kafka_reassignment.views.selection import DescribeQuery
from kafka_reassignment_airflow.arguments import read_integer, read_json_text, read_texts
from kafka_reassignment_airflow.running import RunningReassignmentOperator


class ListReassignmentsOperator(RunningReassignmentOperator):
    """List what is in flight, its owners, the current batch and what is left of the plan; the result is JSON values.

    ``in_flight`` of the result is what kafka-reassign-partitions takes. Changes nothing, so nothing is left behind.

    .. seealso:: :class:`~kafka_reassignment_airflow.running.RunningReassignmentOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Return the listing."""
        listing = list_reassignments(run.cluster, run.store, reassignment_id=self.named_id, sleep=run.sleep)
        for line in listing.lines():
            self.log.info("%s", line)
        return listing.as_json()


class DescribeReassignmentOperator(RunningReassignmentOperator):
    """Describe the current batch, or what is chosen; the result is JSON values, the log has the table of replicas.

    Changes nothing, so nothing is left behind.

    :param partitions: partitions to describe, such as ``orders-3``; a list or JSON of one (templated).
    :param topics: topics by name or pattern whose partitions in reassignment are described; a list or JSON of one
        (templated).
    :param reassignment_json: content of a kafka-reassign-partitions file: reports the status of each partition and
        broker in it; a dict or JSON of one (templated).
    :param watch_seconds: how long speeds are measured, in seconds; at least 20, or 0 for no speeds (templated).
    """

    template_fields: Sequence[str] = (
        *RunningReassignmentOperator.template_fields,
        "partitions",
        "topics",
        "reassignment_json",
        "watch_seconds",
    )

    def __init__(
        self,
        *,
        partitions: Sequence[str] | str = (),
        topics: Sequence[str] | str = (),
        reassignment_json: Mapping[str, Any] | str | None = None,
        watch_seconds: int | str = 20,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.topics = topics
        self.reassignment_json = reassignment_json
        self.watch_seconds = watch_seconds

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Return the description."""
        query = DescribeQuery.of(
            reassignment_id=self.named_id,
            partitions=read_texts("partitions", self.partitions),
            topics=read_texts("topics", self.topics),
            reassignment_json=read_json_text(self.reassignment_json),
        )
        found = describe(
            run.cluster,
            run.store,
            query,
            watch_seconds=read_integer("watch_seconds", self.watch_seconds),
            now=run.now,
            sleep=run.sleep,
        )
        for line in (*found.notes, *found.lines()):
            self.log.info("%s", line)
        self.log.info("Replicas:\n%s", found.table)
        return found.as_json()
