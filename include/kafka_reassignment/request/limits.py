"""KIP-435's limits on a batch: P, R and L, and for how long and how much one batch may copy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from kafka_reassignment.request.messages import parse
from kafka_reassignment.request.rate import no_truth_value

PACES: Mapping[str, Mapping[str, int]] = {
    "gentle": {"batch_minutes": 5, "partition_movements": 100, "replica_movements": 1, "leader_movements": 100},
    "normal": {"batch_minutes": 15, "partition_movements": 500, "replica_movements": 1, "leader_movements": 500},
    "fast": {"batch_minutes": 60, "partition_movements": 2_000, "replica_movements": 2, "leader_movements": 2_000},
}
"""What the limits are that a request leaves open. A pace says how much one batch does, never how fast it copies: that is the rate.

A small batch leaves little to finish or to take back when it is stopped, and few leaders change at once. A large one
spends less of its time between batches. Only the numbers are kept.
"""

UNITS: Mapping[str, int] = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""Decimal, as in every rate here."""

SIZE_TEXT = r"^\s*\d{1,15}(\.\d{1,6})?\s*(kB|MB|GB|TB)\s*$"
"""A size as people write it: ``600 GB``."""


def _size_of(given: object) -> object:
    """Return a text such as ``600 GB`` or ``1.5 TB`` as bytes; anything else as it is.

    Raises:
        ValueError: it is a text of something else.
    """
    if not isinstance(given, str):
        return given
    if len(given) > 50 or not re.match(SIZE_TEXT, given, re.ASCII):
        raise ValueError(f"expected a size such as '600 GB' or '1.5 TB' (units: {', '.join(UNITS)})")
    number, unit = given.strip()[:-2], given.strip()[-2:]
    return int(Decimal(number.strip()) * UNITS[unit])


LARGEST_SIZE = 10**15
"""A petabyte: no batch copies more, and sums of it fit 64 bits."""

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE), BeforeValidator(_size_of)]
"""Bytes, or the text of a size."""


class Limits(BaseModel):
    """KIP-435's limits on what one batch may do, plus for how long and how much it may copy.

    ``pace`` may be given as well, one of ``PACES``: it fills the limits that are not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_minutes: int | None = Field(
        default=15,
        ge=1,
        le=10_080,
        title="Minutes per batch",
        description="How long one batch copies at the throttle, about.",
    )
    partition_movements: int = Field(
        default=500,
        ge=1,
        le=5_000,
        title="Partition movements (P)",
        description="Maximum number of partitions that one batch moves (KIP-435).",
    )
    replica_movements: int = Field(
        default=1,
        ge=1,
        le=100,
        title="Replica movements (R)",
        description="Maximum number of new replicas per partition in one batch (KIP-435).",
    )
    leader_movements: int = Field(
        default=500,
        ge=1,
        le=5_000,
        title="Leader movements (L)",
        description="Maximum number of partitions whose preferred leader one batch changes (KIP-435).",
    )
    batch_bytes: Size | None = Field(
        default=None,
        title="Size of a batch",
        description="How much one batch copies at most, such as 600 GB. The API takes a number of bytes as well. Empty: size does not limit a batch.",
    )
    max_batches: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        title="Maximum batches",
        description="How many batches a plan may have. Batches take longer where their minutes would make more, but no longer than the longest window. If the windows or the other limits need more, the plan is refused.",
    )

    _numbers = field_validator("*", mode="before")(no_truth_value)

    @model_validator(mode="before")
    @classmethod
    def _at_pace(cls, fields: Any) -> Any:  # noqa: ANN401 - whatever was sent
        if not isinstance(fields, dict) or "pace" not in fields:
            return fields
        given = dict(fields)
        pace = given.pop("pace")
        if pace is None:
            return given
        if not isinstance(pace, str) or pace not in PACES:
            raise ValueError(f"'pace' is {str(pace)[:60]!r}, expected {', '.join(PACES)}")
        return {**PACES[pace], **{name: value for name, value in given.items() if value is not None}}


def parse_limits(fields: dict[str, Any]) -> Limits:
    """Read limits by themselves.

    Raises:
        InvalidRequestError: one message for all that is wrong.
    """
    return parse(Limits, fields, subject="The limits")
