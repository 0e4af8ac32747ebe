"""Whether the plan may be carried out: validated only, approved by people, or as it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from kafka_reassignment.advice import CANCEL_DAG_ID
from kafka_reassignment.errors import ReassignmentError, is_worth_a_retry
from kafka_reassignment.record.approvals import PlanApproval
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.steps.base.approval_rules import ApprovalRules, missing_approvals, why_asked
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.finished import is_finished_reassignment
from kafka_reassignment.steps.supersede import give_back
from kafka_reassignment.steps.validate_only import what_would_be_done

LONGEST_REASON = 500
"""Characters of a reason that are kept."""

BEFORE_BATCHES = frozenset({"preflight", "plan", "approve"})
"""The steps of a request that only validates; others refuse it."""

Approval = Literal["go", "ask", "stop"]


def approval(run: RunContext, rules: ApprovalRules | None = None) -> Approval:
    """Return whether to go on, to ask a person first, or to stop because only a validation was asked for.

    That a person is asked is recorded too: else nobody could tell it from a plan whose next task waits for a worker.

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
    if why and missing_approvals(run, rules):
        with run.audited("approve") as event:
            event.outcome, event.summary = "waiting", f"a person has to approve the plan: {'; '.join(why)}"
        return "ask"
    with run.audited("approve") as event:
        event.outcome = "skipped"
        event.summary = "approved already" if why else "neither the request nor the plan's size asks for an approval"
    return "go"


def is_validated(run: RunContext) -> bool:
    """Whether the request only validates, and the last step of this reassignment has done so."""
    if not run.record.exists or not run.request.validate_only:
        return False
    last = next((e for e in run.record.audit.latest(LATEST_EVENTS) if e.step in BEFORE_BATCHES), None)
    return last is not None and last.step == "approve" and last.outcome == "skipped"


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

    An approval counts for the frozen plan alone, by its hash: other batches of it need no other one. A rejection
    releases the cluster's lock, unless batches of it have begun.
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
        missing = missing_approvals(run, rules or ApprovalRules())
        if missing:
            event.outcome = "waiting"
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
