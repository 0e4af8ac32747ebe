"""The snapshot's tables as one row per partition."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql


def _partition_sizes(log_replicas: DataFrame) -> DataFrame:
    """Reduce one row per replica to one size per partition.

    In:  ``LOG_REPLICAS``
    Out: topic string, partition int, size_bytes long; unique on (topic, partition)

    The size is that of the largest replica: a lagging follower understates what a move will copy.
    Copies still moving between log dirs are left out. Source: KIP-113, DescribeLogDirs.
    """
    return (
        log_replicas.where(~sql.col("is_future"))
        .groupBy("topic", "partition")
        .agg(sql.max("size_bytes").alias("size_bytes"))
    )


def sized_partitions(partitions: DataFrame, log_replicas: DataFrame) -> DataFrame:
    """Join the size to each partition; null where no broker that hosts it reported one.

    In:  ``PARTITIONS``, ``LOG_REPLICAS``
    Out: topic string, partition int, replicas array<int>, factor int, size_bytes long
    """
    return partitions.select("topic", "partition", "replicas", "factor").join(
        _partition_sizes(log_replicas), ["topic", "partition"], "left"
    )


def with_request(
    session: SparkSession, sized: DataFrame, topics_in_scope: Collection[str] | None, wanted_replicas: int | None
) -> DataFrame:
    """Add what the request wants for each partition.

    In:  topic string, partition int, replicas array<int>, factor int, size_bytes long
    Out: ``FACTS``

    Args:
        session: where the topic names are joined.
        sized: the partitions.
        topics_in_scope: topics the request is about; None for all.
        wanted_replicas: replication factor of the partitions in scope; None leaves it as it is, or gives a partition
            back the factor that it is to keep.
    """
    if topics_in_scope is None:
        scoped = sized.withColumn("in_scope", sql.lit(True))
    else:
        names = session.createDataFrame(pa.table({"topic": pa.array(sorted(topics_in_scope), pa.string())}))
        scoped = sized.join(sql.broadcast(names.withColumn("named", sql.lit(True))), "topic", "left").withColumn(
            "in_scope", sql.coalesce("named", sql.lit(False))
        )
    now = sql.coalesce("factor", sql.size("replicas"))
    wanted = now if wanted_replicas is None else sql.when(sql.col("in_scope"), wanted_replicas).otherwise(now)
    return scoped.select("topic", "partition", "replicas", "size_bytes", wanted.alias("wanted"), "in_scope")
