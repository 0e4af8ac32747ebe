"""Planning rounds: measure, set goals, place; and once more where sizes or racks left something over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from kafka_reassignment.errors import InfeasiblePlanError, name_some
from kafka_reassignment.spark.columns import longs, matrix
from kafka_reassignment.spark.goals import (
    BAND_MARGIN,
    Band,
    Flows,
    Routes,
    balancing_flows,
    fair_shares,
    forced_flows,
    leader_goals,
    least_bytes,
)
from kafka_reassignment.spark.measure import Measures, measure
from kafka_reassignment.spark.orders import ABSENT, Fleet, Longs, Orders
from kafka_reassignment.spark.schemas import TARGET
from kafka_reassignment.spark.scope import Scope
from kafka_reassignment.spark.shards import IMPOSSIBLE, placed, shards_for


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
            replicas = fleet.index_of(matrix(changes[column]))
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
    fleet = scope.fleet
    measures = measure(facts, fleet, restore_racks=scope.restores_racks)
    before = Loads(measures.bytes, measures.replicas, measures.leaders)
    share = broker_shares(scope, measures)
    band = Band.around(share, scope.request.tolerance)
    staying = (measures.bytes - measures.leaving_bytes).astype(np.float64)
    flows = _flows(scope, band, staying, measures.routes)
    shards = shards_for(measures.partitions)
    orders = _orders(scope, share, before, measures.leaving_leaders, measures, flows)
    changes = _placed(facts, orders, shards, scope)
    after = before.after(changes, fleet)
    forced = float(measures.routes.sources.sum())
    bound = least_bytes(band, staying, forced) if scope.balances_bytes else forced
    return Assignment(ordered(changes), measures, before, after, band, int(np.ceil(bound)))


def broker_shares(scope: Scope, measures: Measures) -> np.ndarray:
    """Return each broker's fair share in bytes; 0 for brokers that take no part."""
    fleet, part = scope.fleet, scope.takes_part
    share = np.zeros(fleet.size)
    racks, brokers = np.unique(fleet.rack_of[part], return_counts=True)
    per_rack = fair_shares(measures.wanted_bytes, brokers)
    share[part] = per_rack[np.searchsorted(racks, fleet.rack_of[part])]
    # What stays on brokers that take no part is not there to be shared.
    wanted = float((measures.wanted_bytes * np.arange(len(measures.wanted_bytes))).sum())
    elsewhere = float((measures.bytes - measures.leaving_bytes)[~part].sum())
    return share * (max(0.0, wanted - elsewhere) / wanted if wanted else 1.0)


def _flows(scope: Scope, band: Band, staying: np.ndarray, routes: Routes) -> Flows:
    fleet = scope.fleet
    if not scope.balances_bytes:
        return forced_flows(band.share, staying, fleet.takes, fleet.rack_of, scope.free, routes)
    aim = Band.around(band.share, scope.request.tolerance, BAND_MARGIN)
    return balancing_flows(aim, staying, fleet.rack_of, fleet.gives, fleet.takes, scope.free, routes)


def _orders(
    scope: Scope, share: np.ndarray, loads: Loads, leaving_leaders: Longs, measures: Measures, flows: Flows
) -> Orders:
    fleet = scope.fleet
    elsewhere = int((loads.leaders - leaving_leaders)[~scope.takes_part].sum())
    surplus, room = leader_goals(loads.leaders, leaving_leaders, scope.takes_part, measures.partitions - elsewhere)
    if not scope.request.balances_leaders:
        surplus = np.zeros_like(surplus)
    return Orders(
        fleet=fleet,
        shed=flows.shed,
        inflow=flows.inflow,
        free=scope.free,
        excess=np.round(loads.bytes - share).astype(np.int64),
        leader_surplus=np.minimum(surplus, measures.leaders_in_scope),
        leader_room=room,
        restore_racks=scope.restores_racks,
    )


def _placed(facts: DataFrame, orders: Orders, shards: int, scope: Scope) -> pa.Table:
    rows = placed(facts, orders, shards).toArrow()
    impossible = rows.filter(rows[IMPOSSIBLE])
    if len(impossible):
        names = (
            f"{t}-{p}"
            for t, p in sorted(zip(*(impossible[c].to_pylist() for c in ("topic", "partition")), strict=True))
        )
        fleet = scope.fleet
        raise InfeasiblePlanError(
            f"No valid broker is left for {len(impossible)} partitions ({name_some(names)}): each replica needs a "
            f"broker that is alive, not excluded, without another replica, in a rack of its own, with free space for "
            f"the copy; {int(fleet.takes.sum())} brokers in {fleet.racks_to_spread_over} racks may take replicas. Add a broker "
            "or disk space, exclude fewer brokers, or take fewer brokers away at once."
        )
    return rows.drop_columns([IMPOSSIBLE]).cast(TARGET)


def ordered(changes: pa.Table) -> pa.Table:
    """Order rows by topic and partition: the order of every file of a plan."""
    return changes.take(pc.sort_indices(changes, [("topic", "ascending"), ("partition", "ascending")]))
