"""What the commands share: their common options, where results go, and where errors go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.places import names_connection, place
from kafka_reassignment.record.store import RecordStore

console = Console()
err = Console(stderr=True)

RecordUri = Annotated[
    str,
    typer.Option(
        envvar="AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", help="base URI of the records, the same as Airflow's setting"
    ),
]
ClusterId = Annotated[str, typer.Argument(help="id of the Kafka cluster")]
ReassignmentId = Annotated[str, typer.Argument(help="run id of the kafka_reassignment run")]


def store_at(record_uri: str) -> RecordStore:
    """Return the store of the records at a URI, which may name a connection of the Airflow that is installed here."""
    if names_connection(record_uri):
        # As `airflow connections` does: without it, Airflow looks for connections in the environment only (3.2, 3.3).
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    return RecordStore(place(record_uri))


@contextmanager
def errors_to_stderr() -> Iterator[None]:
    """Print an error of ours without its stack, and exit with 1."""
    try:
        yield
    except ReassignmentError as error:
        err.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
