"""What the demo shows: the grid of batches, the load of each broker, and a line for each thing done."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from kafka_lab.airflow_client import AirflowClient
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id

if TYPE_CHECKING:  # the containers' demo shows its runs with this module, and has no local cluster
    from kafka_lab.cluster import LocalCluster

MARKS = {
    "success": ("✓", "green"),
    "running": ("●", "cyan"),
    "deferred": ("…", "magenta"),
    "queued": ("○", "cyan"),
    "scheduled": ("○", "cyan"),
    "up_for_retry": ("↻", "yellow"),
    "failed": ("✗", "red"),
    "upstream_failed": ("✗", "red"),
    "skipped": ("–", "dim"),
}

console = Console()


@dataclass(frozen=True)
class Load:
    """What is on one broker."""

    replicas: int
    leaders: int
    size_bytes: int


def grid(airflow: AirflowClient, record: Record, run_id: str, batches: int) -> tuple[Table, str]:
    """Return the grid as Airflow draws it, and a line on what is going on."""
    table = Table(title=f"{run_id}: rows are steps, columns are batches", title_justify="left")
    table.add_column("step")
    states: list[dict[str, str]] = []
    for number in range(1, batches + 1):
        table.add_column(str(number), justify="center")
        tasks = airflow.find_tasks(BATCH_DAG_ID, batch_run_id(run_id, number))
        states.append({task_id: str(task["state"]) for task_id, task in tasks.items()})
    for step in BATCH_STEPS:
        marks = (MARKS.get(batch.get(step, ""), ("·", "dim")) for batch in states)
        table.add_row(step, *(Text(mark, style=style) for mark, style in marks))
    progress = record.progress()
    finished = len(record.finished_batches())
    main = airflow.tasks(DAG_ID, run_id)
    active = next((t for t, i in main.items() if i["state"] in {"running", "deferred", "queued", "up_for_retry"}), "")
    line = f"{active or 'waiting'}: {finished} of {batches} batches finished"
    if progress and progress.batch > finished:
        line += f"; {progress.text}"
    table.caption, table.caption_justify = line, "left"
    return table, line


def load_table(before: dict[int, Load], after: dict[int, Load]) -> Table:
    """Return what was and is on each broker."""
    table = Table(title="Per broker, before and after", title_justify="left")
    for name in ("broker", "replicas", "leaders", "MB"):
        table.add_column(name, justify="right")
    for broker in sorted(before.keys() | after.keys()):
        b, a = before.get(broker, Load(0, 0, 0)), after.get(broker, Load(0, 0, 0))
        table.add_row(
            str(broker),
            f"{b.replicas} → {a.replicas}",
            f"{b.leaders} → {a.leaders}",
            f"{b.size_bytes / 1e6:.0f} → {a.size_bytes / 1e6:.0f}",
        )
    return table


def what_to_type(cluster: LocalCluster, record_uri: str, reassignment_id: str) -> Iterator[str]:
    """Return commands for another terminal: the terminal's own views, and a broker that dies and comes back.

    The reassignment has ended, so nothing runs that ``watch``, or ``verify`` without an id, could look at.
    """
    programs = Path(sys.executable).parent
    if programs.is_relative_to(Path.cwd()):
        programs = programs.relative_to(Path.cwd())
    broker, folder = cluster.brokers[-1], shlex.quote(str(cluster.directory))
    yield "In another terminal, in the same folder:"
    yield f"  export AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI={shlex.quote(record_uri)}"
    for command in ("list", f"verify --reassignment {reassignment_id}"):
        yield f"  {programs}/kafka-reassignment {command} --bootstrap-server {cluster.bootstrap_servers}"
    yield "While a reassignment runs:"
    yield f"  {programs}/kafka-reassignment watch --bootstrap-server {cluster.bootstrap_servers}"
    yield f"  {programs}/kafka-lab kill {broker} --dir {folder}"
    yield f"  {programs}/kafka-lab start-broker {broker} --dir {folder}"


def print_failure(airflow: AirflowClient, run_id: str) -> None:
    """Print the end of the log of each task that failed, in the reassignment and in its batches."""
    runs = [(DAG_ID, run_id), *((BATCH_DAG_ID, r) for r in airflow.runs(BATCH_DAG_ID))]
    for dag_id, run in runs:
        for task_id, task in airflow.tasks(dag_id, run).items():
            if task["state"] == "failed":
                log = airflow.task_log(dag_id, run, task_id, task["try_number"])
                console.print(f"{dag_id} {run} {task_id} failed:", style="red", markup=False)
                console.print("\n".join(log.splitlines()[-15:]), markup=False)


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; yield what takes how much of ``total`` is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)


def print_dim(text: str) -> None:
    """Print a line that matters less."""
    console.print(text, style="dim", markup=False)


def say(began: float, text: str) -> None:
    """Print a line with the seconds since the demo began."""
    console.print(f"[{time.monotonic() - began:5.0f} s] {text}", markup=False, soft_wrap=True)
