"""The step of ``kafka_reassignment_limits``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from kafka_reassignment.request import Limits
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment_airflow.arguments import read_json
from kafka_reassignment_airflow.base import requested_by
from kafka_reassignment_airflow.running import OrderOperator


class ChangeLimitsOperator(OrderOperator):
    """Change KIP-435's limits of a running reassignment from its next batch on; what is None or empty stays as it is.

    The limits that were asked for last win, by the time of the DAG runs: a retry, or a run that is cleared later, does
    not replace them. In the run of the reassignment itself an order that a person has overtaken is passed over;
    elsewhere it fails.

    Changes nothing in the cluster. Left behind when it dies half-way: nothing, or the order for the next batch. The
    result is the limits that are in force from then on.

    :param pace: ``gentle``, ``normal`` or ``fast``: changes those of the next four that are not given (templated).
    :param batch_minutes: how long one batch copies, about (templated).
    :param partition_movements: P, partitions moved at once (templated).
    :param replica_movements: R, new replicas per partition at once (templated).
    :param leader_movements: L, preferred leaders changed per batch (templated).
    :param batch_bytes: how much one batch copies at most, in bytes or as ``600 GB`` (templated).
    :param max_batches: how many batches a plan may have (templated).
    """

    template_fields: Sequence[str] = (*OrderOperator.template_fields, "pace", *Limits.model_fields)

    def __init__(
        self,
        *,
        pace: str | None = None,
        batch_minutes: int | str | None = None,
        partition_movements: int | str | None = None,
        replica_movements: int | str | None = None,
        leader_movements: int | str | None = None,
        batch_bytes: int | str | None = None,
        max_batches: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pace = pace
        self.batch_minutes = batch_minutes
        self.partition_movements = partition_movements
        self.replica_movements = replica_movements
        self.leader_movements = leader_movements
        self.batch_bytes = batch_bytes
        self.max_batches = max_batches

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Order them, and return those in force from the next batch on."""
        changes = {name: read_json(getattr(self, name)) for name in ("pace", *Limits.model_fields)}
        asked_at = context["dag_run"].run_after
        return change_limits(run, changes, requested_by(context), asked_at=asked_at).model_dump()
