"""Numbered objects of one kind in one folder: each is written once, and the last one is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pydantic import BaseModel
from upath import UPath

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.objects import create_object, last_number, read_model, read_object

M = TypeVar("M", bound=BaseModel)


class Series(Generic[M]):
    """Objects ``000001.json``, ``000002.json``… of one folder, all of one model.

    No object is ever replaced, so two writers cannot lose each other's objects. A writer that decides on the ground
    of the last object names its number, and is refused when another one was written in between.

    Args:
        folder: of these objects alone.
        model: of each object.
        name: what one object is called in error texts; the model's name when None.
    """

    def __init__(self, folder: UPath, model: type[M], name: str | None = None) -> None:
        self._folder = folder
        self._model = model
        self._name = name or model.__name__

    def last_number(self) -> int:
        """Return the number of the last object; 0 when there is none."""
        return last_number(self._folder)

    def last(self) -> tuple[int, M | None]:
        """Return the number of the last object and the object; 0 and None when there is none."""
        number = self.last_number()
        return number, self._read(number) if number else None

    def all(self) -> list[M]:
        """Return every object, oldest first."""
        return list(self.between(1, self.last_number()))

    def between(self, first: int, last: int) -> Iterator[M]:
        """Yield the objects with these numbers, both included.

        Raises:
            RecordError: one of them is missing or not readable.
        """
        for number in range(first, last + 1):
            yield self._read(number)

    def append(self, item: M) -> M:
        """Write the object after the last one and return it; two writers at once get different numbers."""
        return self.append_numbered(lambda _: item)

    def append_numbered(self, item: Callable[[int], M]) -> M:
        """Write the object that ``item`` returns for the next number, and return it.

        ``item`` is called again with the number after that when another writer was faster.
        """
        number = self.last_number() + 1
        while not self.append_after(number - 1, written := item(number)):
            number += 1
        return written

    def append_after(self, number: int, item: M) -> bool:
        """Write the object if ``number`` is still that of the last one; return whether it was."""
        return create_object(self._object(number + 1), self.as_bytes(item))

    def content(self, number: int) -> bytes | None:
        """Return an object as it is stored; None when there is none of this number."""
        return read_object(self._object(number))

    @staticmethod
    def as_bytes(item: M) -> bytes:
        """Return an object as it is stored."""
        return item.model_dump_json(indent=1).encode()

    def _read(self, number: int) -> M:
        item = read_model(self._object(number), self._model)
        if item is None:
            raise RecordError(
                f"{self._name} {number} of {self._folder} is missing, expected {number:06d}.json there: the record was "
                "altered. Restore the object from a copy"
            )
        return item

    def _object(self, number: int) -> UPath:
        return self._folder / f"{number:06d}.json"
