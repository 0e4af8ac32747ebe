"""``plan``: what a request would do, without doing it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown
from upath import UPath

from kafka_reassignment.cli.common import (
    AsJson,
    BootstrapServer,
    ConnectionFile,
    OptionalRecordUri,
    console,
    note,
    opened_cluster,
    optional_store,
    person,
    print_json,
    read_json_object,
    say,
)
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.steps.dry_run import DryRun, dry_run

FILES = {
    "report": "Report",
    "reassignment_json": "Target, for kafka-reassign-partitions",
    "rollback_json": "The way back, for the same",
    "would_do": "What each batch would do",
}


class _Progress:
    """Log lines, as notes."""

    def info(self, msg: str, /, *args: object) -> None:
        """Print what is done."""
        note([msg % args])

    def warning(self, msg: str, /, *args: object) -> None:
        """Print what a person should look at."""
        note([f"Warning: {msg % args}"])


def plan(
    request: Annotated[
        Path, typer.Argument(help="JSON file of a request, as the API of Airflow takes it for conf; - is stdin")
    ],
    bootstrap_server: BootstrapServer = None,
    connection: ConnectionFile = None,
    record_uri: OptionalRecordUri = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="new or empty folder for plan and report; by default a new one in the working directory",
            show_default=False,
        ),
    ] = None,
    spark_master: Annotated[str, typer.Option(help="where to plan; local[*] uses every core here")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Plan a reassignment by the DAG's own steps, and write what it would do. Changes nothing in the cluster.

    The score card goes to stdout, progress to stderr. The cluster is that of the options, whatever the request names.
    """
    fields = read_json_object(request, "REQUEST", "fields of a request")
    place = folder or Path(f"kafka-reassignment-plan-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    is_new = _require_empty(place)
    with opened_cluster(bootstrap_server, connection) as cluster:
        try:
            made = dry_run(
                cluster,
                fields,
                UPath(place.absolute()),
                others=optional_store(record_uri),
                master=spark_master,
                by=person(),
                log=_Progress(),
            )
        except BaseException:
            _remove(place, is_new=is_new)  # there is no plan in it
            raise
    if as_json:
        print_json(made.as_json())
    else:
        _print(made)


def _require_empty(folder: Path) -> bool:
    """Make sure that nothing is overwritten; return whether the folder is new."""
    if not folder.exists():
        return True
    if not folder.is_dir() or any(folder.iterdir()):
        raise InvalidRequestError(
            f"--folder {folder} has something in it, expected a new or empty folder. Name another one"
        )
    return False


def _remove(folder: Path, *, is_new: bool) -> None:
    """Leave a folder as it was found: away where it is new, else empty, so that the same command can be given again."""
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for written in folder.iterdir():
        if written.is_dir() and not written.is_symlink():  # the folder of the cluster; nothing else is of this command
            shutil.rmtree(written, ignore_errors=True)


def _print(made: DryRun) -> None:
    if console.is_terminal:
        console.print(Markdown(made.card))
    else:
        say(made.card)
    typer.echo("")
    for what, path in made.files.items():
        typer.echo(f"{FILES[what]}: {path}")
