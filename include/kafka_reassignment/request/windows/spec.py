"""The maintenance windows of a request: when batches may start, and when they must have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self

from pendulum import Timezone
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from kafka_reassignment.request.windows.clock import first_moment, format_moment, zone_named
from kafka_reassignment.request.windows.rules import YEARS, Blackout, Rule, Weekly, parse_blackout, parse_window

WindowText = Annotated[str, Field(min_length=1, max_length=200)]

TimeText = Annotated[datetime, WithJsonSchema({"type": "string"})]
"""A time as people write it, which JSON Schema's ``date-time`` refuses: ``2026-03-14 22:00`` is in ``time_zone``."""


_EARLIEST = datetime(YEARS[0], 1, 1, tzinfo=UTC) - timedelta(days=1)
_LATEST = datetime(YEARS[-1] + 1, 1, 1, tzinfo=UTC) + timedelta(days=1)
"""Every time in ``YEARS`` on the clocks of any time zone is between these. What was taken once can be read back in UTC."""


class MaintenanceWindows(BaseModel):
    """When a reassignment may move data; always when no field is given.

    Times without an offset are on the clocks of ``time_zone``. Windows that touch or overlap are one window (see
    ``parse_window``). A blackout closes every window. It also applies when there is no window.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time_zone: str = Field(
        default="UTC",
        min_length=1,
        max_length=100,
        title="Time zone",
        description="IANA name of the time zone that windows, blackouts and times are written in, such as Europe/Madrid.",
    )
    windows: tuple[WindowText, ...] = Field(
        default=(),
        max_length=50,
        title="Windows",
        description=(
            "When batches may run, one window per line: sat 22:00-04:00, mon-fri 01:00-05:00, "
            "cron 0 22 * * sat#1 for 6 h. Empty: at any time."
        ),
    )
    blackouts: tuple[WindowText, ...] = Field(
        default=(),
        max_length=500,
        title="Blackouts",
        description="Days without moves, one per line: 2026-12-24, or 2026-12-24 to 2027-01-06.",
    )
    not_before: TimeText | None = Field(
        default=None, title="Not before", description="No batch starts earlier: 2026-12-05 22:00."
    )
    must_end_by: TimeText | None = Field(
        default=None, title="Must end by", description="No batch starts that would end later: 2026-12-06 06:00."
    )

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        return zone_named(name).name

    @field_validator("windows")
    @classmethod
    def _windows_can_be_read(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            parse_window(text)
        return texts

    @field_validator("blackouts")
    @classmethod
    def _blackouts_can_be_read(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            parse_blackout(text)
        return texts

    @field_validator("not_before", "must_end_by", mode="before")
    @classmethod
    def _read_time(cls, given: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - whatever was sent
        """Refuse a date without a time: it could mean the start of the day or the end."""
        if given is None:
            return None
        expected = f"{info.field_name}: expected a time such as '2026-03-14 22:00' or '2026-03-14T22:00+01:00'"
        try:
            read = datetime.fromisoformat(given.strip()) if isinstance(given, str) else given
        except ValueError:
            read = None
        if not isinstance(read, datetime) or (isinstance(given, str) and ":" not in given):
            raise ValueError(f"{expected}, found {given!r}; write the day and the time")
        if not (_EARLIEST <= read < _LATEST if read.tzinfo else read.year in YEARS):
            raise ValueError(f"{expected}, found the year {read.year}; correct it")
        if read.tzinfo is not None:
            return read.astimezone(UTC)
        if "time_zone" not in info.data:
            raise ValueError(f"{info.field_name}: cannot be read without a known time zone; correct that first")
        return first_moment(read, zone_named(info.data["time_zone"]))

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.not_before is not None and self.must_end_by is not None and self.not_before >= self.must_end_by:
            raise ValueError(
                f"not_before ({format_moment(self.not_before, self.zone)}): expected a time before must_end_by, found that "
                f"to be {format_moment(self.must_end_by, self.zone)}; move one of them"
            )
        return self

    @property
    def zone(self) -> Timezone:
        """The zone whose clocks count."""
        return zone_named(self.time_zone)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """When windows open; empty when any time will do."""
        return tuple(rule for text in self.windows for rule in parse_window(text))

    @property
    def is_at_any_time(self) -> bool:
        """Whether nothing restricts when a batch may run."""
        return not self.has_windows and self.not_before is None and self.must_end_by is None

    @property
    def has_windows(self) -> bool:
        """Whether batches may start at some times only."""
        return bool(self.windows or self.blackouts)

    @property
    def longest_seconds(self) -> float | None:
        """How long the longest window is by itself; None when there is none. Windows that touch are longer together."""
        lengths = [rule.length if isinstance(rule, Weekly) else rule.duration for rule in self.rules]
        return max(lengths).total_seconds() if lengths else None

    @property
    def blackout_days(self) -> tuple[Blackout, ...]:
        """The blackouts, by their first day."""
        return tuple(sorted(map(parse_blackout, self.blackouts), key=lambda b: (b.first, b.last)))
