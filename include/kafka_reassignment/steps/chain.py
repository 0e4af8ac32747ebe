"""The chain of batches: which one is first, and how far the chain is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafka_reassignment.advice import CANCEL_DAG_ID, Rerun, Trigger
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.approval_rules import ApprovalRules, refuse_unapproved
from kafka_reassignment.steps.base.context import RunContext, refuse_stopped
from kafka_reassignment.steps.base.estimates import end_in_words
from kafka_reassignment.steps.base.finished import is_finished_reassignment
from kafka_reassignment.steps.base.inbound import note_sizes
from kafka_reassignment.steps.base.same_id import refuse_same_id_elsewhere
from kafka_reassignment.steps.base.waiting import LONGEST_WAIT, Done, Waiting, WaitResult, waiting_step
from kafka_reassignment.steps.limits import has_left_for_later, revise
from kafka_reassignment.steps.supersede import settle_superseded
from kafka_reassignment.steps.throttling.restore import adopt_debts


def first_batch(run: RunContext, rules: ApprovalRules | None = None) -> int | None:
    """Return the first batch that is not finished, or None when all are.

    Takes the lock of the cluster for a reassignment that is not finished, also when all its batches are: it may have
    been stopped and resumed, or have ended with something left, and others may have run in between.

    Args:
        run: the reassignment.
        rules: when a plan is to be approved, besides where its request asks for that.

    Raises:
        InvalidRequestError: only a validation was asked for, or another cluster has a reassignment of this id that was
            begun before.
        NotApprovedError: the plan has to be approved, and is not; the lock is not taken then.
        ReassignmentInProgressError: another reassignment has the lock of the cluster.
        InfeasiblePlanError: what is left needs more batches than the limits allow.
    """
    plan = run.plan()
    finished = run.record.finished_batches()
    unfinished = [n for n in range(1, plan.batches + 1) if n not in finished]
    if is_finished_reassignment(run, "start_batches"):
        return None
    with run.audited("start_batches") as event:
        run.refuse_validate_only()
        refuse_stopped(run.record)
        run.refuse_other_airflow()
        if run.record.submitted(1) is None:
            stop = Trigger(CANCEL_DAG_ID, {"reassignment_id": run.record.reassignment_id})
            refuse_same_id_elsewhere(run, run.recorded, stop)
        is_left = bool(unfinished) or has_left_for_later(RecordView(run.record), plan.batches)
        if is_left:
            refuse_unapproved(run, rules or ApprovalRules())
        run.take_lock(requested_by=run.recorded.requested_by, then=[Rerun("start_batches")])
        event.facts["debts_taken_over"] = list(adopt_debts(run))
        if run.request.supersede and run.record.submitted(1) is None:
            settle_superseded(run, event)
        if is_left:
            revise(run, unfinished[0] - 1 if unfinished else plan.batches, event, then=Rerun("start_batches"))
            plan = run.plan()
            unfinished = [n for n in range(1, plan.batches + 1) if n not in finished]
        if unfinished:
            note_sizes(run, unfinished[0])
        event.summary = f"{len(finished)} of {plan.batches} batches finished" + (
            f"; batch {unfinished[0]} is to start" if unfinished else "; nothing to start"
        )
        event.summary += f"; {ends}" if unfinished and (ends := end_in_words(run, RecordView(run.record))) else ""
    return unfinished[0] if unfinished else None


@waiting_step
def wait_for_batches(recorded: RecordView, now: datetime) -> WaitResult:
    """Wait until the record shows every batch as finished; the cluster is not asked.

    When the last one has left partitions to a later one, ``start_next_batch`` has to plan that first.

    ``Failed`` with:
        StoppedError: the reassignment was stopped.
        RecordError: there is no plan.
    """
    recorded.record.require_plan(recorded.plan_in_force())  # else all of none would be finished
    progress = batches_progress(recorded)
    owes = progress.complete and has_left_for_later(recorded, progress.batches)
    if progress.complete and not owes:
        return Done(progress.text)
    refuse_stopped(recorded)
    text = f"{progress.text}; a batch of those that the last one has left is not planned yet" if owes else progress.text
    return Waiting(text, until=now + LONGEST_WAIT)


@dataclass(frozen=True, slots=True)
class BatchesProgress:
    """How far the chain of batches is."""

    finished: int
    batches: int
    next_batch: int
    detail: str = ""

    @property
    def complete(self) -> bool:
        """Whether every batch is finished."""
        return self.finished >= self.batches

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.finished} of {self.batches} batches finished" + (f"; {self.detail}" if self.detail else "")


def batches_progress(recorded: RecordView) -> BatchesProgress:
    """Return how far the chain is, from the record alone."""
    plan = recorded.plan_in_force()
    batches = plan.batches if plan else 0
    finished = recorded.finished_batches()
    left = [n for n in range(1, batches + 1) if n not in finished]
    note = recorded.progress() if left else None
    detail = note.text if note and note.batch in left else ""
    return BatchesProgress(len(finished), batches, left[0] if left else batches, detail)
