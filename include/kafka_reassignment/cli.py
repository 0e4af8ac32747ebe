"""The command line: ``kafka-reassignment``."""

from __future__ import annotations

import typer

from kafka_reassignment.local.app import app as local_app

app = typer.Typer(no_args_is_help=True, help="Moves Kafka replicas safely.")
app.add_typer(local_app, name="local")


@app.callback()
def main() -> None:
    """Moves Kafka replicas safely."""
