"""The request of one reassignment of one cluster, as a form, an API call or a schedule gives it.

The model checks everything that can be checked without the cluster. Its messages name the item, what was expected,
what was found, and the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from kafka_reassignment.errors import name_some
from kafka_reassignment.request.auto_rate import AutoRate
from kafka_reassignment.request.limits import Limits
from kafka_reassignment.request.messages import parse, request_error_class
from kafka_reassignment.request.names import (
    DEFAULT_KAFKA_CONNECTION_ID,
    MAX_NAMES,
    BrokerIds,
    KafkaConnectionId,
    TopicPattern,
    each_named_once,
)
from kafka_reassignment.request.rate import LOWEST_RATE_MB, MEGABYTE, AllowLowThrottle, Rate, no_truth_value
from kafka_reassignment.request.topics import topic_matches
from kafka_reassignment.request.windows.spec import MaintenanceWindows


class Job(StrEnum):
    """What the planner is asked to do."""

    DECOMMISSION = "decommission"
    ADD_BROKERS = "add_brokers"
    REBALANCE = "rebalance"
    REPLICATION_FACTOR = "replication_factor"
    MOVE_TOPICS = "move_topics"
    RESTORE_RACKS = "restore_racks"
    LEADERS = "leaders"
    APPLY_JSON = "apply_json"
    ROLL_BACK = "roll_back"


NAMES_BROKERS = frozenset({Job.DECOMMISSION, Job.ADD_BROKERS, Job.MOVE_TOPICS, Job.REBALANCE})
"""Jobs that look at ``brokers``."""

ALWAYS_BALANCE = frozenset({Job.REBALANCE, Job.ADD_BROKERS})
MAY_BALANCE = frozenset({Job.DECOMMISSION, Job.REPLICATION_FACTOR, Job.RESTORE_RACKS})
"""Jobs that move replicas for balance alone, in every mode or in the mode ``balanced``."""


def balances_bytes(job: Job, mode: str) -> bool:
    """Whether a job moves replicas for balance alone."""
    return job in ALWAYS_BALANCE or (mode == "balanced" and job in MAY_BALANCE)


GROUPS: Mapping[str, type[BaseModel]] = {"limits": Limits, "auto": AutoRate, "maintenance": MaintenanceWindows}
"""Fields that have a model of their own; a form shows what is in them beside the other fields."""

IS_NEW = "is_new"
"""In the context of a validation: whether the request is asked for now, and not read from a record."""

INPUTS: Mapping[str, tuple[str, ...]] = {"limits": ("pace",)}
"""What such a model takes but does not keep."""


def names_in(group: str) -> tuple[str, ...]:
    """Return the names of the fields in one of ``GROUPS``, by which they may be given beside the others."""
    return (*GROUPS[group].model_fields, *INPUTS.get(group, ()))


class ReassignmentRequest(BaseModel):
    """One request. Fields a job does not use must be left empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kafka_conn_id: KafkaConnectionId = DEFAULT_KAFKA_CONNECTION_ID
    job: Job = Field(
        title="Job",
        description=(
            "What to plan: empty brokers (decommission), fill new ones (add_brokers), even out the load (rebalance), change "
            "the number of replicas (replication_factor), move topics to brokers (move_topics), spread replicas over racks "
            "(restore_racks), balance leaders without copies (leaders), apply a plan of your own (apply_json), or revert a "
            "reassignment (roll_back)."
        ),
    )
    brokers: BrokerIds = Field(
        default=(),
        title="Brokers",
        description=(
            "Broker ids, such as 4, 5 or 1-3, 7: those to empty (decommission), to fill (add_brokers), to move to (move_topics) or "
            "to even out (rebalance; empty: all). Other jobs take none."
        ),
    )
    topics: tuple[TopicPattern, ...] = Field(
        default=(),
        max_length=MAX_NAMES,
        title="Topics",
        description="Topics to plan for, by name or pattern, one per line. Empty: every topic.",
    )
    throttle_mb_per_second: Rate | None = Field(
        default=None,
        title="Throttle (MB/s)",
        description=(
            "Rate at which each broker may send and may receive, in MB (10^6 bytes) per second; at least 1. Must be given, "
            "unless 'Unthrottled' (below, under Expert) is set."
        ),
    )
    require_approval: bool = Field(
        default=False,
        title="Require approval",
        description=(
            "Wait until a person approves the plan. Off: a person is asked about a large plan alone (settings approve_from_gb "
            "and approve_from_hours), and never about a roll back."
        ),
    )
    second_approver: bool = Field(
        default=False,
        title="Second approver",
        description="Two different people have to approve, where an approval is asked for.",
    )
    approval_hours: int | None = Field(
        default=None,
        ge=1,
        le=60 * 24,
        title="Hours to answer",
        description="A plan that nobody has approved after this many hours is not carried out: the run fails. Empty: no limit.",
    )
    validate_only: bool = Field(
        default=False, title="Validate only", description="Plan and report what would be done. Move nothing."
    )
    limits: Limits = Limits()
    mode: Literal["fewest_bytes", "balanced"] = Field(
        default="fewest_bytes",
        title="Mode",
        description="For decommission, add_brokers, replication_factor and restore_racks: copy as few bytes as possible, or balance the brokers as well.",
    )
    tolerance: float = Field(
        default=0.10,
        gt=0,
        le=1,
        title="Tolerance (share, up to 1)",
        description="Largest deviation of a broker from its fair load in a balanced cluster: 0.1 is 10 percent.",
    )
    balance_leaders: bool | None = Field(
        default=None,
        title="Balance leaders",
        description="Balance preferred leaders as well. Not set: in rebalance and leaders, and in mode balanced of decommission and add_brokers.",
    )
    replication_factor: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        title="Replication factor",
        description="For replication_factor: number of replicas that each partition will have.",
    )
    reassignment_json: str | None = Field(
        default=None,
        title="Reassignment JSON",
        description="For apply_json: content of a kafka-reassign-partitions file.",
    )
    roll_back_of: str | None = Field(
        default=None,
        min_length=1,
        max_length=250,
        title="Roll back of",
        description="For roll_back: run id of the reassignment whose moves are reverted, newest batch first.",
    )
    supersede: bool = Field(
        default=False,
        title="Supersede",
        description=(
            "Cancel moves in flight that are in the way, and take over from a running reassignment (KIP-236). Not below "
            "Kafka 2.4."
        ),
    )
    exclude_topics: tuple[TopicPattern, ...] = Field(
        default=(),
        max_length=MAX_NAMES,
        title="Exclude topics",
        description="Topics that are not moved, by name or pattern, one per line.",
    )
    exclude_brokers: BrokerIds = Field(
        default=(),
        title="Exclude brokers",
        description="Broker ids, such as 4, 5 or 1-3, 7, that get no new replica. Not for roll_back, which brings back what was there.",
    )
    unthrottled: bool = Field(
        default=False,
        title="Unthrottled",
        description="Move without a throttle. The copies may take all the bandwidth.",
    )
    allow_low_throttle: AllowLowThrottle = False
    allowed_unhealthy_partitions: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        title="Allowed unhealthy partitions",
        description="Start although up to this many partitions are offline, under min ISR or under-replicated.",
    )
    pause_while_unhealthy: bool = Field(
        default=False,
        title="Pause while unhealthy",
        description="Start no further batch while more partitions of the cluster than allowed are unhealthy.",
    )
    mb_per_second_while_unhealthy: Rate | None = Field(
        default=None,
        title="Throttle while unhealthy (MB/s)",
        description="Lower the throttle to this rate while more other partitions than allowed are unhealthy, also during a batch.",
    )
    keep_free_share: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        title="Free share to keep (0 to 1)",
        description="Share of each receiving log dir that must stay free: 0.1 is 10 percent. A batch waits for it.",
    )
    catch_up_timeout_minutes: int = Field(
        default=24 * 60,
        ge=1,
        le=60 * 24 * 60,
        title="Catch-up timeout (minutes)",
        description="Time that the new replicas of one batch have to join the ISR, in minutes. Copies that need longer at their rate have twice what they need.",
    )
    wait_for_broker_minutes: int = Field(
        default=10,
        ge=1,
        le=60 * 24 * 60,
        title="Wait for a broker (minutes)",
        description="Time for which a batch that has nothing else to do waits for a dead broker, or for one whose log dir has failed. Then the rest goes on.",
    )
    expected_cluster_id: str | None = Field(
        default=None,
        max_length=250,
        title="Expected cluster id",
        description="Refuse to run on any cluster with another id.",
    )
    spark_conn_id: str | None = Field(
        default=None,
        max_length=250,
        title="Spark connection",
        description="Airflow connection of any type, such as Generic: its host is the master for the planner, its extra has settings of Spark. Empty: the worker plans (local[*]).",
    )
    auto: AutoRate = AutoRate()
    maintenance: MaintenanceWindows = MaintenanceWindows()

    _numbers = field_validator(
        "approval_hours",
        "tolerance",
        "replication_factor",
        "allowed_unhealthy_partitions",
        "keep_free_share",
        "catch_up_timeout_minutes",
        "wait_for_broker_minutes",
        mode="before",
    )(no_truth_value)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, fields: Any) -> Any:  # noqa: ANN401 - whatever was sent
        """Accept limits, auto rate and maintenance windows flat, as a form shows them, beside the other fields.

        Raises:
            ValueError: a field is given in both ways, with two values: nobody can tell which one is meant.
        """
        if not isinstance(fields, dict):
            return fields
        gathered = dict(fields)
        for group in GROUPS:
            flat = {name: gathered.pop(name) for name in names_in(group) if name in fields}
            inside = fields.get(group, {})
            if not flat or not isinstance(inside, dict):
                continue
            for name, value in flat.items():
                if inside.get(name) not in (None, value):
                    raise ValueError(
                        f"'{name}' is given twice: {str(value)[:60]!r}, and {str(inside[name])[:60]!r} in '{group}'; give it once"
                    )
            gathered[group] = inside | flat
        return gathered

    @field_validator("brokers", "exclude_brokers", "topics", "exclude_topics")
    @classmethod
    def _named_once(cls, items: tuple[Any, ...]) -> tuple[Any, ...]:
        return each_named_once(items)

    @model_validator(mode="after")
    def _fits_the_job(self, info: ValidationInfo) -> Self:
        of_new = self._faults_of_new() if (info.context or {}).get(IS_NEW) else ()
        if faults := [*self._faults_of_job(), *self._faults_of_rate(), *of_new]:
            raise ValueError("; ".join(faults))
        return self

    def _faults_of_job(self) -> Iterator[str]:
        needs: dict[Job, tuple[str, ...]] = {
            Job.DECOMMISSION: ("brokers",),
            Job.ADD_BROKERS: ("brokers",),
            Job.REPLICATION_FACTOR: ("topics", "replication_factor"),
            Job.MOVE_TOPICS: ("topics", "brokers"),
            Job.APPLY_JSON: ("reassignment_json",),
            Job.ROLL_BACK: ("roll_back_of",),
        }
        for name in needs.get(self.job, ()):
            if not getattr(self, name):
                yield f"job '{self.job}' needs '{name}', found none; fill it in"
        for name, job in (
            ("reassignment_json", Job.APPLY_JSON),
            ("replication_factor", Job.REPLICATION_FACTOR),
            ("roll_back_of", Job.ROLL_BACK),
        ):
            if getattr(self, name) is not None and self.job is not job:
                yield (
                    f"'{name}' belongs to job '{job}' only, found it with '{self.job}'; "
                    "leave it empty or change the job"
                )

    def _faults_of_rate(self) -> Iterator[str]:
        rate, slower_rate = self.throttle_mb_per_second, self.mb_per_second_while_unhealthy
        if not self.unthrottled and rate is None:
            yield (
                "no throttle: expected 'throttle_mb_per_second' (at least 1), or 'unthrottled' set to true "
                "when moves may take all the bandwidth there is"
            )
        if self.unthrottled and rate is not None:
            yield f"both 'throttle_mb_per_second' ({rate:g}) and 'unthrottled' are given; choose one"
        for name, given in (("throttle_mb_per_second", rate), ("mb_per_second_while_unhealthy", slower_rate)):
            if given is not None and given < LOWEST_RATE_MB and not self.allow_low_throttle:
                yield (
                    f"{name} is {given:g}, expected at least {LOWEST_RATE_MB:g}: Kafka cannot hold lower "
                    "rates accurately; raise it, or set 'allow_low_throttle' if you accept that"
                )
        if slower_rate is not None and (rate is None or slower_rate >= rate):
            yield (
                f"mb_per_second_while_unhealthy is {slower_rate:g}, expected less than throttle_mb_per_second (found "
                f"{'none' if rate is None else f'{rate:g}'}): the throttle is lowered to it while the cluster is unhealthy"
            )
        try:
            self.auto.check(rate, allow_low=self.allow_low_throttle)
        except ValueError as fault:
            yield str(fault)

    def _faults_of_new(self) -> Iterator[str]:
        """Faults of a request that is asked for now: one that an earlier version has recorded stays readable."""
        if (
            self.expected_cluster_id == ""
        ):  # it would guard nothing, such as where a variable that it comes from is not set
            yield (
                "'expected_cluster_id' is empty, expected the id of a cluster; fill it in, or leave the field out where any "
                "cluster will do"
            )
        if self.brokers and self.job not in NAMES_BROKERS:
            yield (
                f"job '{self.job}' takes no 'brokers', found {name_some(self.brokers)}; leave it empty, or, to keep brokers free "
                "of new replicas, name them in 'exclude_brokers'"
            )
        if self.job is Job.ROLL_BACK and self.exclude_brokers:
            yield (
                f"'exclude_brokers' cannot be kept by job '{Job.ROLL_BACK}', found {name_some(self.exclude_brokers)}: each "
                "partition goes back to the replicas that it had, wherever they were; leave it empty, or, to leave topics where "
                "they are, name them in 'exclude_topics'"
            )

    @property
    def throttle_bytes_per_second(self) -> int | None:
        """The rate each broker may send and may receive at; None when unthrottled."""
        return None if self.throttle_mb_per_second is None else round(self.throttle_mb_per_second * MEGABYTE)

    @property
    def bytes_per_second_while_unhealthy(self) -> int | None:
        """The rate while more partitions are unhealthy than allowed; None when the rate is not lowered."""
        return (
            None if self.mb_per_second_while_unhealthy is None else round(self.mb_per_second_while_unhealthy * MEGABYTE)
        )

    @property
    def balances_leaders(self) -> bool:
        """Whether leaders are balanced by reordering: by default in the jobs that balance."""
        if self.balance_leaders is not None:
            return self.balance_leaders
        return self.job in {Job.REBALANCE, Job.LEADERS} or (
            self.mode == "balanced" and self.job in {Job.DECOMMISSION, Job.ADD_BROKERS}
        )

    def as_fields(self, *, include: set[str] | None = None, exclude: set[str] | None = None) -> dict[str, Any]:
        """Return the fields that are not as by default, all of them flat, as a form or an API call has them."""
        asked = self.model_dump(mode="json", exclude_defaults=True, include=include, exclude=exclude)
        gathered = [asked.pop(name, {}) for name in GROUPS]
        return {name: value for fields in (asked, *gathered) for name, value in fields.items()}

    def asks_about(self, topic: str) -> bool:
        """Whether a topic is meant: by a name or pattern of ``topics``, or by none being given, and not excluded."""
        wanted = not self.topics or topic_matches(topic, self.topics)
        return wanted and not topic_matches(topic, self.exclude_topics)


def parse_request(
    fields: dict[str, Any], *, subject: str = "The request", is_recorded: bool = False
) -> ReassignmentRequest:
    """Read a request from the form or the API; a field that is None counts as left out.

    Args:
        fields: by name.
        subject: begins the error's message: which request, where there are several.
        is_recorded: it was accepted earlier; what an earlier version took stays so.

    Raises:
        InvalidThrottleError: what is wrong is the rate.
        DuplicatePartitionError: a broker or topic is named twice.
        InvalidReplicationFactorError: what is wrong is the replication factor.
        InvalidRequestError: anything else; each time one message for all that is wrong. Also where the job cannot keep
            what is asked for.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    context = {IS_NEW: not is_recorded}
    return parse(ReassignmentRequest, given, subject=subject, error_class=request_error_class, context=context)
