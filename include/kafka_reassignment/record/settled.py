"""What is settled of a reassignment that was stopped: what comes of it from then on is not its doing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from upath import UPath

from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.record.objects import read_object, write_object
from kafka_reassignment.record.operator_commands import RunCommand, SettledNote
from kafka_reassignment.record.series import Series


class SettledNotes:
    """Where partitions were when they were found settled, by partition, which were left to others, and that all is settled.

    A note has the number of the order to stop that its look began with, and holds while that is the last order: it may
    have been resumed while the look was still under way, and what was settled is its own again.

    Args:
        root: of the record.
        run_commands: the orders to stop and to go on.
    """

    def __init__(self, root: UPath, run_commands: Series[RunCommand]) -> None:
        self._all = root / "settled.txt"
        self._notes = Series(root / "settled", SettledNote)
        self._run_commands = run_commands

    def note_all(self, stop: int) -> None:
        """Note that all is settled since the order to stop of this number; nothing where that is noted of a later one."""
        noted = read_object(self._all) or b""
        if not (noted.isdigit() and int(noted) > stop):
            write_object(self._all, str(stop).encode())

    def has_all(self) -> bool:
        """Whether it is stopped, and all of it was settled since."""
        noted = read_object(self._all)
        return noted is not None and (stop := self._stop()) is not None and noted == str(stop).encode()

    def note(
        self,
        ends: Mapping[TopicPartition, Replicas],
        *,
        stop: int | None,
        at: datetime,
        left_to_others: Collection[TopicPartition] = (),
    ) -> None:
        """Note where partitions are settled, and which are left to others; those that are not noted yet: the first note counts.

        Args:
            ends: by partition, the replicas that it has now.
            left_to_others: what another client has changed or moves.
            stop: number of the order to stop that was read before the look; None where they were withdrawn, so that the
                note holds for good.
            at: now, in UTC.
        """
        known = self.partitions()
        new = {str(p): replicas for p, replicas in sorted(ends.items()) if str(p) not in known}
        left = self.no_longer_ours() if left_to_others else frozenset[str]()
        theirs = tuple(str(p) for p in sorted(left_to_others) if str(p) not in left)
        if new or theirs:
            self._notes.append(SettledNote(at=at, ends=new, run_command=stop, left_to_others=theirs))

    def note_taken_back(self, partitions: Collection[TopicPartition], *, stop: int, at: datetime) -> None:
        """Note which partitions are about to be brought to their original replicas, with the order to stop of this number; once."""
        known = {partition for note in self._held() for partition in note.taken_back} if partitions else ()
        if new := tuple(str(p) for p in sorted(partitions) if str(p) not in known):
            self._notes.append(SettledNote(at=at, ends={}, run_command=stop, taken_back=new))

    def partitions(self) -> dict[str, Replicas]:
        """Return by partition where it was settled since this reassignment was stopped, or since the partition was withdrawn.

        A note that cannot be read is none: its partitions are settled once more, and those of the other notes are not.
        """
        return {partition: replicas for note in self._held() for partition, replicas in note.ends.items()}

    def left_to_others(self) -> frozenset[str]:
        """Return the partitions that were left to others since, as ``partitions``."""
        return frozenset(partition for note in self._held() for partition in note.left_to_others)

    def no_longer_ours(self) -> frozenset[str]:
        """Return the partitions that were settled or left to others since."""
        return frozenset(partition for note in self._held() for partition in (*note.ends, *note.left_to_others))

    def found_there(self) -> frozenset[str]:
        """Return the partitions that were settled when they were found, as ``partitions``: nothing was taken back of them."""
        _, order = self._run_commands.last()
        if order is None or not order.notes_taken_back:
            return frozenset()
        # A successor orders a stop of its own after one that has taken something back.
        taken_back = {partition for note in self._latest_first() for partition in note.taken_back}
        return frozenset(p for note in self._held() for p in note.ends) - taken_back

    def times(self) -> dict[str, datetime]:
        """Return by partition when it was found settled, as ``partitions``."""
        return {partition: note.at for note in self._held() for partition in note.ends}

    def lifted_since(self, order: int, targets: Mapping[str, Replicas] | None = None) -> frozenset[str]:
        """Return the partitions that a stop which was lifted since has settled or left to others; of stops after an order of this number.

        Those that it has settled at their ``targets`` are not among these.
        """
        stop, found, wanted = self._stop(), set[str](), targets or {}
        for note in self._latest_first():
            if note.run_command not in (None, stop) and note.run_command > order:
                found.update(note.left_to_others, (p for p, end in note.ends.items() if end != wanted.get(p)))
        return frozenset(found)

    def _held(self) -> Iterator[SettledNote]:
        """Yield the notes that hold, the latest first."""
        stop = self._stop()
        return (note for note in self._latest_first() if note.run_command in (None, stop))

    def _latest_first(self) -> Iterator[SettledNote]:
        """Yield the notes that can be read."""
        for number in range(self._notes.last_number(), 0, -1):
            with suppress(RecordDamagedError):
                yield self._notes.read(number)

    def _stop(self) -> int | None:
        """The number of the last order, where that is to stop."""
        number, command = self._run_commands.last()
        return number if command is not None and command.stopped else None
