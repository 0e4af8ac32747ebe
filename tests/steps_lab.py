"""One reassignment with its record and a frozen plan, on any cluster: its steps without Spark and Airflow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from upath import UPath

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource, Reassignment, Replicas, Step, TopicPartition
from kafka_reassignment.plan.hash import target_hash
from kafka_reassignment.plan.schemas import STEPS, TARGET
from kafka_reassignment.plan.steps import batching_columns
from kafka_reassignment.plan.store import write_batches, write_summary, write_target
from kafka_reassignment.plan.summary import batch_summaries, summary_of_batches
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import ClusterLock, FrozenPlan, RecordedRequest
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done, Failed, SizeSamples, Waiting, WaitResult, audited_look
from kafka_reassignment.steps.batch import BATCH_STEPS, next_batch, set_throttle, submit_batch
from kafka_reassignment.steps.cancel import cancel_moves, clear_after_stop, settle_moves, stop
from kafka_reassignment.steps.catch_up import sense_isr_catch_up
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.clear import clear_throttle
from kafka_reassignment.steps.drop import drop_old_replicas
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.stopped.settle import CancelResult
from kafka_reassignment.steps.verify import verify

WHOLE = CancelScope()
"""All of a reassignment."""

_STEPS: dict[str, Callable[..., object]] = {
    step.__name__: step for step in (set_throttle, submit_batch, clear_throttle, next_batch)
}

OWN_STEPS = BATCH_STEPS[:-1]
"""The steps of a batch without the one that starts the next batch."""


class ProcessDiedError(BaseException):
    """What a SIGKILL looks like from inside a test."""


class StillWaiting(Exception):  # noqa: N818 - no error: the step has to be looked at again
    """A step returned ``Waiting``; the text is its reason."""


def require_done(result: WaitResult | object) -> None:
    """Raise what a waiting step returned, unless it is done."""
    if isinstance(result, Waiting):
        raise StillWaiting(result.reason)
    if isinstance(result, Failed):
        raise result.error


@dataclass
class Clock:
    """A clock that only sleeping moves."""

    now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)
    on_sleep: list[Callable[[], None]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        for hook in self.on_sleep:
            hook()


class WallClock:
    """The real time, for real brokers."""

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Run:
    """A reassignment whose plan is frozen; steps are run as Airflow would run them.

    ``store`` and ``record`` are opened for each use, as each task opens its own: nothing that one has read is known to
    the next.
    """

    def __init__(
        self,
        cluster: ClusterPort,
        folder: UPath,
        batches: list[list[Step]],
        *,
        reassignment_id: str = "r",
        clock: Clock | WallClock | None = None,
        **request: object,
    ) -> None:
        self.cluster = cluster
        self.cluster_id = cluster.describe_cluster().cluster_id
        self.clock = clock or Clock()
        self.folder = folder
        self.reassignment_id = reassignment_id
        self.last = len(batches)
        asked = ReassignmentRequest.model_validate({"job": Job.REBALANCE, "throttle_mb_per_second": 10, **request})
        self.record.write_request(
            RecordedRequest(
                cluster_id=self.cluster_id,
                reassignment_id=reassignment_id,
                started_at=self.clock.now,
                requested_by="ann",
                request=asked,
            )
        )
        self.store.acquire(
            self.cluster_id, ClusterLock(reassignment_id=reassignment_id, since=self.clock.now, requested_by="ann")
        )
        self.record.freeze_plan(write_plan(self.record.plan_uri, batches, frozen_at=self.clock.now))
        self.tries = 0
        self.when_waiting: Callable[[], None] = lambda: time.sleep(0.5)

    @property
    def store(self) -> RecordStore:
        return RecordStore(self.folder)

    @property
    def record(self) -> Record:
        return self.store.record(self.cluster_id, self.reassignment_id)

    @record.setter
    def record(self, other: Record) -> None:
        self.reassignment_id = other.reassignment_id

    @property
    def context(self) -> RunContext:
        return self.context_of(self.record)

    def context_of(self, record: Record) -> RunContext:
        """One try of a step of this or another reassignment of the same cluster."""
        self.tries += 1
        return RunContext(
            cluster=self.cluster,
            store=self.store,
            record=self.store.record(record.cluster_id, record.reassignment_id),
            actor=Actor(requested_by="ann", try_number=self.tries),
            log=logging.getLogger("tests"),
            now=lambda: self.clock.now,
            sleep=self.clock.sleep,
        )

    def do(self, name: str, batch: int = 1) -> object:
        """Run one step once, as its task does.

        Raises:
            StillWaiting: it has to be looked at again.
        """
        if name in _STEPS:
            return _STEPS[name](self.context, batch)
        return self.wait(name, batch)

    def wait(self, name: str, batch: int = 1, *, started_at: datetime | None = None) -> None:
        """Look once at what a step of a batch waits for, as its task does.

        Raises:
            StillWaiting: it has to be looked at again.
        """
        began, run = started_at or self.clock.now, self.context
        require_done(
            audited_look(run, name, lambda: self.look(name, batch, started_at=began), batch=batch, started_at=began)
        )

    def look(
        self, name: str, batch: int = 1, *, started_at: datetime | None = None, samples: SizeSamples | None = None
    ) -> WaitResult:
        """Look once at what a step of a batch waits for, as its trigger does."""
        kept = samples or SizeSamples()
        if name == "admit":
            return admit(self.context, batch, kept, started_at)
        if name == "drop_old_replicas":
            return drop_old_replicas(self.context, batch, started_at or self.clock.now)
        return sense_isr_catch_up(self.context, batch, started_at or self.clock.now, kept)

    def do_all(self, *names: str, batch: int = 1) -> None:
        """Run steps in order; a sensor is looked at until it is done."""
        for name in names or OWN_STEPS:
            self.until_done(lambda name=name: self.do(name, batch))

    def settle(self, scope: CancelScope, *, started_at: datetime | None = None) -> None:
        """Look and act once to settle what was stopped.

        Raises:
            StillWaiting: something is not settled.
        """
        require_done(settle_moves(self.context, scope, started_at or self.clock.now))

    def stop_all(self, scope: CancelScope = WHOLE) -> CancelResult:
        """Do what the tasks of ``kafka_reassignment_cancel`` do; return what was cancelled at once."""
        stop(self.context, scope, by="bob", reason="weekend is over")
        outcome = cancel_moves(self.context, scope)
        self.until_settled(scope)
        clear_after_stop(self.context, scope)
        report_stop(self.context, scope)
        return outcome

    def until_settled(self, scope: CancelScope) -> Done:
        """Look and act until what was stopped is settled."""
        while not isinstance(result := settle_moves(self.context, scope, self.clock.now), Done):
            if isinstance(result, Failed):
                raise result.error
            self.when_waiting()
        return result

    def until_done(self, sensor: Callable[[], object]) -> None:
        """Look until there is nothing more to wait for."""
        while True:
            try:
                require_done(sensor())
                return
            except StillWaiting:
                self.when_waiting()

    def run_batches(self) -> None:
        """Run batch after batch, as the chain of batch runs does."""
        number = self.start()
        while number is not None:
            self.do_all(batch=number)
            number = next_batch(self.context, number)

    def finish(self) -> None:
        elect_leaders(self.context)
        verify(self.context)
        write_report(self.context)

    def start(self) -> int | None:
        return first_batch(self.context)

    def configs(self, *topics: str):
        brokers = sorted(self.cluster.describe_cluster().brokers)
        resources = [*map(ConfigResource.broker, brokers), *map(ConfigResource.topic, topics)]
        return self.cluster.describe_configs(resources, THROTTLE_KEYS)

    def replicas(self) -> dict[str, Replicas]:
        return {str(p): s.replicas for p, s in sorted(self.cluster.describe_partitions().items())}


def right_after(cluster: ClusterPort, call: str, then: Callable[[], object]) -> None:
    """Do something once, right after the next answer to this call."""
    answer = getattr(cluster, call)

    def late(*args: Any, **kwargs: Any) -> object:
        seen = answer(*args, **kwargs)
        if getattr(cluster, call) is late:
            delattr(cluster, call)
            then()
        return seen

    setattr(cluster, call, late)


def move(topic: str, partition: int, current: Replicas, target: Replicas, size: int = 1_000_000) -> Step:
    return Step(Reassignment(TopicPartition(topic, partition), current, target, size))


def write_plan(plan_dir: str, batches: list[list[Step]], *, frozen_at: datetime) -> FrozenPlan:
    """Write a plan's tables as the planner does, and return it as it is frozen."""
    steps = [s for batch in batches for s in batch]
    numbers = np.array([n for n, batch in enumerate(batches, 1) for _ in batch], dtype=np.int64)
    rows = [
        _row(s.reassignment) | {"step": s.step, "steps": s.steps, "leader_movement": s.reassignment.is_leader_movement}
        for s in steps
    ]
    target = pa.Table.from_pylist(_whole(steps), schema=TARGET)
    write_target(plan_dir, target)
    table = pa.Table.from_pylist(rows, schema=STEPS)
    hashes = write_batches(plan_dir, table, numbers)
    request = ReassignmentRequest.model_validate({"job": "rebalance", "unthrottled": True})
    batch_rows = batch_summaries(batching_columns(table), numbers, hashes)
    summary = summary_of_batches(request, batch_rows, target, partitions_in_cluster=len(target))
    write_summary(plan_dir, summary)
    return FrozenPlan(
        plan_hash=summary.plan_hash,
        batches=len(batches),
        frozen_at=frozen_at,
        target_hash=target_hash(target),
        notes_found=True,
    )


def _whole(steps: Iterable[Step]) -> list[dict[str, object]]:
    first: dict[TopicPartition, Reassignment] = {}
    for s in steps:
        r = s.reassignment
        earlier = first.get(r.partition, r)
        first[r.partition] = Reassignment(r.partition, earlier.current, r.target, r.size_bytes)
    return [_row(r) for _, r in sorted(first.items())]


def _row(r: Reassignment) -> dict[str, object]:
    return {
        "topic": r.partition.topic,
        "partition": r.partition.partition,
        "current": list(r.current),
        "target": list(r.target),
        "size_bytes": r.size_bytes,
    }
