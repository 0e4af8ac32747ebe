"""The command line: the moves in flight and their progress, the lock of a cluster, the audit trail."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from upath import UPath

from kafka_reassignment.cli.views import describe_moves, list_moves
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.text import format_bytes

app = typer.Typer(no_args_is_help=True, help="Tools beside the DAGs; reassignments themselves are run by Airflow.")
lock_app = typer.Typer(no_args_is_help=True, help="Which reassignment has locked a cluster.")
audit_app = typer.Typer(no_args_is_help=True, help="The audit trail of a reassignment.")
app.command("list")(list_moves)
app.command("describe")(describe_moves)
app.add_typer(lock_app, name="lock")
app.add_typer(audit_app, name="audit")

console = Console()
RecordUri = Annotated[
    str,
    typer.Option(
        envvar="AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", help="base URI of the records, the same as Airflow's setting"
    ),
]
ClusterId = Annotated[str, typer.Argument(help="id of the Kafka cluster")]
ReassignmentId = Annotated[str, typer.Argument(help="run id of the kafka_reassignment run")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kafka-reassignment {version('kafka-reassignment')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Options that need no command."""


@app.command()
def warm_up() -> None:
    """Archive Spark's classes in this Python environment, so that every later planning starts some seconds earlier."""
    from kafka_reassignment.planner.warm_start import prepare  # noqa: PLC0415 - PySpark is slow to import

    archive = prepare()
    console.print(f"{format_bytes(archive.stat().st_size)} of classes in {archive}", markup=False)


@lock_app.command("show")
def show_lock(cluster_id: ClusterId, record_uri: RecordUri) -> None:
    """Print which reassignment has locked a cluster, and since when."""
    lock = _store(record_uri).lock_owner(cluster_id)
    if lock is None:
        console.print(f"Cluster {cluster_id} is not locked", markup=False)
        return
    console.print(
        f"Cluster {cluster_id} is locked by {lock.reassignment_id}, asked for by {lock.requested_by}, since {lock.since}",
        markup=False,
    )


@lock_app.command("release")
def release_lock(
    cluster_id: ClusterId,
    reassignment_id: ReassignmentId,
    record_uri: RecordUri,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Release the lock of a reassignment that will not go on, for example because its run was deleted.

    Check first whether its moves are still in flight and its throttle is still set: releasing changes neither.
    """
    store = _store(record_uri)
    for text in store.record(cluster_id, reassignment_id).journal().owed_texts():
        console.print(f"Still owed: {text}", style="yellow", markup=False)
    if not yes:
        typer.confirm(f"Release cluster {cluster_id} from {reassignment_id}?", abort=True)
    if not store.release(cluster_id, reassignment_id):
        console.print(f"{reassignment_id} has not locked cluster {cluster_id}: nothing was released", markup=False)
        raise typer.Exit(1)
    console.print("Released")


@audit_app.command("show")
def show_audit(
    cluster_id: ClusterId,
    reassignment_id: ReassignmentId,
    record_uri: RecordUri,
    json_lines: Annotated[bool, typer.Option("--json", help="complete events, one JSON object per line")] = False,
) -> None:
    """Print the events of a reassignment, oldest first."""
    if json_lines:
        for event in _store(record_uri).record(cluster_id, reassignment_id).audit:
            typer.echo(event.model_dump_json())
        return
    table = Table("#", "at", "step", "batch", "try", "outcome", "what")
    for event in _store(record_uri).record(cluster_id, reassignment_id).audit:
        table.add_row(
            str(event.sequence),
            f"{event.finished_at:%Y-%m-%d %H:%M:%S}",
            event.step,
            str(event.batch or ""),
            str(event.actor.try_number),
            event.outcome,
            event.summary,
        )
    console.print(table)


@audit_app.command("verify")
def verify_audit(cluster_id: ClusterId, reassignment_id: ReassignmentId, record_uri: RecordUri) -> None:
    """Check that every event is there and unaltered; exit with 1 when not."""
    try:
        count = _store(record_uri).record(cluster_id, reassignment_id).audit.verify()
    except ReassignmentError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    console.print(f"{count} events, chain intact")


def _store(record_uri: str) -> RecordStore:
    return RecordStore(UPath(record_uri))
