"""Move the same replicas by this project's DAGs and by Kafka's own tool, in turns, and measure both from outside.

Starts six brokers on three racks and a real Airflow. Each time, a fresh topic on brokers 1 to 4 gets its share on the new
brokers 5 and 6, while a producer with acks=all writes 100 messages a second. The DAG run plans (job add_brokers) and moves
in batches; then Kafka's tool moves the same targets, which the run's record holds. docs/speed.md explains the figures.
Progress is on stderr; the last line of stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.move_figures import medians
from benchmarks.move_picture import Line, picture, slowest, throughput
from benchmarks.move_runs import BROKERS, RACKS, Bench, Move, Setting, as_json, assignment, console
from rich.table import Table

from kafka_lab.airflow import LocalAirflow, kafka_connection
from kafka_lab.cluster import LocalCluster
from kafka_lab.releases import DEFAULT_VERSION

ROWS = (
    ("asked → first byte", "first_byte_seconds", "{:.1f} s"),
    ("first → last byte", "copy_seconds", "{:.1f} s"),
    ("… ÷ busiest receiver's bytes at the asked rate", "to_bound", "{:.2f}"),
    ("asked → last byte", "last_byte_seconds", "{:.1f} s"),
    ("asked → verified", "end_seconds", "{:.1f} s"),
    ("busiest receiver ÷ asked rate, any 30 s", "receiver_30s", "{:.2f}"),
    ("busiest sender ÷ asked rate, any 30 s", "sender_30s", "{:.2f}"),
    ("busiest receiver ÷ asked rate, any 2 s", "receiver_2s", "{:.2f}"),
    ("busiest sender ÷ asked rate, any 2 s", "sender_2s", "{:.2f}"),
    ("extra disk ÷ bytes moved", "extra_disk", "{:.2f}"),
    ("brokers' answers per minute, without data", "requests_per_minute", "{:.0f}"),
    ("gaps between batches", "gap_count", "{:.0f}"),
    ("… each", "gap_seconds", "{:.1f} s"),
    ("producer before: median", "before_p50_ms", "{:.1f} ms"),
    ("producer before: p99", "before_p99_ms", "{:.0f} ms"),
    ("producer before: longest", "before_longest_ms", "{:.0f} ms"),
    ("producer during: median", "during_p50_ms", "{:.1f} ms"),
    ("producer during: p99", "during_p99_ms", "{:.0f} ms"),
    ("producer during: longest", "during_longest_ms", "{:.0f} ms"),
    ("producer during: longer than 0.3 s", "during_late_share", "{:.2%}"),
)


def main() -> int:
    """Run the bench; exit 1 if a message was lost."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    setting = Setting(
        options.partitions,
        options.mb,
        options.rate,
        options.batches,
        options.message_bytes,
        options.batch_bytes,
        options.idle_partitions,
    )
    options.work.mkdir(parents=True, exist_ok=True)
    moves: list[Move] = []
    try:
        with ExitStack() as opened:
            console.print(f"Starting Kafka {options.kafka} and Airflow", style="dim")
            cluster = opened.enter_context(
                LocalCluster(
                    brokers=BROKERS,
                    racks=RACKS,
                    version=options.kafka,
                    # Deleted data leaves the disk at once: the next move is not to wait for it.
                    configs={"log.segment.delete.delay.ms": "1000"},
                    log_line=lambda text: console.print(text, style="dim", markup=False),
                )
            )
            connection = kafka_connection(cluster.bootstrap_servers)
            home = Path(tempfile.mkdtemp(dir=options.work.resolve(), prefix="airflow-")) if options.keep else None
            airflow = opened.enter_context(LocalAirflow(connections={"kafka_default": connection}, home=home))
            bench = Bench(cluster, airflow, setting)
            bench.warm_up()
            for number in range(1, options.repetitions + 1):
                ours = bench.ours(number)
                moves.append(ours)
                _keep(ours, number, options)
                if options.ours_only:
                    continue
                moves.append(bench.kafka(ours.targets))
                _keep(moves[-1], number, options)
    except KeyboardInterrupt:
        console.print("Stopped; everything the bench started has ended.")
        return 130
    _finish(moves, setting, options)
    return int(any(move.lost for move in moves))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-move", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--partitions", type=int, default=48, help="of the topic (default %(default)s)")
    add("--mb", type=float, default=40, help="of each partition, before replication (default %(default)s)")
    add("--rate", type=float, default=12, help="throttle in MB/s (default %(default)s)")
    add("--batches", type=int, default=4, help="of the DAGs, about (default %(default)s)")
    add("--message-bytes", type=int, default=10_000, help="of the topic's data (default %(default)s)")
    add("--batch-bytes", type=int, default=131_072, help="of a record batch, at most (default %(default)s)")
    add(
        "--idle-partitions",
        type=int,
        default=0,
        help="in the cluster as well, empty, with one replica each (default %(default)s)",
    )
    add("--repetitions", type=int, default=3, help="of each mover, in turns (default %(default)s)")
    add("--kafka", default=DEFAULT_VERSION, help="release, 4.0.0 or later (default %(default)s)")
    add("--ours-only", action="store_true", help="leave Kafka's tool out")
    add("--keep", action="store_true", help="keep every sample and latency as JSON, and Airflow's logs")
    add("--work", type=Path, default=Path("build/bench-move"), help="folder of the results (default %(default)s)")
    return parser.parse_args()


def _keep(move: Move, number: int, options: argparse.Namespace) -> None:
    seen = move.figures
    console.print(
        f"{move.mover}, {number} of {options.repetitions}: first byte after {seen.first_byte_seconds:.1f} s, copied in "
        f"{seen.copy_seconds:.1f} s ({seen.to_bound:.2f} of the bound), {move.batches} batches, "
        f"gaps {', '.join(f'{gap:.1f}' for gap in seen.gaps) or 'none'}, load {os.getloadavg()[0]:.1f}"
    )
    if options.keep:
        name = "ours" if move.mover == "ours" else "kafka"
        (options.work / f"{name}-{number}.json").write_text(json.dumps(as_json(move, raw=True)))


def _finish(moves: list[Move], setting: Setting, options: argparse.Namespace) -> None:
    by_mover: dict[str, list[Move]] = {}
    for move in moves:
        by_mover.setdefault(move.mover, []).append(move)
    middle = {mover: medians([m.figures for m in of]) for mover, of in by_mover.items()}
    table = Table("median", *middle)
    for title, name, form in ROWS:
        table.add_row(title, *(form.format(found[name]) if name in found else "–" for found in middle.values()))
    console.print(table)
    start = assignment(setting.partitions)
    last = [of[-1] for of in by_mover.values()]
    copied = [Line(m.mover, throughput(m.samples, start)) for m in last]
    waited = [Line(m.mover, slowest(m.latencies)) for m in last]
    (options.work / "move.svg").write_text(picture(copied, setting.rate_mb, waited))
    result: dict[str, Any] = {"kafka": options.kafka, "setting": vars(setting), "medians": middle}
    (options.work / "results.json").write_text(
        json.dumps({**result, "moves": [as_json(move, raw=False) for move in moves]}, indent=1)
    )
    console.print(f"Results and picture: {options.work}")
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
