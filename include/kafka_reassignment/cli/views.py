"""``list`` and ``describe``: the moves in flight and their progress, in the terminal and without Airflow.

Results go to stdout, so that they can be piped; notes and errors go to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kafka_reassignment.cli.common import err, errors_to_stderr, store_at
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.samples import MIN_SPEED_WINDOW_SECONDS
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.plan.reassignment_json import render_plan
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.views.describe import describe
from kafka_reassignment.views.listing import Listing, Whose, list_reassignments
from kafka_reassignment.views.selection import DescribeQuery

BootstrapServer = Annotated[
    str | None, typer.Option("--bootstrap-server", help="brokers, host:port, comma-separated", show_default=False)
]
ConnectionFile = Annotated[
    Path | None,
    typer.Option(
        "--connection", help="JSON file of librdkafka keys, as the Airflow connection's extra", show_default=False
    ),
]
OptionalRecordUri = Annotated[
    str | None,
    typer.Option(
        "--record-uri",
        envvar="AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI",
        help="base URI of the records, the same as Airflow's setting; without it every move counts as another client's",
        show_default=False,
    ),
]
Reassignment = Annotated[
    str | None,
    typer.Option("--reassignment", help="run id; by default the one that has locked the cluster", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="all details, as one JSON document")]


class Show(StrEnum):
    """Which targets ``list`` prints."""

    IN_FLIGHT = "in-flight"
    BATCH = "batch"
    REMAINING = "remaining"


def list_moves(
    bootstrap_server: BootstrapServer = None,
    connection: ConnectionFile = None,
    record_uri: OptionalRecordUri = None,
    reassignment: Reassignment = None,
    show: Annotated[
        Show, typer.Option(help="targets of what is in flight, of the current batch, or of what is left of the plan")
    ] = Show.IN_FLIGHT,
    whose: Annotated[Whose, typer.Option(help="moves of this project, of other clients, or all")] = Whose.ALL,
    as_json: AsJson = False,
) -> None:
    """Print what is in flight as the JSON that kafka-reassign-partitions takes."""
    with errors_to_stderr(), _open(bootstrap_server, connection) as cluster:
        store = _store(record_uri)
        if store is None and (reassignment or show is not Show.IN_FLIGHT or whose is Whose.OURS):
            raise InvalidRequestError(
                "--reassignment, --show and --whose need the records, expected their URI, found none. Give --record-uri"
            )
        listing = list_reassignments(cluster, store, reassignment_id=reassignment, all_remaining=show is Show.REMAINING)
        typer.echo(json.dumps(listing.as_json(), indent=1) if as_json else render_plan(_targets(listing, show, whose)))
        _note(listing.lines())


def describe_moves(
    bootstrap_server: BootstrapServer = None,
    connection: ConnectionFile = None,
    record_uri: OptionalRecordUri = None,
    reassignment: Reassignment = None,
    partition: Annotated[
        list[str] | None, typer.Option(help="as orders-3; may be repeated", show_default=False)
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="name or pattern among what is being reassigned; may be repeated", show_default=False),
    ] = None,
    reassignment_json_file: Annotated[
        Path | None,
        typer.Option(help="status of each partition and broker of this plan (KIP-179)", show_default=False),
    ] = None,
    watch_seconds: Annotated[
        float, typer.Option(help="how long to measure speeds; 0 answers at once, without speeds")
    ] = MIN_SPEED_WINDOW_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Describe the moves in flight (KIP-240) and how far their replicas are behind (KIP-179)."""
    with errors_to_stderr(), _open(bootstrap_server, connection) as cluster:
        query = DescribeQuery.of(
            reassignment_id=reassignment,
            partitions=partition or (),
            topics=topic or (),
            reassignment_json=_read(reassignment_json_file, "--reassignment-json-file")
            if reassignment_json_file
            else None,
        )
        with err.status(f"Measuring for {watch_seconds:g} s ..."):
            described = describe(cluster, _store(record_uri), query, watch_seconds=watch_seconds)
        if as_json:
            typer.echo(json.dumps(described.as_json(), indent=1))
        else:
            typer.echo(
                "\n".join([*described.lines(), "", described.table] if described.partitions else [described.table])
            )
        _note(described.notes)


def _targets(listing: Listing, show: Show, whose: Whose) -> Mapping[TopicPartition, Replicas]:
    if show is Show.IN_FLIGHT:
        return listing.targets(whose)
    if not listing.overviews:
        raise InvalidRequestError(
            f"--show {show} prints targets of one reassignment, expected one that has locked cluster {listing.cluster_id}, "
            "found none. Name one with --reassignment"
        )
    [overview] = listing.overviews
    return overview.batch_targets if show is Show.BATCH else overview.remaining or {}


@contextmanager
def _open(bootstrap_server: str | None, connection: Path | None) -> Iterator[ClusterPort]:
    if (bootstrap_server is None) is (connection is None):
        raise InvalidRequestError("Expected either --bootstrap-server or --connection. Give one of them")
    if connection is None:
        settings = ClusterSettings.of({"bootstrap.servers": bootstrap_server}, name="--bootstrap-server")
    else:
        settings = ClusterSettings.of(_keys(connection), name=str(connection))
    with open_cluster(settings) as cluster:
        yield cluster


def _keys(connection: Path) -> dict[str, Any]:
    try:
        keys = json.loads(_read(connection, "--connection"))
    except ValueError as error:
        raise InvalidRequestError(
            f"--connection {connection} must be a JSON object of librdkafka keys, found: {error}. Correct it"
        ) from None
    if not isinstance(keys, dict):
        raise InvalidRequestError(
            f"--connection {connection} must be a JSON object of librdkafka keys, found a {type(keys).__name__}. Correct it"
        )
    return keys


def _read(file: Path, option: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"{option} {file} cannot be read: {error.strerror}. Correct the path") from None


def _store(record_uri: str | None) -> RecordStore | None:
    return store_at(record_uri) if record_uri else None


def _note(lines: Iterable[str]) -> None:
    for line in lines:
        err.print(line, style="dim", markup=False, soft_wrap=True)
