"""``python -m tests.faults``: run a range of seeds, one line each, and a summary."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from tests.faults.scenarios import scenario
from tests.faults.suite import Outcome, Suite

app = typer.Typer(add_completion=False)
out = Console(highlight=False, soft_wrap=True)


@app.command()
def main(
    seeds: Annotated[str, typer.Option(help="a seed, a range or several: 7, 1-200, 3,9,20-30")] = "1-20",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="tell everything that happens")] = False,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="print the scenarios and run nothing")] = False,
    folder: Annotated[Path | None, typer.Option(help="keep the records of all runs here")] = None,
) -> None:
    """Run reassignments on real brokers with faults at seeded points; exit with 1 unless every seed passes."""
    numbers = parse_seeds(seeds)
    if plan_only:
        for number in numbers:
            out.print(str(scenario(number)), markup=False)
        return
    kept = folder or Path(tempfile.mkdtemp(prefix="kafka-reassignment-faults-"))
    began, outcomes = time.monotonic(), []
    tell = (lambda line: out.print(line, markup=False, style="dim")) if verbose else (lambda _: None)
    try:
        with Suite(kept, tell) as suite:
            for number in numbers:
                if verbose:
                    out.print(str(scenario(number)), markup=False)
                outcomes.append(suite.run(number))
                _print(outcomes[-1])
    except KeyboardInterrupt:
        out.print("Interrupted; brokers and steps are stopped")
    failed = [o.scenario.seed for o in outcomes if not o.ok]
    out.print(
        f"{len(outcomes) - len(failed)} of {len(numbers)} seeds passed in {(time.monotonic() - began) / 60:.1f} min "
        f"({_median([o.seconds for o in outcomes]):.0f} s each); records: {kept}"
    )
    for seed in failed:
        out.print(f"replay with: make faults SEEDS={seed} ARGS=-v", markup=False)
    if failed or len(outcomes) < len(numbers):
        raise typer.Exit(1)


def parse_seeds(text: str) -> list[int]:
    """Read ``3,9,20-30``.

    Raises:
        typer.BadParameter: it is not that.
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise typer.BadParameter(f"seeds are {text!r}, expected numbers and ranges such as 3,9,20-30")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _print(outcome: Outcome) -> None:
    what = "; ".join(outcome.struck) or "no fault was reached"
    line = (
        f"{outcome.scenario.seed:4}  {'ok    ' if outcome.ok else 'FAILED'} {outcome.seconds:5.1f} s  "
        f"{len(outcome.scenario.batches)} batches, {len(outcome.reruns)} reruns  {what}"
    )
    out.print(line, markup=False, style=None if outcome.ok else "red")
    for problem in outcome.problems:
        out.print(f"      {problem}", markup=False, style="red")


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


if __name__ == "__main__":
    app()
