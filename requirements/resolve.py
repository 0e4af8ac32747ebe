"""Does this package fit beside what an Airflow has: every provider, at the versions of the day on which it was released?

Run it with ``make resolve``. Airflow's constraints files are made by resolving Airflow with all its extras on the day of a
release. This does the same from the package index: it resolves ``apache-airflow[all]`` with nothing newer than that day, keeps
the result below ``.bounds/constraints``, and then resolves this package with the extras s3, gcs and azure under it. PySpark is
held at the version of ``pyspark-client``, as docs/install.md says. Nothing is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kafka_lab.versions import AIRFLOW

PROJECT = Path(__file__).parents[1]
KEPT = PROJECT / ".bounds" / "constraints"
SHOWN = ("pyspark", "pandas", "numpy", "pyarrow", "pydantic", "confluent-kafka", "apache-airflow-providers-standard")


def resolve(python: str, *arguments: str) -> str:
    """Return the pins that uv finds, a line each.

    Raises:
        ValueError: nothing fits; the text is uv's.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-header", "--no-annotate", *arguments]
    done = subprocess.run(
        [*command, "--python-version", python, "--python-platform", "linux"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return done.stdout


def constraints(airflow: str, python: str) -> Path:
    """Resolve what the release of Airflow has with all its extras, once."""
    kept = KEPT / f"airflow-{airflow}-python-{python}.txt"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        wanted = KEPT / f"airflow-{airflow}.in"
        wanted.write_text(f"apache-airflow[all]=={airflow}\n")
        found = resolve(python, str(wanted), "--exclude-newer", f"{AIRFLOW[airflow]}T23:59:59Z")
        if client := re.search(r"^pyspark-client==(\S+)", found, re.MULTILINE):
            found += f"pyspark=={client[1]}\n"
        kept.write_text(found)
    return kept


def main(
    airflow: Annotated[list[str], typer.Option(help="Releases of Airflow.")] = list(AIRFLOW),  # noqa: B006 - typer's
    python: Annotated[list[str], typer.Option(help="Versions of Python.")] = ["3.12", "3.14"],  # noqa: B006
) -> None:
    """Resolve this package beside releases of Airflow with all their providers; exit 1 where it does not fit."""
    table = Table("Airflow", "Python", "fits", *(name.removeprefix("apache-airflow-providers-") for name in SHOWN))
    refused = []
    for release in airflow:
        for version in python:
            try:
                held = constraints(release, version)
            except ValueError as why:
                table.add_row(release, version, "Airflow itself does not resolve")
                refused.append(f"Airflow {release} with Python {version}, without this package:\n{why}")
                continue
            extras = [part for extra in ("s3", "gcs", "azure") for part in ("--extra", extra)]
            try:
                pins = resolve(version, str(PROJECT / "pyproject.toml"), *extras, "-c", str(held))
            except ValueError as why:
                table.add_row(release, version, "[red]no[/]")
                refused.append(f"Airflow {release} with Python {version}:\n{why}")
                continue
            found = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", pins, re.MULTILINE))
            table.add_row(release, version, "[green]yes[/]", *(found.get(name, "–") for name in SHOWN))
    console = Console(width=max(120, Console().width))
    console.print(table)
    for why in refused:
        console.print(why, highlight=False, markup=False)
    raise typer.Exit(bool(refused))


if __name__ == "__main__":
    typer.run(main)
