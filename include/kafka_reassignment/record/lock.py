"""The lock of a cluster: at most one reassignment has it.

The lock is a series of numbered objects. Each one locks the cluster for one reassignment of one Airflow, or unlocks it;
the last one is in force. To take the lock and to release it are both exclusive creations of the next number, so that
nobody acts on the ground of an object that is not the last one any more, and nothing is ever removed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from pydantic import ConfigDict
from upath import UPath

from kafka_reassignment.advice import Correct, ReleaseLock
from kafka_reassignment.errors import RecordDamagedError, RecordsMissingError
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.objects import EARLIER_LOCKS, LOCK, read_model, require_exclusive_creation
from kafka_reassignment.record.series import Series
from kafka_reassignment.versioned import Versioned, newer_version


class LockChange(Versioned):
    """One object of the series: from now on ``owner`` has the lock, or nobody when None. ``by`` says who wrote it."""

    model_config = ConfigDict(extra="ignore")

    owner: ClusterLock | None = None
    at: datetime | None = None
    by: str = ""


class LockSeries:
    """The lock of one cluster. The one file of an earlier version is in force as object 0, while there is no other.

    Args:
        folder: of the cluster.
        cluster_id: for error texts.
    """

    def __init__(self, folder: UPath, cluster_id: str) -> None:
        self._earlier = [folder / name for name in EARLIER_LOCKS]
        self._changes = Series(folder / LOCK, LockChange, "Lock", kept=2)
        self._cluster_id = cluster_id

    def last(self) -> tuple[int, ClusterLock | None]:
        """Return the number of the object in force, and the owner of the lock; None when the cluster is not locked.

        Raises:
            RecordDamagedError: the object is not readable; the advice names the command that unlocks the cluster.
            RecordsMissingError: the object that was known is not there any more, for example because a share was
                unmounted since: what is kept of the record must not be gone on by.
        """
        number = self.last_number()
        if number and self._changes.content(number) is None:
            raise RecordsMissingError(
                f"The lock of cluster {self._cluster_id} is not there any more, expected it at {self._changes.place(number)}",
                Correct("mount the share again, or see whether the bucket still exists"),
            )
        return number, self.owner_at(number)

    def owner_at(self, number: int) -> ClusterLock | None:
        """Return the owner of the lock by the object of this number; None when it unlocks the cluster.

        Raises:
            RecordDamagedError: as ``last``.
        """
        try:
            if number == 0:
                return next((lock for path in self._earlier if (lock := read_model(path, ClusterLock))), None)
            return self._changes.read(number).owner
        except RecordDamagedError as error:
            content = self._changes.content(number)
            if content is not None and newer_version(content) is not None:
                raise  # the owner may be at work: what reads it is that version, and no force
            raise RecordDamagedError(
                f"The lock of cluster {self._cluster_id} cannot be read, so nobody can tell who has it: {error.problem}",
                ReleaseLock(self._cluster_id, number=number),
            ) from error

    def is_locked_by(self, number: int) -> bool:
        """Whether the object of this number locks the cluster, or is not readable, so that it may."""
        try:
            return self.owner_at(number) is not None
        except RecordDamagedError:
            return True

    def last_number(self) -> int:
        """Return the number of the object in force, readable or not; 0 when there is none."""
        return self._changes.last_number()

    def require_exclusive_creation(self) -> None:
        """Make sure that the store would have refused the object in force if it had existed.

        Raises:
            RecordStoreUnusableError: it would have replaced it; the object is removed, so that the cluster is not
                locked.
            RecordUnavailableError: the store does not answer.
        """
        number = self.last_number()
        if (content := self._changes.content(number)) is not None:
            require_exclusive_creation(self._changes.place(number), content)

    def change_after(self, number: int, change: LockChange) -> bool:
        """Write the object after ``number``, if that is still the one in force; return whether it was.

        A client of an object store that lost the answer repeats the request, and is refused by its own object.
        """
        return self._changes.append_after(number, change) or self._is_own(number + 1, change)

    def _is_own(self, number: int, change: LockChange) -> bool:
        """Whether the object of this number is this change: nobody else writes at the same moment in the same name."""
        if change.at is None or not change.by:
            return False
        with suppress(RecordDamagedError):
            return self._changes.read(number) == change
        return False
