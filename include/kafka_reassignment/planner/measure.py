"""The first pass over all partitions: what each broker holds, what must move, and where racks allow it to go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.plan.columns import distinct_in_rows, longs, replica_matrix
from kafka_reassignment.planner.flows import MAX_ROUTED_RACKS, Routes
from kafka_reassignment.planner.shard_goals import BUCKETS, Fleet
from kafka_reassignment.planner.shards import Facts

_SUMS = pa.schema([("what", pa.string()), ("at", pa.int64()), ("value", pa.int64())])

_MEASURED = ("replicas", "size_bytes", "wanted", "in_scope", "bucket")

LARGEST, MOST_RACKS = "largest", "most racks"
MAXIMA = (LARGEST, MOST_RACKS)
"""The numbers that are maxima, not sums."""


@dataclass(frozen=True)
class Measures:
    """Sums over all partitions; arrays are by broker unless said otherwise. Bytes count every replica.

    ``surplus_bytes`` are those of replicas that go without a copy, because fewer are wanted. ``leaving_bytes`` and
    ``leaving_leaders`` are the part of a broker's load that must leave it; ``wanted_bytes[n]`` are the bytes (of one
    copy) of partitions that are to have n replicas. ``most_racks`` is the most racks with a live replica that a
    partition has, of those with a replica that must leave its broker.
    """

    partitions: int
    unknown_sizes: int
    largest: int
    most_racks: int
    surplus_bytes: int
    bytes: Longs
    replicas: Longs
    leaders: Longs
    leaving_bytes: Longs
    leaving_leaders: Longs
    wanted_bytes: Longs
    forced_by_bucket: Longs
    routes: Routes


def measure(facts: Facts, fleet: Fleet, *, restore_racks: bool = False) -> Measures:
    """Sum up what brokers hold and what must move.

    Exact in any order and split of the rows: all sums are of integers.
    """

    def partial(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        totals: dict[str, Longs] = {}
        for batch in batches:
            for what, values in _sums(batch, fleet, restore_racks=restore_racks).items():
                known = totals.get(what)
                merge = np.maximum if what in MAXIMA else _add
                totals[what] = values if known is None else merge(known, values)
        for what, values in totals.items():
            at = np.flatnonzero(values)
            names = pa.array([what] * len(at), pa.string())
            yield pa.record_batch([names, pa.array(at), pa.array(values[at])], names=["what", "at", "value"])

    # Without the names, which are half of the bytes that would go to Python.
    table = facts.mapped(_MEASURED, partial, _SUMS)
    what = table["what"].to_numpy(zero_copy_only=False)
    at, value = longs(table["at"]), longs(table["value"])
    brokers, racks = fleet.size, len(fleet.racks)

    def total(name: str, length: int = 0) -> Longs:
        rows = what == name
        result = np.zeros(max(length, int(at[rows].max(initial=-1)) + 1), dtype=np.int64)
        np.add.at(result, at[rows], value[rows])
        return result

    return Measures(
        partitions=int(total("partitions", 1)[0]),
        unknown_sizes=int(total("unknown sizes", 1)[0]),
        largest=int(value[what == LARGEST].max(initial=0)),
        most_racks=int(value[what == MOST_RACKS].max(initial=0)),
        surplus_bytes=int(total("surplus bytes", 1)[0]),
        bytes=total("bytes", brokers),
        replicas=total("replicas", brokers),
        leaders=total("leaders", brokers),
        leaving_bytes=total("leaving bytes", brokers),
        leaving_leaders=total("leaving leaders", brokers),
        wanted_bytes=total("wanted bytes"),
        forced_by_bucket=total("forced by bucket", BUCKETS),
        routes=Routes(
            sources=total("sources", racks + 1),
            may_go=total("may go", (racks + 1) * racks).reshape(racks + 1, racks),
            may_move=total("may move", brokers * racks).reshape(brokers, racks),
        ),
    )


def _add(one: Longs, other: Longs) -> Longs:
    short, long = sorted((one, other), key=len)
    result = long.copy()
    result[: len(short)] += short
    return result


def _sums(batch: pa.RecordBatch, fleet: Fleet, *, restore_racks: bool) -> dict[str, Longs]:
    size = longs(batch.column("size_bytes"))
    replicas = fleet.index_of(replica_matrix(batch.column("replicas")))
    wanted = longs(batch.column("wanted"))
    in_scope = batch.column("in_scope").to_numpy(zero_copy_only=False)
    present = replicas != ABSENT
    brokers, racks = fleet.size, len(fleet.racks)
    count = present.sum(axis=1)
    leaving = fleet.leaves[replicas] & present & in_scope[:, None]
    # Replicas that leave without a replacement, because fewer are wanted, are not copied.
    surplus = np.maximum(0, count - wanted)
    replaced = leaving & (np.cumsum(leaving, axis=1) > surplus[:, None])
    rack = np.where(present, fleet.rack_of[replicas], ABSENT)
    stays = present & ~leaving

    def by_broker(mask: NDArray[np.bool_]) -> Longs:
        return _sum_at(replicas[mask], np.broadcast_to(size[:, None], mask.shape)[mask], brokers)

    def count_of(mask: NDArray[np.bool_]) -> Longs:
        return np.bincount(replicas[mask], minlength=brokers).astype(np.int64)

    lead = np.zeros_like(present)
    lead[:, 0] = present[:, 0]
    growth = size * (np.maximum(0, wanted - count) * in_scope)
    if restore_racks:
        growth = growth + size * _racks_to_gain(rack, count, fleet) * in_scope
    sums = {
        "partitions": np.array([len(size)]),
        "unknown sizes": np.array([batch.column("size_bytes").null_count]),
        LARGEST: np.array([int(size.max(initial=0))]),
        MOST_RACKS: np.array([_most_racks(np.where(fleet.alive[replicas], rack, ABSENT), leaving, wanted)]),
        "surplus bytes": np.array([int((size * surplus * in_scope).sum())]),
        "bytes": by_broker(present),
        "replicas": count_of(present),
        "leaders": count_of(lead),
        "leaving bytes": by_broker(leaving),
        "leaving leaders": count_of(lead & leaving),
        "forced by bucket": _sum_at(longs(batch.column("bucket")), size * replaced.sum(axis=1) + growth, BUCKETS),
        "wanted bytes": _sum_at(wanted, size, int(wanted.max(initial=0)) + 1),
        "sources": np.append(
            _sum_at(rack[replaced], np.broadcast_to(size[:, None], replaced.shape)[replaced], racks), growth.sum()
        ),
    }
    if racks <= MAX_ROUTED_RACKS:
        sums["may go"], sums["may move"] = _routes(size, replicas, rack, stays, replaced, growth, in_scope, fleet)
    return sums


def _routes(
    size: Longs,
    replicas: Longs,
    rack: Longs,
    stays: NDArray[np.bool_],
    replaced: NDArray[np.bool_],
    growth: Longs,
    in_scope: NDArray[np.bool_],
    fleet: Fleet,
) -> tuple[Longs, Longs]:
    brokers, racks = fleet.size, len(fleet.racks)
    movable = stays & in_scope[:, None]
    sizes = np.broadcast_to(size[:, None], replicas.shape)
    # Partitions whose staying replicas are on the same racks are summed up together, which needs far fewer sums.
    bits = np.where(stays, np.int64(1) << np.maximum(rack, 0), 0)
    staying_on, kind = np.unique(np.bitwise_or.reduce(bits, axis=1), return_inverse=True)
    lacks = (staying_on[:, None] >> np.arange(racks) & 1) == 0
    if fleet.racks_to_spread_over == 1:  # with one rack, racks forbid nothing
        lacks[:] = True
    kinds = len(staying_on)
    kind_of = np.broadcast_to(kind[:, None], replicas.shape)

    def by_rack(source: Longs, mask: NDArray[np.bool_], sources: int) -> Longs:
        sums = _sum_at(source[mask] * kinds + kind_of[mask], sizes[mask], sources * kinds)
        routes: Longs = sums.reshape(sources, kinds) @ lacks
        return routes

    grown = _sum_at(kind, growth, kinds) @ lacks
    may_go = np.vstack([by_rack(rack, replaced, racks), grown])
    return may_go.ravel(), by_rack(replicas, movable, brokers).ravel()


def _most_racks(live_rack: Longs, leaving: NDArray[np.bool_], wanted: Longs) -> int:
    due = np.minimum(distinct_in_rows(live_rack), wanted)
    return int(due[leaving.any(axis=1)].max(initial=0))


def _racks_to_gain(rack: Longs, count: Longs, fleet: Fleet) -> Longs:
    gain: Longs = np.maximum(0, np.minimum(count, fleet.racks_to_spread_over) - distinct_in_rows(rack))
    return gain


def _sum_at(at: Longs, values: Longs, length: int) -> Longs:
    """Exact bincount: floats hold whole numbers up to 2^53 only, so high and low halves are summed apart."""
    low = np.bincount(at, weights=(values & 0xFFFFFFF).astype(np.float64), minlength=length)
    high = np.bincount(at, weights=(values >> 28).astype(np.float64), minlength=length)
    total: Longs = low.astype(np.int64) + (high.astype(np.int64) << 28)
    return total
