"""``python -m tests.faults_airflow``: run a range of seeds, one line each, and a summary."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from tests.faults.__main__ import parse_seeds
from tests.faults_airflow.plot import plot
from tests.faults_airflow.suite import AirflowSuite, Outcome

app = typer.Typer(add_completion=False)
out = Console(highlight=False, soft_wrap=True)


@app.command()
def main(
    seeds: Annotated[str, typer.Option(help="a seed, a range or several: 7, 1-50, 3,9,20-30")] = "1-50",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="print everything that happens")] = False,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="print the plots and run nothing")] = False,
    folder: Annotated[Path | None, typer.Option(help="keep the records of all runs here")] = None,
) -> None:
    """Run reassignments on a real Airflow while things go wrong; exit with 1 unless every seed passes."""
    numbers = parse_seeds(seeds)
    if plan_only:
        for number in numbers:
            out.print(str(plot(number)), markup=False)
        return
    kept = folder or Path(tempfile.mkdtemp(prefix="kafka-reassignment-faults-airflow-"))
    kept.mkdir(parents=True, exist_ok=True)
    began, outcomes = time.monotonic(), []
    try:
        with AirflowSuite(
            kept, (lambda line: out.print(line, markup=False, style="dim")) if verbose else (lambda _: None)
        ) as suite:
            for number in numbers:
                if verbose:
                    out.print(str(plot(number)), markup=False)
                outcomes.append(suite.run(number))
                _print(outcomes[-1])
    except KeyboardInterrupt:
        out.print("Interrupted; brokers and Airflow are stopped")
    failed = [o.plot.seed for o in outcomes if not o.ok]
    gap = max((o.longest_gap for o in outcomes), default=0.0)
    out.print(
        f"{len(outcomes) - len(failed)} of {len(numbers)} seeds passed in {(time.monotonic() - began) / 60:.1f} min; "
        f"longest time without a throttle {gap:.1f} s; records: {kept}"
    )
    for seed in failed:
        out.print(f"replay with: make faults-airflow SEEDS={seed} ARGS=-v", markup=False)
    if failed or len(outcomes) < len(numbers):
        raise typer.Exit(1)


def _print(outcome: Outcome) -> None:
    line = (
        f"{outcome.plot.seed:4}  {'ok    ' if outcome.ok else 'FAILED'} {outcome.seconds:5.0f} s  "
        f"{len(outcome.advice)} acts of the operator  {'; '.join(outcome.struck) or 'nothing was reached'}"
    )
    out.print(line, markup=False, style=None if outcome.ok else "red")
    for problem in outcome.problems:
        out.print(f"      {problem}", markup=False, style="red")


if __name__ == "__main__":
    app()
