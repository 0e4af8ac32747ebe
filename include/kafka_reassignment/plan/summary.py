"""A plan in numbers: what people approve by, and what tools check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from kafka_reassignment.decisions.batching import NOBODY, StepColumns
from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.plan.columns import distinct_in_rows, longs, replica_matrix
from kafka_reassignment.plan.hash import plan_hash
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.versioned import Versioned


class BrokerSummary(BaseModel):
    """One broker before and after; ``share_bytes`` is its fair share afterwards, None for brokers that take no part.

    ``bytes_sent_alone`` is the part of ``bytes_sent`` that no other replica could send: no other one is alive and
    stays.
    """

    model_config = ConfigDict(frozen=True)

    broker: int
    rack: str | None
    alive: bool
    share_bytes: int | None
    bytes_before: int
    bytes_after: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_received: int
    bytes_sent: int
    bytes_sent_alone: int = 0


class BatchSummary(BaseModel):
    """One batch: how much it moves, and how evenly; ``busiest_…`` are of one broker in this batch."""

    model_config = ConfigDict(frozen=True)

    number: int
    steps: int
    bytes_to_copy: int
    leader_movements: int
    receivers: int
    senders: int
    busiest_receiver_bytes: int
    busiest_sender_bytes: int
    steps_hash: str

    @property
    def busiest_bytes(self) -> int:
        """What its busiest sender or receiver copies: that decides how long the batch takes."""
        return max(self.busiest_receiver_bytes, self.busiest_sender_bytes)


class LogDirSummary(BaseModel):
    """One log dir: its volume's size and free bytes now (None where not reported), and the most that is copied to it."""

    model_config = ConfigDict(frozen=True)

    broker: int
    path: str
    total_bytes: int | None
    free_bytes: int | None
    bytes_to_take: int

    @property
    def free_at_peak(self) -> int | None:
        """Free bytes when every copy is complete and no source is deleted."""
        return None if self.free_bytes is None else self.free_bytes - self.bytes_to_take


class MoveSummary(BaseModel):
    """One partition that changes; ``bytes_to_copy`` counts all its new replicas."""

    model_config = ConfigDict(frozen=True)

    topic: str
    partition: int
    current: tuple[int, ...]
    target: tuple[int, ...]
    bytes_to_copy: int


class PlanSummary(Versioned):
    """A plan; ``plan_hash`` identifies it.

    ``lower_bound_bytes``: no plan that reaches the goal copies less (racks and sizes left aside). ``biggest_moves``:
    those that copy most, in that order. ``racks`` are those of the brokers in a plan that no planner made: it has no
    ``brokers``. ``producers_wait`` are topics whose producers with acks=all wait for their copies, ``below_min_insync``
    those of which nothing moves. ``fewer_racks`` are the partitions whose replicas will be in fewer racks than now.
    ``outside_before`` and ``outside_after`` count brokers outside the tolerance around their fair share.
    """

    model_config = ConfigDict(extra="ignore")

    job: Job
    mode: str
    tolerance: float
    plan_hash: str
    partitions_in_cluster: int
    partitions: int
    bytes_to_copy: int
    lower_bound_bytes: int
    leader_changes: int
    outside_before: int
    outside_after: int
    seconds_at_rate: int | None
    brokers: tuple[BrokerSummary, ...]
    batches: tuple[BatchSummary, ...]
    log_dirs: tuple[LogDirSummary, ...]
    biggest_moves: tuple[MoveSummary, ...]
    assumptions: tuple[str, ...]
    left_unbalanced: tuple[str, ...]
    factor_changes: tuple[str, ...] = ()
    producers_wait: tuple[str, ...] = ()
    below_min_insync: tuple[str, ...] = ()
    fewer_racks: int = 0
    racks: dict[int, str | None] = Field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no batch is needed."""
        return not self.batches

    @property
    def rack_of(self) -> dict[int, str | None]:
        """The rack of each broker by its id; empty where it is not known."""
        return {b.broker: b.rack for b in self.brokers} or self.racks


def seconds_at_rate(batches: Iterable[BatchSummary], bytes_per_second: int | None) -> int | None:
    """Estimate the time of the copies alone: batch after batch, each as long as its busiest broker takes."""
    if bytes_per_second is None:
        return None
    return round(sum(b.busiest_bytes for b in batches) / bytes_per_second)


def summary_of_batches(
    request: ReassignmentRequest,
    batches: tuple[BatchSummary, ...],
    changes: pa.Table,
    *,
    partitions_in_cluster: int,
    min_insync_replicas: Mapping[str, int] | None = None,
    assumptions: tuple[str, ...] = (),
    racks: Mapping[int, str | None] | None = None,
) -> PlanSummary:
    """Return the summary of a plan that no planner made: its batches and its target (``TARGET``) are known, and no loads of brokers."""
    copied = sum(b.bytes_to_copy for b in batches)
    producers_wait, below_min_insync = short_of_min_insync(changes, min_insync_replicas or {})
    return PlanSummary(
        job=request.job,
        mode=request.mode,
        tolerance=request.tolerance,
        plan_hash=plan_hash(b.steps_hash for b in batches),
        partitions_in_cluster=partitions_in_cluster,
        partitions=len(changes),
        bytes_to_copy=copied,
        lower_bound_bytes=copied,
        leader_changes=sum(b.leader_movements for b in batches),
        outside_before=0,
        outside_after=0,
        seconds_at_rate=seconds_at_rate(batches, request.throttle_bytes_per_second),
        brokers=(),
        batches=batches,
        log_dirs=(),
        biggest_moves=(),
        assumptions=assumptions,
        left_unbalanced=(),
        factor_changes=factor_changes(changes),
        producers_wait=producers_wait,
        below_min_insync=below_min_insync,
        fewer_racks=fewer_racks(changes, racks or {}),
        racks=dict(racks or {}),
    )


def factor_changes(changes: pa.Table) -> tuple[str, ...]:
    """Say by topic how replication factors change, and where the partitions of one topic will have different ones.

    In: ``TARGET``.
    """
    lengths = {name: pc.list_value_length(changes[side]) for name, side in (("before", "current"), ("after", "target"))}
    table = pa.table({"topic": changes["topic"], **lengths})
    counted = table.group_by(["topic", "before", "after"]).aggregate([([], "count_all")]).to_pylist()
    found: dict[str, list[str]] = {}
    factors: dict[str, set[int]] = {}
    for row in sorted(counted, key=lambda r: (r["topic"], r["before"], r["after"])):
        factors.setdefault(row["topic"], set()).add(row["after"])
        if row["before"] != row["after"]:
            what = f"{row['count_all']} partitions from replication factor {row['before']} to {row['after']}"
            found.setdefault(row["topic"], []).append(what + (" (fewer)" if row["after"] < row["before"] else ""))
    for topic, after in factors.items():
        if len(after) > 1:
            mixed = f"its partitions will have different replication factors: {', '.join(map(str, sorted(after)))}"
            found.setdefault(topic, []).append(mixed)
    return tuple(f"{topic}: {'; '.join(texts)}" for topic, texts in sorted(found.items()))


def fewer_racks(changes: pa.Table, rack_of: Mapping[int, str | None]) -> int:
    """Count the partitions whose replicas will be in fewer racks than they are now, and than they could be in with so many replicas.

    Args:
        changes: ``TARGET``.
        rack_of: by broker, its rack; one that names none counts for no rack.
    """
    named = sorted({rack for rack in rack_of.values() if rack is not None})
    place = {rack: number for number, rack in enumerate(named)}
    ids = np.array(sorted(b for b, rack in rack_of.items() if rack is not None), dtype=np.int64)
    if not len(ids):
        return 0
    racks = np.array([place[rack] for b in ids.tolist() if (rack := rack_of[b]) is not None], dtype=np.int64)

    def racks_of(side: str) -> Longs:
        brokers = replica_matrix(changes[side])
        at = np.searchsorted(ids, brokers).clip(0, len(ids) - 1)
        return distinct_in_rows(np.where(ids[at] == brokers, racks[at], ABSENT))

    could_be_in = np.minimum(racks_of("current"), longs(pc.list_value_length(changes["target"])))
    return int((racks_of("target") < could_be_in).sum())


def short_of_min_insync(changes: pa.Table, least: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say by topic where producers with acks=all wait for the copies, and what is not moved, because of ``min.insync.replicas``.

    Brokers ask for that many replicas in sync, at most for as many as there are; and a new replica counts from the
    submission on (``Partition.effectiveMinIsr``, 4.3.1). So producers wait for the copy of a partition that has fewer
    replicas than that. Where replicas are taken away, and fewer than that are left, nothing is moved at all.

    Args:
        changes: ``TARGET``.
        least: ``min.insync.replicas`` by topic, where known.
    """
    topics = [topic for topic, minimum in least.items() if minimum > 1]
    minimum = pa.array([least[t] for t in topics], pa.int64()).take(
        pc.index_in(changes["topic"].combine_chunks(), pa.array(topics, pa.string()))
    )
    fewest = pc.min_element_wise(*(pc.list_value_length(changes[side]) for side in ("current", "target")))
    wait: dict[str, list[int]] = {}
    stay: dict[str, list[int]] = {}
    for row in changes.filter(pc.less(fewest, minimum)).to_pylist():
        current, target = set(row["current"]), set(row["target"])
        if current - target and len(target) < least[row["topic"]]:
            stay.setdefault(row["topic"], []).append(len(target))
        elif target - current and len(current) < least[row["topic"]]:
            wait.setdefault(row["topic"], []).append(len(current))
    return _each_topic(wait, least), _each_topic(stay, least)


def _each_topic(found: Mapping[str, list[int]], least: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        f"{topic} ({len(numbers)} partitions with {' or '.join(map(str, sorted(set(numbers))))} of {least[topic]})"
        for topic, numbers in sorted(found.items())
    )


def batch_summaries(steps: StepColumns, numbers: Longs, batch_hashes: tuple[str, ...]) -> tuple[BatchSummary, ...]:
    """Sum up each batch.

    Args:
        steps: what batching got.
        numbers: by step, the number of its batch, from 1.
        batch_hashes: by batch.
    """
    count = len(batch_hashes)
    copies = steps.receivers != NOBODY
    received = _busiest_by_batch(
        np.broadcast_to(numbers[:, None], copies.shape)[copies],
        steps.receivers[copies],
        np.broadcast_to(steps.size[:, None], copies.shape)[copies],
        count,
    )
    sends = steps.sender != NOBODY
    sent = _busiest_by_batch(numbers[sends], steps.sender[sends], steps.bytes_to_copy[sends], count)
    total = np.zeros(count + 1, dtype=np.int64)
    np.add.at(total, numbers, steps.bytes_to_copy)
    movements = np.bincount(numbers, weights=steps.moves_leader, minlength=count + 1)
    size = np.bincount(numbers, minlength=count + 1)
    return tuple(
        BatchSummary(
            number=n,
            steps=int(size[n]),
            bytes_to_copy=int(total[n]),
            leader_movements=int(movements[n]),
            receivers=int(received[0][n]),
            busiest_receiver_bytes=int(received[1][n]),
            senders=int(sent[0][n]),
            busiest_sender_bytes=int(sent[1][n]),
            steps_hash=batch_hashes[n - 1],
        )
        for n in range(1, count + 1)
    )


def _busiest_by_batch(numbers: Longs, brokers: Longs, amounts: Longs, count: int) -> tuple[Longs, Longs]:
    """By batch: how many brokers take part, and the bytes of the busiest."""
    width = int(brokers.max(initial=0)) + 1
    pairs, inverse = np.unique(numbers * width + brokers, return_inverse=True)
    sums = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(sums, inverse, amounts)
    batch = pairs[sums > 0] // width
    most = np.zeros(count + 1, dtype=np.int64)
    np.maximum.at(most, batch, sums[sums > 0])
    return np.bincount(batch, minlength=count + 1), most
