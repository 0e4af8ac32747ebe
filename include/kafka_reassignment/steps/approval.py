"""Whether the plan may be carried out: validated only, approved by people, or as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from kafka_reassignment.advice import CANCEL_DAG_ID, Rerun
from kafka_reassignment.errors import NotApprovedError, ReassignmentError, is_worth_a_retry
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary, seconds_at_rate
from kafka_reassignment.record.approvals import PlanApproval
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.finished import is_finished_reassignment
from kafka_reassignment.steps.supersede import give_back
from kafka_reassignment.steps.validate_only import what_would_be_done

LONGEST_REASON = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """When a person is asked although the request does not ask for it: from these sizes on; None is never.

    ``second_approver``: two different people have to approve.
    """

    from_gb: float | None = None
    from_hours: float | None = None
    second_approver: bool = False


Approval = Literal["go", "ask", "stop"]


def approval(run: RunContext, rules: ApprovalRules | None = None) -> Approval:
    """Return whether to go on, to ask a person first, or to stop because only a validation was asked for.

    A validation releases the cluster's lock, also at an error that no retry can help: it has nothing more to do.
    """
    request, rules = run.request, rules or ApprovalRules()
    if request.validate_only:
        with run.audited("approve") as event:
            try:
                summary = what_would_be_done(run)
            except ReassignmentError as error:
                if not is_worth_a_retry(error):
                    run.release_lock()
                raise
            run.log.info("%s", summary)
            run.release_lock()
            event.outcome, event.summary = "skipped", "validated only; nothing was changed in the cluster"
            event.facts = {"would_do": summary}
        return "stop"
    if is_finished_reassignment(run, "approve"):
        return "go"
    why = why_asked(run, rules)
    if why and _missing(run, rules):
        return "ask"
    with run.audited("approve") as event:
        event.outcome = "skipped"
        event.summary = "approved already" if why else "neither the request nor the plan's size asks for an approval"
    return "go"


def why_asked(run: RunContext, rules: ApprovalRules) -> tuple[str, ...]:
    """Return why a person has to approve the plan; nothing where nobody has."""
    return tuple(_reasons(run.request, read_summary(run.record.plan_ref()), rules))


def _reasons(request: ReassignmentRequest, summary: PlanSummary, rules: ApprovalRules) -> Iterator[str]:
    if request.require_approval:
        yield "the request asks for an approval"
    # A roll back is the way out of what was approved once; it must not wait for a person at night.
    if request.job is Job.ROLL_BACK:
        return
    if rules.from_gb is not None and summary.bytes_to_copy >= rules.from_gb * 1e9:
        yield f"{summary.bytes_to_copy / 1e9:.0f} GB are copied, and plans from {rules.from_gb:g} GB on are approved"
    seconds = seconds_at_rate(summary.batches, request.throttle_bytes_per_second)
    hours = None if seconds is None else seconds / 3600
    if rules.from_hours is not None and hours is not None and hours >= rules.from_hours:
        yield f"it takes {hours:.1f} hours, and plans from {rules.from_hours:g} hours on are approved"


def refuse_unapproved(run: RunContext, rules: ApprovalRules) -> None:
    """Make sure that those who have to have approved the frozen plan: the task that asks them may be marked, or passed by.

    What has begun goes on: it was approved then, by the rules of then.

    Raises:
        NotApprovedError: it was rejected, or they have not answered, or have approved another plan.
    """
    why = () if run.record.submitted(1) is not None else why_asked(run, rules)
    missing = _missing(run, rules) if why else 0
    if missing:
        raise NotApprovedError(
            f"The plan of reassignment {run.record.reassignment_id} is not approved: {'; '.join(why)}, and the record has no "
            f"approval of it by {'a person' if missing == _needed(run, rules) else 'a second person'}. No batch was started",
            Rerun("approve"),
        )


def answer_within(run: RunContext) -> timedelta | None:
    """Return how long people have to answer; None is for ever."""
    hours = run.request.approval_hours
    return None if hours is None else timedelta(hours=hours)


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer means: whether the plan may run, and the answer in words, such as "rejected by ann: too large"."""

    may_run: bool
    words: str


def answered(
    run: RunContext, *, approved: bool, by: str, reason: str = "", rules: ApprovalRules | None = None
) -> Answered:
    """Record a person's answer; an approved plan that may not run yet is to be approved by another person as well.

    An approval counts for the frozen plan alone, by its hash: other batches of it need no other one. A rejection releases the
    cluster's lock, unless batches of it have begun.
    """
    plan_hash, reason = run.record.plan_ref().plan_hash, reason.strip()[:LONGEST_REASON]
    with run.audited("approve") as event:
        event.outcome = "succeeded" if approved else "refused"
        event.summary = f"{'approved' if approved else 'rejected'} by {by}{f': {reason}' if reason else ''}"
        event.facts = {"by": by, "reason": reason, "approved_plan_hash": plan_hash}
        if not approved:
            event.summary += _given_back(run)
            return Answered(may_run=False, words=event.summary)
        run.record.approvals.append(PlanApproval(by=by, at=run.now(), plan_hash=plan_hash, reason=reason))
        missing = _missing(run, rules or ApprovalRules())
        if missing:
            event.summary += "; another person has to approve it as well"
        return Answered(not missing, event.summary)


def not_answered(run: RunContext) -> str:
    """Record that nobody answered in time, release the cluster's lock unless batches have begun, and return that in words."""
    with run.audited("approve") as event:
        event.outcome = "refused"
        event.summary = f"nobody answered within {run.request.approval_hours} hours{_given_back(run)}"
        return event.summary


def _given_back(run: RunContext) -> str:
    """Release the cluster's lock; return a sentence on what the superseded reassignment has left, after a full stop, or nothing.

    Batches that have begun keep the lock: without it they would stop in the middle of their copies.
    """
    if run.record.submitted(1) is not None:
        return f". Its batches have begun and go on: trigger {CANCEL_DAG_ID} to stop them"
    left, _ = give_back(run)
    return f". {left}" if left else ""


def _missing(run: RunContext, rules: ApprovalRules) -> int:
    """How many people have still to approve the frozen plan."""
    return max(0, _needed(run, rules) - len(run.record.approved_by(run.record.plan_ref().plan_hash)))


def _needed(run: RunContext, rules: ApprovalRules) -> int:
    return 2 if run.request.second_approver or rules.second_approver else 1
