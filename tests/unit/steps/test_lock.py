"""The lock of a cluster as the steps use it: taken by two of them, looked at by all, released by its owner."""

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.fakes.cluster import FakeCluster
from tests.simulation.disk import SimDisk
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.advice import (
    CANCEL_DAG_ID,
    RESUME_DAG_ID,
    Correct,
    Rerun,
    StartBrokers,
    Trigger,
    WaitUntil,
    advice_from_data,
)
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    LockLostError,
    OtherAirflowError,
    ReassignmentInProgressError,
    RecordUnavailableError,
    VerificationError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record import objects
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import answered
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.batch import next_batch, submit_batch
from kafka_reassignment.steps.cancel import CancelScope
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

MOVES = [move("orders", 0, (1, 2), (1, 3))]
REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10}
WHOLE = CancelScope()


def owner(run):
    found = run.store.lock_owner(run.cluster_id)
    return found and found.reassignment_id


def context(cluster, store, reassignment_id="new", instance=""):
    return RunContext(
        cluster=cluster,
        store=store,
        record=store.record("fake-cluster", reassignment_id),
        actor=Actor(),
        log=logging.getLogger("tests"),
        now=lambda: datetime(2026, 1, 1, 12, tzinfo=UTC),
        sleep=lambda _: None,
        instance=instance,
    )


@pytest.mark.parametrize("step", ["admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas"])
def test_a_step_that_finds_the_lock_lost_does_not_take_it_and_its_advice_leads_on(reassignment, step):
    run = reassignment(MOVES)
    run.store.release(run.cluster_id, "r")
    with pytest.raises(LockLostError) as lost:
        run.do(step)
    assert owner(run) is None
    assert run.cluster.altered == []
    assert lost.value.advice == (Rerun("start_batches"),)
    assert run.start() == 1
    assert owner(run) == "r"
    run.do_all()


@pytest.mark.parametrize("is_lost", ["before", "while it waits for a replica"])
def test_no_leader_is_elected_without_the_lock(reassignment, cluster, is_lost):
    orders_0 = TopicPartition("orders", 0)
    run = reassignment([move("orders", 0, (1, 2), (3, 2))])
    run.do_all()
    cluster.kill(3)
    cluster.restart(3)
    assert cluster.describe_partitions()[orders_0].leader == 2

    def give_up():
        cluster.catch_up_all()
        run.store.release(run.cluster_id, "r")

    if is_lost == "before":
        give_up()
    else:
        run.clock.on_sleep.append(give_up)
    with pytest.raises(LockLostError) as lost:
        elect_leaders(run.context)
    assert cluster.describe_partitions()[orders_0].leader == 2
    assert lost.value.advice == (Rerun("start_batches"),)
    run.clock.on_sleep.clear()
    run.start()
    elect_leaders(run.context)
    assert cluster.describe_partitions()[orders_0].leader == 3


def test_the_lock_of_a_reassignment_is_its_own_where_another_airflow_stops_it(tmp_path):
    cluster, store = free_cluster(), RecordStore(UPath(tmp_path))
    preflight(context(cluster, store, instance="a"), REQUEST, "ann")
    assert store.lock_owner("fake-cluster").instance == "a"
    assert context(cluster, store, instance="b").lock_of_another() is None
    assert context(cluster, store, "other", instance="b").lock_of_another().reassignment_id == "new"


def test_a_finished_batch_that_is_run_by_hand_in_another_airflow_starts_no_further_one_there(reassignment):
    run = reassignment(MOVES, [move("orders", 1, (2, 3), (4, 3))])
    run.do_all()
    request = run.record.root / "request.json"
    request.write_text(json.dumps(json.loads(request.read_text()) | {"instance": "berlin"}))
    assert next_batch(replace(run.context, instance="paris"), 1) is None
    event = list(run.record.audit)[-1]
    assert event.outcome == "skipped"
    assert event.summary.startswith("the Airflow berlin has begun the reassignment, and starts its batches")
    assert next_batch(replace(run.context, instance="berlin"), 1) == 2


def test_a_batch_that_ends_without_the_lock_fails_while_more_are_left_and_its_advice_leads_on(reassignment):
    run = reassignment(MOVES, [move("orders", 1, (2, 3), (4, 3))])
    run.do_all()
    run.store.release(run.cluster_id, "r")
    with pytest.raises(LockLostError) as lost:
        next_batch(run.context, 1)
    assert lost.value.advice == (Rerun("start_batches"), Rerun("start_next_batch", batch=1))
    assert owner(run) is None
    assert run.start() == 2
    assert next_batch(run.context, 1) == 2


def test_the_last_batch_that_ends_without_the_lock_starts_nothing(reassignment):
    run = reassignment(MOVES)
    run.do_all()
    run.store.release(run.cluster_id, "r")
    assert next_batch(run.context, 1) is None


def test_a_lost_lock_is_retaken_by_a_resume_where_the_run_of_the_reassignment_was_deleted(reassignment):
    run = reassignment(MOVES)
    run.store.release(run.cluster_id, "r")
    with pytest.raises(LockLostError, match="Its run r was deleted. Trigger kafka_reassignment_resume with") as lost:
        submit_batch(replace(run.context, has_run=lambda _: False), 1)
    assert lost.value.advice == (Trigger(RESUME_DAG_ID, {"reassignment_id": "r"}),)
    assert advice_from_data(list(run.record.audit)[-1].facts["advice"]) == lost.value.advice


@pytest.mark.parametrize("is_there", [True, False])
def test_the_run_of_a_dag_of_ones_own_is_named_and_not_taken_for_a_deleted_one(reassignment, is_there):
    run = reassignment(MOVES)
    began = replace(run.context, actor=Actor(dag_id="my_move", run_id="r"))
    began.write_event("preflight", None, run.clock.now, AuditDraft())
    run.store.release(run.cluster_id, "r")
    runs = {"my_move"} if is_there else set()
    with pytest.raises(LockLostError) as lost:
        submit_batch(replace(run.context, has_run=lambda dag_id: dag_id in runs), 1)
    own = {"reassignment_id": "r"}
    if is_there:
        assert "Its run r, of the DAG my_move, is there. Rerun" in str(lost.value)
        assert isinstance(lost.value.advice[0], Rerun)
        return
    assert "Its run r, of the DAG my_move, was deleted. Trigger" in str(lost.value)
    assert lost.value.advice == (Trigger(CANCEL_DAG_ID, own), Trigger(RESUME_DAG_ID, own))
    cancel.stop(run.context, WHOLE, by="ann")
    report_stop(run.context, WHOLE)
    resume(run.context, by="ann", has_run=False)


def test_in_a_run_without_start_batches_preflight_takes_the_lock_again_and_the_advice_names_it(tmp_path):
    """A rejection has released it, or a person; a DAG of one's own may have all steps in one run."""
    run = Run(free_cluster(), UPath(tmp_path), [MOVES], **REQUEST)
    run.store.release(run.cluster_id, "r")
    in_one = lambda: replace(run.context, has_task=lambda task_id: task_id != "start_batches")  # noqa: E731
    with pytest.raises(LockLostError) as lost:
        submit_batch(in_one(), 1)
    assert lost.value.advice == (Rerun("preflight"),)
    preflight(run.context, REQUEST, "ann")
    assert run.store.lock_owner(run.cluster_id) is None, "start_batches takes it"
    preflight(in_one(), REQUEST, "ann")
    submit_batch(in_one(), 1)
    run.store.release(run.cluster_id, "r")
    run.store.acquire(run.cluster_id, ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob"))
    with pytest.raises(ReassignmentInProgressError, match="other"):
        preflight(in_one(), REQUEST, "ann")


def test_a_leader_that_is_lost_before_verify_of_a_run_without_start_batches_leads_to_preflight(cluster, tmp_path):
    """``verify`` releases the lock, and the election needs it."""
    run = Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (3, 2))]], **REQUEST)
    run.when_waiting = cluster.catch_up_all
    in_one = lambda: replace(run.context, has_task=lambda task_id: task_id != "start_batches")  # noqa: E731
    run.do_all()
    cluster.kill(3)
    cluster.restart(3)
    cluster.catch_up_all()
    with pytest.raises(VerificationError, match="led by broker 2 rather than its preferred leader 3") as failed:
        verify(in_one())
    assert failed.value.advice == (Rerun("preflight"),)
    assert owner(run) is None
    preflight(in_one(), REQUEST, "ann")
    run.do_all()
    elect_leaders(in_one())
    verify(in_one())


def test_the_lock_of_another_is_waited_for_and_then_taken_by_start_batches(reassignment):
    run = reassignment(MOVES)
    run.store.release(run.cluster_id, "r")
    run.store.acquire(run.cluster_id, ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob"))
    with pytest.raises(ReassignmentInProgressError) as refused:
        run.do("submit_batch")
    assert refused.value.advice[-1] == Rerun("start_batches")
    with pytest.raises(ReassignmentInProgressError):
        run.start()
    run.store.release(run.cluster_id, "other")
    assert run.start() == 1


def test_no_step_of_a_finished_reassignment_takes_the_lock(reassignment):
    run = reassignment(MOVES)
    run.run_batches()
    run.finish()
    for name in ("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle"):
        run.do(name)
    preflight(run.context, REQUEST, "ann")
    assert run.start() is None
    run.finish()
    assert owner(run) is None


def test_preflight_of_a_reassignment_whose_plan_was_rejected_leaves_the_cluster_free(reassignment):
    run = reassignment(MOVES)
    answered(run.context, approved=False, by="ann")
    preflight(run.context, REQUEST, "ann")
    assert owner(run) is None


def test_a_second_airflow_with_the_same_run_id_is_refused_and_goes_on_with_nothing(reassignment):
    run = reassignment(MOVES)
    run.store.release(run.cluster_id, "r")
    berlin = context(run.cluster, run.store, "maintenance__0", "berlin")
    preflight(berlin, REQUEST, "cron")
    for paris in (context(run.cluster, run.store, "maintenance__0", "paris") for _ in range(2)):
        for act in (lambda: preflight(paris, REQUEST, "cron"), paris.require_go_ahead):  # noqa: B023
            with pytest.raises(
                OtherAirflowError, match=r"by the Airflow berlin, and this is the Airflow paris"
            ) as refused:
                act()
            [advice] = refused.value.advice
            assert isinstance(advice, Correct)
        paris.record.write_file("report.txt", b"finished, which changes nothing")
    assert run.store.lock_owner(run.cluster_id).instance == "berlin"


def test_people_may_stop_a_reassignment_from_another_airflow_and_the_cluster_is_free_then(reassignment):
    run = reassignment(MOVES)
    run.store.release(run.cluster_id, "r")
    preflight(context(run.cluster, run.store, "new", "berlin"), REQUEST, "ann")
    paris = context(run.cluster, run.store, "new", "paris")
    cancel.stop(paris, WHOLE, by="bob")
    report_stop(paris, WHOLE)
    assert owner(run) is None
    with pytest.raises(OtherAirflowError, match="by the Airflow berlin, and this is the Airflow paris") as refused:
        resume(paris, by="bob", has_run=False)
    [advice] = refused.value.advice
    assert advice.what.startswith("trigger kafka_reassignment_resume in the Airflow berlin, or, if this Airflow takes")
    assert paris.record.stopped() is not None
    assert "resume" not in [event.step for event in paris.record.audit]


def free_cluster(**settings):
    cluster = FakeCluster(**settings)
    cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    return cluster


def calls_of_preflight():
    cluster = free_cluster()
    store = RecordStore(UPath("memory://calls-of-preflight"))
    preflight(context(cluster, store), REQUEST, "ann")
    return sorted(set(cluster.calls))


@pytest.mark.parametrize("call", calls_of_preflight())
def test_whatever_call_of_the_cluster_fails_a_locked_cluster_has_a_reassignment_that_can_be_stopped(call, tmp_path):
    cluster, store = free_cluster(), RecordStore(UPath(tmp_path))
    cluster.fail(call, ClusterUnavailableError("away"), times=1)
    with pytest.raises(ClusterUnavailableError):
        preflight(context(cluster, store), REQUEST, "ann")
    can_be_stopped_or_retried(cluster, store)


@pytest.mark.parametrize("stage", ["before", "after"])
def test_wherever_the_store_fails_a_locked_cluster_has_a_reassignment_that_can_be_stopped(stage):
    with in_place([objects]):
        failed = 0
        while True:
            cluster, disk = free_cluster(), SimDisk()
            store = RecordStore(use(disk))
            disk.on_write = fails_at(failed, stage)
            try:
                preflight(context(cluster, store), REQUEST, "ann")
            except RecordUnavailableError:
                disk.on_write = None
                can_be_stopped_or_retried(cluster, store)
                failed += 1
                continue
            break
        assert failed >= 3, "the request, the lock, the audit event"


def fails_at(number, stage):
    seen = []

    def on_write(at, path):
        if at == stage and "audit-heads" not in path:
            seen.append(path)
            if len(seen) > number:
                raise OSError(5, "Input/output error", path)

    return on_write


def can_be_stopped_or_retried(cluster, store):
    found, record = store.lock_owner("fake-cluster"), store.record("fake-cluster", "new")
    assert found is None or record.exists
    preflight(context(cluster, store), REQUEST, "ann")
    assert store.lock_owner("fake-cluster").reassignment_id == "new"
    cancel.stop(context(cluster, store), WHOLE, by="ann")
    report_stop(context(cluster, store), WHOLE)
    assert store.lock_owner("fake-cluster") is None


def test_a_refusal_leaves_neither_a_lock_nor_a_request(tmp_path):
    cluster, store = free_cluster(auto_catch_up=False), RecordStore(UPath(tmp_path))
    Run(cluster, UPath(tmp_path), [MOVES], reassignment_id="other")
    with pytest.raises(ReassignmentInProgressError, match="locked by reassignment other"):
        preflight(context(cluster, store), REQUEST, "ann")
    assert not store.record("fake-cluster", "new").exists
    store.release("fake-cluster", "other")
    cluster.alter_reassignments({MOVES[0].partition: (1, 4)})
    with pytest.raises(ReassignmentInProgressError, match="are being reassigned already") as refused:
        preflight(context(cluster, store), REQUEST, "ann")
    assert not store.record("fake-cluster", "new").exists
    assert store.lock_owner("fake-cluster") is None
    assert [type(one) for one in refused.value.advice] == [WaitUntil, Rerun]


def test_moves_in_the_way_that_do_not_end_by_themselves_are_told_with_what_ends_them(tmp_path):
    """Seed 9118116: another client moves a partition whose only broker is down; to wait for it led nowhere."""
    cluster, store = free_cluster(auto_catch_up=False), RecordStore(UPath(tmp_path))
    cluster.alter_reassignments({MOVES[0].partition: (1, 4)})
    cluster.kill(4)
    request = {**REQUEST, "allowed_unhealthy_partitions": 10}
    with pytest.raises(ReassignmentInProgressError, match="do not end by themselves: .*waits for broker 4") as refused:
        preflight(context(cluster, store), request, "ann")
    assert refused.value.advice[0] == StartBrokers((4,))
