"""Reassignments of topics with tiered storage (KIP-405, KIP-1023), on brokers with a real remote store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.lab import eventually
from tests.kafka_fixtures import fresh_topic_name
from tests.steps_lab import Run, WallClock, move
from upath import UPath

from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_lab.tiered import tiered_storage
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.steps.base.waiting import SizeSamples, Waiting
from kafka_reassignment.steps.leaders import elect_leaders

pytestmark = pytest.mark.kafka

BROKERS = 3
SEGMENT = 2**20
KEPT_LOCALLY = 3 * SEGMENT


@dataclass
class TieredCluster:
    kafka: LocalCluster
    port: ClusterPort
    store: Path

    def topic(self, *replicas: tuple[int, ...]) -> str:
        """Make a topic whose older segments are in the remote store only."""
        name = fresh_topic_name("tiered")
        configs = {
            "remote.storage.enable": "true",
            "segment.bytes": str(SEGMENT),
            "local.retention.bytes": str(KEPT_LOCALLY),
        }
        create_topic(self.kafka.bootstrap_servers, name, replicas, configs)
        self.write(name)
        return name

    def write(self, topic: str, megabytes: int = 20) -> None:
        """Write so much that most of it goes to the remote store, and wait until all that goes there is there."""
        fill_topics(self.kafka.bootstrap_servers, [topic], megabytes * 1_000_000)
        leader = self.port.describe_partitions([topic])[TopicPartition(topic, 0)].leader
        eventually(lambda: self.local_bytes(topic)[leader], lambda size: size < KEPT_LOCALLY + 2 * SEGMENT, seconds=60)
        eventually(lambda: self._copied_in_two_seconds(topic), lambda segments: segments == 0, seconds=60)

    def _copied_in_two_seconds(self, topic: str) -> int:
        """Brokers look for segments to copy twice a second."""
        before = self._remote_segments(topic)
        time.sleep(2)
        return self._remote_segments(topic) - before

    def _remote_segments(self, topic: str) -> int:
        return sum(1 for _ in self.store.glob(f"*/{topic}-0-*/*.log"))

    def local_bytes(self, topic: str) -> dict[int | None, int]:
        """What each broker has on its own disk."""
        partition = TopicPartition(topic, 0)
        report = self.port.describe_log_dirs(self.kafka.brokers, [partition])
        return {r.broker: r.size_bytes for r in report.replicas if r.partition == partition}

    @contextmanager
    def store_gone(self) -> Iterator[None]:
        """Whatever is asked of the remote store inside fails."""
        inside, elsewhere = self.store / "kafka-tiered-storage", self.store.with_name("elsewhere")
        inside.rename(elsewhere)
        inside.touch()  # a file where the folder was, so that the brokers cannot make it again
        try:
            yield
        finally:
            inside.unlink()
            elsewhere.rename(inside)

    def format_until(self, word: str, run: Run) -> str:
        """Look as the trigger does until it tells of this; return what it tells."""
        end, samples = time.monotonic() + 60, SizeSamples()
        while True:
            result = run.look("sense_isr_catch_up", samples=samples)
            assert isinstance(result, Waiting)
            if word in result.reason:
                return result.reason
            assert time.monotonic() < end, result.reason
            time.sleep(1)


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredCluster]:
    store = tmp_path_factory.mktemp("remote") / "store"
    store.mkdir()
    configs = {**tiered_storage(store, brokers=BROKERS), "follower.fetch.last.tiered.offset.enable": "true"}
    with (
        LocalCluster(brokers=BROKERS, configs=configs) as kafka,
        open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="tests")) as port,
    ):
        yield TieredCluster(kafka, port, store)


def test_a_new_replica_with_next_to_nothing_of_its_own_does_not_lead_until_it_has(tiered, tmp_path):
    topic = tiered.topic((1, 2))
    size = tiered.local_bytes(topic)[1]
    run = Run(
        tiered.port, UPath(tmp_path), [[move(topic, 0, (1, 2), (3, 1), size)]], clock=WallClock(), keep_free_share=0
    )
    run.do_all()
    partition = TopicPartition(topic, 0)
    assert tiered.local_bytes(topic)[3] < size / 2, "it joined without what is in the remote store already"
    elect_leaders(run.context)
    state = tiered.port.describe_partitions([topic])[partition]
    assert (state.replicas, state.leader) == ((3, 1), 1)
    [message] = [e.summary for e in run.record.audit if e.step == "elect_leaders"]
    assert "1 keep their leader until the new replica has more of their tiered topic on its own disk" in message
    assert f"{partition} (broker 3 has" in message
    tiered.write(topic)
    elect_leaders(run.context)
    eventually(lambda: tiered.port.describe_partitions([topic])[partition].leader, lambda leader: leader == 3)


def test_a_replica_that_cannot_reach_the_remote_store_is_reported_as_stuck_and_joins_when_it_can(tiered, tmp_path):
    topic = tiered.topic((1, 2))
    size = tiered.local_bytes(topic)[1]
    run = Run(
        tiered.port, UPath(tmp_path), [[move(topic, 0, (1, 2), (1, 3), size)]], clock=WallClock(), keep_free_share=0
    )
    with tiered.store_gone():
        run.do_all("set_throttle", "submit_batch")
        message = tiered.format_until("stuck", run)
    assert f"1 stuck: {topic}-0 on 3: nothing was copied for" in message
    hint = "remote log auxiliary state"
    assert f"with tiered storage, look for '{hint}' in the broker's log" in message
    assert hint in (tiered.kafka.directory / "broker-3" / "server.log").read_text()
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert tiered.port.describe_partitions([topic])[TopicPartition(topic, 0)].replicas == (1, 3)
