"""``list`` and ``describe``: the moves in flight and their progress, in the terminal and without Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kafka_reassignment.advice import Correct
from kafka_reassignment.cli.common import (
    AsJson,
    BootstrapServer,
    ConnectionFile,
    OptionalRecordUri,
    Reassignment,
    err,
    note,
    opened_cluster,
    optional_store,
    print_json,
    read_bytes,
    say,
)
from kafka_reassignment.decisions.samples import MIN_SPEED_WINDOW_SECONDS
from kafka_reassignment.errors import InvalidRequestError, RecordError, UnknownTopicOrPartitionError, name_some
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.plan.reassignment_json import render_plan
from kafka_reassignment.views.describe import describe
from kafka_reassignment.views.listing import Listing, Whose, list_reassignments
from kafka_reassignment.views.selection import DescribeQuery


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
    with opened_cluster(bootstrap_server, connection) as cluster:
        store = optional_store(record_uri)
        if store is None and (reassignment or show is not Show.IN_FLIGHT or whose is not Whose.ALL):
            raise InvalidRequestError(
                "--reassignment, --show and --whose need the records, expected their URI, found none. Give --record-uri"
            )
        listing = list_reassignments(cluster, store, reassignment_id=reassignment, all_remaining=show is Show.REMAINING)
        if as_json:
            print_json(listing.as_json())
        else:
            typer.echo(render_plan(_targets(listing, show, whose)))
        note(listing.lines())


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
    with opened_cluster(bootstrap_server, connection) as cluster:
        query = DescribeQuery.of(
            reassignment_id=reassignment,
            partitions=partition or (),
            topics=topic or (),
            reassignment_json=read_bytes(reassignment_json_file, "--reassignment-json-file")
            if reassignment_json_file
            else None,
        )
        with err.status(f"Measuring for {watch_seconds:g} s ..."):
            described = describe(cluster, optional_store(record_uri), query, watch_seconds=watch_seconds)
        if unknown := described.unknown_of(query.partitions):
            raise UnknownTopicOrPartitionError(
                f"Cluster {described.cluster_id} has no partition {name_some(unknown)}", Correct("correct --partition")
            )
        if as_json:
            print_json(described.as_json())
        else:
            say("\n".join([*described.lines(), "", described.table] if described.partitions else [described.table]))
        note(described.notes)


def _targets(listing: Listing, show: Show, whose: Whose) -> Mapping[TopicPartition, Replicas]:
    if show is Show.IN_FLIGHT:
        return listing.targets(whose)
    if not listing.overviews:
        raise RecordError(
            f"--show {show} prints targets of one reassignment, expected one that has locked cluster {listing.cluster_id}, "
            "found none. Name one with --reassignment"
        )
    [overview] = listing.overviews
    return overview.batch_targets if show is Show.BATCH else overview.remaining or {}
