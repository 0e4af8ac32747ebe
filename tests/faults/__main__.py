"""``python -m tests.faults``: run a range of seeds, one line each, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from tests.faults.scenarios import scenario
from tests.faults.seeds import Folder, PlanOnly, SeedCommand, Seeds, Verbose
from tests.faults.suite import Outcome, Suite

app = typer.Typer(add_completion=False)


@app.command()
def main(seeds: Seeds = "1-20", verbose: Verbose = False, plan_only: PlanOnly = False, folder: Folder = None) -> None:
    """Run reassignments on real brokers with faults at seeded points; exit with 1 unless every seed passes."""
    command = SeedCommand("faults", Suite, scenario, _line, _total)
    command.run(seeds, verbose=verbose, plan_only=plan_only, folder=folder)


def _line(outcome: Outcome) -> str:
    return f"{len(outcome.scenario.batches)} batches, {len(outcome.reruns)} reruns"


def _total(outcomes: Sequence[Outcome]) -> str:
    seconds = sorted(o.seconds for o in outcomes)
    return f"{seconds[len(seconds) // 2] if seconds else 0.0:.0f} s each"


if __name__ == "__main__":
    app()
