"""What is finished stays as it is: steps of a finished batch, or of a finished reassignment, do nothing.

A finished batch may have been rolled back since, or its partitions moved by a later reassignment. What its steps would
do is of no use to anybody then, and what they would write contradicts what was done.
"""

from __future__ import annotations

from kafka_reassignment.errors import overtaken
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.waiting import Done


def is_finished_batch(run: RunContext, step: str, number: int) -> bool:
    """Whether the batch is finished, so that an acting step has nothing to do; leaves the step's audit event then."""
    done = finished_batch(run, number)
    if done is not None:
        with run.audited(step, number) as event:
            event.outcome, event.summary = "skipped", done.message
    return done is not None


def finished_batch(run: RunContext, number: int) -> Done | None:
    """Return how a look of a waiting step ends when the batch is finished; None while it is not."""
    if run.record.finished(number) is None:
        return None
    return Done(f"batch {number} is finished: nothing is left to do", is_skipped=True)


def refuse_finished(run: RunContext, number: int) -> None:
    """Make sure that a batch is not finished yet, right before something is submitted for it.

    Raises:
        OvertakenError: another try has finished it.
    """
    if run.record.finished(number) is not None:
        raise overtaken(f"batch {number} is finished")


def require_unfinished(run: RunContext, number: int) -> None:
    """Make sure that this reassignment may act, and that a batch is not finished yet.

    Raises:
        OvertakenError: another try has finished it.
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
    """
    run.require_go_ahead()
    refuse_finished(run, number)


def is_finished_reassignment(run: RunContext, step: str) -> bool:
    """Whether the reassignment was verified and reported, so that a step has nothing to do; leaves its audit event then."""
    if not run.record.is_reported:
        return False
    with run.audited(step) as event:
        note_finished(run, event)
    return True


def note_finished(run: RunContext, event: AuditDraft) -> None:
    """Let the event of a step of a finished reassignment say that there was nothing to do."""
    event.outcome = "skipped"
    event.summary = f"reassignment {run.record.reassignment_id} is finished: nothing is left to do"
