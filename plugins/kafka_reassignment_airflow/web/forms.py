"""What a person can ask for about a reassignment: the DAG, its params filled in, and what will happen.

Airflow's own trigger form takes no values from an address (tried with 3.3.2). So a page has the values to copy, and
leads to the form. It changes nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_reassignment.advice import Advice, Trigger, sentence, with_connection
from kafka_reassignment.decisions.rate import rate_in_force, rate_of_all_brokers
from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.catalogue import ReassignmentStatus, RecordedReassignment
from kafka_reassignment.request import MEGABYTE, Limits
from kafka_reassignment_airflow.runs import (
    CANCEL_DAG_ID,
    DAG_ID,
    LIMITS_DAG_ID,
    RESUME_DAG_ID,
    THROTTLE_DAG_ID,
    roll_back_conf,
)
from kafka_reassignment_airflow.web.rows import RollBack

ADVISED = "advised-"
"""Begins the names of the forms that a failed step advises; a number follows, from 1."""


@dataclass(frozen=True, slots=True)
class Form:
    """A trigger form filled in. ``to_change`` names the params that a person is to look at before triggering."""

    name: str
    title: str
    dag_id: str
    params: Mapping[str, Any]
    what_happens: str
    to_change: tuple[str, ...] = ()

    @property
    def as_json(self) -> str:
        """The params as Airflow's form takes them."""
        return json.dumps(self.params, indent=2)


def forms_of(found: RecordedReassignment, roll_back: RollBack | None = None) -> dict[str, Form]:
    """Return the forms that are of use for a reassignment as it is now, by name; ``roll_back`` is how its roll back stands."""
    made: tuple[Callable[[RecordedReassignment], Form | None], ...] = {
        ReassignmentStatus.ACTIVE: (_rate, _limits, _stop, _stop_and_roll_back),
        ReassignmentStatus.UNLOCKED: (_resume, _stop, _stop_and_roll_back),
        ReassignmentStatus.STOPPED: (_resume, _roll_back),
        ReassignmentStatus.UNKNOWN: (),
        ReassignmentStatus.FINISHED: (_roll_back,),
        ReassignmentStatus.ENDED: (),
    }[found.status]
    if roll_back is not None and not roll_back.is_left:
        made = tuple(make for make in made if make is not _roll_back)
    if _resume in made and (found.record.has_moved_successor() or lock_of_another(found)):
        made = tuple(make for make in made if make is not _resume)
    if found.record.frozen_plan() is None:  # nothing has moved
        made = tuple(make for make in made if make in {_stop, _resume})
    return {form.name: form for make in made if (form := make(found)) is not None}


def lock_of_another(found: RecordedReassignment) -> str | None:
    """Return the other reassignment that has the lock of the cluster: until it has ended, none goes on; None where there is none."""
    owner_id = found.lock.owner_id
    is_other = owner_id not in {None, found.reassignment_id} and found.record.beside(owner_id or "").exists
    return owner_id if is_other else None  # steps that have it for seconds have no record


def advised_forms(found: RecordedReassignment, advice: Sequence[Advice]) -> dict[str, Form]:
    """Return the forms that the advice is about, in its order, by name."""
    kafka_conn_id = found.recorded_request.request.kafka_conn_id
    advised = [with_connection(item, kafka_conn_id) for item in advice]
    triggers = [item for item in advised if isinstance(item, Trigger)]
    said = f"It is advised: {sentence(advised)}."
    forms = (
        Form(f"{ADVISED}{number}", "As advised", trigger.dag_id, trigger.params, said)
        for number, trigger in enumerate(triggers, 1)
    )
    return {form.name: form for form in forms}


def form_of(
    found: RecordedReassignment, name: str, advice: Sequence[Advice] = (), roll_back: RollBack | None = None
) -> Form:
    """Return one form.

    Args:
        found: the reassignment.
        name: of the form.
        advice: of the step that has failed, for the forms that it is about.
        roll_back: how its roll back stands.

    Raises:
        RecordError: it is of no use for the reassignment as it is now.
    """
    form = (forms_of(found, roll_back) | advised_forms(found, advice)).get(name)
    if form is None:
        raise RecordError(
            f"Reassignment {found.reassignment_id} is {found.status}: expected one for which '{name[:50]}' can be asked. "
            "Go back to its page, which shows what can"
        )
    return form


def _named(found: RecordedReassignment) -> dict[str, Any]:
    return {
        "kafka_conn_id": found.recorded_request.request.kafka_conn_id,
        "reassignment_id": found.reassignment_id,
    }


def _rate(found: RecordedReassignment) -> Form | None:
    rate = rate_in_force(found.recorded_request.request, found.record.journal())
    if rate is None:
        return None
    return Form(
        "rate",
        "Change the rate",
        THROTTLE_DAG_ID,
        {**_named(found), "throttle_mb_per_second": rate / MEGABYTE},
        "Each broker may send and receive this much of the copies, now and in later batches. A raise takes eleven seconds. "
        "Auto rate ends, where it was on.",
        ("throttle_mb_per_second",),
    )


def _limits(found: RecordedReassignment) -> Form:
    asked = found.record.limits_requested().model_dump(exclude_none=True)
    return Form(
        "limits",
        "Change the limits",
        LIMITS_DAG_ID,
        _named(found),
        "How much one batch does, from the next batch on: what has not begun is cut into batches again. A limit that is left "
        f"empty does not change. Asked for now: {', '.join(f'{name} {value}' for name, value in asked.items())}.",
        ("pace", *Limits.model_fields),
    )


def _stop(found: RecordedReassignment) -> Form:
    return Form(
        "stop",
        "Stop",
        CANCEL_DAG_ID,
        {**_named(found), "reason": "", "roll_back": False},
        "No further batch starts. Each partition in flight goes back to its old replicas where those are alive and in sync, and "
        "on to its target where they are not. Then the throttle is restored, and the cluster is free for another "
        "reassignment. What is finished stays as it is. It can be resumed.",
        ("reason",),
    )


def _stop_and_roll_back(found: RecordedReassignment) -> Form:
    stop = _stop(found)
    return Form(
        "stop-and-roll-back",
        "Stop and roll back",
        CANCEL_DAG_ID,
        {**stop.params, "roll_back": True},
        "It is stopped. Then a new reassignment moves back what the finished batches have moved, newest batch first: that "
        "copies data again.",
        ("reason",),
    )


def _resume(found: RecordedReassignment) -> Form:
    return Form(
        "resume",
        "Resume",
        RESUME_DAG_ID,
        {**_named(found), "reason": ""},
        "It takes the lock of the cluster and continues from its first unfinished batch.",
        ("reason",),
    )


def _roll_back(found: RecordedReassignment) -> Form:
    record, request = found.record, found.recorded_request.request
    rate = rate_of_all_brokers(request, record.journal())
    return Form(
        "roll-back",
        "Roll back",
        DAG_ID,
        roll_back_conf(request.kafka_conn_id, found.reassignment_id, request, record.limits_requested(), rate),
        "A new reassignment moves back what this one has moved, newest batch first: that copies data again.",
    )
