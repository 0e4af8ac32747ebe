"""Describing moves: KIP-240's description of each, and KIP-179's table of their replicas.

Only reads: no lock of the cluster is needed, and it may run beside a reassignment at any time.

Speeds come from two samples of its own, some seconds apart. The record's progress note has sums only, none for other
clients' moves, and none before the catch-up sensor's first sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kafka_reassignment.decisions.describe import (
    ReassignmentDescription,
    ReplicaStatus,
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
from kafka_reassignment.steps.base.context import utc_now
from kafka_reassignment.steps.base.view import REMOTE_STORAGE, observe, observe_twice, tiered
from kafka_reassignment.views.selection import DescribeQuery, Selection, select

Row = tuple[TopicPartition, int | None, str]
"""Of KIP-179's table: partition, broker, status."""


@dataclass(frozen=True, slots=True)
class Description:
    """The selected moves as they are now."""

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
        """Describe it in words: overall progress, then each move."""
        if self.partitions:
            batch = f"batch {self.batch} of {self.batches}, " if self.batch else ""
            yield f"{self.reassignment_id or 'No reassignment of ours'}: {batch}{self.progress}"
        for described in self.partitions:
            yield from description_lines(described)

    def unknown_of(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return which of these the cluster does not have."""
        unknown = {
            p for p, _, status in self.rows if status in (ReplicaStatus.UNKNOWN_TOPIC, ReplicaStatus.UNKNOWN_PARTITION)
        }
        return [p for p in partitions if p in unknown]

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
    query: DescribeQuery,
    *,
    watch_seconds: float = MIN_SPEED_WINDOW_SECONDS,
    now: Callable[[], datetime] = utc_now,
    sleep: Callable[[float], None] = time.sleep,
) -> Description:
    """Describe the current batch, or what the query names.

    Each broker is asked once for each sample, however many partitions there are.

    Args:
        cluster: the cluster.
        store: the records; without them every move counts as another client's.
        query: what to describe.
        watch_seconds: time between the two samples; with 0 there is only one, and no speed.
        now: the time, in UTC.
        sleep: waits between the looks.

    Raises:
        InvalidRequestError: the query cannot be met.
        RecordError: there is no record of the reassignment, or the store does not answer.
    """
    if watch_seconds != 0 and not MIN_SPEED_WINDOW_SECONDS <= watch_seconds <= SPEED_WINDOW_SECONDS:
        raise InvalidRequestError(
            f"watch_seconds is {watch_seconds:g}, expected {MIN_SPEED_WINDOW_SECONDS:g} to {SPEED_WINDOW_SECONDS:g}: Kafka's "
            "throttle is too uneven for a speed measured in less. Give 0 for an answer at once, without speeds"
        )
    selection = select(cluster, store, query)
    samples: list[Sample] = []
    if selection.steps and watch_seconds:
        samples.append(sample_steps(cluster, selection.steps, observe(cluster, selection.partitions), now))
        sleep(watch_seconds)
    view = observe_twice(
        cluster,
        selection.partitions,
        lambda seen: any(s.status in DOUBTFUL for s in selection.move_statuses(seen).values()),
        sleep,
    )
    samples.append(sample_steps(cluster, selection.steps, view, now))
    configs = _configs(cluster, selection, view)
    overall = progress(
        Batch(1, selection.steps),
        view,
        samples,
        asked_bytes_per_second=selection.bytes_per_second,
        remote_storage_topics=tiered(configs),
    )
    current = selection.current
    return Description(
        cluster_id=selection.cluster_id,
        reassignment_id=selection.reassignment.reassignment_id if selection.reassignment else None,
        batch=current.batch.number if current and current.batch else None,
        batches=current.batches if current else None,
        partitions=tuple(_descriptions(selection, view, overall, configs, now())),
        rows=tuple(_rows(cluster, selection, view, samples)),
        progress=overall,
        notes=selection.notes,
    )


def sample_steps(cluster: ClusterPort, steps: Sequence[Step], view: View, now: Callable[[], datetime]) -> Sample:
    """Measure the replicas of what is moved: one request to each broker that takes part."""
    hosts = {b for s in steps for b in s.reassignment.expanded}
    hosts |= {b for state in view.partitions.values() for b in state.replicas}
    existing = sorted(view.partitions)
    report = cluster.describe_log_dirs(sorted(hosts & view.live_brokers), existing)
    return sample_of(report, at_seconds=now().timestamp(), end_offsets=cluster.end_offsets(existing))


def _configs(cluster: ClusterPort, selection: Selection, view: View) -> SeenConfigs:
    brokers = {b for s in selection.steps for b in s.reassignment.target}
    brokers |= {state.leader for state in view.partitions.values() if state.leader is not None}
    topics = {s.partition.topic for s in selection.steps}
    resources = [*map(ConfigResource.broker, sorted(brokers)), *map(ConfigResource.topic, sorted(topics))]
    return cluster.describe_configs(resources, [*THROTTLE_KEYS, REMOTE_STORAGE]) if topics else {}


def _descriptions(
    selection: Selection, view: View, overall: Progress, configs: SeenConfigs, at: datetime
) -> Iterator[ReassignmentDescription]:
    move_statuses = selection.move_statuses(view)
    request = selection.reassignment.recorded_request if selection.reassignment else None
    for step in selection.steps:
        recorded = None if step.partition in selection.foreign else request
        described = describe_step(
            step,
            view,
            move_statuses[step.partition],
            overall.replicas,
            configs,
            reassignment_id=recorded.reassignment_id if recorded else None,
            started_at_seconds=recorded.started_at.timestamp() if recorded else None,
            now_seconds=at.timestamp(),
        )
        if described is not None:
            yield described


def _rows(cluster: ClusterPort, selection: Selection, view: View, samples: Sequence[Sample]) -> Iterator[Row]:
    missing = {p.topic for p in selection.partitions if p not in view.partitions}
    complete = replace(view, partitions={**cluster.describe_partitions(sorted(missing)), **view.partitions})
    known = cluster.describe_cluster().brokers.keys() | {b for s in complete.partitions.values() for b in s.replicas}
    behind = dict(_messages_behind(selection, view, samples))
    targets: dict[TopicPartition, Replicas] = {s.partition: s.reassignment.target for s in selection.steps}
    for partition in selection.partitions:
        state = view.partitions.get(partition)
        wanted = selection.brokers.get(partition) or targets.get(partition) or (state.replicas if state else (None,))
        for broker in wanted:
            yield partition, broker, replica_status(partition, broker, complete, known, behind)


def _messages_behind(
    selection: Selection, view: View, samples: Sequence[Sample]
) -> Iterator[tuple[tuple[TopicPartition, int], int]]:
    steps = {s.partition: s for s in selection.steps}
    reporting = view.live_brokers - samples[-1].unreachable.keys()
    for partition, state in view.partitions.items():
        step = steps.get(partition) or Step(Reassignment(partition, state.replicas, state.replicas))
        for broker in set(state.replicas) & reporting - view.in_sync(partition):
            messages = measure_replica(step, broker, state.leader, samples).messages_behind
            if messages is not None:
                yield (partition, broker), messages
