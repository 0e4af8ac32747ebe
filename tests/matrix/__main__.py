"""``make matrix``: real brokers of each supported Kafka, and this package beside each supported Airflow."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from tests.matrix.cells import BOUNDS, Cell, Part, chosen
from tests.matrix.results import FILE, PAGE, Result, keep, of_report

from kafka_lab.airflow import PROJECT

LOGS = BOUNDS / "matrix"
TENTH = re.compile(r"\[ *(\d+)%\]")
out = Console(highlight=False, soft_wrap=True)


def matrix(
    kafka: Annotated[
        list[str] | None, typer.Option(help="Only Kafka versions that begin so, as 4.0; may be repeated.")
    ] = None,
    airflow: Annotated[
        list[str] | None, typer.Option(help="Only Airflow versions that begin so; may be repeated.")
    ] = None,
    part: Annotated[
        list[str] | None, typer.Option(help="Only this part: contract, reassignment, quick, reassignments.")
    ] = None,
) -> None:
    """Run the tests on each version, keep the results in docs/versions.json and docs/versions.md; exit 1 if something failed.

    A cell takes some 10 minutes on two cores. Logs are in .bounds/matrix.
    """
    try:
        cells = chosen(kafka or [], airflow or [])
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    runs = [(cell, p) for cell in cells for p in cell.parts if not part or p.name in part]
    if not runs:
        raise typer.BadParameter("None of these versions has such a part.")
    LOGS.mkdir(parents=True, exist_ok=True)
    ended: list[tuple[str, str, Result]] = []
    began = time.monotonic()
    for number, (cell, p) in enumerate(runs, 1):
        out.print(f"{_minutes(began)}  {number} of {len(runs)}: {cell.name}, {p.name}")
        result = _run(cell, p, began)
        keep(cell, p.name, result)
        ended.append((cell.name, p.name, result))
    shown = Table("version", "part", "passed", "failed", "left out", "minutes")
    for name, of, r in ended:
        counts = (str(r.passed), str(len(r.failed)), str(sum(r.left_out.values())), f"{r.minutes:.1f}")
        shown.add_row(name, of, *counts, style=None if r.ok else "red")
    out.print(shown)
    for name, of, r in ended:
        for test in r.failed:
            out.print(f"failed: {name}, {of}: {test}", markup=False)
    out.print(f"Kept in {FILE.relative_to(PROJECT)}, shown in {PAGE.relative_to(PROJECT)}; logs in {LOGS}")
    raise typer.Exit(any(not r.ok for _, _, r in ended))


def _run(cell: Cell, part: Part, began: float) -> Result:
    """Run one part to its end, telling each tenth of it."""
    name = f"{cell.name}-{part.name}".replace(" ", "-")
    junit, log = LOGS / f"{name}.xml", LOGS / f"{name}.log"
    junit.unlink(missing_ok=True)
    started = time.monotonic()
    try:
        python = cell.prepare()
    except subprocess.CalledProcessError as failed:
        return Result(0, [f"the environment: {failed}"])
    command = [str(python), "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--junitxml={junit}", *part.arguments]
    returned = _tell(command, cell.environment, log, began)
    result = of_report(junit, returned, (time.monotonic() - started) / 60)
    out.print(f"{_minutes(began)}    {result.text}; {log}", markup=False)
    return result


def _tell(command: list[str], environment: dict[str, str], log: Path, began: float) -> int:
    shown = 0
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(
            command,
            cwd=PROJECT,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as running,
    ):
        assert running.stdout is not None
        for line in running.stdout:
            kept.write(line)
            kept.flush()
            if (found := TENTH.search(line)) and int(found[1]) >= shown + 10:
                shown = int(found[1]) // 10 * 10
                out.print(f"{_minutes(began)}    {shown} %")
    return running.returncode


def _minutes(began: float) -> str:
    seconds = round(time.monotonic() - began)
    return f"{seconds // 60:3d}:{seconds % 60:02d}"


if __name__ == "__main__":
    typer.run(matrix)
