"""Numbered objects of one kind in one folder: each is written once, and the last one is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pydantic import BaseModel
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record.objects import ReadOnce, last_number, read_object

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Series(Generic[M]):
    """Objects ``000001.json``, ``000002.json``… of one folder, all of one model.

    No object is ever replaced, so two writers cannot lose each other's objects. A writer that decides on the ground
    of the last object names its number, and is refused when another one was written in between.

    An object is read once and kept. The folder is listed once: from then on the next number is asked for by its name,
    so that what others write is seen at once, with one call.

    Args:
        folder: of these objects alone.
        model: of each object.
        name: what one object is called in error texts; the model's name when None.
        kept: how many objects are kept.
        largest: bytes of the largest object that is kept; any size when None.
        earlier: returns the folder in which an earlier version wrote the first ones; None where there is none.
    """

    def __init__(
        self,
        folder: UPath,
        model: type[M],
        name: str | None = None,
        *,
        kept: int = 64,
        largest: int | None = None,
        earlier: Callable[[], UPath | None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._earlier = earlier
        self._in_earlier: int | None = None  # how many objects are in the earlier folder; None before it was listed
        self._model = model
        self._name = name or model.__name__
        self._objects = ReadOnce(kept, largest)
        self._seen: int | None = None  # the highest number that is known to be there; None before the folder was listed

    def last_number(self) -> int:
        """Return the number of the last object; 0 when there is none.

        What a listing does not show yet is found by its name: a stop that is hidden for a second is a stop all the
        same.
        """
        number = max(last_number(self._folder), self._count_earlier()) if self._seen is None else self._seen
        while self.content(number + 1) is not None:
            number += 1
        self._seen = number
        return number

    def last(self) -> tuple[int, M | None]:
        """Return the number of the last object and the object; 0 and None when there is none."""
        number = self.last_number()
        return number, self.read(number) if number else None

    def last_as_read(self) -> tuple[int, M | None]:
        """Return the last object that was read or written here; the store is asked only if there was no such call yet."""
        return self.last() if self._seen is None else (self._seen, self.read(self._seen) if self._seen else None)

    def change(self, decide: Callable[[M | None], tuple[M | None, T]]) -> T:
        """Write what is decided on the ground of the last object, and return what else ``decide`` returned.

        ``decide`` is called with the last object (None when there is none), and again with each that another writer
        wrote in between. It returns no object when nothing is to be written.

        Raises:
            RecordDamagedError: the last object is not readable.
        """
        number, last = self.last()
        while True:
            item, result = decide(last)
            if item is None or self.append_after(number, item):
                return result
            number += 1  # refused, so it is there, whether or not a listing shows it
            last = self.read(number)

    def all(self) -> list[M]:
        """Return every object, oldest first."""
        return list(self.between(1, self.last_number()))

    def between(self, first: int, last: int) -> Iterator[M]:
        """Yield the objects with these numbers, both included.

        Raises:
            RecordDamagedError: one of them is missing or not readable.
        """
        for number in range(first, last + 1):
            yield self.read(number)

    def append(self, item: M) -> M:
        """Write the object after the last one and return it; two writers at once get different numbers."""
        return self.append_numbered(lambda _: item)

    def claim(self, item: M) -> int:
        """Write the object after the last one and return its number, which no other writer gets."""
        return self._write_next(lambda _: item)[0]

    def append_numbered(self, item: Callable[[int], M]) -> M:
        """Write the object that ``item`` returns for the next number, and return it.

        ``item`` is called again with the number after that when another writer was faster.
        """
        return self._write_next(item)[1]

    def _write_next(self, item: Callable[[int], M]) -> tuple[int, M]:
        number = self.last_number() + 1
        while not self.append_after(number - 1, written := item(number)):
            number += 1
        return number, written

    def append_after(self, number: int, item: M) -> bool:
        """Write the object if ``number`` is still that of the last one; return whether it was."""
        is_new = self._objects.create(self.place(number + 1), item)
        if is_new:
            self._seen = max(self._seen or 0, number + 1)
        return is_new

    def content(self, number: int) -> bytes | None:
        """Return an object as it is stored; None when there is none of this number."""
        return read_object(self.place(number))

    def read(self, number: int) -> M:
        """Return the object of this number.

        Raises:
            RecordDamagedError: it is missing or not readable.
        """
        item = self._objects.read(self.place(number), self._model)
        if item is None:
            raise RecordDamagedError(
                f"{self._name} {number} of {self._folder} is missing, expected {number:06d}.json there",
                Correct("restore the object from a copy"),
            )
        return item

    def _count_earlier(self) -> int:
        if self._in_earlier is None:
            folder = self._earlier()
            self._in_earlier = last_number(folder) if folder is not None else 0
        return self._in_earlier

    def place(self, number: int) -> UPath:
        """Return the place of the object of this number, whether or not there is one."""
        folder = self._earlier() if number <= self._count_earlier() else None
        return (folder or self._folder) / f"{number:06d}.json"
