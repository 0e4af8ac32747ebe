"""``lock``: which reassignment has locked a cluster, and how people take the lock from one that will not go on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from kafka_reassignment.cli.common import AsJson, ClusterId, RecordUri, console, err, person, print_json, store_at
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore

lock_app = typer.Typer(no_args_is_help=True, help="Which reassignment has locked a cluster.")


@lock_app.command("show")
def show_lock(cluster_id: ClusterId, record_uri: RecordUri, as_json: AsJson = False) -> None:
    """Print which reassignment has locked a cluster, and since when."""
    number, owner = _store_of(cluster_id, record_uri).lock(cluster_id).last()
    if as_json:
        fields = owner.model_dump(mode="json") if owner else {}
        print_json({"cluster_id": cluster_id, "number": number, "locked": owner is not None, **fields})
    else:
        console.print(_in_words(cluster_id, number, owner), markup=False, soft_wrap=True)


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
    as_json: AsJson = False,
) -> None:
    """Release the lock of a reassignment that will not go on, for example because its run was deleted.

    Check first whether its moves are still in flight and its throttle is still set: releasing changes neither.
    """
    if bool(reassignment_id) is force:
        raise typer.BadParameter("name the reassignment, or give --force")
    not_released = (
        _release_by_force(cluster_id, record_uri, number, yes=yes)
        if force
        else _release(cluster_id, reassignment_id, record_uri, yes=yes)
    )
    if as_json:
        print_json({"cluster_id": cluster_id, "released": not not_released, "reason": not_released})
    else:
        console.print(not_released or "Released", markup=False, soft_wrap=True)
    if not_released:
        raise typer.Exit(ExitCode.NOT_SO)


def _store_of(cluster_id: str, record_uri: str) -> RecordStore:
    """Return the store, which has something of the cluster: else a mistyped id, or a share that is not mounted, looks unlocked."""
    store = store_at(record_uri)
    store.require_cluster(cluster_id)
    return store


def _release(cluster_id: str, reassignment_id: str, record_uri: str, *, yes: bool) -> str:
    """Return why nothing was released; empty where it was."""
    store = _store_of(cluster_id, record_uri)
    for text in _owed(store.record(cluster_id, reassignment_id)):
        err.print(f"Still owed: {text}", style="yellow", markup=False, soft_wrap=True)
    if not yes:
        typer.confirm(f"Release cluster {cluster_id} from {reassignment_id}?", abort=True, err=True)
    if store.release(cluster_id, reassignment_id, at=datetime.now(UTC), by=person()):
        return ""
    return f"{reassignment_id} has not locked cluster {cluster_id}: nothing was released"


def _owed(record: Record) -> tuple[str, ...]:
    """Say what is owed; a journal that cannot be read keeps nobody from the lock."""
    try:
        return record.journal().owed_texts()
    except RecordDamagedError as error:
        return (f"not known: {error.problem}",)


def _release_by_force(cluster_id: str, record_uri: str, number: int | None, *, yes: bool) -> str:
    """Return why nothing was released; empty where it was."""
    store = _store_of(cluster_id, record_uri)
    if number is None:
        number = typer.prompt("Number of the lock, as 'lock show' prints it", type=int, err=True)
    if (
        not yes
        and typer.prompt(
            f"Id of the cluster that is released from lock {number}, whose owner does not matter", err=True
        )
        != cluster_id
    ):
        raise typer.Abort
    if store.release_by_force(cluster_id, number, at=datetime.now(UTC), by=person()):
        return ""
    in_force = store.lock(cluster_id).last_number()
    if in_force == number:
        return f"Cluster {cluster_id} is not locked: nothing was released"
    return f"Lock {number} of cluster {cluster_id} is not in force, expected {in_force}: nothing was released"


def _in_words(cluster_id: str, number: int, owner: ClusterLock | None) -> str:
    which = f"lock {number}" if number else "the lock of an earlier version"
    if owner is None:
        return f"Cluster {cluster_id} is not locked"
    airflow = f" in the Airflow {owner.instance}" if owner.instance else ""
    return (
        f"Cluster {cluster_id} is locked by {owner.reassignment_id}{airflow}, asked for by {owner.requested_by}, since "
        f"{owner.since} ({which})"
    )
