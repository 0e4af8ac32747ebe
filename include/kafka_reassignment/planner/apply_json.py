"""Job ``apply_json``: the target assignment is a kafka-reassign-partitions JSON that comes with the request."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.apply_json import check_targets
from kafka_reassignment.decisions.batching.columns import ABSENT
from kafka_reassignment.errors import InfeasiblePlanError, name_some
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.plan.columns import ELEMENT, replica_matrix
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.planner.measure import measure
from kafka_reassignment.planner.resolve import ResolvedRequest
from kafka_reassignment.planner.rounds import Assignment, Loads, band_of, copies_to, ordered
from kafka_reassignment.planner.shards import Facts
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.planner.space import short_of_space
from kafka_reassignment.text import format_bytes

JSON_TARGETS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("target", pa.list_(ELEMENT), nullable=False),
    ]
)
"""The JSON as a table: one row per partition that it names."""


def assignment_from_json(
    session: SparkSession, facts: Facts, resolved: ResolvedRequest, snapshot: Snapshot
) -> Assignment:
    """Take the request's JSON as the target, after checking it against the snapshot.

    Raises:
        InvalidPlanFileError: the JSON is malformed; see ``parse_plan`` for its other errors.
        UnknownTopicOrPartitionError, UnknownBrokerError, InvalidRequestError, InvalidReplicationFactorError: see
            ``check_targets``.
        InfeasiblePlanError: a broker is cordoned, or has no space for the copies it would get.
    """
    request, fleet = resolved.request, resolved.fleet
    targets = parse_plan(request.reassignment_json or "")
    rows = session.createDataFrame(_json_table(targets)).join(facts.frame, ["topic", "partition"], "inner").toArrow()
    columns = [rows["topic"], rows["partition"], rows["replicas"], rows["target"], rows["size_bytes"].fill_null(0)]
    named = ordered(pa.table([c.cast(f.type) for c, f in zip(columns, TARGET, strict=True)], schema=TARGET))
    names = ("topic", "partition", "current")
    check_targets(
        targets,
        current={
            TopicPartition(topic, partition): tuple(replicas)
            for topic, partition, replicas in zip(*(named[name].to_pylist() for name in names), strict=True)
        },
        live_brokers=frozenset(fleet.ids[fleet.alive].tolist()),
        min_insync_replicas=snapshot.min_insync_replicas,
        asks_about=request.asks_about,
        excluded_brokers=request.exclude_brokers,
        # This job names no brokers, so a live one takes replicas unless it is excluded, which was refused before, or
        # cordoned.
        cordoned_brokers=frozenset(fleet.ids[fleet.alive & ~fleet.takes].tolist()),
    )
    _check_space(named, resolved)
    current, target = replica_matrix(named["current"]), replica_matrix(named["target"])
    width = max(current.shape[1], target.shape[1])
    differs = (_widened(current, width) != _widened(target, width)).any(axis=1)
    changes = named.filter(pa.array(differs))
    measures = measure(facts, fleet)
    before = Loads(measures.bytes, measures.replicas, measures.leaders)
    after = before.after(changes, fleet)
    copied = int(copies_to(changes, fleet)[1].sum())  # nobody else can make that plan with fewer bytes
    return Assignment(changes, measures, before, after, band_of(resolved, measures), lower_bound=copied)


def _json_table(targets: Mapping[TopicPartition, Replicas]) -> pa.Table:
    columns = [[p.topic for p in targets], [p.partition for p in targets], list(targets.values())]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, JSON_TARGETS, strict=True)], schema=JSON_TARGETS)


def _check_space(named: pa.Table, resolved: ResolvedRequest) -> None:
    fleet = resolved.fleet
    receivers, sizes = copies_to(named, fleet)
    received, largest = np.zeros(fleet.size, dtype=np.int64), np.zeros(fleet.size, dtype=np.int64)
    np.add.at(received, receivers, sizes)
    np.maximum.at(largest, receivers, sizes)
    short = np.flatnonzero(short_of_space(received, largest, resolved.free, fleet.log_dirs))
    if len(short):
        shortages = (
            f"broker {fleet.ids[b]} gets {format_bytes(received[b])}, the largest copy {format_bytes(largest[b])}, and has room "
            f"for {format_bytes(resolved.free[b])}, in each log dir {format_bytes(resolved.free[b] // fleet.log_dirs[b])}"
            for b in short.tolist()
        )
        raise InfeasiblePlanError(
            f"The reassignment JSON brings more than the disks can take while both copies are there: {name_some(shortages)}, with "
            f"{resolved.request.keep_free_share:.0%} of each log dir's volume kept free ('keep_free_share') and the log dirs of a broker "
            "filled alike",
            Correct("free space there, keep less free, or name other brokers"),
        )


def _widened(rows: np.ndarray, width: int) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=ABSENT)
