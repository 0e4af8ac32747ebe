"""The steps of ``kafka_throttle`` and ``kafka_reassignment_limits``: changes to a reassignment while it runs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.request import Limits
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment_airflow.base import RunningReassignmentOperator, requested_by

BOTH = "both"


class ChangeRateOperator(RunningReassignmentOperator):
    """Change the rate at once and for later batches, journal first (KIP-179).

    Left behind when it dies half-way: the new rate on some brokers, all of it in the journal; the batch's next
    look sets the rest.
    """

    def run_step(self, run: RunContext, context: Context) -> str:
        """Change it, and return what holds now."""
        params = context["params"]
        side = params["side"]
        return change_rate(
            run,
            megabytes_per_second=params["throttle_mb_per_second"],
            brokers=params.get("brokers") or None,
            sides=tuple(Side) if side == BOTH else (Side(side),),
            allow_low=params["allow_low_throttle"],
        )


class ChangeLimitsOperator(RunningReassignmentOperator):
    """Change KIP-435's limits from the next batch on; what is not filled in stays."""

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Order them, and return those that hold then."""
        changes = {name: context["params"].get(name) for name in Limits.model_fields}
        return change_limits(run, changes, requested_by(context)).model_dump()
