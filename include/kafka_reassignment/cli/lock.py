"""``lock``: which reassignment has locked a cluster, and how people take the lock from one that will not go on."""

from __future__ import annotations

from datetime import UTC, datetime
from getpass import getuser
from typing import Annotated

import typer

from kafka_reassignment.cli.common import ClusterId, RecordUri, console, errors_to_stderr, store_at
from kafka_reassignment.record.models import ClusterLock

lock_app = typer.Typer(no_args_is_help=True, help="Which reassignment has locked a cluster.")


@lock_app.command("show")
def show_lock(cluster_id: ClusterId, record_uri: RecordUri) -> None:
    """Print which reassignment has locked a cluster, and since when; exit with 1 when the lock is damaged."""
    with errors_to_stderr():
        number, owner = store_at(record_uri).lock(cluster_id).last()
    console.print(_in_words(cluster_id, number, owner), markup=False)


@lock_app.command("release")
def release_lock(
    cluster_id: ClusterId,
    record_uri: RecordUri,
    reassignment_id: Annotated[
        str, typer.Argument(help="run id of the kafka_reassignment run; with --force not needed")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="from any owner, and also if the lock is damaged")] = False,
    number: Annotated[
        int | None, typer.Option(help="with --force: number of the lock that was seen; asked for when not given")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Release the lock of a reassignment that will not go on, for example because its run was deleted.

    Check first whether its moves are still in flight and its throttle is still set: releasing changes neither.
    """
    if bool(reassignment_id) is force:
        raise typer.BadParameter("name the reassignment, or give --force")
    with errors_to_stderr():
        if force:
            _release_by_force(cluster_id, record_uri, number, yes=yes)
        else:
            _release(cluster_id, reassignment_id, record_uri, yes=yes)
    console.print("Released")


def _release(cluster_id: str, reassignment_id: str, record_uri: str, *, yes: bool) -> None:
    store = store_at(record_uri)
    for text in store.record(cluster_id, reassignment_id).journal().owed_texts():
        console.print(f"Still owed: {text}", style="yellow", markup=False)
    if not yes:
        typer.confirm(f"Release cluster {cluster_id} from {reassignment_id}?", abort=True)
    if not store.release(cluster_id, reassignment_id, at=datetime.now(UTC), by=_person()):
        console.print(f"{reassignment_id} has not locked cluster {cluster_id}: nothing was released", markup=False)
        raise typer.Exit(1)


def _release_by_force(cluster_id: str, record_uri: str, number: int | None, *, yes: bool) -> None:
    store = store_at(record_uri)
    if number is None:
        number = typer.prompt("Number of the lock, as 'lock show' prints it", type=int)
    if (
        not yes
        and typer.prompt(f"Id of the cluster that is released from lock {number}, whose owner does not matter")
        != cluster_id
    ):
        raise typer.Abort
    if not store.release_by_force(cluster_id, number, at=datetime.now(UTC), by=_person()):
        in_force = store.lock(cluster_id).last_number()
        console.print(
            f"Lock {number} of cluster {cluster_id} is not in force, expected {in_force}: nothing was released",
            markup=False,
        )
        raise typer.Exit(1)


def _in_words(cluster_id: str, number: int, owner: ClusterLock | None) -> str:
    which = f"lock {number}" if number else "the lock of an earlier version"
    if owner is None:
        return f"Cluster {cluster_id} is not locked"
    airflow = f" in the Airflow {owner.instance}" if owner.instance else ""
    return (
        f"Cluster {cluster_id} is locked by {owner.reassignment_id}{airflow}, asked for by {owner.requested_by}, since "
        f"{owner.since} ({which})"
    )


def _person() -> str:
    return f"{getuser()} by the command line"
