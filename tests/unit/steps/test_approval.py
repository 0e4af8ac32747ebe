"""Who has to approve a plan, and what their answers leave in the record."""

from dataclasses import replace

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import NotApprovedError
from kafka_reassignment.record.approvals import PlanApproval
from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.approval import answer_within, answered, approval, not_answered
from kafka_reassignment.steps.base.approval_rules import ApprovalRules, why_asked
from kafka_reassignment.steps.base.waiting import Done, Failed, SizeSamples
from kafka_reassignment.steps.batch import next_batch, submit_batch
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.limits import change_limits

pytestmark = pytest.mark.quick

GB = 1_000_000_000
MOVES = [move("orders", 0, (1, 2), (1, 3), size=100 * GB)]
"""100 GB; at 10 MB/s they take 2.8 hours."""


def last_event(run):
    return [e for e in run.record.audit if e.step == "approve"][-1]


def test_a_plan_below_the_sizes_is_approved_by_nobody(reassignment):
    run = reassignment(MOVES)
    assert approval(run.context, ApprovalRules(from_gb=101, from_hours=3)) == "go"
    assert last_event(run).outcome == "skipped"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (ApprovalRules(from_gb=100), "100 GB are copied, and plans from 100 GB on are approved"),
        (ApprovalRules(from_hours=2.5), "it takes 2.8 hours, and plans from 2.5 hours on are approved"),
    ],
    ids=["GB", "hours"],
)
def test_a_large_plan_is_approved_whatever_its_request_says(reassignment, rules, why):
    run = reassignment(MOVES)
    assert approval(run.context, rules) == "ask"
    assert why_asked(run.context, rules) == (why,)
    event = last_event(run)
    assert (event.outcome, event.summary) == ("waiting", f"a person has to approve the plan: {why}")


def test_a_roll_back_waits_for_nobody_unless_it_asks_for_it(reassignment):
    large = ApprovalRules(from_gb=1, from_hours=0.1)
    unasked = reassignment(MOVES, job="roll_back", roll_back_of="x")
    assert approval(unasked.context, large) == "go"
    unasked.store.release(unasked.cluster_id, "r")
    asked = reassignment(MOVES, reassignment_id="asked", job="roll_back", roll_back_of="x", require_approval=True)
    assert approval(asked.context, large) == "ask"


def test_an_approval_is_kept_with_its_reason_and_the_hash_of_the_plan_and_nobody_is_asked_again(reassignment):
    run = reassignment(MOVES, require_approval=True)
    assert answered(run.context, approved=True, by="ann", reason=" weekend ").may_run
    event = last_event(run)
    assert (event.outcome, event.summary) == ("succeeded", "approved by ann: weekend")
    assert event.facts == {"by": "ann", "reason": "weekend", "approved_plan_hash": run.context.plan().plan_hash}
    assert approval(run.context) == "go"


def test_an_approval_stays_when_batches_are_cut_anew(reassignment):
    run = reassignment(
        MOVES, [move("orders", 1, (2, 3), (4, 3)), move("orders", 2, (3, 1), (3, 4))], require_approval=True
    )
    assert answered(run.context, approved=True, by="ann").may_run
    run.do_all()
    change_limits(run.context, {"partition_movements": 1}, "bob")
    assert next_batch(run.context, 1) == 2
    assert run.context.plan().plan_hash != run.record.plan_ref().plan_hash
    assert approval(run.context) == "go"
    assert first_batch(run.context) == 2


def test_no_answer_frees_the_cluster_of_batches_that_have_begun(reassignment):
    run = reassignment(MOVES, require_approval=True, approval_hours=8)
    answered(run.context, approved=True, by="ann")
    run.do_all("admit", "set_throttle", "submit_batch")
    assert "Its batches have begun and go on: trigger kafka_reassignment_cancel" in not_answered(run.context)
    assert not answered(run.context, approved=False, by="bob").may_run
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"


def test_nobody_is_asked_about_what_is_finished(reassignment):
    run = reassignment(MOVES, require_approval=True)
    answered(run.context, approved=True, by="ann")
    run.run_batches()
    run.finish()
    assert approval(run.context) == "go"
    assert last_event(run).outcome == "skipped"


def test_an_approval_of_another_plan_does_not_count(reassignment):
    run = reassignment(MOVES, require_approval=True)
    run.record.approvals.append(PlanApproval(by="ann", at=run.clock.now, plan_hash="other"))
    assert approval(run.context) == "ask"
    with pytest.raises(NotApprovedError):
        first_batch(run.context)


def test_what_was_rejected_is_not_started_by_a_rerun_until_it_is_approved(reassignment):
    run = reassignment(MOVES, require_approval=True)
    answered(run.context, approved=False, by="bob", reason="no")
    with pytest.raises(NotApprovedError, match="the request asks for an approval.*by a person") as refused:
        first_batch(run.context)
    assert refused.value.advice == (Rerun("approve"),)
    assert run.store.lock_owner(run.cluster_id) is None
    assert approval(run.context) == "ask"
    answered(run.context, approved=True, by="bob")
    assert first_batch(run.context) == 1


def test_a_dag_without_a_task_that_asks_is_not_told_to_rerun_it(reassignment):
    run = reassignment(MOVES, require_approval=True)
    with pytest.raises(NotApprovedError, match="Give the DAG a task 'approve'") as refused:
        submit_batch(replace(run.context, has_task=lambda task_id: task_id != "approve"), 1)
    assert refused.value.advice[-1] == Rerun("plan")


def test_what_nobody_was_asked_about_is_not_started_though_the_task_was_marked(reassignment):
    run = reassignment(MOVES)
    with pytest.raises(NotApprovedError, match="plans from 100 GB on are approved"):
        first_batch(run.context, ApprovalRules(from_gb=100))
    assert first_batch(run.context, ApprovalRules(from_gb=101)) == 1


def test_a_batch_that_is_triggered_by_hand_while_people_are_asked_is_not_admitted(reassignment):
    run = reassignment(MOVES, require_approval=True)
    looked = admit(run.context, 1, SizeSamples(), rules=ApprovalRules())
    assert isinstance(looked, Failed)
    assert isinstance(looked.error, NotApprovedError)
    answered(run.context, approved=True, by="ann")
    assert isinstance(admit(run.context, 1, SizeSamples(), rules=ApprovalRules()), Done)


def test_one_of_two_people_starts_nothing(reassignment):
    run = reassignment(MOVES, require_approval=True, second_approver=True)
    answered(run.context, approved=True, by="ann")
    with pytest.raises(NotApprovedError, match="no approval of it by a second person"):
        first_batch(run.context)


@pytest.mark.parametrize("by_setting", [True, False], ids=["setting", "request"])
def test_two_different_people_have_to_approve_where_that_is_asked(reassignment, by_setting):
    run = reassignment(MOVES, require_approval=True, second_approver=not by_setting)
    rules = ApprovalRules(second_approver=by_setting)
    for _ in range(2):
        assert not answered(run.context, approved=True, by="ann", rules=rules).may_run
        event = last_event(run)
        assert (event.outcome, event.summary) == (
            "waiting",
            "approved by ann; another person has to approve it as well",
        )
        assert approval(run.context, rules) == "ask"
    assert answered(run.context, approved=True, by="bob", rules=rules).may_run
    assert approval(run.context, rules) == "go"
    assert run.record.approved_by(run.context.plan().plan_hash) == {"ann", "bob"}


def test_a_rejection_by_the_second_person_ends_it_with_a_reason(reassignment):
    run = reassignment(MOVES, require_approval=True, second_approver=True)
    assert not answered(run.context, approved=True, by="ann").may_run
    rejected = answered(run.context, approved=False, by="bob", reason="not this weekend")
    assert (rejected.may_run, rejected.words) == (False, "rejected by bob: not this weekend")
    assert (last_event(run).outcome, last_event(run).summary) == ("refused", "rejected by bob: not this weekend")
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_plan_that_nobody_answers_is_given_up_and_the_cluster_is_free(reassignment):
    run = reassignment(MOVES, require_approval=True, approval_hours=8)
    assert answer_within(run.context).total_seconds() == 8 * 3600
    assert not_answered(run.context) == "nobody answered within 8 hours"
    assert last_event(run).outcome == "refused"
    assert run.store.lock_owner(run.cluster_id) is None


def test_without_hours_the_question_has_no_end(reassignment):
    assert answer_within(reassignment(MOVES, require_approval=True).context) is None


def test_what_is_not_approved_is_not_submitted_though_no_task_before_has_looked(reassignment, cluster):
    run = reassignment(MOVES, require_approval=True)
    run.do("set_throttle")
    with pytest.raises(NotApprovedError, match="the request asks for an approval"):
        submit_batch(run.context, 1)
    answered(run.context, approved=True, by="ann")
    with pytest.raises(NotApprovedError, match="no approval of it by a second person"):
        submit_batch(run.context, 1, ApprovalRules(second_approver=True))
    assert not cluster.list_reassignments()
    submit_batch(run.context, 1)
    submit_batch(run.context, 1, ApprovalRules(second_approver=True))  # what has begun goes on
    assert cluster.list_reassignments()
