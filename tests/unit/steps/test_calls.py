"""How often a step asks the cluster, and for how much: that grows with the batch, not with the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.model import LogDirsReport
from kafka_reassignment.steps.base.waiting import SizeSamples, Waiting
from kafka_reassignment.steps.catch_up import sense_isr_catch_up

pytestmark = pytest.mark.quick

STEPS = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (2, 4))]
TASKS = ("admit", "set_throttle", "submit_batch")
MOST_CALLS_OF_A_LOOK = 10
MORE_BROKERS = 1_000
MORE_TOPICS, PARTITIONS_EACH = 50, 100


class Counted:
    """A cluster that counts its calls, and the partitions, replicas or resources in their answers.

    The list of brokers is in each answer about metadata that Kafka gives: it is not counted.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.calls: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if not name.startswith(("describe_", "list_", "alter_", "end_")):
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            answer = found(*args, **kwargs)
            rows = answer.replicas if isinstance(answer, LogDirsReport) else answer
            self.answered[name] += len(rows) if isinstance(rows, Sized) else 0
            return answer

        return called


def counts(folder: UPath, brokers: int, topics: int) -> list[tuple[str, Counter[str], Counter[str]]]:
    """Return what a batch of two partitions costs in each task and in each of two looks, on a cluster of some size."""
    fake = FakeCluster({b: f"r{b % 3}" for b in range(1, brokers + 1)}, auto_catch_up=False)
    fake.create_topic("orders", [(1, 2), (2, 3)], size_bytes=10**9)
    for topic in range(topics):
        idle = [(p % brokers + 1, (p + 1) % brokers + 1) for p in range(PARTITIONS_EACH)]
        fake.create_topic(f"idle-{topic}", idle, size_bytes=1)
    cluster = Counted(fake)
    run = Run(cluster, folder, [STEPS])  # type: ignore[arg-type]
    found = []

    def note(name: str) -> None:
        found.append((name, Counter(cluster.calls), Counter(cluster.answered)))
        cluster.calls.clear()
        cluster.answered.clear()

    note("start")
    for task in TASKS:
        run.do(task, 1)
        note(task)
    samples, began = SizeSamples.by_clock_of(run.context), run.clock.now
    for look in ("first look", "second look"):
        assert isinstance(sense_isr_catch_up(run.context, 1, began, samples), Waiting)
        note(look)
    fake.catch_up_all()
    for task in ("sense_isr_catch_up", "drop_old_replicas", "clear_throttle"):
        run.do(task, 1)
        note(task)
    return found


def test_a_batch_asks_no_more_of_a_cluster_with_a_thousand_brokers_and_5000_idle_partitions(tmp_path):
    small = counts(UPath(tmp_path / "small"), 4, 0)
    assert counts(UPath(tmp_path / "large"), MORE_BROKERS, MORE_TOPICS) == small
    for name, calls, _ in small:
        if "look" in name:
            assert 0 < calls.total() <= MOST_CALLS_OF_A_LOOK, (name, calls)


def test_what_copies_nothing_and_drops_nothing_does_not_ask_for_min_insync_replicas(tmp_path):
    calls = {name: counted for name, counted, _ in counts(UPath(tmp_path), 4, 0)}
    assert calls["set_throttle"]["describe_configs"] == 4, (
        "the lists' lengths, before, right before and after the change"
    )
    # Twice: lists that are emptied are deleted by a look of their own, since another client may add to them in between.
    assert calls["clear_throttle"]["describe_configs"] == 2 * 3, "before and after the change, and for the journal"
    assert calls["drop_old_replicas"]["describe_configs"] == 2, "of the look, and right before the drop"
