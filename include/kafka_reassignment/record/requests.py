"""A request is recorded once, when its run begins, and never changes."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordError, RecordUnavailableError
from kafka_reassignment.record.models import BaseRecordedRequest
from kafka_reassignment.record.objects import as_bytes, create_object, read_model

R = TypeVar("R", bound=BaseRecordedRequest)


def write_request(path: UPath, recorded: R, subject: str) -> R:
    """Record the request unless one is recorded, and return the recorded one.

    Args:
        path: where it is recorded.
        recorded: the request, with the time it was made.
        subject: whose request it is, as in "reassignment 7" or "run 7".

    Raises:
        RecordError: a different request was recorded there.
    """
    if create_object(path, as_bytes(recorded)):
        return recorded
    refuse_other_request(path, type(recorded), recorded.request, subject)
    earlier = read_model(path, type(recorded))
    if earlier is None:
        raise RecordUnavailableError(
            f"{path} is there and cannot be read, expected the request of {subject}", Correct("rerun the step")
        )
    return earlier


def refuse_other_request(path: UPath, kind: type[R], request: BaseModel, subject: str) -> None:
    """Make sure that no other request is recorded there.

    Args:
        path: where it is recorded.
        kind: what is recorded there.
        request: the request that may be.
        subject: whose request it is, as in "reassignment 7" or "run 7".

    Raises:
        RecordError: another one is.
    """
    earlier = read_model(path, kind)
    if earlier is not None and earlier.request != request:
        raise RecordError(
            f"{subject[0].upper()}{subject[1:]} was begun at {earlier.started_at:%Y-%m-%d %H:%M:%S %Z} with another request. "
            f"A {subject.split(maxsplit=1)[0]} keeps its request for life",
            Correct("trigger a new run, with another run id, for the new one"),
        )
