"""The event of a step that acts has what the cluster showed before and after."""

import pytest
from tests.steps_lab import move

from kafka_reassignment.errors import ClusterUnavailableError, StoppedError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.cancel import CancelScope
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.preflight import preflight

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
    assert found["replicas_after"] == {"orders-0": {"replicas": [1, 2, 3], "isr": [1, 2], "leader": 1}}


def test_a_drop_has_the_replicas_that_came_of_it(reassignment):
    run = reassignment(MOVES)
    run.do_all()
    assert facts(run, "drop_old_replicas")["replicas_after"] == {
        "orders-0": {"replicas": [1, 3], "isr": [1, 3], "leader": 1}
    }


def test_a_cancel_has_the_replicas_that_came_of_it(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="ann")
    cancel.cancel_moves(run.context, WHOLE)
    after = facts(run, "cancel_moves")["replicas_after"]
    assert sorted(after["orders-0"]["replicas"]) == [1, 2]


def test_elections_have_the_leaders_that_came_of_them(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (2, 1)), move("orders", 1, (2, 3), (4, 3))])
    run.do_all()
    cluster.kill(2)
    cluster.restart(2)
    cluster.catch_up_all()
    assert cluster.describe_partitions(["orders"])[TopicPartition("orders", 0)].leader == 1
    elect_leaders(run.context)
    assert facts(run, "elect_leaders")["elected"] == ["orders-0"]
    assert facts(run, "elect_leaders")["replicas_after"] == {
        "orders-0": {"replicas": [2, 1], "isr": [1, 2], "leader": 2}
    }


def test_a_look_that_settles_has_the_replicas_that_came_of_it(reassignment, cluster):
    """What could not be cancelled at first is cancelled by a later look, in an event of its own."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(2)
    cancel.stop(run.context, WHOLE, by="ann")
    assert not cancel.cancel_moves(run.context, WHOLE).has_acted
    cluster.restart(2)
    run.until_settled(WHOLE)
    assert facts(run, "cancel_moves")["replicas_after"]["orders-0"]["replicas"] == [1, 2]


def test_what_was_settled_of_a_superseded_one_has_the_replicas_that_came_of_it(reassignment):
    first = reassignment([*MOVES, move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    then = first.context_of(first.store.record(first.cluster_id, "second"))
    preflight(then, {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True}, "bob")
    second = reassignment([move("orders", 0, (1, 2), (1, 4))], reassignment_id="second", supersede=True)
    second.start()
    after = next(e.facts["replicas_after"] for e in second.record.audit if "settled_of_superseded" in e.facts)
    assert after == {
        "orders-0": {"replicas": [1, 2], "isr": [1, 2], "leader": 1},
        "orders-1": {"replicas": [2, 3], "isr": [2, 3], "leader": 2},
    }


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
