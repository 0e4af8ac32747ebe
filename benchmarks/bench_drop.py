"""Drop replicas from partitions that a producer with acks=all writes to, and measure how long its messages wait.

A drop and an election make a new leader epoch. Kinds of drops: of a follower, of the leader (the controller elects another), of the
leader after another was elected, and of followers of partitions that nobody writes to, on the brokers of partitions that are written to.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

from benchmarks.step_runs import show_rows
from tests.kafka_fixtures import wait_until

from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic
from kafka_lab.ledger import Ledger
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.ports import ClusterPort

KINDS = ("follower", "leader", "leader, elected before", "idle follower")
DROPS = ((1, 1), (5, 5), (20, 20), (100, 100), (100, 20))
"""How many, and how many of them at once."""

LEADERS = ("one", "three")
DEFAULTS: dict[str, int] = {"replica.fetch.backoff.ms": 1_000, "replica.fetch.wait.max.ms": 500}

NEW = 4
"""The broker to which a replica of each partition moves."""

BUSY_TOPIC = "busy"
MESSAGES_PER_SECOND = 100
BEFORE_SECONDS, AFTER_SECONDS = 4.0, 5.0
WARM_UP_SECONDS = 3.0
"""A new producer's first messages wait for its connections: they do not count."""

PAUSE_SECONDS = 2.0
"""After those that are submitted together, until the next."""

SLOW_MS = 300.0


@dataclass(frozen=True)
class Case:
    """Some drops; ``leaders``: of partitions that one broker leads, or three in turns; ``at_once`` are submitted together."""

    kind: str
    leaders: str
    drops: int
    at_once: int

    def current(self, number: int) -> Replicas:
        """Return the replicas of a partition before, its leader first."""
        shift = number % 3 if self.leaders == "three" else 0
        return tuple((broker + shift) % 3 + 1 for broker in range(3))

    def target(self, number: int) -> Replicas:
        """Return the replicas of a partition afterwards."""
        leader, second, third = self.current(number)
        return (leader, second, NEW) if "follower" in self.kind else (NEW, second, third)


@dataclass(frozen=True)
class Stall:
    """How long messages waited until they were acknowledged, in milliseconds, and how long those that waited long did so altogether."""

    longest_ms: float
    p99_ms: float
    before_ms: float
    stalled_ms: float


def measure(cluster: ClusterPort, servers: str, case: Case, number: int) -> Stall:
    """Expand the partitions of a fresh topic, wait until they are in sync, drop at once, and look at the producer."""
    topic = f"drops-{number}"
    count = case.drops
    create_topic(servers, topic, [case.current(p) for p in range(count)])
    partitions = [TopicPartition(topic, p) for p in range(count)]
    written = [BUSY_TOPIC] if case.kind == "idle follower" else [topic]
    with Ledger(servers, written, messages_per_second=MESSAGES_PER_SECOND, message_bytes=200) as ledger:
        time.sleep(WARM_UP_SECONDS)
        expanded = {p: _expanded(case, p.partition) for p in partitions}
        _submit(cluster, expanded)
        wait_until(lambda: _are_in_sync(cluster, expanded), seconds=60)
        time.sleep(BEFORE_SECONDS)
        began = ledger.elapsed_seconds
        if case.kind == "leader, elected before":
            cluster.elect_preferred_leaders(partitions)
            time.sleep(AFTER_SECONDS)
        for first in range(0, count, case.at_once):
            _submit(cluster, {p: case.target(p.partition) for p in partitions[first : first + case.at_once]})
            time.sleep(PAUSE_SECONDS)
        time.sleep(AFTER_SECONDS)
        ended = ledger.elapsed_seconds
    stall = Stall(
        longest_ms=ledger.latency_ms(1, began, ended),
        p99_ms=ledger.latency_ms(0.99, began, ended),
        before_ms=ledger.latency_ms(0.99, began - BEFORE_SECONDS, began),
        stalled_ms=_stalled_ms([(at, ms) for at, ms in ledger.latencies if began <= at < ended]),
    )
    check = ledger.verify()
    if check.lost:
        raise RuntimeError(f"{check.lost} acknowledged messages are lost")
    return stall


def _expanded(case: Case, partition: int) -> Replicas:
    """All replicas; the new one is the preferred leader where it is to be elected before the drop."""
    current = case.current(partition)
    return (NEW, *current) if case.kind == "leader, elected before" else (*current, NEW)


def _stalled_ms(latencies: Sequence[tuple[float, float]]) -> float:
    """Return for how long at least one message waited that was to wait longer than ``SLOW_MS``."""
    waits = sorted((at - ms / 1000, at) for at, ms in latencies if ms > SLOW_MS)
    total, until = 0.0, 0.0
    for begin, end in waits:
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total * 1000


def _submit(cluster: ClusterPort, targets: Mapping[TopicPartition, Replicas]) -> None:
    refused = {
        p: r
        for p, r in cluster.alter_reassignments(targets, allow_replication_factor_change=True).items()
        if r is not None
    }
    if refused:
        raise RuntimeError(f"refused: {refused}")


def _are_in_sync(cluster: ClusterPort, wanted: Mapping[TopicPartition, Replicas]) -> bool:
    states = cluster.describe_partitions({p.topic for p in wanted})
    return all(states[p].isr == set(replicas) for p, replicas in wanted.items())


def bench(settings: Mapping[str, int], cases: Sequence[Case], repetitions: int) -> list[dict[str, object]]:
    """Measure all cases on brokers with these settings; return a row for each, with medians, and the longest of all."""
    rows = []
    configs = {key: str(value) for key, value in settings.items()}
    with LocalCluster(brokers=4, configs=configs) as kafka:
        servers = kafka.bootstrap_servers
        create_topic(servers, BUSY_TOPIC, [Case("idle follower", "three", 1, 1).current(p) for p in range(3)])
        with open_cluster(ClusterSettings.of({"bootstrap.servers": servers}, name="bench")) as cluster:
            for number, case in enumerate(cases):
                runs = [measure(cluster, servers, case, number * repetitions + n) for n in range(repetitions)]
                row = {
                    **{key.removeprefix("replica.fetch."): value for key, value in settings.items()},
                    **asdict(case),
                    "longest_ms": round(max(r.longest_ms for r in runs)),
                    **{
                        name: round(statistics.median(getattr(r, name) for r in runs))
                        for name in ("p99_ms", "before_ms", "stalled_ms")
                    },
                }
                print(json.dumps(row), file=sys.stderr, flush=True)
                rows.append(row)
    return rows


def main() -> int:
    """Print a table on stderr, and one JSON object as the last line of stdout."""
    parser = argparse.ArgumentParser(prog="make bench-drop", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3, help="of each case (default %(default)s)")
    parser.add_argument(
        "--backoff",
        type=int,
        default=50,
        metavar="MS",
        help="replica.fetch.backoff.ms beside Kafka's default (%(default)s)",
    )
    parser.add_argument(
        "--wait",
        type=int,
        default=100,
        metavar="MS",
        help="replica.fetch.wait.max.ms beside Kafka's default (%(default)s)",
    )
    parser.add_argument("--kinds", default=";".join(KINDS), help="of drops (default %(default)s)")
    parser.add_argument("--leaders", default=";".join(LEADERS), help="of the partitions (default %(default)s)")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    cases = [
        Case(kind, leaders, *drops)
        for kind, leaders, drops in product(given.kinds.split(";"), given.leaders.split(";"), DROPS)
    ]
    lower = {"replica.fetch.backoff.ms": given.backoff, "replica.fetch.wait.max.ms": given.wait}
    rows = [row for settings in (DEFAULTS, lower) for row in bench(settings, cases, given.repetitions)]
    show_rows("How long messages with acks=all wait while replicas are dropped", rows)
    print(json.dumps({"rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
