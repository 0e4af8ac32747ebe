"""The arguments of operators as they are after templating: Python values, or their text.

A template gives text unless its DAG has ``render_template_as_native_obj``, which takes a reassignment id of digits for
a number. So numbers and flags are read from their text, lists and objects from JSON, and texts from whatever they have
become: ``"{{ params.brokers | tojson }}"``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.request.names import brokers_of
from kafka_reassignment.request.rate import HIGHEST_RATE_MB, LEAST_RATE_MB, MEGABYTE, Rate

T = TypeVar("T")

_INTEGER: TypeAdapter[int] = TypeAdapter(int)
_NUMBER: TypeAdapter[float] = TypeAdapter(float)
_RATE: TypeAdapter[float] = TypeAdapter(Rate)
_FLAG: TypeAdapter[bool] = TypeAdapter(bool)
_TEXTS: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])
_BROKERS: TypeAdapter[tuple[int, ...]] = TypeAdapter(Annotated[tuple[int, ...], BeforeValidator(brokers_of)])
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

NOTHING = (None, "", "null", "None")
"""What a template makes of a form's field that is not filled in."""

OF_OTHER_PROVIDERS = frozenset({"openlineage"})
"""What ``TriggerDagRunOperator`` puts into the conf of the run that it triggers, where the OpenLineage provider is installed."""


def read_integer(name: str, value: object) -> int:
    """Read a whole number."""
    return _read(name, value, _INTEGER, "a whole number")


def read_number(name: str, value: object) -> float:
    """Read a number."""
    return _read(name, value, _NUMBER, "a number")


def read_rate(name: str, value: object) -> int:
    """Read a rate in MB (10^6 bytes) per second, within the bounds of a request's rates; return it in bytes per second."""
    expected = f"a rate in MB per second, at least {LEAST_RATE_MB:g} and at most {HIGHEST_RATE_MB}"
    return round(_read(name, value, _RATE, expected) * MEGABYTE)


def read_flag(name: str, value: object) -> bool:
    """Read a flag; nothing given means false."""
    return value not in NOTHING and _read(name, value, _FLAG, "true or false")


def read_text(value: object) -> str:
    """Read a text; nothing given means an empty one."""
    return "" if value in NOTHING else str(value)


def read_json_text(value: object) -> str | None:
    """Read a text that is JSON, which a native template makes an object of; nothing given means None."""
    if value in NOTHING:
        return None
    return value if isinstance(value, str) else json.dumps(value)


def read_texts(name: str, value: object) -> tuple[str, ...]:
    """Read a list of texts; nothing given means an empty one."""
    return () if value in NOTHING else _read(name, _from_json(value), _TEXTS, "a list of texts, or JSON of one")


def read_brokers(value: object) -> tuple[int, ...]:
    """Read a list of broker ids, or the text of one such as ``1-3, 7``; nothing given means an empty one."""
    if value in NOTHING:
        return ()
    given = _from_json(value)
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)  # one broker, which reads as JSON
    return _read("brokers", given, _BROKERS, "a list of whole numbers, or JSON of one")


def read_request(value: object) -> Mapping[str, Any]:
    """Read the fields of a request, without what another provider has put beside them."""
    fields = _read("request", _from_json(value), _OBJECT, "an object, or JSON of one")
    return {field: given for field, given in fields.items() if field not in OF_OTHER_PROVIDERS}


def read_json(value: object) -> object:
    """Read any value that may be given as JSON; nothing given means None."""
    return None if value in NOTHING else _from_json(value)


def is_given(value: object) -> bool:
    """Whether an optional argument has a value after templating."""
    return value not in NOTHING


def _from_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _read(name: str, value: object, kind: TypeAdapter[T], expected: str) -> T:
    """Read a value.

    Raises:
        InvalidRequestError: it is of another kind.
    """
    try:
        return kind.validate_python(value)
    except ValidationError:
        raise InvalidRequestError(
            f"The argument '{name}' is {str(value)[:60]!r}, expected {expected}",
            Correct("correct it in the DAG, or the run's parameter that its template names"),
        ) from None
