"""``verify``: whether a reassignment is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_reassignment.cli.common import (
    AsJson,
    BootstrapServer,
    ConnectionFile,
    OptionalRecordUri,
    Reassignment,
    opened_cluster,
    print_json,
    read_bytes,
    say,
    store_at,
)
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.views.verification import verify_reassignment, verify_targets


def verify(
    bootstrap_server: BootstrapServer = None,
    connection: ConnectionFile = None,
    record_uri: OptionalRecordUri = None,
    reassignment: Reassignment = None,
    reassignment_json_file: Annotated[
        Path | None,
        typer.Option(help="compare with this kafka-reassign-partitions file instead; - is stdin", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether each partition is at its target and in sync, with nothing in flight and no throttle left.

    What a broker that is down still has of a reassignment's throttle is named, and it is complete all the same. Changes
    nothing. Exit code 0: it is complete; 1: it is not.
    """
    if reassignment_json_file is not None and reassignment is not None:
        raise InvalidRequestError("Expected either --reassignment or --reassignment-json-file. Give one of them")
    if reassignment_json_file is None and record_uri is None:
        raise InvalidRequestError(
            "Expected the records to find the plan in, or a plan. Give --record-uri or --reassignment-json-file"
        )
    targets = (
        parse_plan(read_bytes(reassignment_json_file, "--reassignment-json-file")) if reassignment_json_file else None
    )
    with opened_cluster(bootstrap_server, connection) as cluster:
        verified = (
            verify_targets(cluster, targets)
            if targets is not None
            else verify_reassignment(cluster, store_at(record_uri or ""), reassignment)
        )
    if as_json:
        print_json(verified.as_json())
    else:
        say("\n".join(verified.lines()))
    if not verified.is_complete:
        raise typer.Exit(ExitCode.NOT_SO)
