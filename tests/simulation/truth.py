"""What the record really says, whatever faults the store has: read by the product's own models, without being a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.simulation.caches import forget_batches, of_another_process
from tests.simulation.disk import Faults
from tests.simulation.files import SimPath
from tests.simulation.planner import write_plan

from kafka_reassignment.decisions.correction import HIGHEST
from kafka_reassignment.decisions.throttle.wanted import caps_last
from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import ConfigResource, Reassignment, Replicas, TopicPartition
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore

if TYPE_CHECKING:
    from tests.simulation.world import WatchedDisk

HEADROOM = max(HIGHEST.values())
"""A rate may be set this much above what was asked for: replication delivers less than what is set."""


class Truth:
    """The record of one world."""

    def __init__(self, disk: WatchedDisk, root: SimPath, cluster_id: str) -> None:
        self._disk = disk
        self._root = root
        self.cluster_id = cluster_id
        self._kept: dict[tuple[Any, ...], _Kept] = {}
        self._limits: dict[tuple[str, int, str], float | None] = {}
        self._limits_at = 0
        self._last_owner: str | None = None
        self._found: dict[str, dict[TopicPartition, Replicas]] = {}

    @contextmanager
    def undisturbed(self, instead: Faults | None = None) -> Iterator[None]:
        """No fault of the store strikes in here, or only what strikes ``instead``, and no task knows of what is read."""
        faults, self._disk.faults = self._disk.faults, instead or Faults()
        self._disk.is_watched = False
        try:
            with of_another_process():
                yield
        finally:
            self._disk.faults, self._disk.is_watched = faults, True

    @property
    def store(self) -> RecordStore:
        """The store as it is now: a power cut may have taken what was seen of it."""
        return RecordStore(self._root)  # type: ignore[arg-type]

    def record(self, reassignment_id: str) -> Record:
        """Return the record of a reassignment."""
        return self.store.record(self.cluster_id, reassignment_id)

    def owner(self) -> str | None:
        """Return which reassignment has the lock of the cluster; None also where the lock is damaged."""

        def read() -> str | None:
            owner = self.store.lock_owner(self.cluster_id)
            return owner.reassignment_id if owner else None

        return self._read(("owner",), read)

    def last_owner(self) -> str | None:
        """As ``owner``; where the lock is damaged, which had it before: what is in its call meanwhile has looked."""

        def read() -> str | None:
            with suppress(RecordError):
                owner = self.store.lock_owner(self.cluster_id)
                self._last_owner = owner.reassignment_id if owner else None
            return self._last_owner

        last: str | None = self._read(("last_owner",), read)
        return last

    def locked_since(self) -> datetime | None:
        """Return since when the lock of the cluster is held; None where it is not, or is damaged."""

        def read() -> datetime | None:
            owner = self.store.lock_owner(self.cluster_id)
            return owner.since if owner else None

        since: datetime | None = self._read(("since",), read)
        return since

    def request(self, reassignment_id: str) -> Any:
        """Return the request of a reassignment; None where there is none, or it cannot be read."""
        return self._read(("request", reassignment_id), lambda: self.record(reassignment_id).recorded_request().request)

    def started_at(self, reassignment_id: str) -> datetime | None:
        """Return when a reassignment was asked for; None where that cannot be read."""
        read = self.record(reassignment_id).recorded_request
        return self._read(("started", reassignment_id), lambda: read().started_at)

    def limit(self, reassignment_id: str, broker: int, side: str) -> float | None:
        """Return the highest rate that a broker may be set to; None when the reassignment is to be unthrottled.

        What is left in flight of a reassignment that was stopped is under the rate of the one that took the cluster
        over.
        """
        if self._limits_at != self._disk.changes:
            self._limits_at = self._disk.changes
            self._limits.clear()
        asked = (reassignment_id, broker, side)
        if asked not in self._limits:
            self._limits[asked] = self._limit(*asked)
        return self._limits[asked]

    def _limit(self, reassignment_id: str, broker: int, side: str) -> float | None:
        if self.is_over(reassignment_id):
            reassignment_id = self.owner() or reassignment_id
        request = self.request(reassignment_id)
        asked = None if request is None else request.throttle_bytes_per_second
        journal = self._read(("journal", reassignment_id), lambda: self.record(reassignment_id).journal())
        for change in caps_last(journal.rate_changes) if journal is not None else ():
            if change.concerns(broker, side):
                asked = change.asked_bytes_per_second if asked is None else change.applied_to(asked)
        return None if asked is None else asked * HEADROOM + 1

    def journals(self) -> dict[str, Any]:
        """Return the journal of each record; nothing where one of them cannot be read."""
        found: dict[str, Any] | None = self._read(
            ("journals",), lambda: {r.reassignment_id: r.journal() for r in self.store.records(self.cluster_id)}
        )
        return found or {}

    def looks_like_ours(self) -> dict[tuple[ConfigResource, str], set[str]]:
        """Return what a journal calls ours wherever it shows up, by config.

        Rates and entries that tries have journalled and may still request, the whole of a rate that is raised in parts
        included; and entries that are owed: they may have been removed by a request whose answer or note was lost.
        """
        found: dict[tuple[ConfigResource, str], set[str]] = {}
        for rate in (r for journal in self.journals().values() for r in journal.rates if not r.was_in_place):
            found.setdefault((rate.resource, rate.side.rate_key), set()).update(rate.set_values)
        for record in (r for journal in self.journals().values() for r in journal.lists):
            found.setdefault((record.resource, record.side.replicas_key), set()).update(record.added)
        for setting in (u for journal in self.journals().values() for u in journal.underway):
            for record in setting.lists:
                found.setdefault((record.resource, record.side.replicas_key), set()).update(record.added)
            for rate in setting.rates:
                found.setdefault((rate.resource, rate.side.rate_key), set()).update(rate.set_values)
        return found

    def reassignments(self) -> frozenset[str]:
        """Return the ids of all that have a record; nothing where one of them cannot be read."""
        read = self.store.records
        return self._read(("all",), lambda: frozenset(r.reassignment_id for r in read(self.cluster_id))) or frozenset()

    def is_stopped(self, reassignment_id: str) -> bool:
        """Whether a reassignment was stopped and not resumed."""
        return self._order_to_stop(reassignment_id) is not None

    def stopped_by(self, run_id: str) -> str | None:
        """Return the reassignment that is stopped by the order of this run."""
        for each in sorted(self.reassignments()):
            order = self._order_to_stop(each)
            if order is not None and order.run_id == run_id:
                return each
        return None

    def _order_to_stop(self, reassignment_id: str) -> RunCommand | None:
        return self._read(("stopped", reassignment_id), lambda: self.record(reassignment_id).stopped())

    def was_stopped(self, reassignment_id: str) -> bool:
        """Whether a reassignment was ever stopped: what a stop has taken back may stay so for a while after a resume."""
        return bool(
            self._read(("was stopped", reassignment_id), lambda: self.record(reassignment_id).run_commands.all() != [])
        )

    def ordered_at(self, reassignment_id: str) -> datetime | None:
        """When the last order was given to stop a reassignment, or to let it go on."""

        def read() -> datetime | None:
            last = self.record(reassignment_id).run_commands.last()[1]
            return None if last is None else last.at

        at: datetime | None = self._read(("ordered at", reassignment_id), read)
        return at

    def settled(self, reassignment_id: str) -> frozenset[str]:
        """Return the partitions that the last order to stop, or one to take them out, has settled or left to others."""
        read = self.record(reassignment_id).settled.no_longer_ours
        return self._read(("settled", reassignment_id), read) or frozenset()

    def is_over(self, reassignment_id: str) -> bool:
        """Whether a reassignment has ended or was stopped."""

        def read() -> bool:
            record = self.record(reassignment_id)
            return record.stopped() is not None or record.read_file("report.txt") is not None

        return bool(self._read(("over", reassignment_id), read))

    def is_finished(self, reassignment_id: str, batch: int) -> bool:
        """Whether a batch is recorded as finished."""

        def read() -> bool:
            return self.record(reassignment_id).finished(batch) is not None

        return bool(self._read(("finished", reassignment_id, batch), read))

    def submitted_anything(self, reassignment_id: str) -> bool:
        """Whether a batch of a reassignment was ever submitted."""

        def read() -> bool:
            return self.record(reassignment_id).submitted(1) is not None

        return bool(self._read(("submitted", reassignment_id), read))

    def took_over_anything(self, reassignment_id: str) -> bool:
        """Whether a reassignment took the place of one that had submitted something, or of which that cannot be read."""

        def read() -> bool:
            return any(r.submitted(1) is not None for r in self.record(reassignment_id).superseded())

        return self._read(("took over", reassignment_id), read) is not False

    def targets(self, reassignment_id: str) -> dict[TopicPartition, Replicas]:
        """Return what the frozen plan of a reassignment asks for; nothing where none is frozen."""

        return {move.partition: move.target for move in self.moves(reassignment_id)}

    def moves(self, reassignment_id: str) -> list[Reassignment]:
        """Return the moves of the frozen plan of a reassignment, from where it found the partitions."""

        def read() -> list[Reassignment]:
            record = self.record(reassignment_id)
            return list(read_target(record.plan_uri)) if record.frozen_plan() is not None else []

        return self._read(("moves", reassignment_id), read) or []

    def found(self, reassignment_id: str) -> dict[TopicPartition, Replicas]:
        """Return where the frozen plan of a reassignment has found its partitions, also where it is damaged since."""
        if moves := self.moves(reassignment_id):
            self._found[reassignment_id] = {move.partition: move.current for move in moves}
        return self._found.get(reassignment_id, {})

    def remember_found(self) -> None:
        """Read where all plans have found their partitions, before one of them is damaged."""
        for reassignment_id in self.reassignments():
            self.found(reassignment_id)

    def rewrite_plan(self, reassignment_id: str) -> None:
        """Replace a frozen plan by one that keeps each partition's brokers and turns their order around."""
        with self.undisturbed():
            record = self.record(reassignment_id)
            plan_dir = record.plan_uri
            moves = list(read_target(plan_dir))
            request = record.recorded_request().request
            rows = [
                {
                    "topic": m.partition.topic,
                    "partition": m.partition.partition,
                    "current": list(m.current),
                    "target": list(reversed(m.target)),
                    "size_bytes": m.size_bytes,
                }
                for m in moves
            ]
            write_plan(pa.Table.from_pylist(rows, schema=TARGET), request, len(moves), plan_dir)
        forget_batches()  # tasks to come are processes of their own; what a judge has read is not theirs

    def withdrawn(self, reassignment_id: str) -> frozenset[str]:
        """Return the partitions that a person took out of a reassignment."""
        read = self.record(reassignment_id).withdrawn_partitions
        return self._read(("withdrawn", reassignment_id), read) or frozenset()

    def begun(self, reassignment_id: str) -> frozenset[str]:
        """Return the partitions that a batch of a reassignment has moved, or has begun to."""
        return frozenset(self.last_batches(reassignment_id))

    def last_batches(self, reassignment_id: str) -> dict[str, int]:
        """Return by partition the last batch of a reassignment that has moved it, or has begun to."""

        def moved(number: int) -> frozenset[str]:
            submitted = self.record(reassignment_id).submitted(number)
            return frozenset(() if submitted is None else {*submitted.accepted} - {*submitted.done_before})

        return self._last(("begun", reassignment_id), moved)

    def submitted_since(self, reassignment_id: str, at: datetime) -> frozenset[str]:
        """Return the partitions of batches of a reassignment that were submitted after a moment: it was resumed."""

        def accepted(number: int) -> tuple[str, ...]:
            submitted = self.record(reassignment_id).submitted(number)
            return () if submitted is None or submitted.submitted_at <= at else submitted.accepted

        return frozenset(self._last(("submitted since", reassignment_id, at), accepted))

    def last_asked(self, reassignment_id: str) -> dict[str, int]:
        """Return by partition the last batch that may have asked for it to be moved: the answer may not be noted."""

        def asked(number: int) -> tuple[str, ...]:
            note = self.record(reassignment_id).found_notes(number).last()[1]
            return () if note is None else note.partitions

        return self._last(("asked", reassignment_id), asked)

    def _last(self, key: tuple[Any, ...], partitions: Callable[[int], Iterable[str]]) -> dict[str, int]:
        def read() -> dict[str, int]:
            plan = self.record(key[1]).plan_in_force()
            numbers = range(1, plan.batches + 1) if plan is not None else ()
            return {p: n for n in numbers for p in partitions(n)}

        return self._read(key, read) or {}

    def release_lock(self, cluster_id: str, reassignment_id: str, number: int | None, at: datetime) -> None:
        """Unlock a cluster as the command line does."""
        if number is not None:
            self.store.release_by_force(cluster_id, number, at=at, by="ann")
        else:
            self.store.release(cluster_id, reassignment_id)

    def _read(self, key: tuple[Any, ...], read: Any) -> Any:
        disk, kept = self._disk, self._kept.get(key)
        if kept is not None:
            if kept.at == disk.changes:
                return kept.value
            if not disk.has_changed(kept.paths, kept.at):
                kept.at = disk.changes
                return kept.value
        disk.looked_at = paths = set()
        with self.undisturbed():
            try:
                value = read()
            except RecordError:
                value = None
        disk.looked_at = None
        self._kept[key] = _Kept(value, paths, disk.changes)
        return value


@dataclass
class _Kept:
    """What was read, from which files and folders, and at which change of the disk it was so."""

    value: Any
    paths: set[str]
    at: int
