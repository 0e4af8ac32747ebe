"""How a look of a waiting step ends, and what is kept between looks.

Six steps wait: the throttle before the first batch, the admission of a batch, the catch-up of its ISR, the drop of its
old replicas, the chain of batches, and settling after a cancel. Each is one function that looks, does what is due (the
throttle, the rate, a drop, the progress note) and returns ``Done``, ``Waiting`` or ``Failed``. The task calls it and so
does the task's trigger, so that both decide alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias

from kafka_reassignment.advice import Rerun
from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.decisions.samples import Sample, sample_of
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import (
    CatchUpTimeoutError,
    ReassignmentError,
    RecordError,
    RecordUnavailableError,
    is_worth_a_retry,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.steps.base.context import RunContext

LONGEST_WAIT = timedelta(days=7)
"""A task that may wait for ever looks by itself that often: maintenance windows may be weeks apart."""

STORE_AWAY = timedelta(minutes=10)
"""While the record's store does not answer, the task looks by itself that often: the request is in the store."""

COPIES_TIMES = 2
"""A batch may copy for this many times what its copies take at the rate in force: partitions grow, and brokers carry less than their rate."""

KEPT_SECONDS = 120.0
"""How long a sample of sizes is kept: speeds are measured over the last minute."""


@dataclass(frozen=True, slots=True)
class Done:
    """There is nothing left to wait for; ``is_skipped`` when there was nothing to do either."""

    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_skipped: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """The step waits for something that can pass. The task looks by itself at ``until`` at the latest.

    ``seconds_left`` is when it is expected to have passed, where that is known.
    """

    reason: str
    until: datetime
    seconds_left: float | None = None


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


def bounded_step(
    look: Callable[Concatenate[RunContext, int, datetime, P], WaitResult],
) -> Callable[Concatenate[RunContext, int, datetime, P], WaitResult]:
    """Let a step of a batch wait for a passing error to pass, within the time that the request allows it.

    The step takes the run, the number of its batch, and when the wait began. A final error makes it ``Failed``.
    """

    @wraps(look)
    def looked(run: RunContext, number: int, started_at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> WaitResult:
        try:
            return look(run, number, started_at, *args, **kwargs)
        except ReassignmentError as error:
            return _until_it_passes(run, number, started_at, error) if is_worth_a_retry(error) else Failed(error)

    return looked


def deadline_of(run: RunContext, started_at: datetime, copying: int | None = None) -> datetime:
    """Return until when a step of a batch that began to wait then may wait: the request says how long.

    What copies as fast as it was asked to is not late. So a batch that copies has ``COPIES_TIMES`` the time that its
    copies take at the rate in force, where that is longer; it is looked up once the time of the request is over.

    Args:
        run: of the reassignment.
        started_at: when the wait began.
        copying: the number of the batch, where it copies.
    """
    deadline = started_at + timedelta(minutes=run.request.catch_up_timeout_minutes)
    if copying is None or run.now() < deadline:
        return deadline
    rate = rate_in_force(run.request, run.record.journal())
    if not rate:
        return deadline
    planned = read_summary(run.record.plan_refs()(copying)).batches[copying - 1].busiest_bytes / rate
    return max(deadline, started_at + timedelta(seconds=COPIES_TIMES * planned))


def minutes_until(deadline: datetime, started_at: datetime) -> int:
    """Return the minutes that a step had until its deadline, for people."""
    return round((deadline - started_at).total_seconds() / 60)


def _until_it_passes(run: RunContext, number: int, started_at: datetime, error: ReassignmentError) -> WaitResult:
    try:
        deadline = deadline_of(run, started_at, copying=number)
    except RecordUnavailableError:  # the store is away, so nobody can say how long to wait
        return Waiting(str(error), until=run.now() + STORE_AWAY)
    except RecordError:  # nobody can say how long its copies take
        deadline = deadline_of(run, started_at)
    if run.now() < deadline:
        return Waiting(str(error), until=deadline)
    waited = f"Batch {number} waited {minutes_until(deadline, started_at)} min in vain: {error}"
    return Failed(CatchUpTimeoutError(waited, Rerun("sense_isr_catch_up", batch=number)))


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
                event.outcome = "skipped" if result.is_skipped else event.outcome
        return result


class SizeSamples:
    """The sizes of replicas that one task or trigger saw; speeds are measured between its looks.

    A task or trigger that looks several times passes the same object each time. ``clock`` is in seconds and must not
    jump.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: list[Sample] = []

    @classmethod
    def by_clock_of(cls, run: RunContext) -> SizeSamples:
        """Return an empty one whose clock is that of the run."""
        now = run.now
        return cls(lambda: now().timestamp())

    @property
    def seen(self) -> tuple[Sample, ...]:
        """In order of time."""
        return tuple(self._samples)

    def has_seen_within(self, seconds: float) -> bool:
        """Whether the latest sample is that fresh."""
        return bool(self._samples) and self._clock() - self._samples[-1].at_seconds <= seconds

    def begin_with(self, sizes: Mapping[TopicPartition, Mapping[int, int]], *, seconds_ago: float) -> None:
        """Take over what was seen before the first look: sizes by partition and broker."""
        self._samples = [Sample(self._clock() - seconds_ago, sizes)]

    def take(
        self,
        cluster: ClusterPort,
        brokers: Collection[int],
        partitions: Collection[TopicPartition],
        rates_set: Mapping[tuple[int, Side], int] | None = None,
        leaders: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Ask brokers for the sizes of partitions; keep them with the values of the rates that are set, and with who leads."""
        report = cluster.describe_log_dirs(sorted(brokers), partitions)
        now = self._clock()
        before = self._samples[-1] if self._samples else None
        self._samples = [s for s in self._samples if s.at_seconds > now - KEPT_SECONDS]
        self._samples.append(sample_of(report, at_seconds=now, rates_set=rates_set, leaders=leaders, before=before))
