"""Which plans people have to approve, and whether they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_reassignment.advice import Advice, Correct, Rerun
from kafka_reassignment.errors import NotApprovedError
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary, seconds_at_rate
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.base.context import RunContext


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """When a person is asked although the request does not ask for it: from these sizes on; None is never.

    ``second_approver``: two different people have to approve.
    """

    from_gb: float | None = None
    from_hours: float | None = None
    second_approver: bool = False


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
    missing = missing_approvals(run, rules) if why else 0
    if missing:
        raise NotApprovedError(
            f"The plan of reassignment {run.record.reassignment_id} is not approved: {'; '.join(why)}, and the record has no "
            f"approval of it by {'a person' if missing == _needed(run, rules) else 'a second person'}. No batch was started",
            *_to_be_asked(run),
        )


def _to_be_asked(run: RunContext) -> tuple[Advice, ...]:
    if run.has_task("approve"):
        return (Rerun("approve"),)
    return Correct("give the DAG a task 'approve', an ApprovePlanOperator, after the one that plans"), Rerun("plan")


def missing_approvals(run: RunContext, rules: ApprovalRules) -> int:
    """Return how many people have still to approve the frozen plan."""
    return max(0, _needed(run, rules) - len(run.record.approved_by(run.record.plan_ref().plan_hash)))


def _needed(run: RunContext, rules: ApprovalRules) -> int:
    return 2 if run.request.second_approver or rules.second_approver else 1
