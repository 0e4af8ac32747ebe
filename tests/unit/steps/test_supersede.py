"""KIP-236: a new target for partitions that are already moving, and taking over from an earlier reassignment."""

from datetime import timedelta

import pytest
from tests.steps_lab import Run, StillWaiting, move, right_after
from upath import UPath

from kafka_reassignment.advice import CANCEL_DAG_ID, Correct, Rerun, StartBrokers, Trigger, WaitUntil
from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    LockedForSecondsError,
    LockLostError,
    OvertakenError,
    ReassignmentError,
    ReassignmentInProgressError,
    RecordDamagedError,
    StoppedError,
    UnhealthyClusterError,
    VerificationError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.plan.store import forget_read_plans
from kafka_reassignment.plan.tables import read_table
from kafka_reassignment.planner.snapshot import snapshot_of
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import answered
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done, Failed
from kafka_reassignment.steps.plan import take_snapshot
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHOLE = CancelScope()


def start_elsewhere(cluster, target, partition=ORDERS_0):
    replies = cluster.alter_reassignments({partition: target}, allow_replication_factor_change=True)
    assert replies[partition] is None


@pytest.mark.parametrize(
    ("in_flight", "target"), [((2, 3), (2, 4)), ((3, 4), (2, 3))], ids=["the KIP's example", "Kafka hangs (F34)"]
)
def test_a_move_in_flight_is_cancelled_and_the_new_target_reached(reassignment, cluster, in_flight, target):
    start_elsewhere(cluster, in_flight)
    run = reassignment([move("orders", 0, (1, 2), target)], supersede=True)
    run.run_batches()
    assert run.replicas()["orders-0"] == target
    assert cluster.list_reassignments() == {}
    superseded = next(e for e in run.record.audit if e.step == "submit_batch").facts["superseded"]
    assert set(superseded) == {"orders-0"}


def test_without_being_asked_another_clients_move_is_waited_for(reassignment, cluster):
    start_elsewhere(cluster, (2, 3))
    run = reassignment([move("orders", 0, (1, 2), (2, 4))])
    with pytest.raises(StillWaiting, match="another client is reassigning orders-0"):
        run.do("admit")
    run.do("submit_batch")
    assert cluster.list_reassignments()[ORDERS_0].target == (2, 3)


def test_moves_that_stand_not_in_the_way_are_left_alone_and_waited_for(reassignment, cluster):
    start_elsewhere(cluster, (3, 1, 4), TopicPartition("orders", 2))
    run = reassignment([move("orders", 0, (1, 2), (2, 4))], supersede=True)
    with pytest.raises(StillWaiting, match="another client is reassigning orders-2"):
        run.do("admit")


def test_a_cancel_that_would_break_min_isr_is_refused_with_a_warning(reassignment, cluster, caplog):
    start_elsewhere(cluster, (3, 4))
    cluster.catch_up(ORDERS_0, 3)
    cluster.kill(2)
    cluster.create_topic("strict", [(1, 2)], configs={"min.insync.replicas": "2"})
    run = reassignment([move("orders", 0, (1, 2), (1, 5))], supersede=True)
    run.do("submit_batch")
    assert cluster.list_reassignments()[ORDERS_0].target == (3, 4)
    left_out = run.record.submitted(1).left_out["orders-0"]
    assert "would drop 3, which is needed while 2 is out of sync" in left_out
    assert "Not superseded: orders-0" in caplog.text


def test_a_cancel_is_decided_on_what_is_seen_after_brokers_were_asked_how_far_replicas_are_behind(
    reassignment, cluster
):
    """They may take half a minute to answer, and one of the original replicas may be lost meanwhile."""
    strict = ConfigChange(ConfigResource.topic("orders"), "min.insync.replicas", ConfigOperation.SET, "2")
    cluster.alter_configs([strict])
    start_elsewhere(cluster, (1, 3, 4))
    cluster.catch_up(ORDERS_0, 3)
    run = reassignment([move("orders", 0, (1, 2), (1, 5))], supersede=True)
    run.do_all("admit", "set_throttle")
    right_after(cluster, "describe_log_dirs", lambda: cluster.kill(2))
    run.do("submit_batch")
    assert cluster.list_reassignments()[ORDERS_0].target == (1, 3, 4)
    assert ORDERS_0 not in cluster.blocked_producers()
    assert "would drop 3, which is needed while 2 is out of sync" in run.record.submitted(1).left_out["orders-0"]


def stopped_by_a_person(run, cluster):
    cancel.stop(run.context, WHOLE, by="bob")
    return StoppedError


def superseded_in_its_turn(run, cluster):
    preflight(second(run), REQUEST, "bob")
    cluster.alter_reassignments({ORDERS_0: None})
    start_elsewhere(cluster, (1, 2, 6))
    return StoppedError


def released(run, cluster):
    run.store.release(run.cluster_id, "r")
    return LockLostError


def overtaken_by_another_try(run, cluster):
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    start_elsewhere(cluster, (1, 6))
    return OvertakenError


@pytest.mark.parametrize("meanwhile", [stopped_by_a_person, superseded_in_its_turn, released, overtaken_by_another_try])
def test_a_try_that_may_not_go_on_any_more_cancels_nothing_of_others(reassignment, cluster, meanwhile):
    start_elsewhere(cluster, (1, 4))
    run = reassignment([move("orders", 0, (1, 2), (1, 5))], supersede=True)
    run.do_all("admit", "set_throttle")
    happened = []
    right_after(cluster, "describe_log_dirs", lambda: happened.append(meanwhile(run, cluster)))
    with pytest.raises(ReassignmentError) as refused:
        run.do("submit_batch")
    assert [type(refused.value)] == happened
    assert cluster.list_reassignments()[ORDERS_0].target in {(1, 4), (1, 2, 6), (1, 6)}


def test_the_snapshot_shows_moves_in_flight_as_a_cancel_leaves_them(reassignment, cluster):
    start_elsewhere(cluster, (2, 3))
    run = reassignment([move("orders", 0, (1, 2), (1, 3))], supersede=True)
    take_snapshot(run.context, snapshot := run.record.uri_of("snapshot"), as_if_cancelled=True)
    rows = read_table(f"{snapshot}/partitions").to_pylist()
    assert {(r["topic"], r["partition"]): r["replicas"] for r in rows}["orders", 0] == [2, 1], (
        "as the controller puts it"
    )


@pytest.mark.parametrize("begins_meanwhile", [False, True])
def test_without_being_asked_nothing_is_planned_from_replicas_that_another_client_adds(
    reassignment, cluster, monkeypatch, begins_meanwhile
):
    """They would count as replicas that are there: the factor would pass for that of the request, and the end would be green."""
    run = reassignment([move("orders", 0, (1, 2), (1, 2, 3))])
    if begins_meanwhile:
        describe = run.context.cluster.describe_partitions

        def as_it_begins(*topics):
            monkeypatch.undo()
            start_elsewhere(cluster, (4, 2))
            return describe(*topics)

        monkeypatch.setattr(run.context.cluster, "describe_partitions", as_it_begins)
    else:
        start_elsewhere(cluster, (4, 2))
    with pytest.raises(ReassignmentInProgressError, match=r"1 partitions .* \(orders-0\), not by this") as refused:
        take_snapshot(run.context, run.record.uri_of("snapshot"))
    assert refused.value.advice[-1] == Rerun("preflight")


# Taking over from a reassignment of ours

REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True}


def second(run: Run) -> RunContext:
    return run.context_of(run.store.record(run.cluster_id, "second"))


def third(run: Run) -> RunContext:
    return run.context_of(run.store.record(run.cluster_id, "third"))


def test_a_second_reassignment_is_reported_who_holds_the_cluster(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    with pytest.raises(ReassignmentInProgressError, match=r"is locked by reassignment r, asked for by ann, since 2026"):
        preflight(second(run), REQUEST | {"supersede": False}, "bob")


def test_a_second_reassignment_that_supersedes_stops_the_first_and_takes_its_debts_over(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3))])
    configs = first.configs("orders")
    first.do_all("admit", "set_throttle", "submit_batch")
    throttled = first.configs("orders")
    preflight(second(first), REQUEST, "bob")
    with pytest.raises(StoppedError, match="stopped by bob at .*: superseded by second") as stopped:
        first.do("sense_isr_catch_up")
    assert stopped.value.advice == (
        WaitUntil("reassignment second, which took its place, has ended"),
        Correct(
            "ask for what is still wanted of this one in a new request, or resume this one if that one has moved nothing"
        ),
    ), "to resume it would move partitions that are the second one's"
    assert first.configs("orders") == throttled, "its throttle has to stay while its move is in flight"
    assert not second(first).record.journal().is_settled, "and is the second one's to look after and to clear"

    then = reassignment([move("orders", 0, (1, 2), (1, 4))], reassignment_id="second", supersede=True)
    then.run_batches()
    assert then.replicas()["orders-0"] == (1, 4)
    assert first.record.journal().is_settled
    then.finish()
    assert then.configs("orders") == configs


def expanded(reassignment) -> Run:
    """A reassignment that is superseded with old and new replicas in sync, right before the drop."""
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    assert first.replicas() | {"orders-0": (1, 2, 3), "orders-1": (2, 3, 4)} == first.replicas()
    preflight(second(first), REQUEST, "bob")
    return first


def planned_for(run: Run) -> dict[str, list[int]]:
    take_snapshot(second(run), uri := run.record.uri_of("snapshot"), as_if_cancelled=True)
    return {f"{r['topic']}-{r['partition']}": r["replicas"] for r in read_table(f"{uri}/partitions").to_pylist()}


def test_what_was_superseded_right_before_its_drop_keeps_no_replica_too_many(reassignment):
    first = expanded(reassignment)
    assert planned_for(first) | {"orders-0": [1, 3], "orders-1": [4, 3]} == planned_for(first), "no copy is lost"
    then = reassignment([move("orders", 0, (1, 3), (1, 4))], reassignment_id="second", supersede=True)
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (4, 3)} == then.replicas()
    then.start()
    assert then.replicas()["orders-0"] == (1, 4), "a rerun brings nothing back"


@pytest.mark.parametrize("is_back", [False, True], ids=["", "the broker is back before the first batch"])
def test_what_stays_half_way_because_of_a_dead_broker_is_planned_with_as_many_replicas_as_before(
    reassignment, cluster, is_back
):
    first = reassignment([move("orders", 0, (1, 2), (1, 4))])
    first.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.kill(1)
    asked = REQUEST | {"job": "decommission", "brokers": [1], "allowed_unhealthy_partitions": 9}
    preflight(second(first), asked, "bob")
    take_snapshot(second(first), uri := first.record.uri_of("snapshot"), as_if_cancelled=True)
    rows = {f"{r['topic']}-{r['partition']}": r for r in read_table(f"{uri}/partitions").to_pylist()}
    assert (rows["orders-0"]["replicas"], rows["orders-0"]["factor"]) == ([1, 2, 4], 2)
    assert rows["orders-1"]["factor"] is None
    planned = [move("orders", 0, (1, 2, 4), (2, 4))]
    then = reassignment(planned, reassignment_id="second", **asked)
    take_snapshot(then.context, snapshot_of(then.record.plan_uri), as_if_cancelled=True)
    if is_back:
        cluster.restart(1)
        cluster.catch_up_all()
    then.run_batches()
    assert then.replicas()["orders-0"] == (2, 4)
    assert then.record.finished(1).left_out == {}


def test_what_was_superseded_goes_back_where_its_target_is_not_in_sync(reassignment, cluster):
    first = expanded(reassignment)
    cluster.fall_behind(TopicPartition("orders", 1), 4)
    assert planned_for(first)["orders-1"] == [2, 3]
    then = reassignment([move("orders", 0, (1, 3), (1, 4))], reassignment_id="second", supersede=True)
    then.run_batches()
    assert then.replicas()["orders-1"] == (2, 3)


HALF_WAY = (
    "Reassignment r, which was superseded, is stopped with 2 partitions (orders-0, orders-1) in flight or half-way. Let it go on "
    "with kafka_reassignment_resume, or settle them with kafka_reassignment_cancel, reassignment_id r"
)


@pytest.mark.parametrize("in_flight", [True, False], ids=["in flight", "before the drop"])
def test_a_rejected_plan_says_what_the_superseded_reassignment_has_left_and_both_ways_on_lead_to_an_end(
    reassignment, cluster, in_flight
):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch", *(() if in_flight else ("sense_isr_catch_up",)))
    configs, before = first.configs("orders"), first.replicas()
    preflight(second(first), REQUEST, "bob")
    then = reassignment([move("orders", 0, (1, 3), (1, 4))], reassignment_id="second", supersede=True)
    answer = answered(then.context, approved=False, by="ann", reason="too large")
    assert answer.words == f"rejected by ann: too large. {HALF_WAY}"
    assert first.store.lock_owner(first.cluster_id) is None
    assert (first.configs("orders"), first.replicas()) == (configs, before), "nothing is changed by a rejection"

    if in_flight:
        cancel.stop(first.context, WHOLE, by="bob")
        cancel.cancel_moves(first.context, WHOLE)
        first.until_settled(WHOLE)
        assert first.replicas() | {"orders-0": (1, 2), "orders-1": (2, 3)} == first.replicas()
    else:
        resume(first.context, by="bob")
        first.clock.sleep(1)
        first.run_batches()
        assert first.replicas() | {"orders-0": (1, 3), "orders-1": (4, 3)} == first.replicas()


def test_a_rejected_plan_that_has_superseded_what_left_nothing_says_nothing_of_it(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3))])
    preflight(second(first), REQUEST, "bob")
    then = reassignment([move("orders", 0, (1, 2), (1, 4))], reassignment_id="second", supersede=True)
    assert answered(then.context, approved=False, by="ann").words == "rejected by ann"


def test_a_request_that_is_cleared_later_supersedes_nothing_that_has_begun_since(reassignment):
    """What it was to supersede has ended; who asks for another reassignment days later does not expect it to be stopped."""
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    asked_at = run.clock.now - timedelta(days=3)
    with pytest.raises(
        InvalidRequestError, match=r"Reassignment r, which has the lock .* Nothing was stopped"
    ) as refused:
        preflight(second(run), REQUEST, "bob", asked_at=asked_at)
    again = "trigger a new run with the same request, if r is to be superseded as well"
    assert refused.value.advice == (Correct(again),)
    assert run.record.stopped() is None
    assert not second(run).record.exists
    preflight(second(run), REQUEST, "bob", asked_at=run.clock.now - timedelta(seconds=30))  # clocks differ
    assert run.record.stopped() is not None


def test_a_step_that_has_the_lock_for_some_seconds_is_not_superseded_but_waited_for(reassignment):
    """A sweep is no reassignment: to take its lock would let both write the throttle, and begin a record of a run that has none."""
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.store.release(run.cluster_id, "r")
    sweep = ClusterLock(reassignment_id="kafka_throttle_sweep__x", since=run.clock.now, requested_by="Airflow")
    run.store.acquire(run.cluster_id, sweep)
    with pytest.raises(LockedForSecondsError, match="is locked by reassignment kafka_throttle_sweep__x"):
        preflight(second(run), REQUEST, "bob")
    assert run.store.lock_owner(run.cluster_id) == sweep
    assert run.store.record(run.cluster_id, sweep.reassignment_id).stopped() is None
    run.store.release(run.cluster_id, sweep.reassignment_id)
    preflight(second(run), REQUEST, "bob")


def test_validating_stops_nobody(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3))])
    with pytest.raises(ReassignmentInProgressError, match="is locked by reassignment r"):
        preflight(second(first), REQUEST | {"validate_only": True}, "bob")
    first.run_batches()


def test_a_request_that_is_refused_stops_nobody(reassignment, cluster):
    first = reassignment([move("orders", 0, (1, 2), (1, 3))])
    cluster.fall_behind(TopicPartition("orders", 3), 2)
    with pytest.raises(UnhealthyClusterError):
        preflight(second(first), REQUEST, "bob")
    first.run_batches()


def test_who_was_superseded_does_not_take_the_cluster_back_by_a_rerun(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3))], supersede=True)
    preflight(second(first), REQUEST, "bob")
    with pytest.raises(StoppedError, match="superseded by second"):
        preflight(first.context, REQUEST, "ann")


def test_a_move_in_flight_of_what_was_superseded_and_is_not_planned_again_is_cancelled(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    preflight(second(first), REQUEST, "bob")
    then = reassignment([move("orders", 0, (1, 2), (1, 4))], reassignment_id="second", supersede=True)
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (2, 3)} == then.replicas()
    assert not then.cluster.list_reassignments()


def superseding(first: Run, reassignment, *batches, name: str = "second") -> Run:
    """A reassignment that takes the place of the first, with its snapshot beside its frozen plan."""
    preflight(first.context_of(first.store.record(first.cluster_id, name)), REQUEST, "bob")
    then = reassignment(*batches, reassignment_id=name, supersede=True)
    take_snapshot(then.context, snapshot_of(then.record.plan_uri), as_if_cancelled=True)
    return then


def test_a_move_of_what_was_superseded_is_cancelled_before_the_batch_that_moves_it_again(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    then = superseding(
        first,
        reassignment,
        [move("orders", 0, (1, 2), (1, 4))],
        [move("orders", 1, (2, 3), (2, 1))],
    )
    then.start()
    assert not then.cluster.list_reassignments(), "else it would be complete when its batch begins"
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (2, 1)} == then.replicas()
    then.finish()


def test_what_was_superseded_is_settled_no_further_once_the_lock_is_lost(reassignment, cluster, monkeypatch):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    then = superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])
    monkeypatch.setattr(Controller, "slice_size", 1)
    right_after(cluster, "alter_reassignments", lambda: preflight(third(then), REQUEST, "carol"))
    then.start()
    assert [*cluster.list_reassignments()] == [TopicPartition("orders", 1)], "the third one settles it"


def staying(reassignment, cluster) -> tuple[Run, Run]:
    """A reassignment that could not cancel a move of the one that it has superseded, which waits for a dead broker; and that one."""
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 5))])
    first.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up(ORDERS_1, 4)
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 6))])
    cluster.kill(5)
    cluster.fall_behind(ORDERS_1, 3)
    then.start()
    assert [*cluster.list_reassignments()] == [ORDERS_1]
    return then, first


def test_what_could_not_be_settled_before_the_first_batch_is_settled_before_a_batch_waits_for_it(reassignment, cluster):
    then, _ = staying(reassignment, cluster)
    seen = then.look("admit").reason
    assert "what was superseded still moves orders-1 (broker 3 of the original replicas 2,3 is out of sync" in seen
    assert "another client" not in seen
    cluster.catch_up(ORDERS_1, 3)
    assert isinstance(then.look("admit"), Done)
    assert not cluster.list_reassignments()
    assert then.replicas()["orders-1"] == (2, 3)
    (event,) = (e for e in then.record.audit if e.step == "settle_superseded")
    assert event.summary.startswith(
        "batch 1 would have waited for what was superseded: orders-1 (cancelled: replicas 2,3"
    )


def waited_in_vain(run: Run) -> ReassignmentInProgressError:
    began = run.clock.now
    run.look("admit", started_at=began)
    run.clock.sleep(25 * 3600)
    failed = run.look("admit", started_at=began)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, ReassignmentInProgressError)
    return failed.error


def test_what_was_superseded_and_can_never_be_settled_names_the_brokers_that_end_it(reassignment, cluster):
    then, _ = staying(reassignment, cluster)
    error = waited_in_vain(then)
    assert "for moves of what was superseded that have not ended: orders-1 (broker 3 of the original" in str(error)
    assert error.advice == (StartBrokers((5,)), Rerun("admit", batch=1))
    cluster.restart(5)
    cluster.catch_up(ORDERS_1, 5)
    assert isinstance(then.look("admit"), Done)


def test_what_was_superseded_and_never_completes_waits_until_a_cancel_is_safe(reassignment, cluster):
    """F34; a cancel with 'foreign', as it helps against such a move of another client, would not be safe either."""
    then, _ = staying(reassignment, cluster)
    cluster.restart(5)
    start_elsewhere(cluster, (2, 3, 4, 5, 6), ORDERS_1)
    start_elsewhere(cluster, (4, 5), ORDERS_1)
    cluster.catch_up(ORDERS_1, 6)
    assert never_completes(cluster.list_reassignments()[ORDERS_1])
    error = waited_in_vain(then)
    assert error.advice == (WaitUntil("all replicas of orders-1 are in sync"), Rerun("admit", batch=1))
    cluster.catch_up(ORDERS_1, 3)
    cluster.catch_up(ORDERS_1, 5)
    assert isinstance(then.look("admit"), Done)
    assert not cluster.list_reassignments()


def test_a_move_of_another_client_beside_one_of_what_was_superseded_is_left_alone(reassignment, cluster):
    then, _ = staying(reassignment, cluster)
    orders_2 = TopicPartition("orders", 2)
    start_elsewhere(cluster, (3, 1, 6), orders_2)
    cluster.catch_up(ORDERS_1, 3)
    seen = then.look("admit").reason
    assert "another client is reassigning orders-2: let it finish" in seen
    assert "superseded" not in seen
    assert [*cluster.list_reassignments()] == [orders_2]


def test_a_batch_waits_for_what_nobody_can_tell_is_of_the_superseded_one_as_for_any_move(reassignment, cluster):
    then, first = staying(reassignment, cluster)
    damage(first)
    assert "another client is reassigning orders-1" in then.look("admit").reason


@pytest.mark.parametrize("is_planned", [True, False])
def test_what_was_copied_while_the_plan_waited_for_an_approval_goes_to_where_the_plan_counts_on_it(
    reassignment, is_planned
):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    planned = [move("orders", 1, (2, 3), (2, 1))] if is_planned else []
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 4)), *planned])
    for partition, broker in ((0, 3), (1, 4)):
        then.cluster.catch_up(TopicPartition("orders", partition), broker)
    assert not then.cluster.list_reassignments()
    then.run_batches()
    assert then.replicas()["orders-1"] == ((2, 1) if is_planned else (2, 3))
    then.finish()


def test_a_replica_that_another_client_has_added_to_what_the_superseded_one_has_left_is_not_ours(reassignment):
    """Seed 12530781: it makes all of the expansion of the new plan."""
    first = reassignment([move("orders", 0, (1, 2), (1, 3))])
    first.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (3, 4))])
    start_elsewhere(then.cluster, (1, 2, 3, 4))
    then.cluster.catch_up(ORDERS_0, 4)
    then.start()
    then.do_all("admit", "set_throttle", "submit_batch")
    assert then.record.submitted(1).changed_by_others == ("orders-0",)
    assert then.replicas()["orders-0"] == (1, 2, 3, 4)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["", "the plan of the superseded one is damaged"])
def test_what_cannot_be_settled_before_the_first_batch_is_settled_at_the_end(reassignment, cluster, is_damaged):
    """Seed 9102846: the cancel that the error advises could not be carried out."""
    first = expanded(reassignment)
    then = superseding(first, reassignment, [move("orders", 0, (1, 3), (1, 4))])
    cluster.fall_behind(TopicPartition("orders", 1), 3)
    then.run_batches()
    if is_damaged:
        damage(first, "steps")
    assert then.replicas()["orders-1"] == (2, 3, 4), "neither end is in sync"
    cluster.fall_behind(TopicPartition("orders", 1), 3)
    with pytest.raises(VerificationError, match="orders-1 is as what was superseded has left it") as red:
        verify(then.context)
    assert Trigger(CANCEL_DAG_ID, {"reassignment_id": "r"}) in red.value.advice
    with pytest.raises(VerificationError, match="orders-1"):
        verify(then.context)
    assert then.replicas()["orders-1"] == (2, 3, 4), "the lock is released: it only looks"

    cluster.catch_up(TopicPartition("orders", 1), 3)
    cancel.stop(first.context, WHOLE, by="bob")
    cancel.cancel_moves(first.context, WHOLE)
    first.until_settled(WHOLE)
    assert then.replicas()["orders-1"] == (2, 3)
    verify(then.context)


def test_what_needs_a_lower_min_insync_to_be_settled_says_so_at_the_end(reassignment, cluster):
    """Seed 7011892: the cancel that was advised alone waits for the same."""
    then = superseding(expanded(reassignment), reassignment, [move("orders", 0, (1, 3), (1, 4, 2))])
    least = ConfigResource.topic("orders"), "min.insync.replicas"
    cluster.another_client().alter_configs([ConfigChange(*least, ConfigOperation.SET, "3")])
    then.run_batches()
    with pytest.raises(VerificationError, match="orders-1 is as what was superseded has left it") as red:
        verify(then.context)
    lower, *_ = red.value.advice
    assert "lower min.insync.replicas (topic orders from 3 to 2)" in str(lower)
    cluster.another_client().alter_configs([ConfigChange(*least, ConfigOperation.DELETE)])
    then.run_batches()
    verify(then.context)


def test_what_is_in_sync_again_at_the_end_is_settled_by_verify(reassignment, cluster):
    first = expanded(reassignment)
    then = superseding(first, reassignment, [move("orders", 0, (1, 3), (1, 4))])
    cluster.fall_behind(TopicPartition("orders", 1), 3)
    then.run_batches()
    then.finish()
    assert then.replicas()["orders-1"] == (4, 3)


@pytest.mark.parametrize("in_flight", [True, False], ids=["in flight", "before the drop"])
def test_what_a_reassignment_with_a_damaged_plan_has_left_goes_back_when_it_is_superseded(reassignment, in_flight):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    take_snapshot(first.context, snapshot_of(first.record.plan_uri))
    first.do_all("admit", "set_throttle", "submit_batch", *(() if in_flight else ("sense_isr_catch_up",)))
    tables = [f for f in UPath(first.record.plan_uri).rglob("*") if f.is_file() and "snapshot" not in str(f)]
    assert tables
    for file in tables:
        file.write_bytes(b"damaged")
    forget_read_plans()
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 4))])
    assert {"orders-0": [1, 2], "orders-1": [2, 3]}.items() <= planned_for(then).items(), "as the batches find it"
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (2, 3)} == then.replicas()
    then.finish()


def test_what_a_reassignment_with_a_damaged_plan_was_never_answered_goes_back_too(reassignment, cluster):
    """Seed 12603405: its batch had begun with it, and the answer was lost."""
    first = reassignment([move("orders", 1, (2, 3), (4, 3))])
    take_snapshot(first.context, snapshot_of(first.record.plan_uri))
    first.do_all("admit", "set_throttle")
    cluster.fail("alter_reassignments", ClusterUnavailableError("No answer"), applied=1, times=1)
    with pytest.raises(ClusterUnavailableError):
        first.do("submit_batch")
    damage(first, "steps")
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 4))])
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (2, 3)} == then.replicas()


def test_a_damaged_request_of_the_superseded_one_hides_nothing_of_it(reassignment):
    first = expanded(reassignment)
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 4))])
    (first.record.root / "request.json").write_bytes(b"damaged")
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (4, 3)} == then.replicas()
    then.finish()


def damage(run: Run, table: str = "") -> None:
    """Damage the files of a plan: those of one table, or all."""
    files = [f for f in (UPath(run.record.plan_uri) / table).rglob("*") if f.is_file()]
    assert files
    for file in files:
        file.write_bytes(b"damaged")
    forget_read_plans()


def test_what_a_plan_without_a_snapshot_has_left_goes_back_by_its_target_where_its_batches_are_damaged(reassignment):
    first = expanded(reassignment)
    damage(first, "steps")
    then = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 4))])
    then.run_batches()
    assert then.replicas() | {"orders-0": (1, 4), "orders-1": (2, 3)} == then.replicas()
    then.finish()


def test_a_plan_is_not_made_where_nobody_can_tell_what_the_superseded_one_has_left(reassignment):
    first = expanded(reassignment)
    damage(first)
    with pytest.raises(
        RecordDamagedError, match=r"Nobody can tell what .* r, .* has left of orders-0, orders-1: .*ask again"
    ):
        superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])
    then = Run(
        first.cluster, first.folder, [[move("orders", 2, (3, 1), (3, 4))]], reassignment_id="second", supersede=True
    )
    assert not answered(then.context, approved=False, by="ann", reason="no").may_run
    assert then.store.lock_owner(then.cluster_id) is None, "it can be given up all the same"


def done_after_what_is_damaged(reassignment):
    """A reassignment whose batches are done, and which has superseded one that nobody can read any more."""
    first = expanded(reassignment)
    preflight(second(first), REQUEST, "bob")
    then = reassignment([move("orders", 2, (3, 1), (3, 4))], reassignment_id="second", supersede=True)
    then.do_all()
    damage(first)
    return then


def test_it_does_not_end_green_where_nobody_can_tell_what_the_superseded_one_has_left(reassignment):
    then = done_after_what_is_damaged(reassignment)
    with pytest.raises(RecordDamagedError, match="Nobody can tell what"):
        verify(then.context)
    assert len(then.replicas()["orders-1"]) == 3
    assert then.store.lock_owner(then.cluster_id) is None, "another one may settle it"


def test_what_nobody_can_tell_of_the_superseded_one_hides_nothing_else_that_is_not_as_planned(reassignment):
    then = done_after_what_is_damaged(reassignment)
    then.cluster.another_client().alter_reassignments({TopicPartition("orders", 2): (5, 6)})
    then.cluster.catch_up_all()
    with pytest.raises(VerificationError, match=r"orders-2.*5,6.*Nobody can tell what"):
        verify(then.context)


@pytest.mark.parametrize("in_flight", [True, False], ids=["in flight", "before the drop"])
def test_what_was_superseded_by_one_that_is_superseded_before_its_first_batch_is_settled_all_the_same(
    reassignment, in_flight
):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch", *(() if in_flight else ("sense_isr_catch_up",)))
    second_one = superseding(first, reassignment, [move("orders", 0, (1, 2), (1, 4))])
    third = superseding(second_one, reassignment, [move("orders", 2, (3, 1), (3, 4))], name="third")
    third.run_batches()
    ends = ((1, 2), (2, 3)) if in_flight else ((1, 3), (4, 3))
    assert (third.replicas()["orders-0"], third.replicas()["orders-1"]) == ends
    assert third.replicas()["orders-2"] == (3, 4)
    third.finish()
    assert first.record.journal().is_settled


def test_a_stop_before_the_first_batch_settles_what_was_superseded_in_vain(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    preflight(second(first), REQUEST, "bob")
    cancelling = second(first)
    cancel.stop(cancelling, CancelScope(), by="bob")
    cancel.cancel_moves(cancelling, CancelScope())
    assert isinstance(cancel.settle_moves(cancelling, CancelScope(), first.clock.now), Done)
    cancel.clear_after_stop(second(first), CancelScope())
    assert first.replicas() | {"orders-0": (1, 2), "orders-1": (2, 3)} == first.replicas()
    assert second(first).record.journal().is_settled
    assert first.record.journal().is_settled
