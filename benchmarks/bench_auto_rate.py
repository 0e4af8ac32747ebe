"""Copy the same data twice beside a producer with acks=all, at a rate that is too high for the machine: without and with auto rate.

Four brokers share the machine. Brokers 3 and 4 get what brokers 1 and 2 have, by the steps of a batch. A producer writes to a
topic with three replicas all the time, and its latency is measured while data is copied. Auto rate sees a canary topic, and not
that producer.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.step_runs import look_until_done, show_rows
from tests.kafka_fixtures import delete_topics
from tests.steps_lab import Run, WallClock, move
from upath import UPath

from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_lab.ledger import Ledger
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.ports import ClusterPort

LOAD, CANARY = "load", "canary"
BROKERS = 4
CANARIES = 16
"""Partitions of the canary topic: the more there are, the more surely one of them meets what few messages meet."""

PARTITIONS = 8
SETTLED_SECONDS = 40.0
"""After so many seconds auto rate has lowered the rate some times, if it does."""

QUIET_SECONDS = 20.0
"""How long the producer writes before each move, from 5 s after its start on: its first messages wait for connections."""


@dataclass(frozen=True)
class Setting:
    """What is asked for: rates in MB/s, the data that is copied in MB, messages of 1 kB per second."""

    rate: float
    lowest: float
    mb: int
    messages: float
    canary_limit_ms: int


class Watched:
    """The looks of one move: when each was, the rate after it, and why it was changed."""

    def __init__(self, run: Run, log: Callable[[str], None]) -> None:
        self._run, self._log = run, log
        self._began = time.monotonic()
        self.rates: list[tuple[float, float]] = []

    def copy(self) -> float:
        """Run the steps of the batch until all is in sync; return how long the copies took."""
        run = self._run
        run.start()
        run.do_all("admit", "set_throttle")
        self._began = began = time.monotonic()
        run.do("submit_batch")
        look_until_done(run, "sense_isr_catch_up", 1, self._note)
        return time.monotonic() - began

    def _note(self, said: str) -> None:
        rate = rate_in_force(self._run.context.request, self._run.record.journal()) or 0
        self.rates.append((round(time.monotonic() - self._began, 1), round(rate / 1e6, 1)))
        self._log(f"{self.rates[-1][0]:.0f} s: {said}")


def _move(
    kafka: LocalCluster, port: ClusterPort, topic: str, setting: Setting, *, auto: bool, log: Callable[[str], None]
) -> dict[str, object]:
    """Copy a topic that is made for it, and return what the producer beside it saw."""
    size = setting.mb * 1_000_000
    create_topic(kafka.bootstrap_servers, topic, [(1 + p % 2,) for p in range(PARTITIONS)])
    fill_topics(kafka.bootstrap_servers, [topic], size)
    steps = [move(topic, p, (1 + p % 2,), (3 + p % 2,), size // PARTITIONS) for p in range(PARTITIONS)]
    asked: dict[str, object] = {"throttle_mb_per_second": setting.rate, "keep_free_share": 0}
    if auto:
        asked |= {
            "auto_rate": True,
            "lowest_mb_per_second": setting.lowest,
            "canary_topic": CANARY,
            "canary_limit_ms": setting.canary_limit_ms,
        }
    with tempfile.TemporaryDirectory() as record:
        run = Run(port, UPath(record), [steps], clock=WallClock(), reassignment_id=topic, **asked)
        watched = Watched(run, log)
        with Ledger(kafka.bootstrap_servers, [LOAD], messages_per_second=setting.messages) as ledger:
            time.sleep(5 + QUIET_SECONDS)
            load_before = os.getloadavg()[0]
            since = ledger.elapsed_seconds
            seconds = watched.copy()
            until = ledger.elapsed_seconds
            load = os.getloadavg()[0]
            found = {
                name: round(ledger.latency_ms(share, since, until), 1)
                for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999), ("longest_ms", 1.0))
            }
            found["settled_p99_ms"] = round(ledger.latency_ms(0.99, since + SETTLED_SECONDS, until), 1)
            late = [ms for at, ms in ledger.latencies if since <= at < until]
            quiet = round(ledger.latency_ms(0.99, 5, since), 1)
        run.do_all("drop_old_replicas", "clear_throttle")
        delete_topics(kafka.bootstrap_servers, [topic])
        reasons = [change.because for change in run.record.journal().rate_changes]
    return {
        "auto_rate": auto,
        "seconds": round(seconds, 1),
        **found,
        "late_share": round(sum(ms > setting.canary_limit_ms for ms in late) / max(1, len(late)), 4),
        "quiet_p99_ms": quiet,
        "load_before": round(load_before, 1),
        "load": round(load, 1),
        "rates": watched.rates,
        "last_change": reasons[-1] if reasons else "",
    }


def bench(release: str, setting: Setting, repetitions: int, log: Callable[[str], None]) -> list[dict[str, object]]:
    """Move without and with auto rate, in turns."""
    rows = []
    with LocalCluster(brokers=BROKERS, version=release) as kafka:
        for topic, count in ((LOAD, BROKERS), (CANARY, CANARIES)):
            ring = [tuple((p + i) % BROKERS + 1 for i in range(3)) for p in range(count)]
            create_topic(kafka.bootstrap_servers, topic, ring)
        settings = ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="bench")
        with open_cluster(settings) as port:
            for turn in range(2 * repetitions):
                auto = turn % 2 == 1
                log(f"move {turn + 1} of {2 * repetitions}, {'with' if auto else 'without'} auto rate")
                rows.append(_move(kafka, port, f"data-{turn}", setting, auto=auto, log=log))
    return rows


def main() -> int:
    """Print a table on stderr, and one JSON object as the last line of stdout."""
    parser = argparse.ArgumentParser(prog="make bench-auto-rate", description=__doc__)
    parser.add_argument("--release", default="4.3.1", help="of Kafka (default %(default)s)")
    parser.add_argument("--rate", type=float, default=100.0, help="MB/s to begin with (default %(default)s)")
    parser.add_argument("--lowest", type=float, default=10.0, help="MB/s, of auto rate (default %(default)s)")
    parser.add_argument("--mb", type=int, default=8_000, help="MB that are copied in each move (default %(default)s)")
    parser.add_argument("--messages", type=float, default=200.0, help="of 1 kB per second (default %(default)s)")
    parser.add_argument("--canary-limit-ms", type=int, default=100, help="of auto rate (default %(default)s)")
    parser.add_argument("--repetitions", type=int, default=1, help="of both moves, in turns (default %(default)s)")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    setting = Setting(given.rate, given.lowest, given.mb, given.messages, given.canary_limit_ms)
    rows = bench(given.release, setting, given.repetitions, lambda text: print(text[:300], file=sys.stderr, flush=True))
    title = f"A producer with acks=all beside a copy that begins at {given.rate:g} MB/s"
    show_rows(title, rows, without=frozenset({"rates", "last_change"}))
    print(json.dumps({"release": given.release, "setting": vars(given), "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
