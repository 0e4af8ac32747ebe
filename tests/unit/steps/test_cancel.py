"""Stopping a reassignment, whole or in part, from wherever it is."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.steps_lab import StillWaiting, move

from kafka_reassignment.advice import THROTTLE_DAG_ID, Rerun, Trigger
from kafka_reassignment.errors import (
    InvalidRequestError,
    NotSettledError,
    StoppedError,
    ThrottleInUseError,
    UnknownTopicOrPartitionError,
    UnsafeDropError,
    is_worth_a_retry,
)
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import FINAL_REPORT
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.base.waiting import Done, Waiting
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.left.left_over import to_replace_brokers
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop

pytestmark = pytest.mark.longer

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
BEFORE = {"orders-0": (1, 2), "orders-1": (2, 3), "orders-2": (3, 1), "orders-3": (1, 2)}
WHOLE = CancelScope()


@pytest.mark.parametrize(
    "done", [(), ("admit",), ("admit", "set_throttle"), ("admit", "set_throttle", "submit_batch")], ids=len
)
def test_a_reassignment_is_stopped_anywhere_and_all_is_as_before(reassignment, done):
    run = reassignment(MOVES)
    configs = run.configs("orders")
    run.do_all(*done) if done else None
    run.stop_all()
    assert run.replicas() == BEFORE
    assert run.configs("orders") == configs
    assert run.cluster.list_reassignments() == {}
    assert run.store.lock_owner(run.cluster_id) is None
    run.record.audit.verify()


def test_a_cancel_says_what_it_leaves(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (3, 4)), MOVES[1]])
    run.do_all("admit", "submit_batch")
    cluster.catch_up(ORDERS_0, 3)
    outcome = run.stop_all()
    assert outcome.cancelled == {
        "orders-0": "replicas 1,2; 3 had joined the ISR and is deleted again",
        "orders-1": "replicas 2,3",
    }


def test_what_had_all_joined_is_taken_back_too(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "submit_batch", "sense_isr_catch_up")
    outcome = run.stop_all()
    assert outcome.settled == {"orders-0": [1, 2], "orders-1": [2, 3]}
    assert run.replicas() == BEFORE


def test_a_move_whose_old_replica_is_lost_is_carried_on_to_its_target(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(2)
    cluster.catch_up(ORDERS_0, 3)
    cancel.stop(run.context, WHOLE, by="bob")
    assert cancel.cancel_moves(run.context, WHOLE).carried_on.keys() >= {"orders-1"}
    with pytest.raises(
        ThrottleInUseError, match="Bring broker 2 back, then trigger kafka_reassignment_cancel with reassignment_id r"
    ):
        cancel.clear_after_stop(run.context, WHOLE)
    followers = run.configs("orders")[ConfigResource.topic("orders")]["follower.replication.throttled.replicas"]
    assert followers.value == "1:4", "what copies keeps its throttle, the rest is cleared"
    run.stop_all()
    assert run.replicas() == BEFORE | {"orders-0": (1, 3), "orders-1": (4, 3)}


def test_what_cannot_be_settled_keeps_its_throttle_and_is_reported(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(2)
    cluster.kill(4)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    with pytest.raises(StillWaiting):
        run.settle(WHOLE)
    with pytest.raises(UnsafeDropError, match="did not settle in time: .*stay under the throttle"):
        run.settle(WHOLE, started_at=run.clock.now - timedelta(days=2))


@pytest.fixture
def half_way(reassignment, cluster):
    """Expanded, when the broker dies that both ends keep."""
    run = reassignment(MOVES)
    run.before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.kill(1)
    return run


def test_a_stop_ends_without_what_waits_for_dead_brokers_and_another_reassignment_replaces_these(half_way, cluster):
    run = half_way
    cancel.stop(run.context, WHOLE, by="bob")
    began = run.clock.now
    cancel.cancel_moves(run.context, WHOLE)
    with pytest.raises(
        StillWaiting, match=r"orders-0 \(broker 1 of the target 1,2 is not in sync; .*; they stay so from .* UTC on"
    ):
        run.settle(WHOLE, started_at=began)
    run.clock.sleep(9 * 60)
    with pytest.raises(StillWaiting):
        run.settle(WHOLE, started_at=began)
    run.clock.sleep(2 * 60)
    run.settle(WHOLE, started_at=began)
    cancel.clear_after_stop(run.context, WHOLE)
    report = report_stop(run.context, WHOLE)
    assert run.replicas() == BEFORE | {"orders-0": (1, 2, 3)}, "nothing is dropped that an end needs"
    assert "orders-0: replicas 1,2,3; broker 1 of them is down" in report
    assert "replication factor 3, 1 above the 2 before the reassignment" in report
    assert (
        "which is down: orders-0. Bring broker 1 back, then trigger kafka_reassignment_cancel with reassignment_id r"
        in report
    )
    assert (
        "If it never comes back, trigger kafka_reassignment with job decommission, brokers [1], throttle_mb" in report
    )
    assert run.store.lock_owner(run.cluster_id) is None
    topic = ConfigResource.topic("orders")
    assert run.configs("orders")[topic] == run.before[topic], "nothing copies"
    second = run.context_of(run.store.record(run.cluster_id, "second"))
    preflight(second, to_replace_brokers(run.context, {1}).params, "bob")


def test_a_broker_that_is_back_in_time_leaves_nothing_half_way(half_way, cluster):
    run = half_way
    cancel.stop(run.context, WHOLE, by="bob")
    began = run.clock.now
    for _ in range(9):
        with pytest.raises(StillWaiting):
            run.settle(WHOLE, started_at=began)
        run.clock.sleep(60)
    cluster.restart(1)
    cluster.catch_up_all()
    run.until_settled(WHOLE)
    assert run.replicas() == BEFORE


def test_what_a_stop_has_left_half_way_is_settled_by_the_next_one_once_its_broker_is_back(half_way, cluster):
    run = half_way
    run.when_waiting = lambda: run.clock.sleep(60)
    run.stop_all()
    cluster.restart(1)
    cluster.catch_up_all()
    run.stop_all()
    assert run.replicas() == BEFORE


def test_what_is_taken_out_of_a_batch_waits_for_its_dead_broker_with_the_batch(half_way):
    run, scope = half_way, CancelScope(partitions=("orders-0",))
    cancel.stop(run.context, scope, by="bob")
    began = run.clock.now
    for _ in range(3):
        with pytest.raises(StillWaiting):
            run.settle(scope, started_at=began)
        run.clock.sleep(600)
    with pytest.raises(UnsafeDropError, match="are not settled"):
        report_stop(run.context, scope)


def test_after_a_stop_no_step_does_anything_and_says_who_stopped_it(reassignment):
    run = reassignment(MOVES)
    cancel.stop(run.context, WHOLE, by="bob", reason="weekend is over")
    for name in ("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas"):
        with pytest.raises(
            StoppedError, match=r"stopped by bob at .*: weekend is over. Trigger kafka_reassignment_resume with"
        ):
            run.do(name)
    assert run.replicas() == BEFORE


def test_a_stop_ends_a_submission_that_is_under_way(reassignment, cluster, monkeypatch):
    """What a task submits after the stop would be cancelled by nobody, so it cancels that itself."""
    monkeypatch.setattr("kafka_reassignment.decisions.controller.Controller.slice_size", 1)
    run = reassignment(MOVES)
    alter = cluster.alter_reassignments

    def then_stop(targets, **flags):
        replies = alter(targets, **flags)
        cancel.stop(run.context, WHOLE, by="bob")
        return replies

    cluster.alter_reassignments = then_stop
    with pytest.raises(StoppedError):
        run.do("submit_batch")
    assert not cluster.list_reassignments()


def test_a_stopped_reassignment_goes_on_where_it_was_when_resumed(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]])
    run.do_all()
    run.stop_all()
    resume(run.context, by="bob", reason="next weekend")
    assert run.start() == 2
    run.do_all(batch=2)
    assert run.replicas() == BEFORE | {"orders-0": (1, 3), "orders-1": (4, 3)}


def test_a_resume_that_died_after_it_lifted_the_stop_does_nothing_when_it_runs_again(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]])
    run.do_all()
    run.stop_all()
    context = replace(run.context, actor=Actor(run_id="resume_1"))
    resume(context, by="bob")
    resume(context, by="bob")
    assert [event.outcome for event in run.record.audit if event.step == "resume"] == ["succeeded", "skipped"]
    assert len(run.record.run_commands.all()) == 2
    with pytest.raises(InvalidRequestError, match="is not stopped"):
        resume(replace(run.context, actor=Actor(run_id="resume_2")), by="ann")


def test_one_whose_run_was_deleted_is_resumed_once_without_having_been_stopped(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]])
    run.do_all("admit", "set_throttle", "submit_batch")
    context = replace(run.context, actor=Actor(run_id="resume_1"))
    resume(context, by="bob", has_run=False)
    resume(context, by="bob")
    assert [event.outcome for event in run.record.audit if event.step == "resume"] == ["succeeded", "skipped"]
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.start() == 2
    run.do_all(batch=2)
    assert run.replicas() == BEFORE | {"orders-0": (1, 3), "orders-1": (4, 3)}


def test_one_that_is_finished_or_was_never_begun_is_not_resumed_though_it_has_no_run(reassignment):
    run = reassignment(MOVES)
    unknown = replace(run.context, record=run.store.record(run.cluster_id, "nope"))
    with pytest.raises(InvalidRequestError, match="has no reassignment nope"):
        resume(unknown, by="bob", has_run=False)
    run.do_all()
    run.record.write_file(FINAL_REPORT, b"done")
    with pytest.raises(InvalidRequestError, match="is finished: there is nothing to resume"):
        resume(run.context, by="bob", has_run=False)


def test_one_that_runs_in_a_dag_of_its_own_is_not_carried_out_by_another_one_too(reassignment):
    run = reassignment(MOVES)
    stray = replace(run.context, actor=Actor(dag_id="kafka_reassignment_cancel", run_id="too_early"))
    stray.write_event("stop", None, run.clock.now, AuditDraft(outcome="failed"))
    began = replace(run.context, actor=Actor(dag_id="nightly", run_id="r"))
    began.write_event("preflight", None, run.clock.now, AuditDraft())
    run.do_all("admit", "set_throttle", "submit_batch")
    with pytest.raises(InvalidRequestError, match="is not stopped, and was begun by the DAG nightly: it cannot go on"):
        resume(run.context, by="bob", has_run=False)
    assert [e.outcome for e in run.record.audit if e.step == "resume"] == ["failed"]
    resume(run.context, by="bob", has_run=False, dag_id="nightly")


def test_only_what_is_stopped_can_be_resumed(reassignment):
    with pytest.raises(InvalidRequestError, match="is not stopped"):
        resume(reassignment(MOVES).context, by="bob")


# Some partitions


def test_one_partition_is_cancelled_and_the_rest_goes_on(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    outcome = run.stop_all(CancelScope(("orders-0",)))
    assert set(outcome.cancelled) == {"orders-0"}
    assert set(run.cluster.list_reassignments()) <= {ORDERS_1}
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas() == BEFORE | {"orders-1": (4, 3)}
    run.finish()


def test_a_partition_of_a_later_batch_is_withdrawn_too(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1], move("orders", 2, (3, 1), (3, 4))])
    run.stop_all(CancelScope(("orders-1",)))
    run.run_batches()
    assert run.replicas() == BEFORE | {"orders-0": (1, 3), "orders-2": (3, 4)}


def test_a_batch_waits_for_what_was_taken_out_of_it_and_is_carried_on(reassignment, cluster):
    run, scope = reassignment(MOVES), CancelScope(("orders-1",))
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fall_behind(ORDERS_1, 3)
    cancel.stop(run.context, scope, by="bob")
    cancel.cancel_moves(run.context, scope)
    cluster.catch_up(ORDERS_0, 3)
    run.do("sense_isr_catch_up")
    text = (
        "batch 1: every partition is at its target; kafka_reassignment_cancel has withdrawn 1 of its partitions, which still copy: "
        "orders-1 (in flight to 2,3,4, waiting for 3,4)"
    )
    for _ in range(2):
        assert run.look("drop_old_replicas") == Waiting(text, until=run.clock.now + timedelta(minutes=1440))
    assert run.record.progress().text == text
    [announced, event] = [e for e in run.record.audit if e.step == "drop_old_replicas"]
    assert announced.facts["targets"] == event.facts["submitted"] == {"orders-0": [1, 3]}
    with pytest.raises(
        NotSettledError, match="The throttle stays, and batch 1 is not done: .* has withdrawn 1"
    ) as error:
        run.do("clear_throttle")
    assert is_worth_a_retry(error.value)
    assert error.value.advice == (scope.again(run.record), Rerun("clear_throttle", batch=1))
    assert isinstance(run.look("drop_old_replicas", started_at=run.clock.now - timedelta(days=2)), Done)
    cluster.catch_up_all()
    run.until_settled(scope)
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)
    run.finish()


def test_a_batch_is_not_finished_while_what_was_taken_out_of_it_is_half_way(reassignment):
    """The cancel finds by the batch what is half-way: it would say that all is settled, and leave an extra replica."""
    run, scope = reassignment(MOVES), CancelScope(("orders-1",))
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cancel.stop(run.context, scope, by="bob")
    run.do_all("drop_old_replicas")
    with pytest.raises(
        NotSettledError, match="has withdrawn 1 of its partitions, and has not settled them yet"
    ) as error:
        run.do("clear_throttle")
    assert is_worth_a_retry(error.value)
    assert error.value.advice == (scope.again(run.record), Rerun("clear_throttle", batch=1))
    run.until_done(lambda: run.settle(scope))
    run.do("clear_throttle")
    assert run.replicas() == BEFORE | {"orders-0": (1, 3)}
    run.finish()


def test_a_move_that_is_carried_on_under_too_low_a_rate_is_red_with_the_rate_to_ask_for(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fall_behind(ORDERS_0, 2)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    with pytest.raises(UnsafeDropError, match="did not settle in time") as error:
        run.settle(WHOLE, started_at=run.clock.now - timedelta(days=2))
    faster = Trigger(THROTTLE_DAG_ID, {"reassignment_id": "r", "throttle_mb_per_second": 20.0})
    assert error.value.advice == (faster, WHOLE.again(run.record))


def test_a_move_that_is_carried_on_to_a_log_dir_that_has_failed_asks_for_no_rate(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fail_log_dir(3)
    cluster.fall_behind(ORDERS_0, 2)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    with pytest.raises(UnsafeDropError, match="did not settle in time") as error:
        run.settle(WHOLE, started_at=run.clock.now - timedelta(days=2))
    assert "repair the log dirs of broker 3 that have failed, /data (KAFKA_STORAGE_ERROR)" in str(error.value.advice)


def test_a_name_that_fits_nothing_is_refused(reassignment):
    with pytest.raises(UnknownTopicOrPartitionError, match="'partitions' names 'orders-9', which is no partition"):
        cancel.stop(reassignment(MOVES).context, CancelScope(("orders-9",)), by="bob")
    with pytest.raises(UnknownTopicOrPartitionError, match="'topics' names 'pay\\*', which fits no topic"):
        cancel.stop(reassignment(MOVES).context, CancelScope(topics=("pay*",)), by="bob")


def test_a_name_in_the_other_field_is_refused_with_the_field_it_belongs_to(reassignment):
    run = reassignment(MOVES)
    with pytest.raises(UnknownTopicOrPartitionError, match="Name it in 'topics', since it is a topic"):
        cancel.stop(run.context, CancelScope(("orders",)), by="bob")
    with pytest.raises(UnknownTopicOrPartitionError, match="Name it in 'partitions', since it is a partition"):
        cancel.stop(run.context, CancelScope(topics=("orders-0",)), by="bob")


@pytest.mark.parametrize(
    ("scope", "withdrawn"),
    [(CancelScope(("orders-0",)), {"orders-0"}), (CancelScope(topics=("orders-0",)), {"orders-0-0", "orders-0-1"})],
    ids=["partition", "topic"],
)
def test_a_partition_and_a_topic_of_the_same_name_are_not_mixed_up(reassignment, cluster, scope, withdrawn):
    cluster.create_topic("orders-0", [(1, 2), (2, 1)])
    cluster.catch_up_all()
    run = reassignment([*MOVES, move("orders-0", 0, (1, 2), (1, 3)), move("orders-0", 1, (2, 1), (2, 3))])
    run.do_all("admit", "set_throttle", "submit_batch")
    outcome = run.stop_all(scope)
    assert set(outcome.cancelled) == withdrawn
    assert run.record.withdrawn_partitions() == withdrawn


# Partitions that take several steps


THREE_STEPS = [
    [move("events", 0, (1, 2, 3), (4, 1, 2, 3))],
    [move("events", 0, (4, 1, 2, 3), (4, 5, 3))],
    [move("events", 0, (4, 5, 3), (4, 5, 6))],
]


@pytest.fixture
def three_steps(reassignment, cluster):
    cluster.create_topic("events", [(1, 2, 3)], size_bytes=1_000_000)
    cluster.catch_up_all()
    return reassignment(
        *([replace(s, step=n, steps=3) for s in batch] for n, batch in enumerate(THREE_STEPS, 1)),
        replica_movements=2,
    )


def test_a_stop_between_two_steps_leaves_no_partition_with_more_replicas(three_steps):
    run = three_steps
    run.do_all()
    assert run.replicas()["events-0"] == (4, 1, 2, 3)
    outcome = run.stop_all()
    assert outcome.settled == {"events-0": [1, 2, 3]}
    assert run.replicas()["events-0"] == (1, 2, 3)


@pytest.mark.parametrize("replicas", [(1, 2, 3, 5), (5, 4, 3, 6)], ids=["back", "onward"])
def test_what_another_client_makes_of_a_partition_between_two_steps_stays(three_steps, cluster, replicas):
    """It would be enough for either end: but what one of our steps has left is another assignment."""
    run = three_steps
    run.do_all()
    events = TopicPartition("events", 0)
    cluster.another_client().alter_reassignments({events: replicas}, allow_replication_factor_change=True)
    cluster.catch_up(events)
    run.stop_all()
    assert run.replicas()["events-0"] == replicas
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_stop_in_a_later_step_takes_the_partition_back_as_well(three_steps):
    run = three_steps
    run.do_all()
    run.start()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    run.stop_all()
    assert run.replicas()["events-0"] == (1, 2, 3)
    assert run.cluster.list_reassignments() == {}


def test_a_partition_whose_last_step_was_left_for_later_is_taken_back_too(reassignment, cluster):
    """Batch 2 ended without it because of a dead broker; the stop comes before the batch that takes it up again."""
    cluster.create_topic("events", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    first, last = move("events", 0, (1, 2), (4, 1, 2)), move("events", 0, (4, 1, 2), (4, 5, 1))
    run = reassignment([replace(first, step=1, steps=2)], [replace(last, step=2, steps=2), MOVES[0]])
    run.do_all()
    assert next_batch(run.context, 1) == 2
    cluster.kill(5)
    run.do_all(batch=2)
    assert run.record.finished(2).left_out.keys() == {"events-0"}
    run.stop_all()
    assert run.replicas()["events-0"] == (1, 2)


def test_what_stays_between_two_assignments_is_reported_with_what_is_missing(three_steps):
    run = three_steps
    run.do_all()
    run.do_all(batch=2)
    cancel.stop(run.context, WHOLE, by="bob")
    run.until_done(lambda: run.settle(WHOLE))
    cancel.clear_after_stop(run.context, WHOLE)
    text = report_stop(run.context, WHOLE)
    assert "1 partitions stay between two assignments" in text
    assert (
        "events-0: replicas 4,5,3; either end would take copies: the original 1,2,3 lacks 1,2, the target 4,5,6 lacks 6"
        in text
    )


def test_a_replica_too_many_that_cannot_go_now_is_told_and_keeps_the_lock_until_the_stop_ends_without_its_broker(
    three_steps, cluster
):
    run = three_steps
    run.do_all()
    cluster.kill(2)
    cancel.stop(run.context, WHOLE, by="bob")
    result = cancel.cancel_moves(run.context, WHOLE)
    assert result.above == {"events-0": "replication factor 4, 1 above the 3 before the reassignment"}
    with pytest.raises(StillWaiting, match="broker 2 of the target 1,2,3 is not in sync"):
        run.settle(WHOLE)
    with pytest.raises(UnsafeDropError, match="The lock of the cluster stays") as raised:
        report_stop(run.context, WHOLE)
    assert raised.value.advice == (Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"}),)
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"
    run.clock.sleep(600)
    run.settle(WHOLE)
    assert "replication factor 4, 1 above the 3 before the reassignment" in report_stop(run.context, WHOLE)
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_partition_taken_back_by_a_stop_is_moved_from_the_start_when_resumed(three_steps):
    run = three_steps
    run.do_all()
    run.stop_all()
    resume(run.context, by="bob")
    run.run_batches()
    assert run.replicas()["events-0"] == (4, 5, 6)
    run.finish()


def test_a_withdrawn_partition_between_two_steps_is_taken_back_too(three_steps):
    run = three_steps
    run.do_all()
    run.stop_all(CancelScope(("events-0",)))
    assert run.replicas()["events-0"] == (1, 2, 3)


@pytest.mark.parametrize("others", [[], [MOVES[0]]], ids=["alone", "beside another"])
def test_a_withdrawn_partition_is_between_two_steps_also_when_the_batch_of_its_last_one_has_ended(
    reassignment, cluster, others
):
    """The batch went on without it before the cancel came to look."""
    cluster.create_topic("events", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    first, last = move("events", 0, (1, 2), (4, 1, 2)), move("events", 0, (4, 1, 2), (4, 5, 1))
    run = reassignment([replace(first, step=1, steps=2)], [replace(last, step=2, steps=2), *others])
    scope = CancelScope(("events-0",))
    run.do_all()
    cancel.stop(run.context, scope, by="bob")
    run.do_all(batch=2)
    assert run.replicas()["events-0"] == (4, 1, 2)
    cancel.cancel_moves(run.context, scope)
    run.until_settled(scope)
    assert run.replicas()["events-0"] == (1, 2)


def test_what_was_taken_back_right_after_its_last_step_was_submitted_is_said_by_a_later_stop_of_the_whole(
    reassignment, cluster
):
    """The submission is recorded after the cancel of the part has taken it back, and the batch ends without it."""
    cluster.create_topic("events", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    first, last = move("events", 0, (1, 2), (3, 1)), move("events", 0, (3, 1), (3, 4))
    run = reassignment([replace(first, step=1, steps=2)], [replace(last, step=2, steps=2), MOVES[1]])
    run.do_all()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancel.stop(run.context, CancelScope(("events-0",)), by="bob")
    cluster.alter_reassignments({TopicPartition("events", 0): None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert run.replicas()["events-0"] == (3, 1)
    run.stop_all()
    assert "events-0: replicas 3,1; either end would take copies" in report_stop(run.context, WHOLE)


# A cancel whose tasks are cleared days later


def test_the_stop_of_an_old_cancel_stops_nothing_that_was_resumed_and_a_new_one_does(reassignment):
    run = reassignment(MOVES)

    def of(run_id):
        return replace(run.context, actor=Actor(requested_by="ann", run_id=run_id))

    cancel.stop(of("monday"), WHOLE, by="ann")
    cancel.stop(of("monday"), WHOLE, by="ann")
    assert run.record.run_commands.last()[0] == 1, "a retry gives the order once"
    resume(run.context, by="ann")
    with pytest.raises(InvalidRequestError, match="is not stopped any more: it was resumed"):
        cancel.stop(of("monday"), WHOLE, by="ann")
    assert run.record.stopped() is None
    cancel.stop(of("friday"), WHOLE, by="ann")
    assert run.record.stopped() is not None


@pytest.mark.parametrize("task", [cancel.cancel_moves, cancel.clear_after_stop, report_stop], ids=lambda t: t.__name__)
def test_a_task_of_an_old_cancel_ends_nothing_of_a_reassignment_that_was_resumed(reassignment, cluster, task):
    """Before, cancel_moves cancelled the moves of the batch at work, and report_stop gave its lock away, in a green run."""
    run = reassignment(MOVES)
    run.stop_all()
    resume(run.context, by="ann")
    run.start()
    run.do_all("admit", "set_throttle", "submit_batch")
    in_flight, configs = cluster.list_reassignments(), run.configs("orders")
    with pytest.raises(InvalidRequestError, match="is not stopped any more: it was resumed") as refused:
        task(run.context, WHOLE)
    assert refused.value.advice == (Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"}),)
    assert (cluster.list_reassignments(), run.configs("orders")) == (in_flight, configs)
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"
