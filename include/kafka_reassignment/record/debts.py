"""Which throttle configs a cluster is owed by whom, and by which Airflow connections it is reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore

CONNECTION = "connection.txt"
"""By which Airflow connection a cluster was reached, in a record that has no request."""


@dataclass(frozen=True, slots=True)
class Debts:
    """What a cluster is owed: ``owing`` are the reassignments that owe it configs.

    ``connection_ids`` are those that its records name: of what owes something first, then of the others; none is looked
    for where nothing is owed. ``damaged_journals`` are the errors of journals whose debts are not known,
    ``damaged_requests`` those of requests whose connections are not.
    """

    cluster_id: str
    owing: tuple[str, ...] = ()
    connection_ids: tuple[str, ...] = ()
    damaged_journals: tuple[RecordDamagedError, ...] = ()
    damaged_requests: tuple[RecordDamagedError, ...] = ()


def debts(store: RecordStore, cluster_id: str) -> Debts:
    """Read the journals of a cluster; the cluster is not asked.

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    journals = store.open_journals(cluster_id)
    owing = [record for record, journal in journals.found if not journal.is_over]
    if not owing:
        return Debts(cluster_id, damaged_journals=journals.damaged)
    others = (record for record in store.records(cluster_id) if record.root not in {r.root for r in owing})
    connection_ids, damaged_requests = _connection_ids([*owing, *others])
    names = tuple(sorted(record.reassignment_id for record in owing))
    return Debts(cluster_id, names, connection_ids, journals.damaged, damaged_requests)


def note_connection(record: Record, kafka_conn_id: str) -> None:
    """Note by which connection the cluster is reached, before anything is owed: no request says it."""
    record.write_file(CONNECTION, kafka_conn_id.encode())


def _noted_connection(record: Record) -> str:
    """The connection of a throttle of moves of other clients; empty where none is noted.

    Raises:
        RecordDamagedError: the note is not readable.
    """
    noted = record.read_file(CONNECTION) or b""
    try:
        return noted.decode()
    except UnicodeDecodeError as error:
        raise RecordDamagedError(
            f"{record.uri_of(CONNECTION)} is not readable, expected the id of an Airflow connection in UTF-8",
            Correct("restore the file from a copy, or write the id of the connection into it"),
        ) from error


def _connection_ids(records: Iterable[Record]) -> tuple[tuple[str, ...], tuple[RecordDamagedError, ...]]:
    """Return the connections that records name, each once, and the errors of requests that cannot be read."""
    found: dict[str, None] = {}
    damaged: list[RecordDamagedError] = []
    for record in records:
        try:
            if record.exists:
                found[record.recorded_request().request.kafka_conn_id] = None
            elif noted := _noted_connection(record):
                found[noted] = None
        except RecordDamagedError as error:
            damaged.append(error)
    return tuple(found), tuple(damaged)
