"""Throttling moves that other clients started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import Context

from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.throttle_in_flight import throttle_in_flight
from kafka_reassignment_airflow.arguments import read_flag, read_rate, read_texts
from kafka_reassignment_airflow.base import RECORD_OF_NO_REASSIGNMENT, ReassignmentStepOperator, requested_by


class ThrottleInFlightOperator(ReassignmentStepOperator):
    """Throttle moves in flight that other clients started, such as kafka-reassign-partitions or Cruise Control (KIP-73).

    Sets the rates of the brokers that take part, and lists the moving replicas, journal first. The moves of a
    reassignment of this project have their own throttle: ``ChangeRateOperator`` changes its rate, and this operator
    refuses while such a reassignment has the lock of the cluster. Safe to retry, and to run again with another rate; a
    higher one is raised to in eleven seconds, so that brokers do not burst. Of each broker the rate that was asked for
    last wins, by the time of the DAG runs: a retry, or a run that is cleared later, does not replace it. The result
    says what is throttled.

    Left behind, on purpose: the throttle, until its moves have landed. ``SweepThrottlesOperator`` (the DAG
    ``kafka_throttle_sweep``, every hour) then restores what was there before, by the journal in the record of this run.
    Left behind when it dies half-way: part of the throttle, all of it in the journal.

    :param throttle_mb_per_second: what each of the brokers may send, and what it may receive, in MB (10^6 bytes) per
        second, at most 1,000,000 (templated).
    :param partitions: which moves, by partition, such as ``orders-3``; a list or JSON of one (templated).
    :param topics: topics, or patterns of topics, all of whose moves are meant; a list or JSON of one (templated). All
        that is in flight is meant when both are empty.
    :param allow_low_throttle: accept less than 1 MB/s, which Kafka cannot hold accurately (templated).
    :param reassignment_id: the name of its record, by which it locks the cluster (templated). The id of a reassignment
        is refused. A run id alone would not do, as for ``SweepThrottlesOperator``.
    """

    template_fields: Sequence[str] = (
        *ReassignmentStepOperator.template_fields,
        "throttle_mb_per_second",
        "partitions",
        "topics",
        "allow_low_throttle",
    )
    is_of_reassignment: ClassVar[bool] = False

    def __init__(
        self,
        *,
        throttle_mb_per_second: float | str,
        partitions: Sequence[str] | str = (),
        topics: Sequence[str] | str = (),
        allow_low_throttle: bool | str = False,
        reassignment_id: str = RECORD_OF_NO_REASSIGNMENT,
        **kwargs: Any,
    ) -> None:
        super().__init__(reassignment_id=reassignment_id, **kwargs)
        self.throttle_mb_per_second = throttle_mb_per_second
        self.partitions = partitions
        self.topics = topics
        self.allow_low_throttle = allow_low_throttle

    def run_step(self, run: RunContext, context: Context) -> str:
        """Set what is not set yet."""
        return throttle_in_flight(
            run,
            CancelScope(read_texts("partitions", self.partitions), topics=read_texts("topics", self.topics)),
            kafka_conn_id=self.kafka_conn_id,
            asked_bytes_per_second=read_rate("throttle_mb_per_second", self.throttle_mb_per_second),
            allow_low=read_flag("allow_low_throttle", self.allow_low_throttle),
            by=requested_by(context),
            asked_at=context["dag_run"].run_after,
        )
