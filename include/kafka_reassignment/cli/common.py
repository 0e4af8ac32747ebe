"""What the commands share: their common options, how they reach cluster and records, and where results and notes go.

Results go to stdout, so that they can be piped; notes and errors go to stderr.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.places import names_connection, place
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.store import RecordStore

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal may carry out, such as the begin of a sequence that clears it; a line's end and a tab are text."""


def plain(text: str) -> str:
    r"""Return a text with its control characters as they are written in code, such as ``\x1b``.

    People and programs type what is printed: reasons, names, ids. It must not change how the rest looks.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


class _PlainConsole(Console):
    """A console that carries out no control character of a text that it prints."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as its base does; a text is made plain before it is broken into lines, so that none of it is cut off."""
        if isinstance(renderable, Text) and _CONTROL.search(renderable.plain):
            renderable = renderable.copy()
            renderable.plain = plain(renderable.plain)
        return super().render(renderable, options)

    def on_broken_pipe(self) -> None:
        """Pass the error on, which ends a command as any other output does: its base would end the process with 1."""
        raise  # noqa: PLE0704 - called while it is handled


console = _PlainConsole(emoji=False)  # ids such as drain:on:b7 are printed as they are
err = _PlainConsole(stderr=True, emoji=False)

_RECORD_URI = typer.Option(
    "--record-uri",
    envvar="AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI",
    help="base URI of the records, the same as Airflow's setting",
    show_default=False,
)
RecordUri = Annotated[str, _RECORD_URI]
OptionalRecordUri = Annotated[str | None, _RECORD_URI]
ClusterId = Annotated[str, typer.Argument(help="id of the Kafka cluster")]
ReassignmentId = Annotated[str, typer.Argument(help="run id of the kafka_reassignment run")]
BootstrapServer = Annotated[
    str | None, typer.Option("--bootstrap-server", help="brokers, host:port, comma-separated", show_default=False)
]
ConnectionFile = Annotated[
    Path | None,
    typer.Option(
        "--connection", help="JSON file of librdkafka keys, as the Airflow connection's extra", show_default=False
    ),
]
Reassignment = Annotated[
    str | None,
    typer.Option("--reassignment", help="run id; by default the one that has locked the cluster", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="all details, as one JSON document")]

STDIN = Path("-")
"""In place of a file."""


def store_at(record_uri: str) -> RecordStore:
    """Return the store of the records at a URI, which may name a connection of the Airflow that is installed here.

    Raises:
        InvalidRequestError: it is no URI of a store, or names a connection that does not exist.
        RecordStoreUnusableError: the client library of the store is missing.
    """
    if names_connection(record_uri):
        # As `airflow connections` does: without it, Airflow looks for connections in the environment only (3.2, 3.3).
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        with redirect_stdout(
            sys.stderr
        ):  # where Airflow logs to while it opens a connection; results alone are on stdout
            return RecordStore(place(record_uri))
    except ValueError as error:
        raise InvalidRequestError(
            f"--record-uri {record_uri} names no store, expected a path or a URL such as file:///folder or "
            f"s3://conn@bucket/folder: {error}. Correct it"
        ) from None


def optional_store(record_uri: str | None) -> RecordStore | None:
    """Return the store of the records; None where no URI is given."""
    return store_at(record_uri) if record_uri else None


@contextmanager
def opened_cluster(bootstrap_server: str | None, connection: Path | None) -> Iterator[ClusterPort]:
    """Open the cluster that the options name, and close it in the end.

    Raises:
        InvalidRequestError: none or both are given, or the connection file cannot be used.
        ClusterUnavailableError: no broker answers.
    """
    from kafka_reassignment.cluster import ClusterSettings, open_cluster  # noqa: PLC0415 - Kafka's clients are slow to import

    if (bootstrap_server is None) is (connection is None):
        raise InvalidRequestError("Expected either --bootstrap-server or --connection. Give one of them")
    if connection is None:
        settings = ClusterSettings.of(
            {"bootstrap.servers": bootstrap_server}, name="--bootstrap-server", option="--bootstrap-server"
        )
    else:
        keys = read_json_object(connection, "--connection", "librdkafka keys")
        settings = ClusterSettings.of(keys, name=str(connection), option=f"--connection {connection}")
    with open_cluster(settings) as cluster:
        yield cluster


def read_json_object(file: Path, option: str, what: str) -> dict[str, Any]:
    """Read a file, or stdin, that holds one JSON object.

    Raises:
        InvalidRequestError: it cannot be read, or holds something else.
    """
    try:
        value = json.loads(read_bytes(file, option))
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"{option} {file} must be a JSON object of {what}, found: {error}. Correct it"
        ) from None
    if not isinstance(value, dict):
        raise InvalidRequestError(
            f"{option} {file} must be a JSON object of {what}, found a {type(value).__name__}. Correct it"
        )
    return value


def read_bytes(file: Path, option: str) -> bytes:
    """Read a file, or stdin in place of ``-``.

    Raises:
        InvalidRequestError: it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"{option} {file} cannot be read: {error.strerror}. Correct the path") from None


def print_json(value: Mapping[str, Any]) -> None:
    """Print a result for programs."""
    typer.echo(json.dumps(value, indent=1))


def say(text: str) -> None:
    """Print a result for people, as wide as it is."""
    typer.echo(plain(text))


def note(lines: Iterable[str]) -> None:
    """Print lines for people to stderr."""
    for line in lines:
        err.print(line, style="dim", markup=False, soft_wrap=True)


def person() -> str:
    """Return who uses the command, for what is recorded."""
    return f"{getuser()} by the command line"
