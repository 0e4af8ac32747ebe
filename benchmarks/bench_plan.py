"""Plan the bench's clusters, judge every plan, and print our rows beside the peers'.

Every figure is of one process from a cold start: Python, Java and the Spark session included.
Generator and judge are in ``vendored``, unchanged copies of those that judge plans elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measuring import Measured, measured
from peers import KAFKA, QUOTED, QUOTED_ON, run_kafka
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent

OURS = "ours"


@dataclass(frozen=True)
class Bar:
    """What a plan must reach; None for no requirement. Bounds are ratios, ``seconds`` by size."""

    job: str
    mode: str
    seconds: dict[str, int]
    moved: float
    bound: str
    outside: int | None
    leaders: float | None
    receiver: float | None = None


QUICK = {"large": 20, "xl": 45}
BALANCED = {"large": 25, "xl": 45}

BARS = (
    Bar("rebalance", "fewest-bytes", QUICK, 1.02, "lower_bound_gib", 0, 1.10),
    Bar("decommission", "fewest-bytes", QUICK, 1.0005, "lower_bound_gib", None, None, 4.0),
    Bar("decommission", "balanced", BALANCED, 1.03, "goal_lb_gib", 0, 1.10),
    Bar("add", "balanced", BALANCED, 1.03, "goal_lb_gib", 0, 1.10),
    Bar("rf_up", "fewest-bytes", QUICK, 1.0005, "lower_bound_gib", None, None),
    Bar("rf_down", "fewest-bytes", QUICK, 0.0, "lower_bound_gib", None, None),
)

MAX_CHAIN = 1.05
"""Time of all batches together, at most so many times what the busiest broker of the whole plan and the fewest batches take."""

MAX_GIB = {"large": 3.0, "xl": 8.0}

KAFKA_CAN = ("rebalance", "decommission", "add")


@dataclass(frozen=True)
class Row:
    """One plan: its cost and its quality."""

    size: str
    job: str
    mode: str
    planner: str
    wall_seconds: float
    cpu_seconds: float
    peak_gib: float
    to_kafka: float | None
    moved: float | None
    outside: str
    leaders: float
    leader_changes: int
    receiver: float
    batches: int | None
    chain: float | None
    missed: str
    load: float


def main() -> int:
    """Run the bench; exit 1 if one of our plans misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["large", "xl"], help="or BROKERS,RACKS,TOPICS,PARTITIONS")
    parser.add_argument("--jobs", nargs="+", default=sorted({bar.job for bar in BARS}))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--runs", type=int, default=1, help="of each of our plans; the fastest counts")
    parser.add_argument(
        "--p", type=int, default=500, help="partition and leader movements of a batch (default %(default)s)"
    )
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "bench")
    options = parser.parse_args()
    rows: list[Row] = []
    for size in options.sizes:
        snapshot = generated(size, options.seed, options.work)
        kafka: dict[str, Row] = {}
        for bar in (b for b in BARS if b.job in options.jobs):
            if bar.job in KAFKA_CAN and bar.job not in kafka:
                out = snapshot / f"{bar.job}-kafka.json"
                kafka[bar.job] = judged(size, bar, snapshot, out, run_kafka(snapshot, bar.job, out), KAFKA, None)
                rows.append(kafka[bar.job])
            out = snapshot / f"{bar.job}-{bar.mode}.json"
            steps = out.with_suffix(".jsonl")
            command = [str(HERE / "plan"), str(snapshot), bar.job, str(out), "--mode", bar.mode]
            command += ["--batches", str(steps), *limits_of(options)]
            fastest = min((measured(command) for _ in range(options.runs)), key=lambda m: m.wall_seconds)
            against = kafka[bar.job].wall_seconds if bar.job in kafka else None
            chain = judge("score_batches.py", snapshot, str(steps), *limits_of(options))
            rows.append(judged(size, bar, snapshot, out, fastest, OURS, against, chain))
            show(rows[-1:])
    show(rows)
    quoted()
    (options.work / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(any(row.missed for row in rows if row.planner == OURS))


def generated(size: str, seed: int, work: Path) -> Path:
    """Return the folder of a cluster; generate it if it does not exist."""
    folder = work / f"{size.replace(',', '-')}-seed{seed}"
    if not (folder / "jobs.json").exists():
        generator = HERE / "vendored" / "gen_cluster.py"
        subprocess.run(
            [sys.executable, str(generator), size, str(folder), "--seed", str(seed), "--no-text"], check=True
        )
    return folder


def limits_of(options: argparse.Namespace) -> list[str]:
    """The limits on a batch, as the planner and the judge of batches take them."""
    return [f"--p={options.p}", f"--l={options.p}"]


def judge(script: str, snapshot: Path, *words: str) -> dict[str, Any]:
    """Run a judge and return what it found."""
    command = [sys.executable, str(HERE / "vendored" / script), str(snapshot), *words, "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=False, text=True).stdout)
    return found


def judged(
    size: str,
    bar: Bar,
    snapshot: Path,
    out: Path,
    took: Measured,
    planner: str,
    kafka_seconds: float | None,
    chain: dict[str, Any] | None = None,
) -> Row:
    """Judge one plan, and how it is cut into batches."""
    score = judge("score_plan.py", snapshot, bar.job, str(out))
    bound = score[bar.bound]
    moved = score["moved_gib"] / bound if bound else None
    return Row(
        size=size,
        job=bar.job,
        mode=bar.mode if planner == OURS else "",
        planner=planner,
        wall_seconds=round(took.wall_seconds, 1),
        cpu_seconds=round(took.cpu_seconds, 1),
        peak_gib=round(took.peak_bytes / 2**30, 2),
        to_kafka=round(took.wall_seconds / kafka_seconds, 2) if kafka_seconds else None,
        moved=None if moved is None else round(moved, 4),
        outside=f"{score['brokers_outside_tol']}/{score['brokers']}",
        leaders=score["leaders_max_over_mean"],
        leader_changes=score["preferred_leader_changes"],
        receiver=score["busiest_receiver_share"],
        batches=chain and chain["batches"],
        chain=chain and chain["model_over_bound"],
        missed=", ".join(missed(size, bar, took, score, moved, chain)) if chain else "",
        load=round(os.getloadavg()[0], 1),
    )


def missed(
    size: str, bar: Bar, took: Measured, score: dict[str, Any], moved: float | None, chain: dict[str, Any]
) -> list[str]:
    """Return the requirements that a plan of ours misses."""
    checks = {
        "valid": score["valid"],
        "wall": took.wall_seconds <= bar.seconds.get(size, float("inf")),
        "peak": took.peak_bytes <= MAX_GIB.get(size, float("inf")) * 2**30,
        "bytes": score["moved_gib"] == 0 if moved is None else moved <= bar.moved,
        "outside": bar.outside is None or score["brokers_outside_tol"] <= bar.outside,
        "leaders": bar.leaders is None or score["leaders_max_over_mean"] <= bar.leaders + 0.0005,
        "chain": not chain["violations"] and chain["model_over_bound"] <= MAX_CHAIN,
        "receiver": bar.receiver is None or score["busiest_receiver_share"] <= bar.receiver,
    }
    return [name for name, met in checks.items() if not met]


def show(rows: list[Row]) -> None:
    """Print rows as a table."""
    table = Table(
        *[
            "size",
            "job",
            "planner",
            "wall s",
            "cpu s",
            "÷ Kafka's",
            "peak GiB",
            "moved ÷ bound",
            "outside 10 %",
            "leaders",
            "changes",
            "receiver",
            "batches",
            "chain ÷ bound",
            "load",
            "missed",
        ]
    )
    for row in rows:
        moved = "0 bytes" if row.moved is None else f"{row.moved:.3f}"
        cells = (
            row.size,
            f"{row.job} {row.mode}",
            row.planner,
            row.wall_seconds,
            row.cpu_seconds,
            row.to_kafka or "",
            row.peak_gib,
        )
        more = (moved, row.outside, row.leaders, row.leader_changes, row.receiver)
        batches = ("", "") if row.chain is None else (row.batches, f"{row.chain:.3f}")
        table.add_row(*(str(cell) for cell in (*cells, *more, *batches, row.load, row.missed)))
    Console(width=170).print(table)


def quoted() -> None:
    """Print the peers' rows as they were measured once."""
    title = f"quoted, measured {QUOTED_ON}"
    table = Table(
        "job", "planner", "size", "wall s", "peak GiB", "moved ÷ bound", "outside 10 %", "leaders", title=title
    )
    for row in QUOTED:
        table.add_row(*row)
    Console(width=170).print(table)


if __name__ == "__main__":
    sys.exit(main())
