"""Describing moves: KIP-240's description of each, and KIP-179's table of their replicas.

Only looks: nothing is written, no hold is needed, and it may run beside a reassignment at any time.

Speeds come from two samples of its own, some seconds apart. The record's progress note would be at hand at once,
but it has sums only, none for another client's moves, and none before the catch-up sensor first looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kafka_reassignment.decisions.describe import (
    ReassignmentDescription,
    describe_step,
    description_lines,
    replica_status,
    status_table,
)
from kafka_reassignment.decisions.move_status import DOUBTFUL
from kafka_reassignment.decisions.progress import Progress, progress
from kafka_reassignment.decisions.samples import (
    MIN_SPEED_WINDOW_SECONDS,
    SPEED_WINDOW_SECONDS,
    Sample,
    measure_replica,
    sample_of,
)
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS, SeenConfigs
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import Batch, ConfigResource, Reassignment, Replicas, Step, TopicPartition, View
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.context import utc_now
from kafka_reassignment.steps.view import REMOTE_STORAGE, observe, observe_twice, tiered
from kafka_reassignment.views.selection import Asked, Selection, choose

Row = tuple[TopicPartition, int | None, str]
"""Of KIP-179's table: partition, broker, status."""


@dataclass(frozen=True, slots=True)
class Description:
    """What was asked for, as it is now."""

    cluster_id: str
    reassignment_id: str | None
    batch: int | None
    batches: int | None
    partitions: tuple[ReassignmentDescription, ...]
    rows: tuple[Row, ...]
    progress: Progress
    notes: tuple[str, ...]

    @property
    def table(self) -> str:
        """KIP-179's table."""
        return status_table(self.rows)

    def lines(self) -> Iterator[str]:
        """Tell people how each move gets on, the whole first."""
        if self.partitions:
            whose = f"batch {self.batch} of {self.batches}, " if self.batch else ""
            yield f"{self.reassignment_id or 'No reassignment of ours'}: {whose}{self.progress}"
        for described in self.partitions:
            yield from description_lines(described)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "cluster_id": self.cluster_id,
            "reassignment_id": self.reassignment_id,
            "batch": self.batch,
            "batches": self.batches,
            "progress": str(self.progress),
            "bytes_left": self.progress.bytes_left,
            "bytes_per_second": self.progress.bytes_per_second,
            "seconds_left": self.progress.seconds_left,
            "partitions": [p.as_json() for p in self.partitions],
            "statuses": [
                {"topic": p.topic, "partition": p.partition, "broker": broker, "status": status}
                for p, broker, status in self.rows
            ],
            "notes": list(self.notes),
        }


def describe(
    cluster: ClusterPort,
    store: RecordStore | None,
    asked: Asked,
    *,
    watch_seconds: float = MIN_SPEED_WINDOW_SECONDS,
    now: Callable[[], datetime] = utc_now,
    sleep: Callable[[float], None] = time.sleep,
) -> Description:
    """Describe the current batch, or what was chosen.

    Each broker is asked once for each sample, however many partitions there are.

    Args:
        cluster: whom to ask.
        store: the records; without them every move is somebody else's.
        asked: what to describe.
        watch_seconds: time between the two samples; with 0 there is only one, and no speed is told.
        now: the time, in UTC.
        sleep: waits between the looks.

    Raises:
        InvalidRequestError: what was asked for cannot be.
        RecordError: there is no record of the reassignment, or the store does not answer.
    """
    if watch_seconds != 0 and not MIN_SPEED_WINDOW_SECONDS <= watch_seconds <= SPEED_WINDOW_SECONDS:
        raise InvalidRequestError(
            f"watch_seconds is {watch_seconds:g}, expected {MIN_SPEED_WINDOW_SECONDS:g} to {SPEED_WINDOW_SECONDS:g}: Kafka's "
            "throttle is too uneven for a speed measured in less. Give 0 for an answer at once, without speeds"
        )
    chosen = choose(cluster, store, asked)
    samples: list[Sample] = []
    if chosen.steps and watch_seconds:
        samples.append(_sample(cluster, chosen, observe(cluster, chosen.partitions), now))
        sleep(watch_seconds)
    view = observe_twice(
        cluster,
        chosen.partitions,
        lambda seen: any(s.status in DOUBTFUL for s in chosen.move_statuses(seen).values()),
        sleep,
    )
    samples.append(_sample(cluster, chosen, view, now))
    configs = _configs(cluster, chosen, view)
    told = progress(
        Batch(1, chosen.steps),
        view,
        samples,
        asked_bytes_per_second=chosen.bytes_per_second,
        remote_storage_topics=tiered(configs),
    )
    return Description(
        cluster_id=chosen.cluster_id,
        reassignment_id=chosen.one.reassignment_id if chosen.one else None,
        batch=chosen.current.batch.number if chosen.current and chosen.current.batch else None,
        batches=chosen.current.batches if chosen.current else None,
        partitions=tuple(_descriptions(chosen, view, told, configs, now())),
        rows=tuple(_rows(cluster, chosen, view, samples)),
        progress=told,
        notes=chosen.notes,
    )


def _sample(cluster: ClusterPort, chosen: Selection, view: View, now: Callable[[], datetime]) -> Sample:
    hosts = {b for s in chosen.steps for b in s.reassignment.expanded}
    hosts |= {b for state in view.partitions.values() for b in state.replicas}
    there = sorted(view.partitions)
    report = cluster.describe_log_dirs(sorted(hosts & view.live_brokers), there)
    return sample_of(report, at_seconds=now().timestamp(), end_offsets=cluster.end_offsets(there))


def _configs(cluster: ClusterPort, chosen: Selection, view: View) -> SeenConfigs:
    brokers = {b for s in chosen.steps for b in s.reassignment.target}
    brokers |= {state.leader for state in view.partitions.values() if state.leader is not None}
    topics = {s.partition.topic for s in chosen.steps}
    resources = [*map(ConfigResource.broker, sorted(brokers)), *map(ConfigResource.topic, sorted(topics))]
    return cluster.describe_configs(resources, [*THROTTLE_KEYS, REMOTE_STORAGE]) if topics else {}


def _descriptions(
    chosen: Selection, view: View, told: Progress, configs: SeenConfigs, at: datetime
) -> Iterator[ReassignmentDescription]:
    move_statuses = chosen.move_statuses(view)
    for step in chosen.steps:
        recorded = chosen.one.recorded_request if chosen.one and step.partition not in chosen.foreign else None
        described = describe_step(
            step,
            view,
            move_statuses[step.partition],
            told.replicas,
            configs,
            reassignment_id=recorded.reassignment_id if recorded else None,
            started_at_seconds=recorded.started_at.timestamp() if recorded else None,
            now_seconds=at.timestamp(),
        )
        if described is not None:
            yield described


def _rows(cluster: ClusterPort, chosen: Selection, view: View, samples: Sequence[Sample]) -> Iterator[Row]:
    missing = {p.topic for p in chosen.partitions if p not in view.partitions}
    whole = replace(view, partitions={**cluster.describe_partitions(sorted(missing)), **view.partitions})
    known = cluster.describe_cluster().brokers.keys() | {b for s in whole.partitions.values() for b in s.replicas}
    behind = dict(_messages_behind(chosen, view, samples))
    targets: dict[TopicPartition, Replicas] = {s.partition: s.reassignment.target for s in chosen.steps}
    for partition in chosen.partitions:
        state = view.partitions.get(partition)
        wanted = chosen.asked.get(partition) or targets.get(partition) or (state.replicas if state else (None,))
        for broker in wanted:
            yield partition, broker, replica_status(partition, broker, whole, known, behind)


def _messages_behind(
    chosen: Selection, view: View, samples: Sequence[Sample]
) -> Iterator[tuple[tuple[TopicPartition, int], int]]:
    steps = {s.partition: s for s in chosen.steps}
    telling = view.live_brokers - samples[-1].unreachable.keys()
    for partition, state in view.partitions.items():
        step = steps.get(partition) or Step(Reassignment(partition, state.replicas, state.replicas))
        for broker in set(state.replicas) & telling - view.in_sync(partition):
            messages = measure_replica(step, broker, state.leader, samples).messages_behind
            if messages is not None:
                yield (partition, broker), messages
