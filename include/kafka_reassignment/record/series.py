"""Numbered objects of one kind: each is written once, the last one holds, all of them tell the story."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel
from upath import UPath

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.objects import create_object, last_number, read_model

M = TypeVar("M", bound=BaseModel)


class Series(Generic[M]):
    """Objects ``000001.json``, ``000002.json``… of one folder, all of one model.

    Nothing is ever replaced, so two writers cannot lose each other's word: who writes on the ground of
    what was read says which object that was, and is told when another one came in between.
    """

    def __init__(self, folder: UPath, model: type[M]) -> None:
        self._folder = folder
        self._model = model

    def last(self) -> tuple[int, M | None]:
        """Return the number of the last object and the object; 0 and None when there is none."""
        number = self._last_number()
        return number, self._read(number) if number else None

    def all(self) -> list[M]:
        """Return every object, oldest first."""
        return [self._read(number) for number in range(1, self._last_number() + 1)]

    def append(self, item: M) -> int:
        """Write the object behind the last one, whoever else writes, and return its number."""
        number = self._last_number()
        while not self.append_after(number, item):
            number += 1
        return number + 1

    def append_after(self, number: int, item: M) -> bool:
        """Write the object if ``number`` is still that of the last one; return whether it was."""
        return create_object(self._object(number + 1), item.model_dump_json(indent=1).encode())

    def _read(self, number: int) -> M:
        item = read_model(self._object(number), self._model)
        if item is None:
            raise RecordError(
                f"{self._object(number)} is missing, expected {self._model.__name__} {number}; restore it"
            )
        return item

    def _last_number(self) -> int:
        return last_number(self._folder)

    def _object(self, number: int) -> UPath:
        return self._folder / f"{number:06d}.json"
