"""Where a seed begins: a small cluster with topics, and a reassignment that is asked for."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from tests.fakes.cluster import FakeCluster
from tests.simulation.clock import START
from tests.simulation.controller_state import FOLLOWER_RATE, LEADER_RATE
from tests.simulation.directed import needs
from tests.simulation.disk import Kind
from tests.simulation.world import Looks, World

from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition

MB = 1_000_000
RETENTION_BYTES = 5_000 * MB
"""Of a partition that producers write to: nobody's disk fills up in weeks in which nobody looks."""

EVERY_LOOK = 5
"""One seed of so many simulates every look of its waiting tasks."""

AUTO_RATE_SHARE = 0.08
"""Of the seeds whose request asks for auto rate."""

SLOW_SECONDS = 2.0
"""How long producers wait for each message of a topic that is slow."""

CLOCK_CHANGES = (
    ("Europe/Madrid", "2026-03-28T23:20+00:00"),
    ("Europe/Madrid", "2026-10-24T22:20+00:00"),
    ("America/New_York", "2026-03-08T05:20+00:00"),
    ("America/New_York", "2026-11-01T04:20+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T13:20+00:00"),
)
"""Time zones, and a moment some hundred minutes before their clocks change, on a Sunday there or the evening before."""

OVER_THE_CHANGE = (
    ["sun 00:30-03:30"],
    ["sun 02:00-02:45"],
    ["sat 22:00-04:00"],
    ["cron 30 1 * * sun for 2 h"],
    ["sun 01:00-01:45", "sun 02:15-05:00"],
)


@dataclass(frozen=True)
class Topic:
    """A topic to begin with."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    size_bytes: int
    min_insync_replicas: int


@dataclass(frozen=True)
class Scenario:
    """A cluster, what is wrong with it from the start, and the first request.

    Args:
        seed: of everything random that is to come.
        racks: by broker.
        topics: to begin with.
        request: of the first reassignment.
        disk: of the record store.
        dead: brokers that are dead from the start, until the script's end.
        gone: brokers that are dead and never come back.
        rates: bytes per second that another operator had set before, by broker, for both sides.
        static_rates: the same in server.properties.
        behind: replicas that are out of the ISR for the first minutes, as (topic, partition, broker).
        writes: bytes per second that producers write, by topic, to each partition.
        looks: how many of the looks of waiting tasks are simulated: "few" leaves out most that can see no change.
        slow: a topic whose producers wait for ``SLOW_SECONDS``, all the time; none when empty.
        start: the first moment, as ISO 8601; a Monday at noon when empty.
    """

    seed: int
    racks: dict[int, str]
    topics: tuple[Topic, ...]
    request: dict[str, Any]
    disk: Kind = "objects"
    dead: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    rates: dict[int, int] = field(default_factory=dict)
    static_rates: dict[int, int] = field(default_factory=dict)
    behind: tuple[tuple[str, int, int], ...] = ()
    writes: dict[str, int] = field(default_factory=dict)
    looks: Looks = "every"
    start: str = ""
    slow: str = ""

    def world(self) -> World:
        """Make the world as it is before anything happens."""
        static = {b: {key: str(rate) for key in (LEADER_RATE, FOLLOWER_RATE)} for b, rate in self.static_rates.items()}
        cluster = FakeCluster(racks=self.racks, auto_catch_up=False, static_configs=static)
        for topic in self.topics:
            cluster.create_topic(
                topic.name,
                topic.replicas,
                size_bytes=topic.size_bytes,
                messages=topic.size_bytes // 1000,
                configs={"min.insync.replicas": str(topic.min_insync_replicas)},
            )
            for number in range(len(topic.replicas)) if topic.name in self.writes else ():
                cluster.write(
                    TopicPartition(topic.name, number), self.writes[topic.name], retention_bytes=RETENTION_BYTES
                )
        cluster.slow_producers([p for p in cluster.describe_partitions() if p.topic == self.slow], SLOW_SECONDS)
        changes = [
            ConfigChange(ConfigResource.broker(b), key, ConfigOperation.SET, str(rate))
            for b, rate in self.rates.items()
            for key in (LEADER_RATE, FOLLOWER_RATE)
        ]
        if changes:
            cluster.alter_configs(changes)
        for broker in (*self.dead, *self.gone):
            cluster.kill(broker)
        for name, number, broker in self.behind:
            partition = TopicPartition(name, number)
            if cluster.describe_partitions()[partition].leader != broker:
                cluster.fall_behind(partition, broker)
        start = datetime.fromisoformat(self.start) if self.start else START
        return World(self.seed, cluster, disk=self.disk, looks=self.looks, start=start)

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(seed)
    brokers = list(range(1, rng.randint(3, 6) + 1))
    topics = []
    for name in "abcd"[: rng.randint(1, 3)]:
        factor = rng.randint(1, min(3, len(brokers)))
        replicas = tuple(tuple(rng.sample(brokers, factor)) for _ in range(rng.randint(1, 4)))
        least = rng.randint(1, factor - 1) if factor > 1 else 1
        topics.append(Topic(name, replicas, rng.choice((1, 20, 100, 400)) * MB, least))
    made = Scenario(
        seed,
        {b: "abc"[b % 3] for b in brokers},
        tuple(topics),
        _request(rng, brokers, topics),
        rng.choice(("objects", "objects", "local")),
        looks="few" if seed % EVERY_LOOK else "every",
    )
    made = _troubled(rng, made, brokers)
    return _with_auto_rate(replace(made, request=made.request | needs(seed)))


def _with_auto_rate(made: Scenario) -> Scenario:
    """Let some requests ask for auto rate, with a canary topic whose producers wait for too long in some of them.

    By random numbers of its own, so that all else of a seed stays as it is.
    """
    rng = random.Random(f"auto rate {made.seed}")
    if rng.random() >= AUTO_RATE_SHARE or made.request.get("unthrottled"):
        return made
    topic = rng.choice(made.topics)
    asked = {"auto_rate": True, "canary_topic": topic.name, "allow_low_throttle": True}
    return replace(made, request=made.request | asked, slow=topic.name if rng.random() < 0.5 else "")


def _troubled(rng: random.Random, made: Scenario, brokers: list[int]) -> Scenario:
    """Let some scenarios begin with a dead broker, others' rates, replicas behind, producers, or clocks about to change."""
    if rng.random() < 0.15 and len(brokers) > 3:
        made = replace(made, **{rng.choice(("dead", "gone")): (rng.choice(brokers),)})
    if rng.random() < 0.15:
        made = replace(made, rates={rng.choice(brokers): rng.choice((800_000, 3_000_000, 60_000_000))})
    if rng.random() < 0.05:
        made = replace(made, static_rates={rng.choice(brokers): 90_000_000})
    if rng.random() < 0.1:
        topic = rng.choice(made.topics)
        made = replace(made, behind=((topic.name, 0, topic.replicas[0][-1]),))
    if rng.random() < 0.15:
        made = replace(made, writes={rng.choice(made.topics).name: rng.choice((50_000, 200_000))})
    if rng.random() < 0.03:
        zone, start = rng.choice(CLOCK_CHANGES)
        asked = {"windows": rng.choice(OVER_THE_CHANGE), "time_zone": zone}
        made = replace(made, start=start, request=made.request | asked)
    return made


def _request(rng: random.Random, brokers: list[int], topics: list[Topic]) -> dict[str, Any]:
    """Ask for random valid moves, mostly by apply_json: that names each target whatever the script meets."""
    asked: dict[str, Any] = {
        "throttle_mb_per_second": rng.choice((1, 5, 10, 50)),
        "partition_movements": rng.choice((1, 2, 3, 50)),
        "replica_movements": rng.choice((1, 1, 2, 3)),
        "leader_movements": rng.choice((1, 50, 50)),
        "allowed_unhealthy_partitions": rng.choice((0, 0, 5)),
        "require_approval": rng.random() < 0.08,
        "catch_up_timeout_minutes": rng.choice((30, 1440, 1440)),
    }
    asked |= _job(rng, brokers, topics)
    if rng.random() < 0.08:
        asked["windows"] = rng.choice((["mon-fri 12:05-13:00"], ["tue 01:00-05:00"], ["cron 0 * * * * for 30 min"]))
        asked["time_zone"] = rng.choice(("UTC", "Europe/Madrid"))
    if rng.random() < 0.1 and asked["throttle_mb_per_second"] > 1:
        asked |= rng.choice(({"pause_while_unhealthy": True}, {"mb_per_second_while_unhealthy": 1}))
    if rng.random() < 0.03:
        asked |= {"throttle_mb_per_second": None, "unthrottled": True}
        asked.pop("mb_per_second_while_unhealthy", None)
    if rng.random() < 0.02:
        asked["validate_only"] = True
    return asked


def _job(rng: random.Random, brokers: list[int], topics: list[Topic]) -> dict[str, Any]:
    job = rng.choice(("apply_json",) * 6 + ("decommission", "rebalance", "leaders", "replication_factor"))
    widest = max(len(t.replicas[0]) for t in topics)
    if job == "decommission" and len(brokers) > widest:
        return {"job": job, "brokers": [rng.choice(brokers)]}
    if job == "replication_factor":
        return {"job": job, "topics": [topics[0].name], "replication_factor": rng.randint(1, min(3, len(brokers)))}
    if job in ("rebalance", "leaders"):
        return {"job": job}
    targets = []
    for topic in topics:
        factor = len(topic.replicas[0])
        changed = rng.choice((factor, factor, factor, min(factor + 1, len(brokers)), max(factor - 1, 1)))
        for number, replicas in enumerate(topic.replicas):
            target = tuple(rng.sample(brokers, max(changed, topic.min_insync_replicas)))
            if rng.random() < 0.2:
                target = tuple(rng.sample(replicas, len(replicas)))
            targets.append({"topic": topic.name, "partition": number, "replicas": list(target)})
    return {"job": "apply_json", "reassignment_json": json.dumps({"version": 1, "partitions": targets})}
