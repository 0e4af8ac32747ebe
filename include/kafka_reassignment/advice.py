"""What to do about an error, as data: the error's message has it in words, and a program can carry it out.

Every error of a reassignment that has begun ends with advice which, carried out literally and in order, leads on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

DAG_ID = "kafka_reassignment"
BATCH_DAG_ID = "kafka_reassignment_batch"
CANCEL_DAG_ID = "kafka_reassignment_cancel"
RESUME_DAG_ID = "kafka_reassignment_resume"
LIMITS_DAG_ID = "kafka_reassignment_limits"
THROTTLE_DAG_ID = "kafka_throttle"
DESCRIBE_DAG_ID = "kafka_reassignment_describe"
SWEEP_DAG_ID = "kafka_throttle_sweep"
MAINTENANCE_DAG_ID = "kafka_maintenance_window"
PARTITION_COUNT_DAG_ID = "kafka_partition_count"

RUNNING = "running"
"""Instead of a reassignment id, where one must be named: the reassignment that has the lock of the cluster, whatever its id."""

MOST_SHOWN = 100
"""Characters of a parameter that the words show; the data has all of them."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """Clear a task and what follows it, in the run of a batch or (without ``batch``) in the run of the reassignment.

    A task of the run that the error is of, as one of ``kafka_reassignment_cancel``, is cleared there.

    ``reassignment_id`` names another reassignment than the one that the error is about.
    """

    task: str
    batch: int | None = None
    reassignment_id: str | None = None
    do: Literal["rerun"] = "rerun"

    def __str__(self) -> str:
        where = "" if self.batch is None else f" of batch {self.batch}"
        whose = "" if self.reassignment_id is None else f" of reassignment {self.reassignment_id}"
        return f"rerun {self.task}{where}{whose} and what follows"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Trigger a DAG with these params; the others keep their defaults."""

    dag_id: str
    params: Mapping[str, Any] = field(default_factory=dict)
    do: Literal["trigger"] = "trigger"

    def __str__(self) -> str:
        given = ", ".join(f"{name} {_shortened(value)}" for name, value in self.params.items())
        return f"trigger {self.dag_id}" + (f" with {given}" if given else "")


def _shortened(value: object) -> str:
    text = str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class StartBrokers:
    """Bring brokers back."""

    brokers: tuple[int, ...]
    do: Literal["start brokers"] = "start brokers"

    def __str__(self) -> str:
        return f"bring broker {', '.join(map(str, self.brokers))} back"


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Wait for what ends without this reassignment; ``what`` ends a sentence that begins with "wait until"."""

    what: str
    do: Literal["wait until"] = "wait until"

    def __str__(self) -> str:
        return f"wait until {self.what}"


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Take the lock of a cluster from a reassignment whose run is gone, by the command line.

    With ``number`` by force, from any owner: that of the lock's object, which may be damaged.
    """

    cluster_id: str
    reassignment_id: str = ""
    number: int | None = None
    do: Literal["release lock"] = "release lock"

    def __str__(self) -> str:
        whose = self.reassignment_id if self.number is None else f"--force --number {self.number}"
        return f"unlock the cluster with 'kafka-reassignment lock release {self.cluster_id} {whose}'"


@dataclass(frozen=True, slots=True)
class Correct:
    """Change what a person gave or set up; ``what`` is a whole clause that begins with a verb."""

    what: str
    do: Literal["correct"] = "correct"

    def __str__(self) -> str:
        return self.what


def with_connection(advice: Advice, kafka_conn_id: str) -> Advice:
    """Return the advice for the cluster behind a connection; the sweep is for all clusters unless one is named."""
    if not isinstance(advice, Trigger) or advice.dag_id == SWEEP_DAG_ID:
        return advice
    return Trigger(advice.dag_id, {"kafka_conn_id": kafka_conn_id, **advice.params})


Advice: TypeAlias = Rerun | Trigger | StartBrokers | WaitUntil | ReleaseLock | Correct

_ADVICE: TypeAdapter[tuple[Advice, ...]] = TypeAdapter(tuple[Annotated[Advice, Field(discriminator="do")], ...])


def sentence(advice: Sequence[Advice]) -> str:
    """Return the advice as one sentence without its full stop, in order; empty when there is none."""
    text = ", then ".join(str(item) for item in advice)
    return text[:1].upper() + text[1:]


def advice_as_data(advice: Sequence[Advice]) -> list[dict[str, Any]]:
    """Return advice as an audit event keeps it."""
    data: list[dict[str, Any]] = _ADVICE.dump_python(tuple(advice), mode="json")
    return data


def advice_from_data(data: object) -> tuple[Advice, ...]:
    """Return the advice of an audit event; none for an event of an earlier version, which kept none."""
    return _ADVICE.validate_python(data or ())
