"""The question that Airflow asks, and what its answers do to the task."""

import logging
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import ClusterUnavailableError, NotApprovedError
from kafka_reassignment.steps.base.approval_rules import ApprovalRules
from kafka_reassignment_airflow.base import translate_errors
from kafka_reassignment_airflow.operators import reassignment
from kafka_reassignment_airflow.operators.reassignment import ApprovePlanOperator, StartBatchesOperator

try:
    from airflow.sdk.exceptions import TaskAwaitingInput
except ImportError:  # Airflow 3.2 waits in a trigger instead
    TaskAwaitingInput = TaskDeferred

pytestmark = pytest.mark.quick

TI = SimpleNamespace(id="ti-1", try_number=1)
CONTEXT = {"task_instance": TI, "ti": TI}


@pytest.fixture
def asking(monkeypatch, two_batches):
    """The operator on a planned reassignment, and the questions that Airflow got."""
    questions = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: questions.append(question))

    def make(**request):
        run = two_batches(require_approval=True, **request)
        task = ApprovePlanOperator(task_id="approve", subject="Approve?", body="the plan")
        monkeypatch.setattr(task, "run_context", lambda _context: nullcontext(run.context))
        return run, task, questions

    return make


def answer(option, by="ann", reason=None):
    user = {"id": by, "name": by}
    return {
        "chosen_options": [option],
        "params_input": {"reason": reason},
        "responded_at": SimpleNamespace(isoformat=lambda: "2026-01-01T12:00:00"),
        "responded_by_user": user,
    }


def waits(parked):
    """How long the parked task waits for an answer, to the minute."""
    if isinstance(parked, TaskDeferred):
        return timedelta(minutes=round((parked.trigger.timeout_datetime - datetime.now(UTC)) / timedelta(minutes=1)))
    return parked.timeout


def test_the_question_says_why_it_is_asked_until_when_and_where_the_report_is_and_takes_a_reason(asking):
    _, task, questions = asking(approval_hours=8)
    with pytest.raises(TaskAwaitingInput) as parked:
        task.execute(CONTEXT)
    assert waits(parked.value) == timedelta(hours=8)
    (question,) = questions
    assert question["body"].startswith("Asked because the request asks for an approval.\n\nthe plan\n")
    assert "Without an answer by 2026-01-01 20:00 UTC the run fails" in question["body"]
    assert "/kafka-reassignment/plan?cluster=fake-cluster&id=r" in question["body"]
    assert list(question["params"]) == ["reason"]


def test_the_second_person_is_asked_with_the_same_task(asking):
    run, task, questions = asking(second_approver=True, approval_hours=8)
    for _ in range(2):
        with pytest.raises(TaskAwaitingInput) as parked:
            task.execute_complete(CONTEXT, answer("Approve", by="ann"))
        assert waits(parked.value) == timedelta(hours=8)
    assert len(questions) == 2
    assert task.execute_complete(CONTEXT, answer("Approve", by="bob"))["chosen_options"] == ["Approve"]
    assert run.record.approved_by(run.context.plan().plan_hash) == {"ann", "bob"}


def test_a_rejected_plan_is_not_asked_for_again_by_a_retry(asking):
    run, task, _ = asking()
    with pytest.raises(AirflowFailException, match="The plan was rejected by ann: too large"):
        task.execute_complete(CONTEXT, answer("Reject", reason="too large"))
    assert run.store.lock_owner(run.cluster_id) is None


def test_no_answer_in_time_fails_the_run_for_good_and_frees_the_cluster(asking):
    run, task, _ = asking(approval_hours=8)
    with pytest.raises(AirflowFailException, match="nobody answered within 8 hours"):
        task.execute_complete(CONTEXT, {"error": "timed out", "error_type": "timeout"})
    assert run.store.lock_owner(run.cluster_id) is None


@pytest.fixture
def away(monkeypatch):
    """Let a task find no cluster for so many times; time passes by sleeping."""
    clock = [0.0]
    monkeypatch.setattr(reassignment.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(reassignment.time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))

    def let(task, run, times):
        left = iter(range(times))

        @contextmanager
        def opened(_context):
            with translate_errors(logging.getLogger("task")):
                if next(left, None) is not None:
                    raise ClusterUnavailableError("no broker answers", Rerun("approve"))
                yield run.context

        monkeypatch.setattr(task, "run_context", opened)

    return let


NO_ANSWER = {"error": "timed out", "error_type": "timeout"}


@pytest.mark.parametrize("sent", [answer("Reject"), NO_ANSWER], ids=["a rejection", "no answer in time"])
def test_an_answer_that_comes_while_the_cluster_is_away_is_kept_by_the_same_try(asking, away, sent):
    """Airflow gives it to no other try, which would ask again: a rejection would count for nothing."""
    run, task, questions = asking(approval_hours=8)
    away(task, run, times=20)
    with pytest.raises(AirflowFailException, match="The plan was "):
        task.execute_complete(CONTEXT, sent)
    assert run.store.lock_owner(run.cluster_id) is None
    assert questions == []


def test_an_approval_that_comes_while_the_cluster_is_away_is_kept_by_the_same_try(asking, away):
    run, task, _ = asking()
    away(task, run, times=20)
    assert task.execute_complete(CONTEXT, answer("Approve"))["chosen_options"] == ["Approve"]
    assert run.record.approved_by(run.context.plan().plan_hash) == {"ann"}


def test_an_answer_that_could_not_be_kept_is_said_and_the_question_is_told_anew(asking, away, monkeypatch):
    run, task, questions = asking()
    told = []
    monkeypatch.setattr(reassignment, "tell", lambda *_, once: told.append(once))
    with pytest.raises(TaskAwaitingInput):
        task.execute(CONTEXT)
    away(task, run, times=1000)
    with pytest.raises(AirflowException, match="The answer of ann could not be kept.*has to be answered again") as lost:
        task.execute_complete(CONTEXT, answer("Reject"))
    assert not isinstance(lost.value, AirflowFailException), "the next try asks again"
    assert str(lost.value).endswith("Rerun approve and what follows")
    away(task, run, times=0)
    with pytest.raises(TaskAwaitingInput):
        task.execute({name: SimpleNamespace(id="ti-1", try_number=2) for name in CONTEXT})
    assert len(questions) == len(set(told)) == 2


def test_an_answer_needs_no_reason(asking):
    _, task, _ = asking()
    sent = answer("Approve") | {"params_input": {}}
    assert task.execute_complete(CONTEXT, sent)["params_input"] == {}


def test_batches_are_started_by_the_rules_of_the_settings(two_batches, monkeypatch):
    run = two_batches()
    monkeypatch.setattr(reassignment, "approval_rules", lambda: ApprovalRules(from_gb=0))
    with pytest.raises(NotApprovedError, match="plans from 0 GB on are approved"):
        StartBatchesOperator(task_id="start_batches").which_run(run.context, CONTEXT)
