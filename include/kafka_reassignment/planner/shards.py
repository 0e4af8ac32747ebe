"""Placement in shards: a hash assigns partitions to shards, and each shard is placed on its own.

The hash is of names only, so that any number of cores or machines gives the same plan. A single shard is measured and
placed on the driver: a Python worker of Spark would hold all of it as well, and takes seconds to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from kafka_reassignment.decisions.batching.columns import ABSENT
from kafka_reassignment.plan.columns import longs, replica_lists, replica_matrix
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.planner.placing.place import place
from kafka_reassignment.planner.placing.shard_placement import Partitions
from kafka_reassignment.planner.shard_goals import BUCKETS, ShardGoals

SHARD_PARTITIONS = 250_000
"""Partitions per shard: so many that each broker's share is many replicas, few enough for one core's memory."""

IMPOSSIBLE = "impossible"
"""Column of ``placed``: why there is no valid broker for the partition; ``target`` is then its current replicas."""


RowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What runs over batches of rows, in a Python worker of Spark or on the driver."""


@dataclass(frozen=True)
class Facts:
    """The partitions to plan for (``FACTS``); ``on_driver`` only when there are no more than one shard takes."""

    frame: DataFrame
    on_driver: bool

    @cached_property
    def bucketed(self) -> DataFrame:
        """With ``tie`` and ``bucket``; see ``_with_bucket``."""
        return _with_bucket(self.frame)

    @cached_property
    def rows(self) -> pa.Table:
        """All rows on the driver; Spark reads them once."""
        return self.bucketed.toArrow()

    def mapped(self, columns: Sequence[str], run: RowFunction, out: pa.Schema) -> pa.Table:
        """Run a function over all rows, whatever their order and their batches, and return what it yields."""
        if not self.on_driver:
            return self.bucketed.select(*columns).mapInArrow(run, from_arrow_schema(out)).toArrow()
        return pa.Table.from_batches(run(iter(self.rows.select(columns).to_batches())), out)


def shards_for(partitions: int) -> int:
    """Return the number of shards for so many partitions: a power of two."""
    needed = -(-partitions // SHARD_PARTITIONS)
    return min(1 << max(0, needed - 1).bit_length(), BUCKETS)


def _with_bucket(facts: DataFrame) -> DataFrame:
    """Add ``tie long``, a hash that orders partitions, and ``bucket int``, which follows from it."""
    tie = sql.xxhash64("topic", "partition")
    return facts.withColumn("tie", tie).withColumn("bucket", sql.pmod(tie, sql.lit(BUCKETS)).cast("int"))


def _shard(shards: int) -> Column:
    return sql.col("bucket") % shards


def of_shard(facts: Facts, number: int, shards: int) -> DataFrame:
    """The partitions of one shard. Out: ``FACTS``."""
    return facts.bucketed.where(_shard(shards) == number).drop("tie", "bucket")


def placed(facts: Facts, goals: ShardGoals, shards: int) -> pa.Table:
    """Decide the new replicas of every partition.

    Out: ``TARGET`` and ``impossible string``, null for a partition that can be placed; partitions that need no change
    are left out.
    """
    if facts.on_driver:
        return _place_shard(facts.rows, goals.for_shard(0, 1))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not parts:
            return
        rows = pa.Table.from_batches(parts)
        shard = longs(rows["shard"])
        for number in np.unique(shard).tolist():
            mine = rows.filter(pa.array(shard == number))
            yield from _place_shard(mine, goals.for_shard(number, shards)).to_batches()

    sharded = facts.bucketed.withColumn("shard", _shard(shards)).drop("bucket")
    out = StructType([*from_arrow_schema(TARGET).fields, StructField(IMPOSSIBLE, StringType())])
    return sharded.repartitionById(shards, "shard").mapInArrow(run, out).toArrow()


def _place_shard(rows: pa.Table, goals: ShardGoals) -> pa.Table:
    # A shuffle returns rows in any order.
    rows = rows.take(pc.sort_indices(rows, [("tie", "ascending"), ("topic", "ascending"), ("partition", "ascending")]))
    ids = replica_matrix(rows["replicas"])
    partitions = Partitions(
        size=longs(rows["size_bytes"]),
        replicas=goals.fleet.index_of(ids).astype(np.int32),
        wanted=longs(rows["wanted"]),
        in_scope=rows["in_scope"].to_numpy(zero_copy_only=False),
    )
    placement = place(partitions, goals)
    changed = np.fromiter(sorted(placement.target), np.int64, len(placement.target))
    width = max((len(t) for t in placement.target.values()), default=1)
    target = np.full((len(changed), width), ABSENT, dtype=np.int64)
    for at, row in enumerate(changed.tolist()):
        replicas = placement.target[row]
        target[at, : len(replicas)] = replicas
    target_ids = np.where(target == ABSENT, ABSENT, goals.fleet.ids[target])
    placed_rows = _columns(rows.take(changed), replica_lists(target_ids), [None] * len(changed))
    impossible = rows.take(np.array(list(placement.impossible), dtype=np.int64))
    return pa.concat_tables(
        [placed_rows, _columns(impossible, impossible["replicas"], list(placement.impossible.values()))]
    )


def _columns(rows: pa.Table, target: pa.Array | pa.ChunkedArray, impossible: Sequence[str | None]) -> pa.Table:
    columns = [rows["topic"], rows["partition"], rows["replicas"], target, pc.fill_null(rows["size_bytes"], 0)]
    schema = TARGET.remove_metadata().append(pa.field(IMPOSSIBLE, pa.string()))
    arrays = [c.cast(f.type) for c, f in zip(columns, schema, strict=False)]
    return pa.table([*arrays, pa.array(impossible, pa.string())], schema=schema)
