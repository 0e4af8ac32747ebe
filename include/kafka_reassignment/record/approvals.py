"""Who approved a plan: kept in the record, so that nobody is asked again when the run goes on after a stop."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record.record import Record

FILE = "approvals.json"


class PlanApproval(BaseModel):
    """One person's approval of one plan."""

    model_config = ConfigDict(frozen=True)

    by: str
    at: datetime
    plan_hash: str
    reason: str = ""


_APPROVALS: TypeAdapter[tuple[PlanApproval, ...]] = TypeAdapter(tuple[PlanApproval, ...])


def approvals(record: Record, plan_hash: str) -> tuple[PlanApproval, ...]:
    """Return the approvals of a plan, one per person, in their order.

    Raises:
        RecordDamagedError: the file cannot be read.
    """
    content = record.read_file(FILE)
    if content is None:
        return ()
    try:
        given = _APPROVALS.validate_json(content)
    except ValidationError as error:
        raise RecordDamagedError(
            f"{FILE} of reassignment {record.reassignment_id} cannot be read: {error.error_count()} faults",
            Correct("restore it from a copy, or delete it: then a person is asked again"),
        ) from error
    by_person: dict[str, PlanApproval] = {}
    for one in given:
        if one.plan_hash == plan_hash:
            by_person.setdefault(one.by, one)
    return tuple(by_person.values())


def add_approval(record: Record, approval: PlanApproval) -> None:
    """Keep an approval beside the earlier ones of the same plan."""
    kept = (*approvals(record, approval.plan_hash), approval)
    record.write_file(FILE, _APPROVALS.dump_json(kept))
