"""What a cancel or a superseding reassignment has settled: no later step takes back what others have made of it since."""

from dataclasses import replace

import pytest
from tests.steps_lab import Run, move
from tests.unit.steps.test_roll_back import RollBack
from upath import UPath

from kafka_reassignment.errors import InvalidRequestError, VerificationError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.store import forget_read_plans
from kafka_reassignment.planner.snapshot import snapshot_of
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.plan import take_snapshot
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

WHOLE = CancelScope()
ORDERS_0, ORDERS_1, ORDERS_2 = (TopicPartition("orders", n) for n in range(3))
TO_3 = move("orders", 0, (1, 2), (1, 3))
TO_4 = move("orders", 1, (2, 3), (4, 3))
REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True}


def cancelled(run: Run, scope: CancelScope = WHOLE) -> str:
    """Run all tasks of a cancel, and return its report."""
    cancel.stop(run.context, scope, by="bob")
    cancel.cancel_moves(run.context, scope)
    run.until_settled(scope)
    cancel.clear_after_stop(run.context, scope)
    return report_stop(run.context, scope)


def made_by_others(run: Run, partition: TopicPartition, *replicas: int) -> None:
    run.cluster.another_client().alter_reassignments({partition: replicas}, allow_replication_factor_change=True)
    run.cluster.catch_up_all()
    assert run.replicas()[str(partition)] == replicas


def damage_plan(run: Run) -> None:
    """All of it but the snapshot."""
    tables = [f for f in UPath(run.record.plan_uri).rglob("*") if f.is_file() and "snapshot" not in str(f)]
    assert tables
    for table in tables:
        table.write_bytes(b"damaged")
    forget_read_plans()


def of_run(run: Run, run_id: str) -> RunContext:
    """A task of a run of kafka_reassignment_cancel."""
    context = run.context
    return replace(context, actor=context.actor.model_copy(update={"run_id": run_id}))


def superseding(first: Run, reassignment, *batches, **request) -> Run:
    """Another reassignment that takes the place of the first one, up to its plan."""
    preflight(first.context_of(first.store.record(first.cluster_id, "second")), REQUEST | request, "bob")
    then = reassignment(*batches, reassignment_id="second", supersede=True, **request)
    take_snapshot(then.context, snapshot_of(then.record.plan_uri), as_if_cancelled=True)
    return then


def test_what_others_make_of_it_between_the_last_look_and_the_report_is_theirs(reassignment):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    run.until_settled(WHOLE)
    made_by_others(run, ORDERS_0, 1, 2, 3)
    cancel.clear_after_stop(run.context, WHOLE)
    report_stop(run.context, WHOLE)
    assert cancel.cancel_moves(run.context, WHOLE).settled == {}
    assert run.replicas()["orders-0"] == (1, 2, 3)


@pytest.mark.parametrize("left_to_others", [True, False])
def test_a_cancel_that_is_cleared_takes_back_nothing_that_was_made_since(reassignment, cluster, left_to_others):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    if left_to_others:
        cluster.another_client().alter_reassignments({ORDERS_1: None})
        cluster.another_client().alter_reassignments({ORDERS_1: (2, 3, 5)}, allow_replication_factor_change=True)
    cancelled(run)
    cluster.catch_up_all()
    made_by_others(run, ORDERS_0, 1, 2, 3)
    assert cancel.cancel_moves(run.context, WHOLE).settled == {}
    assert run.replicas()["orders-0"] == (1, 2, 3)


def test_a_resume_makes_what_was_settled_its_own_again(reassignment):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancelled(run)
    resume(run.context, by="ann")
    run.start()
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    assert set(run.replicas()["orders-0"]) == {1, 2, 3}
    cancelled(run)
    assert run.replicas() | {"orders-0": (1, 2), "orders-1": (2, 3)} == run.replicas()


def test_a_cancel_of_what_was_superseded_takes_back_nothing_that_its_successor_has_made(reassignment, cluster):
    """Which verify of the successor advises, where something else of it is half-way."""
    first = reassignment([TO_3, TO_4])
    first.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    then = superseding(first, reassignment, [move("orders", 0, (1, 3), (1, 3, 2))])
    cluster.fall_behind(ORDERS_1, 3)
    then.start()
    then.do_all()
    cluster.fall_behind(ORDERS_1, 3)
    with pytest.raises(VerificationError, match="orders-1 is as what was superseded has left it"):
        verify(then.context)
    cluster.catch_up_all()
    cancelled(first)
    assert then.replicas() | {"orders-0": (1, 3, 2), "orders-1": (2, 3)} == then.replicas()
    verify(then.context)


def test_an_old_cancel_of_what_was_superseded_takes_back_nothing_when_its_successor_has_ended(reassignment):
    first = reassignment([TO_4])
    first.do_all("admit", "set_throttle", "submit_batch")
    then = superseding(first, reassignment, [move("orders", 1, (2, 3), (2, 3, 4))])
    then.run_batches()
    then.finish()
    assert cancel.cancel_moves(first.context_of(first.record), WHOLE).settled == {}
    cancelled(first)
    assert then.replicas()["orders-1"] == (2, 3, 4)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_verify_takes_back_nothing_that_was_made_since_what_was_superseded_was_settled(reassignment, is_damaged):
    first = reassignment([TO_4])
    take_snapshot(first.context, snapshot_of(first.record.plan_uri))
    first.do_all("admit", "set_throttle", "submit_batch")
    then = superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])
    then.run_batches()
    assert then.replicas()["orders-1"] == (2, 3)
    made_by_others(then, ORDERS_1, 2, 3, 4)
    if is_damaged:
        damage_plan(first)
    then.finish()
    assert then.replicas()["orders-1"] == (2, 3, 4)


def test_a_stop_settles_what_was_superseded_though_a_later_batch_was_to_move_it(reassignment, cluster):
    """Its move is in flight, and cannot be cancelled until a broker is back."""
    first = reassignment([TO_4])
    first.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(2)
    batches = [move("orders", 2, (3, 1), (4, 1))], [move("orders", 1, (2, 3), (1, 3))]
    then = superseding(first, reassignment, *batches, allowed_unhealthy_partitions=100)
    then.start()
    assert list(cluster.list_reassignments()) == [ORDERS_1]
    then.do("submit_batch")
    cancel.stop(then.context, WHOLE, by="bob")
    seen = cancel.settle_moves(then.context, WHOLE, then.clock.now)
    assert "orders-1" in seen.reason
    cluster.restart(2)
    cluster.catch_up_all()
    then.until_settled(WHOLE)
    assert len(then.replicas()["orders-1"]) == 2


def test_a_roll_back_leaves_alone_what_was_withdrawn_before_its_batch(reassignment):
    run = reassignment([TO_3, TO_4])
    cancelled(run, CancelScope(("orders-0",)))
    run.run_batches()
    run.finish()
    made_by_others(run, ORDERS_0, 1, 2, 3)
    RollBack(run).go()
    assert run.replicas() | {"orders-0": (1, 2, 3), "orders-1": (2, 3)} == run.replicas()


def test_what_can_go_to_neither_end_any_more_is_named_by_the_report_of_the_successor(reassignment):
    """Seed 7202143. Another client has replaced a replica of both ends."""
    first = reassignment([TO_4])
    first.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    then = superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])
    made_by_others(then, ORDERS_1, 2, 4, 5)
    then.run_batches()
    then.finish()
    report = (then.record.read_file("report.txt") or b"").decode()
    assert "left as what was superseded has left it: orders-1: replicas 2,4,5; another client changed it" in report


@pytest.mark.parametrize("submitted", [False, True], ids=["never ran", "taken back"])
def test_a_roll_back_leaves_alone_what_is_back_already(reassignment, submitted):
    run = reassignment([move("orders", 0, (1, 2), (3, 4))], [TO_4])
    run.do_all(batch=1)
    if submitted:
        run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancelled(run)
    made_by_others(run, ORDERS_1, 2, 3, 4)
    RollBack(run).go()
    assert run.replicas() | {"orders-0": (1, 2), "orders-1": (2, 3, 4)} == run.replicas()


def test_a_roll_back_takes_back_what_came_after_a_stop_had_found_it_settled(reassignment):
    """Seed 12526207: after another controller had taken over, brokers showed for seconds what was before the drop."""
    run = reassignment([move("orders", 0, (1, 2), (2, 1)), move("orders", 2, (3, 1), (1, 3))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    run.until_settled(WHOLE)
    for partition, late in ((ORDERS_0, (2, 1)), (ORDERS_2, (1, 3))):
        run.cluster.alter_reassignments({partition: late})
    run.clock.sleep(1.0)
    run.do("clear_throttle")
    cancel.clear_after_stop(run.context, WHOLE)
    report_stop(run.context, WHOLE)
    RollBack(run).go()
    assert run.replicas() | {"orders-0": (1, 2), "orders-2": (3, 1)} == run.replicas()


def test_a_batch_ends_without_what_was_taken_out_of_it_and_moved_by_others_since(reassignment):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancelled(run, CancelScope(("orders-0",)))
    made_by_others(run, ORDERS_0, 1, 2, 3)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    cancelled(run, CancelScope(("orders-0",)))
    assert run.replicas() | {"orders-0": (1, 2, 3), "orders-1": (4, 3)} == run.replicas()


def test_what_is_cancelled_in_slices_stops_where_the_reassignment_is_resumed_in_between(
    reassignment, cluster, monkeypatch
):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="bob")
    monkeypatch.setattr(type(run.context.controller), "slice_size", 1)
    alter, resumed = cluster.alter_reassignments, []

    def resume_after_the_first(targets, **options):
        result = alter(targets, **options)
        if not resumed:
            resumed.append(targets)
            resume(run.context, by="ann")
        return result

    cluster.alter_reassignments = resume_after_the_first
    with pytest.raises(InvalidRequestError, match="is not stopped any more"):
        cancel.cancel_moves(run.context, WHOLE)
    assert len(cluster.list_reassignments()) == 1


def test_a_partition_that_another_client_alone_moves_is_cancelled_only_when_that_is_asked(reassignment, cluster):
    run = reassignment([TO_3, TO_4])
    cluster.another_client().alter_reassignments({ORDERS_2: (3, 4)})
    with pytest.raises(InvalidRequestError, match="does not move orders-2; another client does") as error:
        cancel.stop(run.context, CancelScope(("orders-2",)), by="bob")
    assert "set 'foreign'" in str(error.value.advice[0])
    cancelled(run, CancelScope(("orders-2",), foreign=True))
    assert not cluster.list_reassignments()


def test_a_cleared_stop_of_the_second_who_asked_stops_nothing_that_was_resumed_since(reassignment):
    run = reassignment([TO_3])
    for by in ("bob", "eve"):
        cancel.stop(of_run(run, by), WHOLE, by=by)
    resume(run.context, by="ann")
    for by in ("bob", "eve"):
        with pytest.raises(InvalidRequestError, match="is not stopped any more"):
            cancel.stop(of_run(run, by), WHOLE, by=by)
    assert run.record.stopped() is None
    cancel.stop(of_run(run, "carol"), WHOLE, by="carol")
    assert run.record.stopped() is not None
