"""The process of one step: as a worker's, but for the points at which it stops and asks whether it may go on."""

from __future__ import annotations

import logging
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from tests.faults.plan import Moment
from upath import UPath

from kafka_reassignment.cluster.connect import open_cluster
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import ClusterUnavailableError, ReassignmentError, is_worth_a_retry
from kafka_reassignment.model import ConfigChange, ConfigResource, Refusal, Replicas, TopicPartition
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done, Failed, SizeSamples, Waiting, WaitResult, audited_look
from kafka_reassignment.steps.batch import next_batch, set_throttle, submit_batch
from kafka_reassignment.steps.catch_up import sense_isr_catch_up
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.clear import clear_throttle
from kafka_reassignment.steps.drop import drop_old_replicas
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.verify import verify

GO, LOSE_ANSWER = "go", "lose the answer"

CLIENT = {"socket.timeout.ms": 4_000, "socket.connection.setup.timeout.ms": 1_500}
"""Impatient, so that a seed takes seconds."""

LOOK_SECONDS = 0.3
"""Between two looks of a trigger."""

LOOKS = 40
"""After so many looks the task is woken in any case."""

_T = TypeVar("_T")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_ALL = CancelScope()


@dataclass(frozen=True, slots=True)
class Order:
    """What the process is to do, and where it stops to ask (the nth time it comes by)."""

    step: str
    batch: int | None
    bootstrap_servers: str
    records: str
    cluster_id: str
    reassignment_id: str
    actor: Actor
    started_at: datetime
    arguments: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[tuple[Moment, int], ...] = ()
    file_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """The process has stopped at a point and waits for an answer."""

    moment: Moment
    nth: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How the try ended. ``outcome`` is returned, waiting or failed; ``entered`` says whether the step itself was begun."""

    outcome: str
    value: Any = None
    error: str = ""
    text: str = ""
    retried: bool = False
    entered: bool = False


class Watch:
    """Counts moments, and stops at those that are asked for."""

    def __init__(self, pipe: Connection, order: Order) -> None:
        self._pipe = pipe
        self._points = frozenset(order.points)
        self._seen: Counter[Moment] = Counter()
        self._records = order.records

    def at(self, moment: Moment) -> str:
        """Pass a moment; return what to do."""
        self._seen[moment] += 1
        reached = (moment, self._seen[moment])
        if reached not in self._points:
            return GO
        self._pipe.send(Reached(*reached))
        return str(self._pipe.recv())  # a parent that is gone ends us by EOFError

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hook of the interpreter: opening files to write, renaming and linking them are writes to the record."""
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & _WRITING
        elif event in {"os.rename", "os.link"}:
            path, writes = arguments[0], True
        else:
            return
        if writes and str(path).startswith(self._records):
            self.at(Moment.RECORD)


class WatchedCluster(KafkaCluster):
    """The real adapter; its writes are moments."""

    def __init__(self, settings: ClusterSettings, watch: Watch) -> None:
        super().__init__(settings)
        self._watch = watch

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Replicas | None], **options: Any
    ) -> dict[TopicPartition, Refusal | None]:
        items = list(targets.items())

        def alter(part: Sequence[tuple[TopicPartition, Replicas | None]]) -> dict[TopicPartition, Refusal | None]:
            return super(WatchedCluster, self).alter_reassignments(dict(part), **options)

        return self._written(items, alter)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        return self._written(sorted(changes, key=lambda c: c.resource), super().alter_configs)

    def elect_preferred_leaders(self, partitions: Any) -> dict[TopicPartition, Refusal | None]:
        return self._written(list(partitions), super().elect_preferred_leaders)

    def _written(self, items: list[_T], write: Callable[[list[_T]], dict[Any, Any]]) -> dict[Any, Any]:
        self._watch.at(Moment.BEFORE)
        half = len(items) // 2
        replies = write(items[:half]) if half else {}
        self._watch.at(Moment.HALFWAY)
        replies |= write(items[half:])
        if self._watch.at(Moment.AFTER) == LOSE_ANSWER:
            raise ClusterUnavailableError("The answer was lost on the way; the request may have been applied or not")
        return replies


def run(order: Order, pipe: Connection) -> None:
    """Run one try of one step and tell its end; the entry of the process."""
    logging.basicConfig(level=logging.CRITICAL)
    if order.file_limit is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (order.file_limit, hard))
    watch = Watch(pipe, order)
    sys.addaudithook(watch.on_event)
    ended = _try(order, watch)
    watch.at(Moment.END)
    pipe.send(ended)


def _try(order: Order, watch: Watch) -> Ended:
    watch.at(Moment.START)
    entered = False
    try:
        settings = ClusterSettings.of({"bootstrap.servers": order.bootstrap_servers, **CLIENT}, name="faults")
        open_cluster(settings).close()
        with WatchedCluster(settings, watch) as cluster:
            store = RecordStore(UPath(order.records))
            context = RunContext(
                cluster=cluster,
                store=store,
                record=store.record(order.cluster_id, order.reassignment_id),
                actor=order.actor,
                log=logging.getLogger("faults"),
            )
            entered = True
            value = STEPS[order.step](context, order, watch)
            if isinstance(value, Waiting):
                return Ended("waiting", text=value.reason, entered=True)
            return Ended("returned", value.message if isinstance(value, Done) else value, entered=True)
    except ReassignmentError as error:
        kind = type(error).__name__
        return Ended("failed", error=kind, text=str(error), retried=is_worth_a_retry(error), entered=entered)
    except Exception as error:  # noqa: BLE001 - reported to the parent; Airflow retries what it does not know
        return Ended("failed", error=type(error).__name__, text=str(error), retried=True, entered=entered)


Look = Callable[[RunContext, Order, SizeSamples], WaitResult]


def _waiting_step(name: str, look: Look) -> dict[str, Callable[[RunContext, Order, Watch], Any]]:
    """A step that waits: its task looks once, its trigger now and then until the task is to be woken."""

    def as_task(run: RunContext, order: Order, _: Watch) -> Done | Waiting:
        return audited_look(
            run,
            name,
            lambda: look(run, order, SizeSamples()),
            batch=order.batch,
            started_at=order.started_at,
        )

    def as_trigger(run: RunContext, order: Order, watch: Watch) -> str:
        samples = SizeSamples()
        for _ in range(LOOKS):
            time.sleep(LOOK_SECONDS)
            watch.at(Moment.LOOK)
            try:
                result = look(run, order, samples)
            except ReassignmentError:
                continue
            if isinstance(result, Failed):
                return str(result.error)
            if isinstance(result, Done):
                return result.message
        return "the time is up"

    return {name: as_task, f"watch_{name}": as_trigger}


STEPS: Mapping[str, Callable[[RunContext, Order, Watch], Any]] = {
    "preflight": lambda s, o, _: preflight(s, dict(o.arguments["request"]), "ann"),
    "start_batches": lambda s, _o, _w: first_batch(s),
    **_waiting_step("admit", lambda s, o, kept: admit(s, o.batch or 0, kept)),
    "set_throttle": lambda s, o, _: set_throttle(s, o.batch or 0),
    "submit_batch": lambda s, o, _: submit_batch(s, o.batch or 0),
    **_waiting_step("sense_isr_catch_up", lambda s, o, kept: sense_isr_catch_up(s, o.batch or 0, o.started_at, kept)),
    **_waiting_step("drop_old_replicas", lambda s, o, _: drop_old_replicas(s, o.batch or 0, o.started_at)),
    "clear_throttle": lambda s, o, _: clear_throttle(s, o.batch or 0),
    "start_next_batch": lambda s, o, _: next_batch(s, o.batch or 0),
    "elect_leaders": lambda s, _o, _w: elect_leaders(s),
    "verify": lambda s, _o, _w: verify(s),
    "report": lambda s, _o, _w: write_report(s),
    "stop": lambda s, _o, _w: cancel.stop(s, _ALL, by="bob", reason="the weekend is over"),
    "cancel_moves": lambda s, _o, _w: cancel.cancel_moves(s, _ALL).in_words,
    **_waiting_step("settle_moves", lambda s, o, _: cancel.settle_moves(s, _ALL, o.started_at)),
    "clear_after_stop": lambda s, _o, _w: cancel.clear_after_stop(s, _ALL),
    "report_stop": lambda s, _o, _w: report_stop(s, _ALL),
    "resume": lambda s, _o, _w: resume(s, by="bob"),
    "change_rate": lambda s, o, _: change_rate(s, asked_bytes_per_second=o.arguments["bytes_per_second"]),
    "change_limits": lambda s, o, _: change_limits(s, dict(o.arguments["limits"]), "bob").model_dump(),
}
