"""Requests as a person writes them: a line for each field, an empty line between two requests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.request.reassignment import GROUPS, INPUTS, ReassignmentRequest, parse_request

EXAMPLE = "kafka_conn_id: kafka_default\njob: rebalance\nthrottle_mb_per_second: 50"

MAX_LINES = 10_000
"""Lines of one text: more than all fields for every cluster that there may be."""


def written_requests(text: str) -> list[dict[str, Any]]:
    """Return the requests of a text, each with its fields as the form and the API of ``kafka_reassignment`` take them.

    A line is ``field: value``. A field is named as in the API, or by the title that the form shows. A field that takes
    several values, such as windows, may have several lines; broker ids are ``4, 5`` or ``1-3, 7`` on one.

    Raises:
        InvalidRequestError: a line is no field with a value, or a request cannot be carried out.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    if text.lstrip().startswith(("[", "{")):
        raise _wrong(f"They begin with {text.strip()[:20]!r} but are not JSON")
    if len(lines) > MAX_LINES:
        raise _wrong(f"They have {len(lines)} lines, at most {MAX_LINES} are read")
    blocks = (
        list(block) for is_written, block in groupby(enumerate(lines, 1), key=lambda line: bool(line[1])) if is_written
    )
    return [parse_request(_fields(block), subject=_of_lines(block)).as_fields() for block in blocks]


def _of_lines(block: list[tuple[int, str]]) -> str:
    first, last = block[0][0], block[-1][0]
    return f"The request in line {first}" if first == last else f"The request in lines {first} to {last}"


def _fields(block: list[tuple[int, str]]) -> dict[str, Any]:
    names, several = _names(), _several()
    fields: dict[str, Any] = {}
    for number, line in block:
        said, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not said or not value:
            raise _wrong(f"Line {number} is {line[:60]!r}")
        name = names.get(said.casefold(), said)
        if name in several:
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise _wrong(f"Line {number} gives {name!r} again, which takes one value")
        else:
            fields[name] = value
    return fields


def _properties() -> Iterator[tuple[str, FieldInfo]]:
    """Each field of a request, those of models inside it among them."""
    models: tuple[type[BaseModel], ...] = (ReassignmentRequest, *GROUPS.values())
    for model in models:
        yield from ((name, field) for name, field in model.model_fields.items() if name not in GROUPS)


@cache
def _names() -> dict[str, str]:
    """Names by what people write, in small letters: the name, or the title."""
    names = [(name, name) for inputs in INPUTS.values() for name in inputs]
    names += [(said, name) for name, field in _properties() for said in (field.title or name, name)]
    return {said.casefold(): name for said, name in names}


def _item_of(kind: Any) -> Any:  # noqa: ANN401 - an annotation
    return getattr(get_args(kind)[0], "__origin__", None)


@cache
def _several() -> frozenset[str]:
    """The fields that take several texts; broker ids are one text."""
    kinds = {name: field.annotation for name, field in _properties()}
    return frozenset(n for n, kind in kinds.items() if get_origin(kind) is tuple and _item_of(kind) is str)


def _wrong(what: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"The maintenance requests cannot be read. {what}; expected JSON, or a line 'field: value' for each field and an empty "
        f"line between two requests, such as {EXAMPLE!r}",
        Correct("correct them"),
    )
