"""A target assignment that a person brings along as a kafka-reassign-partitions JSON."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kafka_reassignment.decisions.batching.columns import ABSENT
from kafka_reassignment.errors import (
    InfeasiblePlanError,
    InvalidReplicationFactorError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    name_some,
)
from kafka_reassignment.plan.columns import ELEMENT, longs, matrix
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.steps import adding
from kafka_reassignment.planner.measure import measure
from kafka_reassignment.planner.rounds import Assignment, Loads, ordered, scope_band
from kafka_reassignment.planner.scope import Scope
from kafka_reassignment.planner.shards import with_bucket
from kafka_reassignment.planner.snapshot import Snapshot

GIVEN = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("target", pa.list_(ELEMENT), nullable=False),
    ]
)
"""The JSON as a table: one row per partition that it names."""


def given_assignment(session: SparkSession, facts: DataFrame, scope: Scope, snapshot: Snapshot) -> Assignment:
    """Take the request's JSON as the target, after checking it against the snapshot.

    In: ``FACTS``.

    Raises:
        InvalidPlanFileError: the JSON is malformed; and its kin for what ``parse_plan`` refuses.
        UnknownTopicOrPartitionError: it names a partition that does not exist.
        UnknownBrokerError: it names a broker that is not there, or would copy to one that is not alive.
        InvalidReplicationFactorError: it leaves a partition with fewer replicas than min.insync.replicas.
        InfeasiblePlanError: a broker has no space for the copies it would get.
    """
    given = _given_table(scope.request.reassignment_json or "")
    rows = session.createDataFrame(given).join(facts, ["topic", "partition"], "left").toArrow()
    unknown = ordered(rows.filter(rows["replicas"].is_null()))
    if len(unknown):
        names = zip(unknown["topic"].to_pylist(), unknown["partition"].to_pylist(), strict=True)
        raise UnknownTopicOrPartitionError(
            f"The reassignment JSON names {len(unknown)} partitions that do not exist "
            f"({name_some(f'{t}-{p}' for t, p in names)}): expected partitions of the cluster. Take them out, or "
            "create them first."
        )
    columns = [rows["topic"], rows["partition"], rows["replicas"], rows["target"], rows["size_bytes"].fill_null(0)]
    wish = ordered(pa.table([c.cast(f.type) for c, f in zip(columns, TARGET, strict=True)], schema=TARGET))
    _check_brokers(wish, scope)
    _check_space(wish, scope)
    _check_replication_factors(wish, snapshot)
    current, target = matrix(wish["current"]), matrix(wish["target"])
    width = max(current.shape[1], target.shape[1])
    differs = (_widened(current, width) != _widened(target, width)).any(axis=1)
    changes = wish.filter(pa.array(differs))
    measures = measure(with_bucket(facts), scope.fleet)
    before = Loads(measures.bytes, measures.replicas, measures.leaders)
    after = before.after(changes, scope.fleet)
    return Assignment(changes, measures, before, after, scope_band(scope, measures), lower_bound=0)


def _given_table(text: str) -> pa.Table:
    plan = parse_plan(text)
    columns = [[p.topic for p in plan], [p.partition for p in plan], list(plan.values())]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, GIVEN, strict=True)], schema=GIVEN)


def _check_brokers(wish: pa.Table, scope: Scope) -> None:
    fleet = scope.fleet
    target = matrix(wish["target"])
    named = np.unique(target[target != ABSENT])
    unknown = named[~np.isin(named, fleet.ids)]
    if len(unknown):
        raise UnknownBrokerError(
            f"The reassignment JSON names broker {name_some(unknown.tolist())}, which is not part of the cluster: "
            f"expected some of {name_some(fleet.ids.tolist(), 10)}. Correct the JSON."
        )
    current = matrix(wish["current"])
    new = (target != ABSENT) & ~(target[:, :, None] == current[:, None, :]).any(axis=2)
    dead = fleet.ids[~fleet.alive]
    to_dead = np.unique(target[new & np.isin(target, dead)])
    if len(to_dead):
        raise UnknownBrokerError(
            f"The reassignment JSON gives new replicas to broker {name_some(to_dead.tolist())}, which is not alive: "
            "they would never join the ISR. Start it, or correct the JSON."
        )


def _check_space(wish: pa.Table, scope: Scope) -> None:
    fleet = scope.fleet
    new = adding(matrix(wish["current"]), matrix(wish["target"]))
    coming = new != ABSENT
    size = np.broadcast_to(longs(wish["size_bytes"])[:, None], new.shape)
    received = np.zeros(fleet.size, dtype=np.int64)
    np.add.at(received, fleet.index_of(new)[coming], size[coming])
    short = np.flatnonzero(received > scope.free)
    if len(short):
        told = (
            f"broker {fleet.ids[b]} gets {received[b] / 1e9:.3f} GB and has room for {scope.free[b] / 1e9:.3f} GB"
            for b in short.tolist()
        )
        raise InfeasiblePlanError(
            f"The reassignment JSON brings more than the disks can take while both copies are there: {name_some(told)}, with "
            f"{scope.request.keep_free_share:.0%} of each log dir's volume kept free ('keep_free_share') and the log dirs of a broker "
            "filled alike. Free space there, keep less free, or name other brokers."
        )


def _check_replication_factors(wish: pa.Table, snapshot: Snapshot) -> None:
    least = dict(zip(*(snapshot.topics[c].to_pylist() for c in ("topic", "min_insync_replicas")), strict=True))
    minimum = np.array([least.get(topic) or 1 for topic in wish["topic"].to_pylist()])
    low = wish.filter(pa.array((matrix(wish["target"]) != ABSENT).sum(axis=1) < minimum))
    if len(low):
        columns = (low[name].to_pylist() for name in ("topic", "partition", "target"))
        told = (f"{t}-{p}: {len(r)} below {least[t]}" for t, p, r in zip(*columns, strict=True))
        raise InvalidReplicationFactorError(
            f"The reassignment JSON leaves {len(low)} partitions with fewer replicas than min.insync.replicas "
            f"({name_some(told)}): producers with acks=all would be refused for ever. Name more replicas, or lower "
            "min.insync.replicas of those topics first."
        )


def _widened(rows: np.ndarray, width: int) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=ABSENT)
