"""A try stands still between its look and what it does, for minutes or for hours, while its reassignment is stopped, replaced or resumed."""

from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.errors import InvalidRequestError, OvertakenError, StoppedError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps import batch as batch_step
from kafka_reassignment.steps import catch_up, chain, clear, report, supersede, throttle_in_flight
from kafka_reassignment.steps import preflight as preflight_step
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.cancel import cancel_moves, clear_after_stop, settle_moves, stop
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped import settle
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.quick

REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10}
WHOLE = CancelScope()
FIRST = move("orders", 0, (1, 2), (1, 3))
SECOND = move("orders", 1, (2, 3), (1, 3))
ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def stands_still(monkeypatch):
    """Let a step stand still where it calls a function next, ``before`` it and ``after`` it, until something else is done."""

    def hold(where, name, *, before=lambda: None, after=lambda: None):
        real = getattr(where, name)

        def held(*args, **options):
            monkeypatch.setattr(where, name, real)
            before()
            found = real(*args, **options)
            after()
            return found

        monkeypatch.setattr(where, name, held)

    return hold


@pytest.fixture
def another(cluster, tmp_path):
    """Return what makes another reassignment on the same record store, and takes the lock, when it is called first."""

    def later(first, *moves, **request):
        @cache
        def make():
            run = Run(cluster, UPath(tmp_path), [list(moves)], reassignment_id="second", clock=first.clock, **request)
            run.when_waiting = cluster.catch_up_all
            return run

        return make

    return later


def set_values(run):
    shown = {str(r): {k: v.value for k, v in its.items() if v.value} for r, its in run.configs("orders").items()}
    return {r: its for r, its in shown.items() if its}


def test_a_throttle_whose_try_goes_on_more_than_an_hour_after_it_was_cleared_is_not_set(reassignment, monkeypatch):
    """The journal had forgotten the setting by then, and the throttle stayed for good, in no journal."""
    run = reassignment([FIRST])
    run.do("admit")
    context = run.context
    real = context.record.update_journal

    def held(change):
        stored = real(change)
        monkeypatch.setattr(context.record, "update_journal", real)
        run.do_all("set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
        run.clock.now += timedelta(minutes=70)
        run.do("clear_throttle")
        run.finish()
        return stored

    monkeypatch.setattr(context.record, "update_journal", held)
    with pytest.raises(OvertakenError, match="was cleared while it was set"):
        batch_step.set_throttle(context, 1)
    assert set_values(run) == {}
    assert run.record.journal().is_over


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "in flight"])
def test_an_old_look_at_what_is_stopped_undoes_nothing_of_a_later_reassignment(
    reassignment, another, stands_still, cluster, is_finished
):
    run = reassignment([move("orders", 0, (1, 2), (3, 2))])
    run.do_all("admit", "set_throttle", "submit_batch")
    second = another(run, move("orders", 0, (1, 2), (1, 2, 3)))
    stop(run.context, WHOLE, by="bob")

    def meanwhile():
        run.stop_all()
        second().do_all("admit", "set_throttle", "submit_batch")
        if is_finished:
            second().do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
            second().finish()

    stands_still(settle, "confirmed_view", before=meanwhile)
    settle_moves(run.context, WHOLE, run.clock.now)
    assert bool(cluster.list_reassignments()) is not is_finished
    if not is_finished:
        second().do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
        second().finish()
    assert run.replicas()["orders-0"] == (1, 2, 3)


def test_a_late_start_of_a_successor_cancels_nothing_that_its_own_batch_has_begun(
    reassignment, another, stands_still, cluster
):
    old = reassignment([FIRST])
    old.do_all("admit", "set_throttle", "submit_batch")
    old.store.release(old.cluster_id, "r")
    run = another(old, FIRST, supersede=True)()
    run.record.note_superseded("r", run.clock.now)
    old.record.run_commands.append(
        RunCommand(at=run.clock.now, by="ann", run_id="x", stopped=True, reason="superseded", superseded_by="second")
    )

    def meanwhile():
        run.start()
        run.do_all("admit", "set_throttle", "submit_batch")

    stands_still(supersede, "read_targets_of", before=meanwhile)
    first_batch(run.context)
    assert set(cluster.list_reassignments()) == {ORDERS_0}
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert run.replicas()["orders-0"] == (1, 3)


@pytest.mark.parametrize("is_stopped_again", [False, True], ids=["goes on", "is stopped again"])
def test_a_late_look_takes_nothing_for_another_clients_that_was_stopped_and_submitted_again(
    reassignment, stands_still, cluster, is_stopped_again
):
    run = reassignment([FIRST, SECOND])
    run.do_all("admit", "set_throttle", "submit_batch")

    def resumed():
        run.until_settled(WHOLE)
        clear_after_stop(run.context, WHOLE)
        report_stop(run.context, WHOLE)
        run.clock.now += timedelta(minutes=5)
        resume(run.context, by="ann")
        run.start()
        run.do_all("admit", "set_throttle", "submit_batch")

    def stopped():
        stop(run.context, WHOLE, by="bob")
        cancel_moves(run.context, WHOLE)

    stands_still(catch_up, "confirmed_view", before=stopped, after=resumed)
    assert "has overtaken this one" in run.look("sense_isr_catch_up").reason
    assert run.record.submitted(1).left_out == {}
    assert len(cluster.list_reassignments()) == 2
    if is_stopped_again:
        run.stop_all()
        assert (run.replicas()["orders-0"], run.replicas()["orders-1"]) == ((1, 2), (2, 3))
        assert not cluster.list_reassignments()
        assert set_values(run) == {}
        return
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert (run.replicas()["orders-0"], run.replicas()["orders-1"]) == ((1, 3), (1, 3))


def test_a_throttle_is_not_set_under_another_reassignment_nor_are_its_debts_taken_over(
    reassignment, another, stands_still
):
    run = reassignment([FIRST])
    run.do("admit")
    second = another(run, SECOND, throttle_mb_per_second=50)

    def meanwhile():
        run.stop_all()
        second().do_all("admit", "set_throttle", "submit_batch")

    stands_still(batch_step, "observe_replicas", after=meanwhile)
    context = run.context
    with pytest.raises(OvertakenError, match="another reassignment has the lock"):
        batch_step.set_throttle(context, 1)
    assert run.record.journal().is_settled
    assert set_values(run)["broker 2"] == {"leader.replication.throttled.rate": "50000000"}
    second().do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    second().finish()
    assert set_values(run) == {}


def test_a_throttle_of_what_is_in_flight_takes_no_debts_over_without_the_lock(
    reassignment, another, stands_still, cluster
):
    run = reassignment([SECOND], throttle_mb_per_second=50)
    run.store.release(run.cluster_id, "r")
    cluster.another_client().alter_reassignments({ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True)
    context = run.context_of(run.store.record(run.cluster_id, "throttle"))

    def freed_by_force():
        run.clock.now += timedelta(minutes=70)
        number, _ = run.store.lock(run.cluster_id).last()
        assert run.store.release_by_force(run.cluster_id, number, at=run.clock.now, by="ann")
        run.start()
        run.do("set_throttle")
        seen.append(set_values(run))

    seen = []
    stands_still(throttle_in_flight, "note_connection", before=freed_by_force)
    with pytest.raises(OvertakenError, match="another reassignment has the lock"):
        throttle_in_flight.throttle_in_flight(
            context, WHOLE, kafka_conn_id="k", asked_bytes_per_second=5_000_000, allow_low=False, by="bob"
        )
    assert seen == [set_values(run)]
    assert run.record.journal().rates


def test_debts_that_another_try_has_taken_over_and_paid_are_not_taken_over_once_more(
    reassignment, another, monkeypatch, cluster
):
    """They were owed again, and the sweep took another client's rate away."""
    run = reassignment([FIRST])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    run.store.release(run.cluster_id, "r")
    second = another(run, SECOND)
    context = second().context
    real = context.record.update_journal
    rate = ConfigChange(
        ConfigResource.broker(3), "follower.replication.throttled.rate", ConfigOperation.SET, "10000000"
    )

    def held(change):
        monkeypatch.setattr(context.record, "update_journal", real)
        second().start()
        second().do_all()
        second().finish()
        cluster.another_client().alter_configs([rate])
        return real(change)

    monkeypatch.setattr(context.record, "update_journal", held)
    first_batch(context)
    assert second().record.journal().is_over
    second().store.release(second().cluster_id, "second")
    run.clock.now += timedelta(hours=2)
    sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert set_values(run) == {"broker 3": {rate.key: "10000000"}}


def test_a_submission_that_came_too_late_cancels_nothing_that_the_owner_of_the_lock_has_begun(
    reassignment, another, cluster, monkeypatch
):
    run = reassignment([FIRST])
    run.do_all("admit", "set_throttle")
    second = another(run, FIRST)
    real = cluster.alter_reassignments

    def held(*args, **options):
        answer = real(*args, **options)
        monkeypatch.setattr(cluster, "alter_reassignments", real)
        run.stop_all()
        second().do_all("admit", "set_throttle", "submit_batch")
        return answer

    monkeypatch.setattr(cluster, "alter_reassignments", held)
    with pytest.raises(StoppedError):
        run.do("submit_batch")
    assert set(cluster.list_reassignments()) == {ORDERS_0}
    second().do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    second().finish()
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_late_clear_does_not_finish_a_batch_that_was_rolled_back_and_copies_again(
    reassignment, another, stands_still, cluster
):
    run = reassignment([FIRST], [SECOND])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    back = another(run, move("orders", 0, (1, 3), (1, 2)))

    def meanwhile():
        run.stop_all()
        back().do_all()
        back().finish()
        run.clock.now += timedelta(minutes=1)
        resume(run.context, by="ann")
        run.start()
        run.do_all("admit", "set_throttle", "submit_batch")

    stands_still(clear, "confirmed_view", after=meanwhile)
    with pytest.raises(OvertakenError, match="submitted again since"):
        run.do("clear_throttle")
    assert run.record.finished(1) is None
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.do_all(batch=2)
    run.finish()
    assert (run.replicas()["orders-0"], run.replicas()["orders-1"]) == ((1, 3), (1, 3))


def test_a_late_report_is_not_written_of_what_was_stopped_meanwhile(reassignment, stands_still):
    run = reassignment([FIRST])
    run.run_batches()
    elect_leaders(run.context)
    verify(run.context)
    stands_still(report, "split_owed", before=run.stop_all)
    with pytest.raises(StoppedError):
        report.write_report(run.context)
    assert not run.record.is_reported


def ends_well(run):
    run.do_all()
    run.finish()


def ends_by_a_stop(run):
    stop(run.context, WHOLE, by="ann")
    run.settle(WHOLE)
    report_stop(run.context, WHOLE)


@pytest.mark.parametrize(
    ("where", "after", "again"),
    [
        (preflight_step, "refuse_stopped", lambda context: preflight_step.preflight(context, REQUEST, "ann")),
        (chain, "refuse_unapproved", chain.first_batch),
    ],
    ids=["preflight", "start_batches"],
)
@pytest.mark.parametrize(("ends", "error"), [(ends_well, OvertakenError), (ends_by_a_stop, StoppedError)])
def test_a_try_that_locks_the_cluster_when_its_reassignment_is_over_unlocks_it_again(
    reassignment, cluster, stands_still, where, after, again, ends, error
):
    """Nobody else would: every other reassignment waited for the end of one that had ended."""
    run = reassignment([FIRST], **REQUEST)
    run.when_waiting = cluster.catch_up_all
    in_one = replace(run.context, has_task=lambda task_id: task_id != "start_batches")
    stands_still(where, after, after=lambda: ends(run))
    with pytest.raises(error):
        again(in_one)
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_late_preflight_supersedes_only_whom_it_was_asked_to(reassignment, another, stands_still):
    """The first reassignment ends while it stands still, and another one has begun since."""
    first = reassignment([FIRST])
    late = first.context_of(first.store.record(first.cluster_id, "late"))
    second, asked_at = another(first, SECOND), first.clock.now

    def meanwhile():
        first.store.release(first.cluster_id, "r")
        first.clock.sleep(600)
        second()

    stands_still(preflight_step, "check_health", after=meanwhile)
    with pytest.raises(InvalidRequestError, match="second, which has the lock of cluster .* Nothing was stopped"):
        preflight_step.preflight(late, REQUEST | {"supersede": True}, "bob", asked_at=asked_at)
    assert first.record.stopped() is None
    assert second().record.stopped() is None
