"""The step of ``kafka_throttle``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment_airflow.arguments import read_brokers, read_flag, read_rate
from kafka_reassignment_airflow.running import OrderOperator

BOTH = "both"


class ChangeRateOperator(OrderOperator):
    """Change the rate of a running reassignment at once and for its later batches, journal first (KIP-179).

    The rate that was asked for last wins, by the time of the DAG runs: a retry, or a run that is cleared later, does
    not replace it. In the run of the reassignment itself an order that a person has overtaken is passed over; elsewhere
    it fails.

    Left behind when it dies half-way: the new rate on some brokers, all of it in the journal; the batch's next
    look sets the rest.

    :param throttle_mb_per_second: the new rate of each broker in MB (10^6 bytes) per second, at most 1,000,000
        (templated).
    :param brokers: ids of the brokers whose rate changes; a list or JSON of one (templated). All when empty.
    :param side: what brokers send (``leader``), what they receive (``follower``), or ``both`` (templated).
    :param allow_low_throttle: accept less than 1 MB/s, which Kafka cannot hold accurately (templated).
    """

    template_fields: Sequence[str] = (
        *OrderOperator.template_fields,
        "throttle_mb_per_second",
        "brokers",
        "side",
        "allow_low_throttle",
    )

    def __init__(
        self,
        *,
        throttle_mb_per_second: float | str,
        brokers: Sequence[int] | str = (),
        side: str = BOTH,
        allow_low_throttle: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.throttle_mb_per_second = throttle_mb_per_second
        self.brokers = brokers
        self.side = side
        self.allow_low_throttle = allow_low_throttle

    def run_step(self, run: RunContext, context: Context) -> str:
        """Change it, and return what is in force now."""
        return change_rate(
            run,
            asked_bytes_per_second=read_rate("throttle_mb_per_second", self.throttle_mb_per_second),
            brokers=read_brokers(self.brokers) or None,
            sides=_sides(self.side),
            allow_low=read_flag("allow_low_throttle", self.allow_low_throttle),
            asked_at=context["dag_run"].run_after,
        )


def _sides(side: str) -> tuple[Side, ...]:
    if side == BOTH:
        return tuple(Side)
    if side not in set(Side):
        raise InvalidRequestError(
            f"The argument 'side' is {side[:60]!r}, expected {BOTH}, {' or '.join(Side)}",
            Correct("correct it in the DAG"),
        )
    return (Side(side),)
