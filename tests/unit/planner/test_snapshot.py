"""What a snapshot assumes where information is missing."""

from __future__ import annotations

from pathlib import Path

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
from kafka_reassignment.planner.snapshot import write_snapshot

pytestmark = pytest.mark.quick

SHOWN = TopicPartition("orders", 0)
CLUSTER = ClusterDescription("c1", {1: Broker(1, "a"), 2: Broker(2, "b")})


def assumptions(hosted: dict[int, list[TopicPartition]], folder: Path) -> tuple[str, ...]:
    """What is assumed where brokers 1 and 2 host these, and the metadata shows orders-0 alone."""
    replicas = tuple(LogReplica(b, "/d", p, 1, 0) for b, partitions in hosted.items() for p in partitions)
    log_dirs = LogDirsReport((LogDir(1, "/d"), LogDir(2, "/d")), replicas)
    return write_snapshot(CLUSTER, {SHOWN: PartitionState((1, 2), frozenset({1, 2}), 1)}, log_dirs, {}, str(folder))


def test_topics_that_only_the_log_dirs_show_are_named_for_who_approves_the_plan(tmp_path: Path) -> None:
    secret = [TopicPartition("secret", n) for n in range(2)]
    [assumed] = assumptions({1: [SHOWN, *secret], 2: [SHOWN, secret[0]]}, tmp_path)
    assert assumed.startswith("1 topics (secret) are on brokers' disks, and the metadata does not show them")
    assert "Describe on all topics" in assumed


def test_nothing_is_assumed_where_the_metadata_shows_every_topic(tmp_path: Path) -> None:
    assert assumptions({1: [SHOWN], 2: [SHOWN]}, tmp_path) == ()
