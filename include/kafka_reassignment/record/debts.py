"""Which clusters are owed throttle configs, and by which Airflow connections they are reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore


@dataclass(frozen=True, slots=True)
class Debtor:
    """A cluster with the reassignments that owe it configs.

    ``connection_ids`` are those that its records name: of what owes something first, then of the others.
    """

    cluster_id: str
    owing: tuple[str, ...]
    connection_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Debts:
    """By cluster; ``unreadable`` says which journals cannot be read, so that their debts are not known, and why."""

    debtors: tuple[Debtor, ...]
    unreadable: tuple[str, ...] = ()


def debts(store: RecordStore) -> Debts:
    """Read the journals of every cluster; no cluster is asked.

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    found: list[Debtor] = []
    unreadable: list[str] = []
    for cluster_id in store.clusters():
        journals = store.open_journals(cluster_id)
        unreadable += journals.damaged
        owing = [record for record, journal in journals.found if not journal.is_over]
        if owing:
            others = (record for record in store.records(cluster_id) if record.root not in {r.root for r in owing})
            ids = tuple(dict.fromkeys(_connection_ids([*owing, *others])))
            found.append(Debtor(cluster_id, tuple(sorted(r.reassignment_id for r in owing)), ids))
    return Debts(tuple(found), tuple(unreadable))


def _connection_ids(records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        with suppress(RecordDamagedError):
            if record.exists:  # a throttle of moves of other clients has a journal and no request
                yield record.recorded_request().request.kafka_conn_id
