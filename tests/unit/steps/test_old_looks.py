"""What is declared, or done, on the ground of an old look; and what copies while nobody looks at its throttle."""

from contextlib import suppress
from dataclasses import replace

import pytest
from tests.steps_lab import OWN_STEPS, move, right_after
from tests.unit.steps.left_open_lab import LATER, TO_4, TO_5, leave_open
from tests.unit.steps.test_supersede import expanded, staying, superseding
from tests.unit.steps.test_verify import EMPTY_3, FROM_3
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1, ORDERS_2, at_full_speed, delete_every_throttle

from kafka_reassignment.errors import (
    InvalidRequestError,
    NotSettledError,
    ReassignmentError,
    StoppedError,
    ThrottleInUseError,
    VerificationError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import answered
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.throttle import throttle_in_words
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

WHOLE = CancelScope()


def at_first_sleep(run, act):
    acts = [act]

    def once():
        if acts:
            acts.pop()()

    run.clock.on_sleep.append(once)


def moved_by_others(cluster, partition, replicas):
    """Another client moves it, and that is done at once."""
    cluster.another_client().alter_reassignments({partition: replicas}, allow_replication_factor_change=True)
    cluster.catch_up(partition)


def of_run(run, run_id):
    return replace(run.context, actor=Actor(run_id=run_id))


# verify, after its look at all


def test_what_others_change_while_a_leaving_broker_is_silent_is_seen(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3)
    run.run_batches()
    cluster.kill(3, fenced=False)  # alive, and does not answer
    at_first_sleep(run, lambda: (cluster.restart(3), moved_by_others(cluster, ORDERS_2, (5, 1))))
    with pytest.raises(VerificationError, match="orders-2, but replica set is 5,1 rather than 4,1"):
        verify(run.context)


def owing_at_verify(reassignment, cluster, steps, **request):
    """A broker was down when the throttle was cleared, and is back: verify restores."""
    run = reassignment(steps, **request)
    run.do_all(*OWN_STEPS[:-1])
    cluster.kill(2)
    run.do("clear_throttle")
    cluster.restart(2)
    cluster.catch_up_all()
    elect_leaders(run.context)
    return run


def test_what_others_change_while_verify_restores_is_seen(reassignment, cluster):
    run = owing_at_verify(reassignment, cluster, [move("orders", 0, (1, 2), (1, 4))])
    right_after(cluster, "alter_configs", lambda: moved_by_others(cluster, ORDERS_0, (1, 5)))
    with pytest.raises(VerificationError, match="orders-0, but replica set is 1,5 rather than 1,4"):
        verify(run.context)


def test_a_topic_that_comes_to_the_leaving_broker_while_verify_restores_is_seen(reassignment, cluster):
    run = owing_at_verify(reassignment, cluster, FROM_3, **EMPTY_3)
    right_after(cluster, "alter_configs", lambda: cluster.create_topic("orphans", [(3, 4)]))
    with pytest.raises(VerificationError, match="broker 3 still hosts 1 partitions that came after the plan"):
        verify(run.context)


# settle_superseded


def test_what_is_settled_of_the_superseded_one_and_is_not_there_yet_is_red(reassignment, cluster):
    then = superseding(expanded(reassignment), reassignment, [move("orders", 0, (1, 3), (1, 4))])
    cluster.fall_behind(ORDERS_1, 3)
    then.run_batches()
    cluster.catch_up_all()
    elect_leaders(then.context)
    asked = cluster.alter_reassignments

    def falls_behind_before(targets, **kwargs):
        if ORDERS_1 in targets:
            cluster.fall_behind(ORDERS_1, 3)
        return asked(targets, **kwargs)

    cluster.alter_reassignments = falls_behind_before
    with pytest.raises(VerificationError, match="orders-1 is as what was superseded has left it"):
        verify(then.context)
    assert [*cluster.list_reassignments()] == [ORDERS_1]


# the expansion


def others_raise_the_factor(cluster, partition):
    return lambda: moved_by_others(cluster, partition, (1, 2, 3, 5))


def test_an_expansion_drops_no_replica_that_others_added_while_the_throttle_was_set(reassignment, cluster):
    run = reassignment(MOVES)
    run.do("admit")
    right_after(cluster, "alter_configs", others_raise_the_factor(cluster, ORDERS_0))
    run.do("submit_batch")
    assert run.replicas()["orders-0"] == (1, 2, 3, 5)
    assert "orders-0" in run.record.submitted(1).left_out


def test_an_expansion_of_a_later_slice_drops_no_replica_that_others_have_added_since(reassignment, cluster):
    cluster.create_topic("many", [(1, 2)] * 150)
    cluster.catch_up_all()
    run = reassignment([move("many", n, (1, 2), (1, 3), 10) for n in range(150)])
    run.do_all("admit", "set_throttle")
    last = TopicPartition("many", 149)
    right_after(cluster, "alter_reassignments", others_raise_the_factor(cluster, last))  # with the first slice
    run.do("submit_batch")
    assert run.replicas()["many-149"] == (1, 2, 3, 5)


# the throttle of what is withdrawn, superseded or carried on


@pytest.fixture
def withdrawn_in_flight(chain, cluster):
    """Left open by its batch, withdrawn then, and still in flight after the last batch: the task of the cancel has died."""
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    cancel.stop(run.context, CancelScope(partitions=("orders-0",)), by="bob")
    number = 1
    while (number := next_batch(run.context, number)) is not None:
        run.do_all(batch=number)
    assert [*cluster.list_reassignments()] == [ORDERS_0]
    return run


def copying_again(run, cluster):
    cluster.restart(4)
    throttle_in_words(run.context, RecordView(run.record))
    assert cluster.copying()
    assert at_full_speed(cluster) == []


def looks_without_throttle(run, cluster, step):
    """At how many sleeps of a step something copies at full speed, if another client deletes the throttle at the first one."""
    found = []
    at_first_sleep(run, lambda: delete_every_throttle(cluster))
    run.clock.on_sleep.append(lambda: found.append(at_full_speed(cluster)))
    with suppress(VerificationError):
        step(run.context)
    return sum(map(bool, found))


def test_verify_looks_after_the_throttle_of_what_was_withdrawn(withdrawn_in_flight, cluster):
    copying_again(withdrawn_in_flight, cluster)
    assert looks_without_throttle(withdrawn_in_flight, cluster, verify) <= 1


def test_elect_leaders_looks_after_the_throttle_of_what_was_withdrawn(withdrawn_in_flight, cluster):
    copying_again(withdrawn_in_flight, cluster)
    cluster._controller.change(cluster._controller.partitions[ORDERS_1], never_leads=5)
    cluster.fall_behind(ORDERS_1, 5)  # it waits for its preferred leader
    assert looks_without_throttle(withdrawn_in_flight, cluster, elect_leaders) <= 1


def test_the_lock_stays_while_what_was_withdrawn_is_in_flight(withdrawn_in_flight, cluster):
    run = withdrawn_in_flight
    with pytest.raises(VerificationError, match="orders-0 was withdrawn, and is not settled"):
        verify(run.context)
    assert run.store.lock_owner(run.cluster_id) is not None


def test_the_lock_stays_while_what_was_superseded_is_in_flight(reassignment, cluster):
    then, _ = staying(reassignment, cluster)
    then.do("set_throttle")  # admit is marked
    then.do("submit_batch")
    cluster.catch_up(ORDERS_0)
    then.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    with pytest.raises(VerificationError, match="orders-1 is as what was superseded has left it"):
        verify(then.context)
    assert then.store.lock_owner(then.cluster_id) is not None


def sweep_now(run):
    return sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")


def test_the_sweep_looks_after_what_copies_where_nobody_has_the_lock(reassignment, cluster):
    first = reassignment(MOVES)
    first.do_all("admit", "set_throttle", "submit_batch")
    then = superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])
    answered(then.context, approved=False, by="carol")
    delete_every_throttle(cluster)
    sweep_now(first)
    assert at_full_speed(cluster) == []


@pytest.fixture
def carried_on(reassignment, cluster):
    """A cancel of it is not safe: 3 has joined, 2 is out of sync, and 5 still copies."""
    run = reassignment([move("orders", 0, (1, 2), (3, 5))])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up(ORDERS_0, 3)
    cluster.fall_behind(ORDERS_0, 2)
    assert cluster.copying()
    return run


def test_cancel_moves_looks_after_the_throttle_of_what_it_carries_on(carried_on, cluster):
    cancel.stop(carried_on.context, WHOLE, by="bob")
    delete_every_throttle(cluster)
    assert cancel.cancel_moves(carried_on.context, WHOLE).carried_on
    assert at_full_speed(cluster) == []


def test_what_copies_keeps_its_throttle_as_clear_throttle_of_a_stop_says(carried_on, cluster):
    cancel.stop(carried_on.context, WHOLE, by="bob")
    delete_every_throttle(cluster)
    with pytest.raises(ThrottleInUseError, match="What copies keeps its throttle"):
        cancel.clear_after_stop(carried_on.context, WHOLE)
    assert at_full_speed(cluster) == []


def test_the_throttle_stays_as_clear_throttle_of_a_batch_says(carried_on, cluster):
    cancel.stop(carried_on.context, CancelScope(partitions=("orders-0",)), by="bob")
    delete_every_throttle(cluster)
    with pytest.raises(NotSettledError, match="The throttle stays"):
        carried_on.do("clear_throttle")
    assert at_full_speed(cluster) == []


# elections


def led_by(cluster, topic, broker):
    return sum(s.leader == broker for s in cluster.describe_partitions([topic]).values())


def test_no_further_slice_of_leaders_is_elected_after_a_stop(reassignment, cluster):
    cluster.create_topic("many", [(1, 2)] * 150)
    run = reassignment([move("many", n, (1, 2), (2, 1), 0) for n in range(150)], job=Job.LEADERS)
    run.do_all()
    for n in range(150):
        cluster._controller.change(cluster._controller.partitions[TopicPartition("many", n)], never_leads=2)
    assert led_by(cluster, "many", 1) == 150
    right_after(cluster, "elect_preferred_leaders", lambda: cancel.stop(run.context, WHOLE, by="bob"))
    with pytest.raises(StoppedError):
        elect_leaders(run.context)
    assert led_by(cluster, "many", 2) == 100


def test_no_leader_of_a_batch_is_elected_after_a_stop(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (3, 2))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    state = cluster._controller.partitions[ORDERS_0]
    cluster._controller.change(state, never_leads=3)
    assert state.leader == 2
    listed, looks = cluster.list_reassignments, []

    def stopped_at_the_last_look(*args):
        looks.append(True)
        if len(looks) == 4:
            cancel.stop(run.context, WHOLE, by="bob")
        return listed(*args)

    cluster.list_reassignments = stopped_at_the_last_look
    run.do("drop_old_replicas")
    assert state.leader == 2


# what is finished


def test_what_is_finished_and_was_rolled_back_is_not_resumed_to_a_green_run(reassignment, cluster):
    run = reassignment(MOVES)
    run.run_batches()
    run.finish()
    run.stop_all()  # with roll_back
    back = [move("orders", 0, (1, 3), (1, 2)), move("orders", 1, (4, 3), (2, 3))]
    rolling = reassignment(back, reassignment_id="back", job=Job.ROLL_BACK, roll_back_of="r")
    rolling.run_batches()
    rolling.finish()
    assert run.replicas() | {"orders-0": (1, 2), "orders-1": (2, 3)} == run.replicas()
    with pytest.raises(InvalidRequestError, match="is finished: there is nothing to resume"):
        resume(of_run(run, "resume_1"), by="bob")


def test_a_verify_of_before_a_resume_is_none(reassignment, cluster):
    """The stop came between verify and report; after the resume a person marks verify."""
    run = reassignment(MOVES)
    run.run_batches()
    verify(run.context)
    run.stop_all()
    moved_by_others(cluster, ORDERS_0, (1, 2))
    resume(of_run(run, "resume_1"), by="bob")
    run.start()
    with pytest.raises(VerificationError, match="is not verified"):
        write_report(run.context, not_done=["wait_for_batches", "elect_leaders", "verify"])


# clear_throttle and the report


def test_a_batch_that_others_change_while_its_throttle_is_restored_does_not_end_as_done(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all(*OWN_STEPS[:-1])
    right_after(cluster, "alter_configs", lambda: moved_by_others(cluster, ORDERS_0, (1, 2)))
    run.do("clear_throttle")
    assert "orders-0" in run.record.finished(1).left_out


def test_the_report_names_what_a_broker_that_is_back_has_of_the_throttle(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))])
    run.do_all(*OWN_STEPS[:-1])
    cluster.kill(2)
    run.do("clear_throttle")
    verify(run.context)
    cluster.restart(2)
    assert "broker 2: leader.replication.throttled.rate" in write_report(run.context)


# a stop


def test_clear_throttle_of_a_stop_fails_while_a_partition_is_half_way(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cancel.stop(run.context, WHOLE, by="bob")  # cancel_moves and settle_moves are marked
    with pytest.raises(ReassignmentError, match="not settled"):
        cancel.clear_after_stop(run.context, WHOLE)


def test_no_partition_of_what_is_finished_is_withdrawn(reassignment):
    run = reassignment(MOVES)
    run.run_batches()
    run.finish()
    with pytest.raises(InvalidRequestError):
        cancel.stop(run.context, CancelScope(partitions=("orders-0",)), by="bob")
