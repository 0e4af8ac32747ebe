"""``audit``: the audit trail of a reassignment."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kafka_reassignment.advice import Correct
from kafka_reassignment.cli.common import AsJson, ClusterId, ReassignmentId, RecordUri, console, print_json, store_at
from kafka_reassignment.errors import RecordDamagedError, name_some
from kafka_reassignment.record.audit import UnreadableEvent

audit_app = typer.Typer(no_args_is_help=True, help="The audit trail of a reassignment.")


@audit_app.command("show")
def show_audit(
    cluster_id: ClusterId,
    reassignment_id: ReassignmentId,
    record_uri: RecordUri,
    json_lines: Annotated[bool, typer.Option("--json", help="complete events, one JSON object per line")] = False,
) -> None:
    """Print the events of a reassignment, oldest first; one that cannot be read is named in its line."""
    table = Table("#", "at", "step", "batch", "try", "outcome", "what")
    unreadable: list[int] = []
    for event in store_at(record_uri).record(cluster_id, reassignment_id).existing_audit().each():
        if isinstance(event, UnreadableEvent):
            unreadable.append(event.sequence)
        if json_lines:
            typer.echo(json.dumps(event.model_dump(mode="json")))
            continue
        if isinstance(event, UnreadableEvent):
            table.add_row(str(event.sequence), "", "", "", "", "unreadable", Text(event.unreadable))
            continue
        table.add_row(
            str(event.sequence),
            f"{event.finished_at:%Y-%m-%d %H:%M:%S}",
            event.step,
            str(event.batch or ""),
            str(event.actor.try_number),
            event.outcome,
            Text(event.summary),
        )
    if not json_lines:
        console.print(table)
    if unreadable:
        raise RecordDamagedError(
            f"{len(unreadable)} events cannot be read: {name_some(unreadable)}",
            Correct("restore them from a copy, then check the trail with 'audit verify'"),
        )


@audit_app.command("verify")
def verify_audit(
    cluster_id: ClusterId, reassignment_id: ReassignmentId, record_uri: RecordUri, as_json: AsJson = False
) -> None:
    """Check that every event is there and unaltered."""
    record = store_at(record_uri).record(cluster_id, reassignment_id)
    count, head, last = record.verify_audit(), record.audit.head_number(), record.audit.last_hash()
    if as_json:
        print_json({"events": count, "head": head, "last_hash": last})
    else:
        text = f"{count} events, chain intact; number in the head: {head}; hash of the last one: {last}"
        console.print(text, soft_wrap=True)
