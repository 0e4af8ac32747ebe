"""What a mend must not break: the lock, the throttle of what is left out, a cancel with foreign, files of the version before."""

from contextlib import suppress
from dataclasses import replace

import pytest
from tests.steps_lab import WHOLE, move
from tests.unit.steps.left_open_lab import LATER, TO_4, TO_5, leave_open, pass_minutes
from tests.unit.steps.test_changed_by_others import begun_by_others
from tests.unit.steps.test_cut_again_on_the_way import ELSEWHERE, ON, UP
from tests.unit.steps.test_roll_back import RollBack
from tests.unit.steps.test_settled import cancelled
from tests.unit.steps.throttle_lab import (
    MOVES,
    ORDERS_0,
    at_full_speed,
    delete_every_throttle,
    fall_behind,
    rate,
    set_by_hand,
)

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE
from kafka_reassignment.errors import ReassignmentError, RecordDamagedError, VerificationError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped import settle
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer


@pytest.mark.parametrize("by_version_before", [False, True])
def test_what_the_version_before_has_taken_back_is_moved_from_the_start_by_a_resume(
    reassignment, cluster, monkeypatch, by_version_before
):
    """The version is replaced between two tasks of kafka_reassignment_cancel."""
    run = reassignment([UP], [ELSEWHERE], [ON])
    run.do_all(batch=1)
    assert next_batch(run.context, 1) == 2
    with monkeypatch.context() as patch:
        if by_version_before:
            patch.setattr(settle, "note_taken_back", lambda *_: None)
            run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=True))
        cancel.stop(run.context, WHOLE, by="bob")
        cancel.cancel_moves(run.context, WHOLE)
    run.until_settled(WHOLE)
    cancel.clear_after_stop(run.context, WHOLE)
    report_stop(run.context, WHOLE)
    assert run.replicas()["orders-0"] == (1, 2)
    resume(run.context, by="ann")
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (1, 2, 3, 4)


def test_a_cancel_with_foreign_ends_our_own_move_of_what_was_freed_before(reassignment, cluster):
    run = reassignment(MOVES)
    scope = CancelScope(("orders-0",), foreign=True)
    begun_by_others(run, ORDERS_0, 1, 5)
    cancel.stop(run.context, scope, by="bob")
    cancel.cancel_moves(run.context, scope)
    assert not cluster.list_reassignments()
    run.do_all("admit", "set_throttle", "submit_batch")
    assert ORDERS_0 in cluster.list_reassignments()
    run.stop_all(scope)
    assert ORDERS_0 not in cluster.list_reassignments()


def test_a_start_that_stood_still_does_not_keep_a_stopped_reassignment_locked(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    late = run.context
    acquire = late.store.acquire
    stopping = run.context
    release = stopping.store.release

    def stop_meanwhile(*args, **options):
        cancel.stop(run.context, WHOLE, by="bob")
        run.until_settled(WHOLE)
        cancel.clear_after_stop(run.context, WHOLE)

        def late_start(*its, **how):
            stopping.store.release = release
            answers.append(acquire(*args, **options))
            return release(*its, **how)

        answers = []
        stopping.store.release = late_start
        text = report_stop(stopping, WHOLE)
        assert "the cluster is free" in text or run.store.lock_owner(run.cluster_id) is None
        return answers[0]

    late.store.acquire = stop_meanwhile
    with suppress(ReassignmentError):
        first_batch(late)
    assert run.store.lock_owner(run.cluster_id) is None


@pytest.mark.parametrize("earlier", [None, 90_000_000])
def test_what_a_clear_puts_back_is_set_also_where_brokers_show_it_still(reassignment, cluster, earlier):
    """A broker shows for four seconds what it had: what was just taken away looks as if it were there."""
    set_by_hand(cluster, 3, earlier)
    run = reassignment(MOVES)
    slept = [run.clock.now]

    def by_the_same_clock():
        cluster.advance((run.clock.now - slept.pop()).total_seconds())
        slept.append(run.clock.now)

    run.do_all("admit", "set_throttle")
    run.store.release(run.cluster_id, "r")
    cluster.produce(ORDERS_0, messages=1, size_bytes=50_000_000_000)
    cluster.catch_up_all()
    slept[0] = run.clock.now
    run.clock.on_sleep.append(by_the_same_clock)
    alter = cluster.alter_configs

    def altered(changes):
        cluster.alter_configs = alter
        cluster.lag(4, "describe_configs")
        replies = alter(changes)
        cluster.alter_reassignments(
            {ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True
        )  # a late request of ours
        return replies

    cluster.alter_configs = altered
    sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert cluster.copying()
    assert not at_full_speed(cluster)
    run.clock.on_sleep.clear()
    cluster.catch_up_all()
    cluster.advance(10)
    for _ in range(2):
        sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert not run.record.journal().rates
    assert rate(run, 3, FOLLOWER_RATE) == earlier


@pytest.mark.parametrize("why", ["its broker is dead", "another client has changed it"])
def test_what_fell_behind_keeps_its_throttle_though_a_later_step_of_it_is_left_out(reassignment, cluster, why):
    first = replace(move("orders", 0, (1, 2), (1, 3)), step=1, steps=2)
    last = replace(move("orders", 0, (1, 3), (4, 3)), step=2, steps=2)
    run = reassignment([first], [last, move("orders", 1, (2, 3), (5, 3))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    fall_behind(cluster, ORDERS_0, 3)
    run.do("clear_throttle")
    assert not at_full_speed(cluster), "kept"
    assert next_batch(run.context, 1) == 2
    if why == "its broker is dead":
        cluster.kill(4)
    else:
        cluster.another_client().alter_reassignments({ORDERS_0: (1, 3, 4)}, allow_replication_factor_change=True)
        cluster.catch_up(ORDERS_0, 4)
    for step in ("admit", "set_throttle", "submit_batch"):
        run.do(step, 2)
    assert "orders-0" in run.record.submitted(2).left_out
    cluster.catch_up(TopicPartition("orders", 1), 5)
    for step in ("sense_isr_catch_up", "drop_old_replicas", "clear_throttle"):
        run.do(step, 2)
    assert cluster.copying()
    assert not at_full_speed(cluster)


def test_what_fell_behind_keeps_its_throttle_though_the_next_reassignment_leaves_it_out(chain, cluster):
    earlier = chain([move("orders", 0, (1, 2), (1, 3))])
    earlier.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    fall_behind(cluster, ORDERS_0, 3)
    earlier.do("clear_throttle")
    with pytest.raises(VerificationError):
        verify(earlier.context)
    run = chain([move("orders", 0, (1, 3), (4, 3)), move("orders", 1, (2, 3), (5, 3))], reassignment_id="later")
    run.start()
    assert run.record.journal().lists, "taken over"
    cluster.kill(4)
    for step in ("admit", "set_throttle", "submit_batch"):
        run.do(step)
    assert "orders-0" in run.record.submitted(1).left_out
    cluster.catch_up(TopicPartition("orders", 1), 5)
    for step in ("sense_isr_catch_up", "drop_old_replicas", "clear_throttle"):
        run.do(step)
    assert cluster.copying()
    assert not at_full_speed(cluster)


def test_what_was_left_open_and_carried_on_to_its_target_by_a_stop_is_rolled_back(reassignment, cluster):
    run = pass_minutes(reassignment([TO_4, TO_5], [LATER]), cluster)
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    cluster.restart(4)
    cluster.catch_up_all()
    cluster.kill(2)
    cancelled(run)
    assert run.replicas()["orders-0"] == (1, 4)
    cluster.restart(2)
    cluster.catch_up_all()
    resume(run.context, by="ann")
    run.run_batches()
    run.finish()
    RollBack(run).go()
    assert run.replicas() == {"orders-0": (1, 2), "orders-1": (2, 3), "orders-2": (3, 1), "orders-3": (1, 2)}


def test_a_sweep_is_red_where_the_request_of_what_copies_is_damaged(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    (run.record.root / "request.json").write_bytes(b"")
    delete_every_throttle(cluster)
    with pytest.raises(RecordDamagedError):
        sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert at_full_speed(cluster)
