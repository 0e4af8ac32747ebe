"""A Spark session for the tests of a module, and small clusters to plan for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kafka_reassignment.model import (
    Broker,
    ClusterDescription,
    LogDir,
    LogDirsReport,
    LogReplica,
    PartitionState,
    TopicPartition,
)
from kafka_reassignment.planner.session import planner_session
from kafka_reassignment.planner.snapshot import TopicFacts, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores, started when first asked for; a plan step of another module would end it."""
    with planner_session("local[2]", memory="512m", settings={"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


class SnapshotBuilder:
    """A cluster written down in a few lines: ``.broker(1, "a").topic("orders", [1, 2], [2, 3], size=10)``."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.sizes: dict[TopicPartition, int] = {}
        self.topics: dict[str, TopicFacts] = {}
        self.dirs: list[LogDir] = []
        self.silent: dict[int, str] = {}
        self.factors: dict[TopicPartition, int] = {}

    def broker(self, broker_id: int, rack: str | None = None, *, alive: bool = True) -> SnapshotBuilder:
        self.brokers[broker_id] = Broker(broker_id, rack, alive)
        return self

    def racks(self, **brokers_of: tuple[int, ...]) -> SnapshotBuilder:
        for rack, ids in brokers_of.items():
            for i in ids:
                self.broker(i, rack)
        return self

    def topic(self, name: str, *replicas: list[int], size: int | list[int] = 100, **facts: object) -> SnapshotBuilder:
        self.topics[name] = TopicFacts(**facts)  # type: ignore[arg-type]
        sizes = size if isinstance(size, list) else [size] * len(replicas)
        for number, (ids, bytes_) in enumerate(zip(replicas, sizes, strict=True)):
            p = TopicPartition(name, number)
            self.partitions[p] = PartitionState(tuple(ids), frozenset(ids), ids[0] if ids else None)
            self.sizes[p] = bytes_
        return self

    def log_dir(self, broker_id: int, path: str = "/d1", **facts: object) -> SnapshotBuilder:
        self.dirs.append(LogDir(broker_id, path, **facts))  # type: ignore[arg-type]
        return self

    def silent_broker(self, broker_id: int, why: str = "timed out") -> SnapshotBuilder:
        self.silent[broker_id] = why
        return self

    def write(self, directory: Path | str) -> str:
        replicas = tuple(
            LogReplica(b, "/d1", p, self.sizes[p], 0)
            for p, state in self.partitions.items()
            for b in state.replicas
            if b not in self.silent
        )
        report = LogDirsReport(tuple(self.dirs), replicas, self.silent)
        description = ClusterDescription("cluster", self.brokers)
        write_snapshot(description, self.partitions, report, self.topics, str(directory), factors=self.factors)
        return str(directory)


@pytest.fixture
def cluster() -> SnapshotBuilder:
    """An empty cluster to fill."""
    return SnapshotBuilder()
