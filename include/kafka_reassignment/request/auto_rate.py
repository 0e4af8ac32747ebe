"""Auto rate: within which bounds the rate may follow what is seen of the cluster, and by which signals."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kafka_reassignment.request.names import each_named_once
from kafka_reassignment.request.rate import LOWEST_RATE_MB, MEGABYTE, Rate, no_truth_value

MAX_GROUPS = 50
"""Consumer groups in one request: each is asked for in every look."""

LOWEST_SHARE = 0.25
HIGHEST_SHARE = 2.0
"""The bounds that are not given, by the requested rate."""

TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._\-]+$")]
GroupName = Annotated[str, Field(min_length=1, max_length=1_000)]


class AutoRate(BaseModel):
    """The fields of a request about auto rate; that replicas elsewhere leave the ISR is always a signal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    auto_rate: bool = Field(
        default=False,
        title="Auto rate",
        description=(
            "Begin at the throttle, lower it while producers, consumers or the ISR of other partitions suffer, and raise it "
            "while all is calm."
        ),
    )
    lowest_mb_per_second: Rate | None = Field(
        default=None,
        title="Lowest throttle (MB/s)",
        description="Auto rate does not go below this. Empty: a quarter of the throttle, but at least 1.",
    )
    highest_mb_per_second: Rate | None = Field(
        default=None,
        title="Highest throttle (MB/s)",
        description=(
            "Auto rate does not go above this. Empty: twice the throttle with a canary topic or watched groups, else the throttle."
        ),
    )
    canary_topic: TopicName | None = Field(
        default=None,
        title="Canary topic",
        description="A topic of yours to which auto rate writes small messages (acks=all), to see how long producers wait.",
    )
    canary_limit_ms: int = Field(
        default=500,
        ge=1,
        le=5_000,
        title="Canary limit (ms)",
        description="Lower the throttle when canary messages take longer than this more than once in a look, in milliseconds.",
    )
    watched_groups: tuple[GroupName, ...] = Field(
        default=(),
        max_length=MAX_GROUPS,
        title="Watched groups",
        description="Consumer groups whose lag auto rate watches, one per line.",
    )
    lag_growth_messages: int = Field(
        default=10_000,
        ge=1,
        le=2**53,
        title="Lag growth (messages)",
        description="Lower the throttle when the lag of a watched group has grown by more messages than this.",
    )

    _numbers = field_validator("canary_limit_ms", "lag_growth_messages", mode="before")(no_truth_value)

    @field_validator("watched_groups")
    @classmethod
    def _named_once(cls, groups: tuple[str, ...]) -> tuple[str, ...]:
        return each_named_once(groups)

    @property
    def looks_ahead(self) -> bool:
        """Whether there is a signal that shows pressure before replicas leave the ISR."""
        return self.canary_topic is not None or bool(self.watched_groups)

    def bounds(self, requested_bytes_per_second: int) -> tuple[int, int]:
        """Return the lowest and the highest rate in bytes per second.

        Without a signal that looks ahead the rate is not raised above the requested one, unless a bound says so: an ISR
        shrinks only when the harm is done.
        """
        lowest, highest = self.lowest_mb_per_second, self.highest_mb_per_second
        least = min(requested_bytes_per_second, round(LOWEST_RATE_MB * MEGABYTE))
        share = HIGHEST_SHARE if self.looks_ahead else 1.0
        return (
            max(least, round(requested_bytes_per_second * LOWEST_SHARE))
            if lowest is None
            else round(lowest * MEGABYTE),
            round(requested_bytes_per_second * share) if highest is None else round(highest * MEGABYTE),
        )

    def check(self, throttle_mb_per_second: float | None, *, allow_low: bool) -> None:
        """Check the fields beside the rest of the request.

        Raises:
            ValueError: they do not fit.
        """
        given = [name for name in ("canary_topic", "watched_groups") if getattr(self, name)]
        bounds = {
            "lowest_mb_per_second": self.lowest_mb_per_second,
            "highest_mb_per_second": self.highest_mb_per_second,
        }
        given += [name for name, bound in bounds.items() if bound is not None]
        if not self.auto_rate:
            if given:
                raise ValueError(f"'{given[0]}' belongs to auto rate, which is off; set 'auto_rate', or leave it empty")
            return
        if throttle_mb_per_second is None:
            raise ValueError(
                "auto_rate is set, expected a throttle to begin with, found an unthrottled move; give "
                "'throttle_mb_per_second', or leave 'auto_rate' out"
            )
        lowest, highest = bounds.values()
        if lowest is not None and lowest < LOWEST_RATE_MB and not allow_low:
            raise ValueError(
                f"lowest_mb_per_second is {lowest:g}, expected at least {LOWEST_RATE_MB:g}: Kafka cannot hold a lower "
                "throttle accurately; raise it, or set 'allow_low_throttle' if you accept that"
            )
        if lowest is not None and lowest > throttle_mb_per_second:
            raise ValueError(
                f"lowest_mb_per_second is {lowest:g}, expected at most throttle_mb_per_second (found "
                f"{throttle_mb_per_second:g}): auto rate begins there; lower the bound"
            )
        if highest is not None and highest < throttle_mb_per_second:
            raise ValueError(
                f"highest_mb_per_second is {highest:g}, expected at least throttle_mb_per_second (found "
                f"{throttle_mb_per_second:g}): auto rate begins there; raise the bound"
            )
