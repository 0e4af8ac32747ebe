"""``watch``: a reassignment while it runs, look after look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kafka_reassignment.cli.common import (
    BootstrapServer,
    ConnectionFile,
    OptionalRecordUri,
    Reassignment,
    console,
    note,
    opened_cluster,
    optional_store,
    say,
)
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.errors import ReassignmentError, is_worth_a_retry
from kafka_reassignment.text import format_bytes, format_seconds
from kafka_reassignment.views.watch import Look, Watch

BETWEEN_LOOKS_SECONDS = 10.0
"""Each look asks every broker that takes part once."""

SHOWN_REASONS = 5


def watch(
    bootstrap_server: BootstrapServer = None,
    connection: ConnectionFile = None,
    record_uri: OptionalRecordUri = None,
    reassignment: Reassignment = None,
    interval: Annotated[
        float, typer.Option(min=1.0, max=86_400.0, help="seconds between two looks")
    ] = BETWEEN_LOOKS_SECONDS,
    once: Annotated[bool, typer.Option("--once", help="look once")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="one JSON object per look, one per line")] = False,
) -> None:
    """Watch a reassignment until it is over: bytes left, speed, time left, and why it waits. Changes nothing.

    On a terminal it is one live view; piped it is a line per change. Exit code 0: it is finished; 1: it has ended
    otherwise.
    """
    with opened_cluster(bootstrap_server, connection) as cluster:
        looks = _looks(Watch(cluster, optional_store(record_uri), reassignment), interval, once=once)
        if json_lines:
            last = _print_json(looks)
        elif console.is_terminal and not once:
            last = _live(looks)
        else:
            last = _print_changes(looks)
    if last.is_over and not last.is_done:
        raise typer.Exit(ExitCode.NOT_SO)


def _looks(watched: Watch, interval: float, *, once: bool) -> Iterator[Look]:
    """Look until it is over; from the second look on, one that fails for now is tried again."""
    look = watched.look()
    yield look
    while not once and not look.is_over:
        time.sleep(interval)
        try:
            look = watched.look()
        except ReassignmentError as error:
            if not is_worth_a_retry(error):
                raise
            note([f"{error}. Trying again"])
            continue
        yield look


def _print_json(looks: Iterator[Look]) -> Look:
    for look in looks:
        typer.echo(json.dumps(look.as_json()))
    return look


def _print_changes(looks: Iterator[Look]) -> Look:
    shown = ""
    for look in looks:
        if str(look) != shown:
            shown = str(look)
            say(f"{look.at:%Y-%m-%d %H:%M:%S} {shown}")
    return look


def _live(looks: Iterator[Look]) -> Look:
    with Live(console=console, auto_refresh=False) as live:
        for look in looks:
            live.update(drawn(look), refresh=True)
    return look


def drawn(look: Look) -> RenderableType:
    """Return a look as it is drawn on a terminal."""
    whose = look.reassignment.reassignment_id if look.reassignment else "Moves of another client"
    facts = Table.grid(padding=(0, 2))
    if look.work is not None:
        facts.add_row(Text("copied", style="dim"), ProgressBar(total=1.0, completed=look.work.share, width=60))
    for name, value in _facts(look):
        facts.add_row(Text(name, style="dim"), Text(value))
    return Group(Text(f"{whose}, cluster {look.cluster_id}", style="bold"), facts)


def _facts(look: Look) -> Iterator[tuple[str, str]]:
    yield "now", look.doing
    if look.bytes_left is not None:
        yield "left of the batch", format_bytes(look.bytes_left)
    if look.work is not None:
        yield "left of all", f"{format_bytes(look.work.bytes_left)} of {format_bytes(look.work.bytes_to_copy)}"
    if look.bytes_per_second is not None:
        yield "speed", f"{format_bytes(look.bytes_per_second)}/s"
    if look.rates is not None:
        lowest, highest = look.rates
        yield "throttle", " to ".join(f"{format_bytes(rate)}/s" for rate in sorted({lowest, highest}))
    if look.seconds_left is not None:
        yield "batch is over in", f"about {format_seconds(look.seconds_left)}"
    if look.ends_at is not None:
        yield "all is over at", f"about {look.ends_at:%Y-%m-%d %H:%M} UTC"
    for reason in look.waits[:SHOWN_REASONS]:
        yield "waits", reason
    if (more := len(look.waits) - SHOWN_REASONS) > 0:
        yield "", f"and {more} more"
    for text in look.unreadable[:SHOWN_REASONS]:
        yield "unreadable", text
    yield "looked at", f"{look.at:%Y-%m-%d %H:%M:%S} UTC"
