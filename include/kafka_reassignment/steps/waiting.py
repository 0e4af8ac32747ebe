"""How a look of a waiting step ends, and what is kept between looks.

Four steps wait: the admission of a batch, the catch-up of its ISR, the chain of batches, and settling after a cancel. Each
is one function that looks, does what is due (the throttle, the rate, the progress note) and returns ``Done``, ``Waiting``
or ``Failed``. The task calls it and so does the task's trigger, so that both decide alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

from kafka_reassignment.decisions.samples import Sample, sample_of
from kafka_reassignment.errors import ReassignmentError, is_worth_a_retry
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.steps.context import RunContext

LONGEST_WAIT = timedelta(days=7)
"""A task that may wait for ever looks by itself that often: maintenance windows may be weeks apart."""

KEPT_SECONDS = 120.0
"""How long a sample of sizes is kept: speeds are measured over the last minute."""


@dataclass(frozen=True, slots=True)
class Done:
    """There is nothing left to wait for."""

    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The step waits for something that can pass. The task looks by itself at ``until`` at the latest."""

    reason: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Failed:
    """Waiting longer is of no use; the error says what is."""

    error: ReassignmentError


WaitResult: TypeAlias = Done | Waiting | Failed

P = ParamSpec("P")


def waiting_step(look: Callable[P, WaitResult]) -> Callable[P, WaitResult]:
    """Turn an error that no later look can change into ``Failed``; raise the others, because the next look may succeed."""

    @wraps(look)
    def looked(*args: P.args, **kwargs: P.kwargs) -> WaitResult:
        try:
            return look(*args, **kwargs)
        except ReassignmentError as error:
            if is_worth_a_retry(error):
                raise
            return Failed(error)

    return looked


def audited_look(
    run: RunContext,
    step: str,
    look: Callable[[], WaitResult],
    *,
    batch: int | None = None,
    started_at: datetime,
) -> Done | Waiting:
    """Look once on behalf of a task: the audit event is left when the wait is over.

    Raises:
        ReassignmentError: the step has failed.
    """
    with run.audited(step, batch, started_at=started_at) as event:
        match look():
            case Failed(error):
                raise error
            case Waiting() as result:
                event.is_dropped = True
            case Done() as result:
                event.summary, event.facts = result.message, dict(result.facts)
        return result


class SizeSamples:
    """The sizes of replicas that one task or trigger saw; speeds are measured between its looks.

    A task or trigger that looks several times passes the same object each time. ``clock`` is in seconds and must not jump.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: list[Sample] = []

    @property
    def seen(self) -> tuple[Sample, ...]:
        """In order of time."""
        return tuple(self._samples)

    def take(self, cluster: ClusterPort, brokers: Collection[int], partitions: Collection[TopicPartition]) -> None:
        """Ask brokers for the sizes of partitions."""
        report = cluster.describe_log_dirs(sorted(brokers), partitions)
        now = self._clock()
        self._samples = [s for s in self._samples if s.at_seconds > now - KEPT_SECONDS]
        self._samples.append(sample_of(report, at_seconds=now))
