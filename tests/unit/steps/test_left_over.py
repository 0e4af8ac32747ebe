"""What a red verify advises about what is left: it can be carried out, and leads to the end."""

from dataclasses import replace

import pytest
from tests.steps_lab import move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0
from tests.unit.steps.verify_lab import failed, leader, set_min_insync

from kafka_reassignment.advice import Correct, Rerun, StartBrokers, Trigger, WaitUntil, advice_as_data
from kafka_reassignment.decisions.verification import has_another_factor
from kafka_reassignment.errors import UnhealthyClusterError, VerificationError
from kafka_reassignment.model import Reassignment, TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.request import ReassignmentRequest, parse_request
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.health import check_health
from kafka_reassignment.steps.cancel import cancel_moves, stop
from kafka_reassignment.steps.left.left_over import HOW
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer


def test_another_reassignment_that_has_the_lock_is_waited_for_and_no_new_one_is_asked_for(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    failed(run)
    other = ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob")
    other_record = run.store.record(run.cluster_id, "other")
    other_record.write_request(run.context.recorded.model_copy(update={"reassignment_id": "other"}))
    run.store.acquire(run.cluster_id, other)
    with pytest.raises(VerificationError) as error:
        verify(run.context)
    wait, rerun = error.value.advice
    assert wait == WaitUntil("other has ended, or was stopped with kafka_reassignment_cancel")
    assert rerun == Rerun("verify")


def test_the_brokers_of_an_offline_partition_are_to_be_started_first(reassignment, cluster):
    cluster.create_topic("lone", [(5,)])
    run = reassignment([move("lone", 0, (5,), (2,)), MOVES[0]])
    cluster.kill(5)
    run.do_all()
    error = failed(run)
    assert "left out: the partition is offline" in str(error)
    assert error.advice[0] == StartBrokers((5,))
    assert isinstance(error.advice[1], Trigger)


def test_a_target_below_min_insync_replicas_asks_a_person_to_correct_that_and_nothing_more(reassignment, cluster):
    cluster.create_topic("few", [(1, 2)])
    run = reassignment([move("few", 0, (1, 2), (3,)), MOVES[0]])
    set_min_insync(cluster, "few", "2")
    run.do_all()
    correct, rerun = failed(run).advice
    assert rerun == Rerun("verify")
    assert correct.what.startswith("lower min.insync.replicas (topic few from 2 to 1), or ask for more replicas")
    set_min_insync(cluster, "few", "1")
    with pytest.raises(VerificationError) as error:
        verify(run.context)
    assert isinstance(error.value.advice[0], Trigger)


def test_what_can_be_moved_is_asked_for_without_what_min_insync_replicas_forbids(reassignment, cluster):
    cluster.create_topic("few", [(1, 2)])
    run = reassignment([move("few", 0, (1, 2), (3,)), *MOVES])
    set_min_insync(cluster, "few", "2")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    again = failed(run).advice[0]
    assert parse_plan(again.params["reassignment_json"]) == {ORDERS_0: (1, 3)}


def test_a_topic_that_was_made_anew_with_another_factor_is_not_to_be_moved_to_the_target_of_its_predecessor(
    reassignment, cluster
):
    """The advice was to take it from three replicas to two, which nobody had asked for."""
    cluster.create_topic("anew", [(1, 2)])
    run = reassignment([move("anew", 0, (1, 2), (1, 4)), *MOVES])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.delete_topic("anew")
    cluster.create_topic("anew", [(4, 5, 6)])
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    decide, withdraw, again, *_ = failed(run).advice
    assert decide.what.startswith("decide where anew-0 (at 4,5,6) belong, and ask for that in a request of its own")
    assert withdraw == Trigger("kafka_reassignment_cancel", {"reassignment_id": "r", "partitions": ["anew-0"]})
    assert parse_plan(again.params["reassignment_json"]) == {ORDERS_0: (1, 3)}
    assert parse_plan(run.record.read_file("left.json").decode()) == {ORDERS_0: (1, 3)}
    cluster.alter_reassignments({ORDERS_0: (1, 3)})
    cluster.catch_up_all()
    with pytest.raises(VerificationError) as error:
        verify(run.context)
    assert error.value.advice == (decide, withdraw, Rerun("verify"))
    stop(run.context, CancelScope(("anew-0",)), by="bob")
    verify(run.context)


def test_what_was_withdrawn_because_it_has_another_factor_keeps_nothing_red_where_it_was_all_that_was_planned(
    reassignment, cluster
):
    cluster.create_topic("anew", [(1, 2)])
    run = reassignment([move("anew", 0, (1, 2), (1, 4))])
    cluster.delete_topic("anew")
    cluster.create_topic("anew", [(4, 5, 6)])
    run.do_all()
    assert failed(run).advice[-1] == Rerun("verify")
    stop(run.context, CancelScope(("anew-0",)), by="bob")
    verify(run.context)


def test_what_the_advised_reassignment_moves_at_this_moment_is_waited_for(reassignment, cluster):
    """The advice was to decide where it belongs: with all replicas, old and new, it has another factor than the plan knows."""
    run = reassignment([MOVES[0]])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.another_client().alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert isinstance(failed(run).advice[0], Trigger)
    advised = reassignment([MOVES[0]], reassignment_id="advised")
    advised.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    with pytest.raises(VerificationError) as error:
        verify(run.context)
    wait = WaitUntil("advised has ended, or was stopped with kafka_reassignment_cancel")
    assert error.value.advice == (wait, Rerun("verify"))
    advised.do_all("drop_old_replicas", "clear_throttle")
    advised.finish()
    verify(run.context)


@pytest.mark.parametrize(
    ("others", "is_submitted"),
    [((1, 2, 3), False), ((2, 1, 3), True)],
    ids=["before its batch", "over the move of its batch"],
)
def test_what_another_client_has_made_is_not_to_be_undone_where_it_looks_half_way(
    reassignment, cluster, others, is_submitted
):
    """The advice was to move it to the target all the same, which drops the replica that the other client has added."""
    run = reassignment([MOVES[0]])
    if is_submitted:
        run.do_all("admit", "set_throttle", "submit_batch")
        cluster.another_client().alter_reassignments({ORDERS_0: None})
    cluster.another_client().alter_reassignments({ORDERS_0: others}, allow_replication_factor_change=True)
    if is_submitted:
        run.look("sense_isr_catch_up")
    cluster.catch_up_all()
    run.do_all()
    decide, withdraw, again = failed(run).advice
    shown = ",".join(map(str, others))
    assert decide.what.startswith(
        f"decide where orders-0 (at {shown}) belong, and ask for that in a request of its own"
    )
    assert (withdraw.params["partitions"], again) == (["orders-0"], Rerun("verify"))
    assert "orders" not in run.record.read_file("left.json").decode()
    stop(run.context, CancelScope(("orders-0",)), by="bob")
    assert cancel_moves(run.context, CancelScope(("orders-0",))).settled == {}
    verify(run.context)
    assert run.replicas()["orders-0"] == others


def test_a_step_that_another_client_has_cancelled_is_still_to_be_moved_to_the_target(reassignment, cluster):
    """It has as many replicas as the step before has given it."""
    steps = [move("orders", 0, (1, 2), (1, 2, 3)), move("orders", 0, (1, 2, 3), (1, 2, 3, 4))]
    run = reassignment([replace(steps[0], steps=2)], [replace(steps[1], step=2, steps=2)])
    run.do_all()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cluster.another_client().alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    again = failed(run).advice[0]
    assert parse_plan(again.params["reassignment_json"]) == {ORDERS_0: (1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("replicas", "is_another"),
    [
        ((1, 2), False),
        ((1, 2, 4), False),
        ((4, 5), False),
        ((4, 5, 6), True),
        ((1, 2, 4, 5), True),
        ((1,), True),
    ],
)
def test_a_partition_half_way_has_no_other_factor(replicas, is_another):
    assert has_another_factor(Reassignment(ORDERS_0, (1, 2), (1, 4)), replicas) is is_another


def test_a_hung_move_of_another_client_is_to_be_cancelled_before_a_new_reassignment(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    for target in ((3, 1, 6), (3, 1)):
        cluster.alter_reassignments({TopicPartition("orders", 2): target}, allow_replication_factor_change=True)
    free, wait, again, *_ = failed(run).advice
    assert free == Trigger(
        "kafka_reassignment_cancel", {"reassignment_id": "running", "partitions": ["orders-2"], "foreign": True}
    )
    assert wait == WaitUntil("the moves of other clients have ended")
    assert again.dag_id == "kafka_reassignment"


def test_a_planned_partition_whose_move_another_client_made_hang_is_freed_before_a_new_reassignment(
    reassignment, cluster
):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: (1, 2)}, allow_replication_factor_change=True)
    flight = cluster.list_reassignments()[ORDERS_0]
    assert flight.adding == flight.removing == (3,)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    free, _, again, *_ = [a for a in failed(run).advice if a != Trigger("kafka_throttle_sweep")]
    assert free == Trigger(
        "kafka_reassignment_cancel", {"reassignment_id": "running", "partitions": ["orders-0"], "foreign": True}
    )
    assert parse_plan(again.params["reassignment_json"]) == {ORDERS_0: (1, 3)}
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_partition_without_a_leader_though_its_brokers_are_up_asks_a_person_to_give_it_one(reassignment, cluster):
    cluster.create_topic("lone", [(5,)])
    lone = TopicPartition("lone", 0)
    run = reassignment([move("lone", 0, (5,), (2,)), MOVES[0]])
    cluster.kill(5)
    set_min_insync(cluster, "lone", "2")
    set_min_insync(cluster, "lone", "1")
    cluster.restart(5)
    assert leader(cluster, lone) is None
    run.do_all()
    correct, rerun = failed(run).advice
    assert correct.what.startswith("give lone-0 a leader")
    assert rerun == Rerun("verify")
    what = correct.what
    assert what.index("in sync last") < what.index("no message is lost") < what.index("--election-type UNCLEAN")
    assert what.endswith("also those that were acknowledged"), "what it costs is said last, right after it"


def test_of_an_offline_partition_the_broker_that_was_in_sync_last_is_to_come_back_and_no_other(reassignment, cluster):
    """The other one may be gone for good: advice that asks for it would lead nowhere."""
    cluster.create_topic("two", [(5, 6)])
    cluster.catch_up_all()
    run = reassignment([move("two", 0, (5, 6), (5, 2)), MOVES[0]])
    cluster.kill(6)
    cluster.kill(5)
    seen, describe = frozenset({5}), cluster.describe_partitions

    def as_before_kafka_4(*topics):
        """The ISR keeps its last member, where later versions have eligible leaders instead."""
        return {p: replace(s, isr=seen) if p.topic == "two" else s for p, s in describe(*topics).items()}

    cluster.describe_partitions = as_before_kafka_4
    run.do_all()
    assert failed(run).advice[0] == StartBrokers((5,))


@pytest.mark.parametrize("named", ["kafka_default", "kafka_two"])
def test_what_is_to_be_triggered_is_for_the_cluster_of_the_request(reassignment, cluster, named):
    """The forms have kafka_default, which may be another cluster: the advice would have been carried out there."""
    run = reassignment(MOVES, kafka_conn_id=named)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    error = failed(run)
    (again,) = (a for a in error.advice if isinstance(a, Trigger))
    assert again.params.get("kafka_conn_id", "kafka_default") == named
    assert ("kafka_conn_id kafka_two" in str(error)) == (named == "kafka_two")
    assert list(run.record.audit)[-1].facts["advice"] == advice_as_data(error.advice)


def test_a_new_reassignment_of_what_is_left_is_asked_for_as_the_first_was(reassignment, cluster):
    how = {"catch_up_timeout_minutes": 30, "partition_movements": 1, "keep_free_share": 0.2}
    windows = {"windows": ["daily 00:00-24:00"], "time_zone": "Europe/Madrid", "must_end_by": "2026-02-01 04:00"}
    run = reassignment(MOVES, **how, **windows)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    params = failed(run).advice[0].params
    assert params.items() >= how.items()
    request = parse_request(dict(params))
    assert request.maintenance == run.context.request.maintenance.model_copy(update={"must_end_by": None})
    assert request.limits == run.context.request.limits


WHICH = {
    "kafka_conn_id",
    "job",
    "brokers",
    "topics",
    "mode",
    "tolerance",
    "balance_leaders",
    "replication_factor",
    "reassignment_json",
    "roll_back_of",
    "supersede",
    "exclude_topics",
    "exclude_brokers",
    "spark_conn_id",
    "require_approval",
    "second_approver",
    "approval_hours",
    "validate_only",
}
"""Fields of a request that say what is moved, and whether: a new reassignment of what is left has its own."""


def test_each_field_of_a_request_is_asked_again_or_says_which_replicas_are_moved():
    """A new field that is in neither would be lost in the advice, or be carried over where it must not."""
    assert HOW.isdisjoint(WHICH)
    assert set(ReassignmentRequest.model_fields) == HOW | WHICH


def cancelled_by_another_client(run, cluster, *partitions):
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.another_client().alter_reassignments(dict.fromkeys(partitions))
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")


def test_brokers_are_to_come_back_that_only_keep_other_partitions_from_being_healthy(reassignment, cluster):
    """The new reassignment was refused because of them, and the advice was the same for ever."""
    cluster.create_topic("other", [(6, 5)])
    cluster.catch_up_all()
    run = reassignment(MOVES)
    cancelled_by_another_client(run, cluster, ORDERS_0)
    cluster.kill(6)
    start, wait, again, *_ = failed(run).advice
    request = parse_request(dict(again.params))
    assert (start, wait) == (StartBrokers((6,)), WaitUntil("all replicas of other-0 are in sync"))
    with pytest.raises(UnhealthyClusterError):
        check_health(cluster, request)
    cluster.restart(6)
    cluster.catch_up_all()
    check_health(cluster, request)


def test_no_broker_is_to_come_back_twice(reassignment, cluster):
    run = reassignment(MOVES)
    cancelled_by_another_client(run, cluster, ORDERS_0)
    cluster.kill(4)
    start, wait, again, *_ = failed(run).advice
    assert (start, wait) == (StartBrokers((4,)), WaitUntil("all replicas of orders-1 are in sync"))
    assert isinstance(again, Trigger)


def test_other_partitions_that_a_request_allows_to_be_unhealthy_are_no_matter(reassignment, cluster):
    cluster.create_topic("other", [(6, 5)])
    cluster.catch_up_all()
    run = reassignment(MOVES, allowed_unhealthy_partitions=1)
    cancelled_by_another_client(run, cluster, ORDERS_0)
    cluster.kill(6)
    again = failed(run).advice[0]
    check_health(cluster, parse_request(dict(again.params)))


def test_a_failed_log_dir_that_keeps_other_partitions_from_being_healthy_is_to_be_repaired(reassignment, cluster):
    cluster.create_topic("other", [(6, 5)])
    cluster.catch_up_all()
    run = reassignment(MOVES)
    cancelled_by_another_client(run, cluster, ORDERS_0)
    cluster.fail_log_dir(6)
    repair, wait, again, *_ = failed(run).advice
    assert repair == Correct(
        "repair the log dirs of broker 6 that have failed, /data (KAFKA_STORAGE_ERROR), and restart it"
    )
    assert wait == WaitUntil("all replicas of other-0 are in sync")
    assert isinstance(again, Trigger)


def test_what_gets_no_leader_by_itself_is_for_a_person_before_the_rest_can_be_moved(reassignment, cluster):
    """The new reassignment of the rest was refused because of it, and no advice said what to do about it."""
    cluster.create_topic("lone", [(5,)])
    lone = TopicPartition("lone", 0)
    run = reassignment([*MOVES, move("lone", 0, (5,), (4,))])
    cancelled_by_another_client(run, cluster, ORDERS_0, lone)
    cluster.kill(5)
    set_min_insync(cluster, "lone", "2")
    set_min_insync(cluster, "lone", "1")
    cluster.restart(5)
    elect, wait, again, *_ = failed(run).advice
    assert elect.what.startswith("give lone-0 a leader")
    assert wait == WaitUntil("all replicas of lone-0 are in sync")
    assert parse_plan(again.params["reassignment_json"]) == {ORDERS_0: (1, 3)}
