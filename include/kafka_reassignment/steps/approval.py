"""Whether the plan may be carried out: validated only, approved by a person, or as it is."""

from __future__ import annotations

from typing import Literal

from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.validate_only import what_would_be_done

APPROVED = "approved-by.txt"
"""In the record: who approved the plan, so that nobody is asked again when the run goes on after a stop."""


Approval = Literal["go", "ask", "stop"]


def approval(run: RunContext) -> Approval:
    """Return whether to go on, to ask a person first, or to stop because only a validation was asked for."""
    request = run.request
    if request.validate_only:
        with run.audited("approve") as event:
            summary = what_would_be_done(run)
            run.log.info("%s", summary)
            run.release_lock()
            event.outcome, event.summary = "skipped", "validated only; nothing was changed in the cluster"
            event.facts = {"would_do": summary}
        return "stop"
    if request.require_approval and run.record.read_file(APPROVED) is None:
        return "ask"
    with run.audited("approve") as event:
        event.outcome = "skipped"
        event.summary = "approved already" if request.require_approval else "the request asks for no approval"
    return "go"


def answered(run: RunContext, *, approved: bool, by: str) -> None:
    """Record a person's answer; a rejection gives the cluster back."""
    with run.audited("approve") as event:
        event.outcome = "succeeded" if approved else "refused"
        event.summary = f"{'approved' if approved else 'rejected'} by {by}"
        if approved:
            run.record.write_file(APPROVED, by.encode())
        else:
            run.release_lock()
