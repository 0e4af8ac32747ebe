"""The event of a step that acts has what the cluster showed before and after."""

import pytest
from tests.steps_lab import move

from kafka_reassignment.errors import ClusterUnavailableError, StoppedError
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.cancel import CancelScope

pytestmark = pytest.mark.quick

MOVES = [move("orders", 0, (1, 2), (1, 3))]
WHOLE = CancelScope()


def facts(run, step):
    return next(e.facts for e in reversed(list(run.record.audit)) if e.step == step)


def test_a_submission_has_the_replicas_that_came_of_it(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    found = facts(run, "submit_batch")
    assert found["replicas_before"] == {"orders-0": [1, 2]}
    assert found["replicas_after"] == {"orders-0": {"replicas": [1, 2, 3], "isr": [1, 2]}}


def test_a_drop_has_the_replicas_that_came_of_it(reassignment):
    run = reassignment(MOVES)
    run.do_all()
    assert facts(run, "drop_old_replicas")["replicas_after"] == {"orders-0": {"replicas": [1, 3], "isr": [1, 3]}}


def test_a_cancel_has_the_replicas_that_came_of_it(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="ann")
    cancel.cancel_moves(run.context, WHOLE)
    after = facts(run, "cancel_moves")["replicas_after"]
    assert sorted(after["orders-0"]["replicas"]) == [1, 2]


def test_a_cluster_that_does_not_answer_after_the_act_is_noted_and_fails_nothing(reassignment, cluster):
    run, event = reassignment(MOVES), AuditDraft()
    cluster.fail("describe_partitions", ClusterUnavailableError("away"), times=1)
    run.context.note_replicas_after(event, [MOVES[0].partition])
    assert event.facts["replicas_after"] == "not seen: away"


def test_a_stopped_reassignment_names_what_lets_it_go_on(reassignment):
    run = reassignment(MOVES)
    cancel.stop(run.context, WHOLE, by="ann")
    with pytest.raises(StoppedError) as stopped:
        run.do("submit_batch")
    [advice] = stopped.value.advice
    assert (advice.dag_id, advice.params) == ("kafka_reassignment_resume", {"reassignment_id": "r"})
