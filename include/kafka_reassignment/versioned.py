"""Files that a later version of this project reads: each says by which version of its fields it was written."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

VERSION: Final = 2
"""The version that is written. Version 1 did not say so in every file, and had other names for some fields."""

M = TypeVar("M", bound=BaseModel)


class Versioned(BaseModel):
    """One JSON file.

    A file with fields that this version does not know is refused, unless its model says otherwise: a newer version
    wrote it, and half of it is not enough to act on. ``version`` is what the file was written by.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1, 2] = VERSION

    @classmethod
    def from_version_1(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what a file of version 1 says, by the names of this version."""
        return fields


def read_json(model: type[M], content: bytes) -> M:
    """Return what a file says, of this version or of an earlier one.

    Raises:
        ValidationError: it is none of them.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError:
        if issubclass(model, Versioned) and (fields := _fields_of_version_1(content)) is not None:
            with suppress(ValidationError):  # what is wrong by this version is told
                return model.model_validate({**model.from_version_1(fields), "version": 1})
        raise


def to_json(item: BaseModel, *, indent: int | None = None) -> bytes:
    """Return a file's content by the version of this code, whichever version the item was read from."""
    if isinstance(item, Versioned) and item.version != VERSION:
        item = item.model_copy(update={"version": VERSION})
    return item.model_dump_json(indent=indent).encode()


def newer_version(content: bytes) -> int | None:
    """Return the version of a file that a newer version of this project wrote; None when it is no such file."""
    found = _fields(content).get("version")
    return found if isinstance(found, int) and found > VERSION else None


def renamed(fields: dict[str, Any], **names: str) -> dict[str, Any]:
    """Return fields under other names: ``present=earlier``. What has its present name already keeps it."""
    earlier = {was: now for now, was in names.items()}
    return {earlier.get(name, name): value for name, value in fields.items()}


def _fields_of_version_1(content: bytes) -> dict[str, Any] | None:
    fields = _fields(content)
    return fields if fields and fields.get("version", 1) == 1 else None


def _fields(content: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(content)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
