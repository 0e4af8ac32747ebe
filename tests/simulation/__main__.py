"""``python -m tests.simulation --seeds 1-1000``: run seeds; ``--replay SEED``: one of them, with its story."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.actions import Action
from tests.simulation.disk import Kind
from tests.simulation.runner import Summary, profile_seeds, run_exhaustive, run_seeds, run_two_tries, script_of
from tests.simulation.scenario import scenario
from tests.simulation.shrink import shrink
from tests.simulation.trial import run_trial

from kafka_reassignment.interrupts import CTRL_C_EXIT_CODE

DISKS: tuple[Kind, ...] = ("objects", "local")
PROGRESS_SECONDS = 10.0


def main() -> int:
    """Run what is asked for; the exit code is 1 when anything is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", metavar="A-B", help="which seeds (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default %(default)s)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and tell its story")
    parser.add_argument(
        "--script", type=Path, metavar="FILE", help='run a script and tell its story: {"seed": 1, "script": [actions]}'
    )
    parser.add_argument("--shrink", action="store_true", help="with a story: the fewest actions that break the same")
    parser.add_argument("--coverage", action="store_true", help="print which actions met which states")
    parser.add_argument("--exhaustive", action="store_true", help="every task dies at every call, once")
    parser.add_argument(
        "--two-tries",
        action="store_true",
        help="every try of every task and every trigger stands still at every call, and goes on beside the next one",
    )
    parser.add_argument("--profile", action="store_true", help="print where the time of some seeds goes")
    given = parser.parse_args()
    if given.replay is not None:
        return _tell(given.replay, script_of(given.replay), shortest=given.shrink)
    if given.script is not None:
        written = json.loads(given.script.read_text())
        return _tell(written["seed"], [Action(**each) for each in written["script"]], shortest=given.shrink)
    if given.exhaustive:
        return _exhaustive()
    if given.two_tries:
        summary = run_two_tries(jobs=given.jobs)
        print(summary.text().replace("seeds", "cases"))
        return 1 if summary.found else 0
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if given.profile:
        profile_seeds(seeds)
        return 0
    summary = run_seeds(seeds, jobs=given.jobs, progress=_Progress(len(seeds)))
    print(summary.text())
    if given.coverage:
        print(summary.coverage.text())
    if summary.interrupted:
        return CTRL_C_EXIT_CODE
    return 1 if summary.found else 0


def _tell(seed: int, script: Sequence[Action], *, shortest: bool) -> int:
    trial = run_trial(scenario(seed), script)
    if shortest and trial.violations:
        trial = shrink(trial)
    trial = run_trial(trial.scenario, trial.script, watch=True)
    print(f"seed {seed}: {len(trial.script)} actions in {json.dumps(trial.scenario.as_data())}")
    for each in trial.script:
        print(f"  {each}")
    print(trial.story)
    return 1 if trial.violations else 0


def _exhaustive() -> int:
    found = []
    for disk in DISKS:
        summary = run_exhaustive(disk)
        print(f"record store of {disk}:")
        print(summary.text().replace("seeds", "faults"))
        found += summary.found
    return 1 if found else 0


class _Progress:
    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, summary: Summary) -> None:
        if time.monotonic() >= self._next:
            self._next += PROGRESS_SECONDS
            broken = len({f.seed for f in summary.found})
            print(f"{summary.seeds} of {self._seeds} seeds, {broken} with a violation", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
