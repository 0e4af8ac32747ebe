"""Reading what a person sent into a request model, with one error message for all that is wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import (
    DuplicatePartitionError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidThrottleError,
)

M = TypeVar("M", bound=BaseModel)

MAX_PROBLEMS = 5
"""Problems that one message names."""


def parse(
    model: type[M],
    fields: dict[str, Any],
    *,
    subject: str,
    error_class: Callable[[ValidationError], type[InvalidRequestError]] = lambda _: InvalidRequestError,
    context: Mapping[str, object] | None = None,
) -> M:
    """Return the fields as a model.

    Args:
        model: what to read.
        fields: from a form, an API call or a schedule.
        subject: begins the message, such as "The request".
        error_class: chooses the error by what is wrong.
        context: for the validators of the model.

    Raises:
        InvalidRequestError: the fields do not fit the model; or the class that ``error_class`` chooses.
    """
    try:
        return model.model_validate(fields, context=context)
    except ValidationError as invalid:
        raise error_class(invalid)(_message(subject, invalid), Correct("correct the request")) from None


def request_error_class(invalid: ValidationError) -> type[InvalidRequestError]:
    """Return KIP-179's error case of a request, by its first problem that has one."""
    for problem in invalid.errors(include_url=False, include_context=False):
        ours = (
            problem["msg"] if problem["type"] == "value_error" else ""
        )  # pydantic's own words name what is allowed elsewhere
        about = f"{problem['loc']} {ours}"
        for word, error in (
            ("throttle", InvalidThrottleError),
            ("named twice", DuplicatePartitionError),
            ("replication_factor", InvalidReplicationFactorError),
        ):
            if word in about:
                return error
    return InvalidRequestError


def _message(subject: str, invalid: ValidationError) -> str:
    problems = invalid.errors(include_url=False, include_context=False)
    texts = "; ".join(_text(p["loc"], p["msg"], p["type"], p.get("input")) for p in problems[:MAX_PROBLEMS])
    more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
    return f"{subject} cannot be carried out: {texts}{more}. Nothing was changed in the cluster"


def _text(where: tuple[int | str, ...], message: str, kind: str, found: object) -> str:
    name = _short(".".join(map(str, where)))
    if kind == "extra_forbidden":
        return f"{name} is not a known field; check its spelling"
    text = message.removeprefix("Value error, ")
    if not where:
        return text
    return f"{name}: {text}" + ("" if kind == "value_error" else f" (found {_short(found)})")


def _short(found: object) -> str:
    """Return what was found, cut to 60 characters, control characters escaped."""
    shown = repr(found[:60] if isinstance(found, str) else found)
    return shown if len(shown) <= 60 else shown[:57] + "..."
