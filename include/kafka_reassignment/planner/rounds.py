"""Planning rounds: measure, set goals, place; and a second round where sizes or racks left something over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sql

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.decisions.brokers import check_racks_left
from kafka_reassignment.errors import InfeasiblePlanError, name_some
from kafka_reassignment.plan.columns import longs, replica_matrix
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.steps import adding
from kafka_reassignment.planner.flows import BAND_MARGIN, Flows, Routes, balancing_flows, forced_flows
from kafka_reassignment.planner.goals import Band, fair_shares, leader_room, least_bytes
from kafka_reassignment.planner.measure import Measures, measure
from kafka_reassignment.planner.resolve import NO_RACK, ResolvedRequest
from kafka_reassignment.planner.shard_goals import Bounds, Fleet, ShardGoals
from kafka_reassignment.planner.shards import IMPOSSIBLE, Facts, of_shard, placed, shards_for


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


def copies_to(changes: pa.Table, fleet: Fleet) -> tuple[Longs, Longs]:
    """Return of each copy that changes (``TARGET``) make the broker that gets it, as its place in the fleet, and its bytes."""
    new = adding(replica_matrix(changes["current"]), replica_matrix(changes["target"]))
    size = np.broadcast_to(longs(changes["size_bytes"])[:, None], new.shape)
    return fleet.index_of(new)[new != ABSENT], size[new != ABSENT]


@dataclass(frozen=True)
class Assignment:
    """A target assignment: the partitions that change (``TARGET``, ordered), and the loads before and after."""

    changes: pa.Table
    measures: Measures
    before: Loads
    after: Loads
    band: Band
    lower_bound: int


def assign(facts: Facts, resolved: ResolvedRequest) -> Assignment:
    """Find the target assignment.

    Raises:
        InfeasiblePlanError: there is no valid broker for some partition, or too few racks are left.
    """
    measures = measure(facts, resolved.fleet, restore_racks=resolved.restores_racks)
    _check_racks_left(resolved, measures)
    before = Loads(measures.bytes, measures.replicas, measures.leaders)
    band = band_of(resolved, measures)
    staying = Loads(
        measures.bytes - measures.leaving_bytes, measures.replicas, measures.leaders - measures.leaving_leaders
    )
    shards = shards_for(measures.partitions)
    goals = _shard_goals(resolved, band, measures, before, staying, measures.routes, resolved.free)
    changes = _placed(facts, goals, shards)
    after = before.after(changes, resolved.fleet)
    if shards > 1 and _left_over(resolved, band, measures, after):
        changes = pa.concat_tables([changes, _second_round(facts, resolved, band, measures, changes, after, shards)])
        after = before.after(changes, resolved.fleet)
    forced = float(measures.routes.sources.sum())
    # What brokers that take no part hold stays there: their band is empty.
    load = np.where(resolved.takes_part, staying.bytes, 0).astype(np.float64)
    bound = least_bytes(band, load, forced, measures.surplus_bytes) if resolved.balances_bytes else forced
    return Assignment(ordered(changes), measures, before, after, band, int(np.ceil(bound)))


def _check_racks_left(resolved: ResolvedRequest, measures: Measures) -> None:
    fleet = resolved.fleet
    names = [None if rack == NO_RACK else rack for rack in fleet.racks]
    rack_of = {int(fleet.ids[b]): names[fleet.rack_of[b]] for b in np.flatnonzero(fleet.alive).tolist()}
    check_racks_left(rack_of, resolved.request.job, resolved.request.brokers, measures.most_racks)


def _left_over(resolved: ResolvedRequest, band: Band, measures: Measures, after: Loads) -> bool:
    """Whether the shards together left a broker outside the band, or with too many leaderships."""
    part = resolved.takes_part
    room = leader_room(after.leaders, part, measures.partitions)
    return bool(
        (resolved.balances_bytes and ((after.bytes > band.high) | (after.bytes < band.low))[part].any())
        or (resolved.request.balances_leaders and (room[part] < 0).any())
    )


def _second_round(
    facts: Facts,
    resolved: ResolvedRequest,
    band: Band,
    measures: Measures,
    changes: pa.Table,
    after: Loads,
    shards: int,
) -> pa.Table:
    """Place what the first round left, among the partitions of one shard that do not change yet.

    It is little: each shard misses its part of a goal by less than one replica.
    """
    changed = facts.frame.sparkSession.createDataFrame(changes.select(["topic", "partition"]))
    unchanged = Facts(
        of_shard(facts, 0, shards).join(sql.broadcast(changed), ["topic", "partition"], "left_anti"), on_driver=True
    )
    nothing = Routes(
        np.zeros_like(measures.routes.sources), np.zeros_like(measures.routes.may_go), measures.routes.may_move
    )
    free = resolved.free.copy()
    np.subtract.at(free, *copies_to(changes, resolved.fleet))  # what leaves a broker is there until all is copied
    return _placed(unchanged, _shard_goals(resolved, band, measures, after, after, nothing, free), 1)


def band_of(resolved: ResolvedRequest, measures: Measures) -> Band:
    """Return the band of the request: its tolerance around each broker's fair share."""
    return Band.around(_broker_shares(resolved, measures), resolved.request.tolerance)


def _broker_shares(resolved: ResolvedRequest, measures: Measures) -> np.ndarray:
    """Return each broker's fair share in bytes; 0 for brokers that take no part."""
    fleet, part = resolved.fleet, resolved.takes_part
    # Fair shares depend on all brokers that may hold replicas, whether they take part or not.
    holds = fleet.alive & ~fleet.leaves
    racks, brokers = np.unique(fleet.rack_of[holds], return_counts=True)
    per_rack = fair_shares(measures.wanted_bytes, brokers)
    share = np.where(part, per_rack[np.searchsorted(racks, fleet.rack_of).clip(0, len(racks) - 1)], 0.0)
    # Bytes that stay on brokers that take no part are not shared.
    wanted = float((measures.wanted_bytes * np.arange(len(measures.wanted_bytes))).sum())
    elsewhere = float((measures.bytes - measures.leaving_bytes)[~part].sum())
    total = float(share.sum())
    return share * (max(0.0, wanted - elsewhere) / total if total else 1.0)


def _flows(resolved: ResolvedRequest, aim: Band, staying: Loads, routes: Routes, free: Longs) -> Flows:
    fleet = resolved.fleet
    load = staying.bytes.astype(np.float64)
    if not resolved.balances_bytes:
        return forced_flows(aim.share, load, fleet.takes, fleet.rack_of, free, routes)
    return balancing_flows(aim, load, fleet.rack_of, fleet.gives, fleet.takes, free, routes)


def _aim(resolved: ResolvedRequest, band: Band) -> Band:
    """What to aim for: a little inside the band; when only named brokers are filled, they get no more than their share."""
    aim = Band.around(band.share, resolved.request.tolerance, BAND_MARGIN)
    if not resolved.fills_only:
        return aim
    return Band(aim.share, aim.low, np.where(resolved.fleet.takes, aim.share, aim.high))


def _shard_goals(
    resolved: ResolvedRequest, band: Band, measures: Measures, loads: Loads, staying: Loads, routes: Routes, free: Longs
) -> ShardGoals:
    fleet = resolved.fleet
    aim = _aim(resolved, band)
    flows = _flows(resolved, aim, staying, routes, free)
    elsewhere = int(staying.leaders[~resolved.takes_part].sum())
    bounds = Bounds(
        load=loads.bytes,
        low=np.ceil(band.low).astype(np.int64),
        high=np.floor(np.where(resolved.fills_only, aim.high, band.high)).astype(np.int64),
        counts=fleet.takes if resolved.fills_only else resolved.takes_part,
    )
    return ShardGoals(
        fleet=fleet,
        shed=flows.shed,
        inflow=flows.inflow,
        forced=measures.forced_by_bucket,
        free=free,
        excess=np.round(loads.bytes - band.share).astype(np.int64),
        leader_room=leader_room(staying.leaders, resolved.takes_part, measures.partitions - elsewhere),
        largest=measures.largest,
        balance_leaders=resolved.request.balances_leaders,
        restore_racks=resolved.restores_racks,
        bounds=bounds if resolved.balances_bytes else None,
    )


def _placed(facts: Facts, goals: ShardGoals, shards: int) -> pa.Table:
    rows = placed(facts, goals, shards)
    impossible = ordered(rows.filter(rows[IMPOSSIBLE].is_valid()))
    if shards > 1 and len(impossible):
        done = rows.filter(rows[IMPOSSIBLE].is_null())
        last = _placed_last(facts, goals, impossible, done)
        rows, impossible = pa.concat_tables([done, last]), ordered(last.filter(last[IMPOSSIBLE].is_valid()))
    if len(impossible):
        columns = (impossible[name].to_pylist() for name in ("topic", "partition", IMPOSSIBLE))
        reasons = [f"{topic}-{partition}: {why}" for topic, partition, why in zip(*columns, strict=True)]
        raise InfeasiblePlanError(
            f"There is no valid broker for {len(reasons)} of the partitions ({name_some(reasons)}). A broker may take a "
            "replica when it is alive, not excluded and not decommissioned, has none of that partition, is in another "
            "rack than its other replicas if there are enough racks, and has space for the copy",
            Correct("add a broker or disk space there, exclude fewer brokers, or decommission fewer at once"),
        )
    return rows.drop_columns([IMPOSSIBLE]).cast(TARGET)


def _placed_last(facts: Facts, goals: ShardGoals, impossible: pa.Table, done: pa.Table) -> pa.Table:
    """Place what no shard had a broker for, by what is left after all shards: each had only a part of the brokers' space."""
    names = facts.frame.sparkSession.createDataFrame(impossible.select(["topic", "partition"]))
    rest = Facts(facts.frame.join(sql.broadcast(names), ["topic", "partition"], "left_semi"), on_driver=True)
    free, inflow = goals.free.copy(), goals.inflow.copy()
    receivers, sizes = copies_to(done, goals.fleet)
    np.subtract.at(free, receivers, sizes)
    np.subtract.at(inflow, receivers, sizes)
    # What must move is placed, and nothing else: balance comes after it.
    left = replace(
        goals, free=free, inflow=inflow.clip(0), shed=np.zeros_like(goals.shed), bounds=None, balance_leaders=False
    )
    return placed(rest, left, 1)


def ordered(changes: pa.Table) -> pa.Table:
    """Order rows by topic and partition: the order of every file of a plan."""
    return changes.take(pc.sort_indices(changes, [("topic", "ascending"), ("partition", "ascending")]))
