"""``python -m tests.faults_airflow``: run a range of seeds, one line each, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from tests.faults.seeds import Folder, PlanOnly, SeedCommand, Seeds, Verbose
from tests.faults_airflow.plot import plot
from tests.faults_airflow.suite import AirflowSuite, Outcome

app = typer.Typer(add_completion=False)


@app.command()
def main(seeds: Seeds = "1-50", verbose: Verbose = False, plan_only: PlanOnly = False, folder: Folder = None) -> None:
    """Run reassignments on a real Airflow while things go wrong; exit with 1 unless every seed passes."""
    command = SeedCommand("faults-airflow", AirflowSuite, plot, _line, _total)
    command.run(seeds, verbose=verbose, plan_only=plan_only, folder=folder)


def _line(outcome: Outcome) -> str:
    return f"{len(outcome.advice)} acts of the operator"


def _total(outcomes: Sequence[Outcome]) -> str:
    return f"longest time without a throttle {max((o.longest_gap for o in outcomes), default=0.0):.1f} s"


if __name__ == "__main__":
    app()
