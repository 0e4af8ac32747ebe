"""Reassignments of ours and of others on real brokers, slow enough to be met in flight."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.contract.lab import KafkaLab, eventually, set_rates
from tests.steps_lab import Run, WallClock
from upath import UPath

from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Replicas,
    Step,
    TopicPartition,
)
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.rate import change_rate

SLOW_MB = 0.02
"""A throttle under which a partition of 8 MB is in flight for minutes."""

FAST_MB = 500.0


class MovingLab(KafkaLab):
    """Topics as in the contract suite, and runs with records."""

    def __init__(self, kafka, create_topic, folder: Path) -> None:
        super().__init__(kafka, create_topic)
        self.folder = folder
        self.runs: list[Run] = []

    def filled_topic(self, *replicas: Replicas, **configs: str) -> list[TopicPartition]:
        """Make a topic with 8 MB in each partition."""
        partitions = self.create_topic(replicas, configs={k.replace("_", "."): v for k, v in configs.items()})
        for partition in partitions:
            self.write(partition, messages=80, size_bytes=8_000_000)
        return partitions

    def run(self, *batches: Sequence[Step], **request: object) -> Run:
        """A reassignment of ours; slow unless a rate is asked for."""
        asked = {"throttle_mb_per_second": SLOW_MB, "allow_low_throttle": True, "keep_free_share": 0, **request}
        run = Run(self.cluster, UPath(self.folder / "records"), [list(b) for b in batches], clock=WallClock(), **asked)
        self.runs.append(run)
        return run

    def without_reassignment(self) -> RunContext:
        """What a cancel works with where no reassignment of ours is."""
        store = RecordStore(UPath(self.folder / "records"))
        record = store.record(self.cluster.describe_cluster().cluster_id, "a-cancel-run")
        log = logging.getLogger("tests")
        return RunContext(cluster=self.cluster, store=store, record=record, actor=Actor(requested_by="bob"), log=log)

    def move_elsewhere(self, partition: TopicPartition, target: Replicas | None) -> None:
        """Do as another client would."""
        replies = self.cluster.alter_reassignments({partition: target}, allow_replication_factor_change=True)
        assert replies == {partition: None}

    def configure(self, topic: str, key: str, value: str) -> None:
        """Set a config of a topic."""
        change = ConfigChange(ConfigResource.topic(topic), key, ConfigOperation.SET, value)
        assert not any(self.cluster.alter_configs([change]).values())

    def replicas(self, partition: TopicPartition) -> Replicas:
        """Where a partition is, once nothing of it is in flight and the brokers know."""
        eventually(lambda: self.cluster.list_reassignments([partition]), lambda listed: not listed, seconds=60)
        last: list[Replicas] = []

        def twice_the_same(seen: Replicas) -> bool:
            last.append(seen)
            return len(last) > 5 and len(set(last[-5:])) == 1

        return eventually(
            lambda: self.cluster.describe_partitions([partition.topic])[partition].replicas, twice_the_same
        )

    def clean_up(self) -> None:
        """Leave nothing in flight and no throttle on the shared brokers."""
        for broker in sorted(self._dead - self._kafka.running_brokers):
            self.restart(broker)
        in_flight = self.cluster.list_reassignments()
        if in_flight:
            self.cluster.alter_reassignments(dict.fromkeys(in_flight))
        eventually(self.cluster.list_reassignments, lambda listed: not listed)
        for run in self.runs:
            with suppress(ReassignmentError):
                run.do("clear_throttle")
        set_rates(self.cluster, None)


def speed_up(run: Run) -> None:
    """Let what is in flight finish."""
    change_rate(run.context, asked_bytes_per_second=round(FAST_MB * 1_000_000))


@contextmanager
def moving_lab(kafka, create_topic, folder: Path) -> Iterator[MovingLab]:
    """A lab that leaves nothing behind."""
    lab = MovingLab(kafka, create_topic, folder)
    try:
        yield lab
    finally:
        lab.clean_up()
