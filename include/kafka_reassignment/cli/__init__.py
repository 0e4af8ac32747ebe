"""The command line; ``kafka-reassignment --help`` lists the commands."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from kafka_reassignment.cli.audit import audit_app
from kafka_reassignment.cli.common import AsJson, console, print_json
from kafka_reassignment.cli.dags import dags_app
from kafka_reassignment.cli.exit_codes import Commands
from kafka_reassignment.cli.lock import lock_app
from kafka_reassignment.cli.plan import plan
from kafka_reassignment.cli.verify import verify
from kafka_reassignment.cli.views import describe_moves, list_moves
from kafka_reassignment.cli.watch import watch
from kafka_reassignment.planner.environment import require_pyspark
from kafka_reassignment.text import format_bytes

app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Tools beside the DAGs; reassignments themselves are run by Airflow."
)
app.command("plan")(plan)
app.command("list")(list_moves)
app.command("describe")(describe_moves)
app.command("watch")(watch)
app.command("verify")(verify)
app.add_typer(lock_app, name="lock")
app.add_typer(audit_app, name="audit")
app.add_typer(dags_app, name="dags")


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
def warm_up(as_json: AsJson = False) -> None:
    """Archive Spark's classes in this Python environment, so that every later planning starts some seconds earlier."""
    require_pyspark()
    from kafka_reassignment.planner.warm_start import prepare  # noqa: PLC0415 - PySpark is slow to import

    archive = prepare()
    if as_json:
        print_json({"archive": str(archive), "bytes": archive.stat().st_size})
    else:
        console.print(f"{format_bytes(archive.stat().st_size)} of classes in {archive}", markup=False, soft_wrap=True)
