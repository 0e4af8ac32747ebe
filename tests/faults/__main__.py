"""``python -m tests.faults``: run a range of seeds, one line each, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.scenarios import scenario
from tests.faults.seeds import SeedCommand
from tests.faults.suite import Outcome, Suite
from tests.throttle_watch import Watched


def _line(outcome: Outcome) -> str:
    return f"{len(outcome.scenario.batches)} batches, {len(outcome.reruns)} reruns, {outcome.watched}"


def _total(outcomes: Sequence[Outcome]) -> str:
    seconds = sorted(o.seconds for o in outcomes)
    return f"{seconds[len(seconds) // 2] if seconds else 0.0:.0f} s each, {Watched.worst(o.watched for o in outcomes)}"


if __name__ == "__main__":
    SeedCommand("faults", Suite, scenario, _line, _total).app(
        default="1-20",
        about="Run reassignments on real brokers with faults at seeded points; exit with 1 unless every seed passes.",
    )()
