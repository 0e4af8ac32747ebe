"""Planning rounds: measure, set goals, place; and once more where sizes or racks left something over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.errors import InfeasiblePlanError, name_some
from kafka_reassignment.plan.columns import longs, replica_matrix
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.planner.goals import (
    BAND_MARGIN,
    Band,
    Flows,
    Routes,
    balancing_flows,
    fair_shares,
    forced_flows,
    leader_room,
    least_bytes,
)
from kafka_reassignment.planner.measure import Measures, measure
from kafka_reassignment.planner.scope import Scope
from kafka_reassignment.planner.shard_goals import Bounds, Fleet, ShardGoals
from kafka_reassignment.planner.shards import IMPOSSIBLE, of_shard, placed, shards_for, with_bucket


@dataclass(frozen=True)
class Loads:
    """What each broker holds: bytes, replicas, leaderships."""

    bytes: Longs
    replicas: Longs
    leaders: Longs

    def after(self, changes: pa.Table, fleet: Fleet) -> Loads:
        """The loads once the changes (``TARGET``) are made."""
        size = longs(changes["size_bytes"])
        loads = Loads(self.bytes.copy(), self.replicas.copy(), self.leaders.copy())
        for column, sign in (("current", -1), ("target", 1)):
            replicas = fleet.index_of(replica_matrix(changes[column]))
            present = replicas != ABSENT
            np.add.at(loads.bytes, replicas[present], sign * np.broadcast_to(size[:, None], present.shape)[present])
            np.add.at(loads.replicas, replicas[present], sign)
            np.add.at(loads.leaders, replicas[present[:, 0], 0], sign)
        return loads


@dataclass(frozen=True)
class Assignment:
    """A target assignment: the partitions that change (``TARGET``, ordered) and the numbers around it."""

    changes: pa.Table
    measures: Measures
    before: Loads
    after: Loads
    band: Band
    lower_bound: int


def assign(facts: DataFrame, scope: Scope) -> Assignment:
    """Find the target assignment of a placing job.

    In: ``FACTS``.

    Raises:
        InfeasiblePlanError: for some partition no valid broker is left.
    """
    measures = measure(with_bucket(facts), scope.fleet, restore_racks=scope.restores_racks)
    before = Loads(measures.bytes, measures.replicas, measures.leaders)
    band = scope_band(scope, measures)
    staying = Loads(
        measures.bytes - measures.leaving_bytes, measures.replicas, measures.leaders - measures.leaving_leaders
    )
    shards = shards_for(measures.partitions)
    orders = _orders(scope, band, measures, before, staying, measures.routes, scope.free)
    changes = _placed(facts, orders, shards)
    after = before.after(changes, scope.fleet)
    if shards > 1 and _left_over(scope, band, measures, after):
        changes = pa.concat_tables([changes, _second_round(facts, scope, band, measures, changes, after, shards)])
        after = before.after(changes, scope.fleet)
    forced = float(measures.routes.sources.sum())
    load = staying.bytes.astype(np.float64)
    bound = least_bytes(band, load, forced) if scope.balances_bytes else forced
    return Assignment(ordered(changes), measures, before, after, band, int(np.ceil(bound)))


def _left_over(scope: Scope, band: Band, measures: Measures, after: Loads) -> bool:
    """Whether the shards together left a broker outside the band, or leading too much, that should not be."""
    part = scope.takes_part
    room = leader_room(after.leaders, part, measures.partitions)
    return bool(
        (scope.balances_bytes and ((after.bytes > band.high) | (after.bytes < band.low))[part].any())
        or (scope.request.balances_leaders and (room[part] < 0).any())
    )


def _second_round(
    facts: DataFrame, scope: Scope, band: Band, measures: Measures, changes: pa.Table, after: Loads, shards: int
) -> pa.Table:
    """Place once more what is left, among the partitions of one shard that are untouched so far.

    What the first round leaves is little: each shard misses its part of a goal by less than one replica.
    """
    touched = facts.sparkSession.createDataFrame(changes.select(["topic", "partition"]))
    untouched = of_shard(facts, 0, shards).join(sql.broadcast(touched), ["topic", "partition"], "left_anti")
    nothing = Routes(
        np.zeros_like(measures.routes.sources), np.zeros_like(measures.routes.may_go), measures.routes.may_move
    )
    received = Loads(*(np.zeros_like(after.bytes) for _ in range(3))).after(changes, scope.fleet).bytes
    free = scope.free - np.maximum(0, received)
    return _placed(untouched, _orders(scope, band, measures, after, after, nothing, free), 1)


def scope_band(scope: Scope, measures: Measures) -> Band:
    """Return the band of the request: its tolerance around each broker's fair share."""
    return Band.around(broker_shares(scope, measures), scope.request.tolerance)


def broker_shares(scope: Scope, measures: Measures) -> np.ndarray:
    """Return each broker's fair share in bytes; 0 for brokers that take no part."""
    fleet, part = scope.fleet, scope.takes_part
    # Racks ask the same of all that may hold replicas, whether they take part or not.
    holds = fleet.alive & ~fleet.leaves
    racks, brokers = np.unique(fleet.rack_of[holds], return_counts=True)
    per_rack = fair_shares(measures.wanted_bytes, brokers)
    share = np.where(part, per_rack[np.searchsorted(racks, fleet.rack_of).clip(0, len(racks) - 1)], 0.0)
    # What stays on brokers that take no part is not there to be shared.
    wanted = float((measures.wanted_bytes * np.arange(len(measures.wanted_bytes))).sum())
    elsewhere = float((measures.bytes - measures.leaving_bytes)[~part].sum())
    total = float(share.sum())
    return share * (max(0.0, wanted - elsewhere) / total if total else 1.0)


def _flows(scope: Scope, aim: Band, staying: Loads, routes: Routes, free: Longs) -> Flows:
    fleet = scope.fleet
    load = staying.bytes.astype(np.float64)
    if not scope.balances_bytes:
        return forced_flows(aim.share, load, fleet.takes, fleet.rack_of, free, routes)
    return balancing_flows(aim, load, fleet.rack_of, fleet.gives, fleet.takes, free, routes)


def _aim(scope: Scope, band: Band) -> Band:
    """What to steer for: a little inside the band; brokers that alone are filled get no more than their share."""
    aim = Band.around(band.share, scope.request.tolerance, BAND_MARGIN)
    if not scope.fills_only:
        return aim
    return Band(aim.share, aim.low, np.where(scope.fleet.takes, aim.share, aim.high))


def _orders(
    scope: Scope, band: Band, measures: Measures, loads: Loads, staying: Loads, routes: Routes, free: Longs
) -> ShardGoals:
    fleet = scope.fleet
    aim = _aim(scope, band)
    flows = _flows(scope, aim, staying, routes, free)
    elsewhere = int(staying.leaders[~scope.takes_part].sum())
    bounds = Bounds(
        load=loads.bytes,
        low=np.ceil(band.low).astype(np.int64),
        high=np.floor(np.where(scope.fills_only, aim.high, band.high)).astype(np.int64),
        counts=fleet.takes if scope.fills_only else scope.takes_part,
    )
    return ShardGoals(
        fleet=fleet,
        shed=flows.shed,
        inflow=flows.inflow,
        forced=measures.forced_by_bucket,
        free=free,
        excess=np.round(loads.bytes - band.share).astype(np.int64),
        leader_room=leader_room(staying.leaders, scope.takes_part, measures.partitions - elsewhere),
        largest=measures.largest,
        balance_leaders=scope.request.balances_leaders,
        restore_racks=scope.restores_racks,
        bounds=bounds if scope.balances_bytes else None,
    )


def _placed(facts: DataFrame, orders: ShardGoals, shards: int) -> pa.Table:
    rows = placed(facts, orders, shards).toArrow()
    impossible = ordered(rows.filter(rows[IMPOSSIBLE].is_valid()))
    if len(impossible):
        columns = (impossible[name].to_pylist() for name in ("topic", "partition", IMPOSSIBLE))
        told = [f"{topic}-{partition}: {why}" for topic, partition, why in zip(*columns, strict=True)]
        raise InfeasiblePlanError(
            f"No valid broker is left for {len(told)} of the partitions ({name_some(told)}). A broker may take a "
            "replica when it is alive, not excluded and not leaving, has none of that partition, is in a rack of its "
            "own as far as there are racks, and has space for the copy. Add a broker or disk space there, exclude "
            "fewer brokers, or take fewer away at once."
        )
    return rows.drop_columns([IMPOSSIBLE]).cast(TARGET)


def ordered(changes: pa.Table) -> pa.Table:
    """Order rows by topic and partition: the order of every file of a plan."""
    return changes.take(pc.sort_indices(changes, [("topic", "ascending"), ("partition", "ascending")]))
