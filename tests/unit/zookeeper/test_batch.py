"""A batch below Kafka 2.4: the controller has to finish one znode before it takes the next."""

from datetime import timedelta

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import Rerun, StartBrokers, WaitUntil, advice_from_data
from kafka_reassignment.errors import BatchIncompleteError, CatchUpTimeoutError, ControllerBusyError, UnsafeDropError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps.base.waiting import Failed, Waiting

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1, THEIRS_0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("theirs", 0)
TO_3 = move("orders", 0, (1, 2), (1, 3))


def test_a_batch_is_written_to_expand_and_to_drop_and_leaves_no_configs_behind(old, reassignment):
    run = reassignment([TO_3, move("orders", 1, (1, 2), (4, 2))])
    before = run.configs("orders")
    run.run_batches()
    run.finish()
    assert old.written == [{ORDERS_0: (1, 2, 3), ORDERS_1: (1, 2, 4)}, {ORDERS_0: (1, 3), ORDERS_1: (4, 2)}]
    assert [run.replicas()[f"orders-{n}"] for n in (0, 1)] == [(1, 3), (4, 2)]
    assert run.configs("orders") == before


@pytest.mark.parametrize(
    ("step", "error"), [("sense_isr_catch_up", CatchUpTimeoutError), ("drop_old_replicas", UnsafeDropError)]
)
def test_an_old_replica_that_dies_during_the_expansion_is_named_until_the_time_is_over(old, reassignment, step, error):
    run = reassignment([TO_3], catch_up_timeout_minutes=60)
    run.do_all("admit", "set_throttle", "submit_batch")
    old.kafka.kill(2)
    old.kafka.catch_up(ORDERS_0, 3)
    began = run.clock.now
    assert isinstance(run.look(step, started_at=began), Waiting)
    assert advice_from_data(run.record.progress().advice) == (StartBrokers((2,)),)
    run.clock.now = began + timedelta(minutes=60)
    look = run.look(step, started_at=began)
    assert isinstance(look, Failed)
    assert isinstance(look.error, error)
    assert look.error.advice == (StartBrokers((2,)), Rerun("sense_isr_catch_up", batch=1))
    old.kafka.restart(2)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_replica_that_is_added_alone_is_waited_for_also_when_another_broker_became_the_controller(old, reassignment):
    """It counts what is at its target as done: the znode is gone, and the replica still copies."""
    run = reassignment([move("orders", 0, (1, 2), (1, 2, 3))], [move("orders", 1, (1, 2), (1, 2, 4))])
    run.do_all("admit", "set_throttle", "submit_batch")
    old.fail_over()
    assert old.znode is None
    look = run.look("sense_isr_catch_up")
    assert isinstance(look, Waiting)
    assert "0 of 1 partitions in sync" in look.reason
    with pytest.raises(
        BatchIncompleteError, match=r"1 of 1 partitions are not done: orders-0 \(broker 3 of it still copies\)"
    ) as undone:
        run.do("clear_throttle")
    assert undone.value.advice == (Rerun("submit_batch", batch=1),)
    assert old.kafka.throttle_of(ORDERS_0, 3)
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.finished(1).partitions == 1


def test_a_replica_at_its_target_whose_broker_has_died_since_holds_nothing_up(old, reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 2, 3))])
    run.do_all("admit", "set_throttle", "submit_batch")
    old.kafka.catch_up_all()
    old.work()
    old.kafka.kill(3)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.finished(1).partitions == 1


def test_a_drop_that_finds_another_clients_batch_says_what_ends_it(old, reassignment):
    run = reassignment([TO_3], catch_up_timeout_minutes=60)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    old.somebody_submits({THEIRS_0: (4, 6)})
    old.kafka.kill(6)
    began = run.clock.now
    assert isinstance(run.look("drop_old_replicas", started_at=began), Waiting)
    to_go_on = (StartBrokers((6,)), WaitUntil("the controller has finished what it has"))
    assert advice_from_data(run.record.progress().advice) == to_go_on
    run.clock.now = began + timedelta(minutes=60)
    look = run.look("drop_old_replicas", started_at=began)
    assert isinstance(look, Failed)
    assert look.error.advice == (*to_go_on, Rerun("sense_isr_catch_up", batch=1))


def test_a_rerun_of_the_submission_beside_its_own_batch_leaves_out_what_has_to_wait(old, reassignment):
    run = reassignment([TO_3, move("orders", 1, (1, 2), (1, 4))])
    old.kafka.kill(4)
    run.do_all("set_throttle", "submit_batch")
    old.kafka.restart(4)
    run.do("submit_batch")
    submitted = run.record.submitted(1)
    assert submitted.accepted == ("orders-0",)
    assert submitted.left_out["orders-1"].startswith("REASSIGNMENT_IN_PROGRESS")
    assert submitted.retried_later == ("orders-1",)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_submission_that_finds_another_clients_batch_says_what_ends_it(old, reassignment):
    run = reassignment([TO_3])
    run.do_all("admit", "set_throttle")
    old.somebody_submits({THEIRS_0: (4, 6)})
    old.kafka.kill(6)
    with pytest.raises(ControllerBusyError, match="holds a batch of theirs-0") as busy:
        run.do("submit_batch")
    assert busy.value.advice == (
        StartBrokers((6,)),
        WaitUntil("the controller has finished what it has"),
        Rerun("submit_batch", batch=1),
    )
