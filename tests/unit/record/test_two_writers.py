"""Orderings of two writers, and faults of the store, after which the record or the lock must not say what is not so."""

from contextlib import suppress
from datetime import timedelta

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_fixtures import *  # noqa: F403 - fixtures are found by name
from tests.steps_lab import WHOLE, Run, StillWaiting, move, write_plan
from tests.unit.record.test_audit import NOON, event, log_in
from tests.unit.steps.left_open_lab import LATER, TO_4, TO_5, submitted_then_dead
from tests.unit.steps.test_lock import REQUEST, context
from tests.unit.steps.throttle_lab import delete_every_throttle, fall_behind
from upath import UPath

from kafka_reassignment.errors import (
    OtherAirflowError,
    OvertakenError,
    ReassignmentError,
    RecordDamagedError,
    RecordsMissingError,
    RecordUnavailableError,
)
from kafka_reassignment.model import Refusal, TopicPartition
from kafka_reassignment.record import audit
from kafka_reassignment.record.debts import CONNECTION, debts
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.approval import answered
from kafka_reassignment.steps.base.waiting import SizeSamples, Waiting
from kafka_reassignment.steps.batch import submit_batch
from kafka_reassignment.steps.catch_up import sense_isr_catch_up
from kafka_reassignment.steps.drop import drop_old_replicas
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop

pytestmark = pytest.mark.quick

MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


def free_cluster():
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    return cluster


def of_two_airflows(folder):
    """Two tries to begin one run id, of which the second finds out that the first one's request counts when it writes its own."""
    cluster = free_cluster()
    berlin, paris = (
        context(cluster, RecordStore(UPath(folder)), "maintenance__0", name) for name in ("berlin", "paris")
    )
    write = paris.record.write_request

    def after_berlin(recorded):
        berlin.record.write_request(recorded.model_copy(update={"instance": "berlin"}))
        return write(recorded)

    paris.record.write_request = after_berlin
    return berlin, paris


def test_of_two_airflows_that_begin_one_run_id_at_one_moment_the_one_whose_request_counts_gets_the_lock(tmp_path):
    berlin, paris = of_two_airflows(tmp_path)
    with pytest.raises(OtherAirflowError):
        preflight(paris, REQUEST, "cron")
    preflight(berlin, REQUEST, "cron")
    assert paris.store.lock_owner("fake-cluster").instance == "berlin"


def test_the_lock_of_such_a_race_is_freed_by_a_stop(tmp_path):
    berlin, paris = of_two_airflows(tmp_path)
    for run in (paris, berlin):
        with suppress(ReassignmentError):
            preflight(run, REQUEST, "cron")
    stopping = context(berlin.cluster, RecordStore(UPath(tmp_path)), "maintenance__0", "berlin")
    cancel.stop(stopping, WHOLE, by="bob")
    report_stop(stopping, WHOLE)
    assert stopping.store.lock_owner("fake-cluster") is None


def test_a_preflight_that_stood_still_until_its_plan_was_rejected_leaves_the_cluster_free(tmp_path):
    cluster, store = free_cluster(), RecordStore(UPath(tmp_path))
    slow = context(cluster, store)
    acquire = slow.store.acquire

    def late(*args, **options):
        del slow.store.acquire
        other = context(cluster, RecordStore(UPath(tmp_path)))
        preflight(other, REQUEST, "ann")
        other.record.freeze_plan(write_plan(other.record.plan_uri, [[MOVES[0]]], frozen_at=NOON))
        answered(other, approved=False, by="ann")
        assert other.store.lock_owner("fake-cluster") is None
        return acquire(*args, **options)

    slow.store.acquire = late
    with pytest.raises(OvertakenError):
        preflight(slow, REQUEST, "ann")
    assert RecordStore(UPath(tmp_path)).lock_owner("fake-cluster") is None


def test_a_stop_that_stood_still_right_before_it_releases_the_lock_does_not_take_it_from_what_was_resumed(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="bob")
    run.until_settled(WHOLE)
    late = run.context
    release = late.store.release

    def slow(*args, **options):
        resume(run.context, by="ann")
        assert run.start() == 1
        run.do_all("admit", "set_throttle", "submit_batch")
        return release(*args, **options)

    late.store.release = slow
    with suppress(ReassignmentError):
        report_stop(late, WHOLE)
    assert run.cluster.list_reassignments(), "its batch copies"
    assert run.store.lock_owner(run.cluster_id) is not None


def test_a_submission_does_not_hide_what_a_look_has_left_open_meanwhile(reassignment, cluster):
    run = reassignment([TO_4, TO_5], [LATER])
    submitted_then_dead(run, cluster)
    began = run.clock.now
    cluster.catch_up_all()
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    run.clock.now += timedelta(minutes=61)
    describe, seen = cluster.describe_configs, []

    def meanwhile(*args, **options):
        cluster.describe_configs = describe
        with suppress(StillWaiting):
            run.wait("sense_isr_catch_up", started_at=began)
        seen.append(run.record.submitted(1))
        return describe(*args, **options)

    cluster.describe_configs = meanwhile
    with suppress(OvertakenError):
        submit_batch(run.context, 1)
    [left] = seen
    assert set(left.left_open) == {"orders-0"}
    assert run.record.submitted(1).left_open == left.left_open


def test_no_event_is_written_while_the_store_refuses_the_head_of_the_one_before(tmp_path, monkeypatch):
    log_in(tmp_path).append(event("preflight"))

    def refuse(place, content):
        raise RecordUnavailableError("slow down")

    monkeypatch.setattr(audit, "write_object", refuse)
    log_in(tmp_path).append(event("verify"))
    with pytest.raises(RecordUnavailableError):
        log_in(tmp_path).append(event("report"))
    monkeypatch.undo()
    assert log_in(tmp_path).verify() == 2


def test_a_damaged_note_of_a_connection_keeps_no_other_debt_of_the_cluster_waiting(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    other = run.store.record(run.cluster_id, "in-flight")
    other.update_journal(lambda _: (run.record.journal(), None))
    other.write_file(CONNECTION, b"\xff\xfe\x00")
    assert "r" in debts(run.store, run.cluster_id).owing


def test_a_report_of_a_stop_that_stood_still_does_not_replace_that_all_is_settled_since_a_later_stop(tmp_path):
    record = RecordStore(UPath(tmp_path)).record("c", "r")
    for stopped in (True, False, True):
        record.run_commands.append(RunCommand(at=NOON, by="ann", stopped=stopped))
    record.settled.note_all(3)
    record.settled.note_all(1)
    assert record.settled.has_all()


class Refusing(FakeCluster):
    """Its controller refuses every request for a reason that passes, once it is told to."""

    refuses = False

    def alter_reassignments(self, targets, *args, **options):
        if self.refuses:
            return dict.fromkeys(targets, Refusal("REASSIGNMENT_IN_PROGRESS", "later"))
        return super().alter_reassignments(targets, *args, **options)


def test_a_drop_that_is_refused_again_and_again_leaves_no_events_at_each_look(tmp_path):
    cluster = Refusing(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2), (2, 3), (3, 1), (1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = Run(cluster, UPath(tmp_path), [MOVES])
    run.when_waiting = cluster.catch_up_all
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.refuses, began, before = True, run.clock.now, run.record.audit.last_number()
    for _ in range(30):
        with pytest.raises(StillWaiting):
            run.wait("drop_old_replicas", started_at=began)
    assert run.record.audit.last_number() - before <= 2


@pytest.mark.parametrize("step", ["admit", "sense_isr_catch_up", "drop_old_replicas"])
def test_a_trigger_whose_share_goes_away_between_two_looks_writes_nothing_and_does_not_end(
    reassignment, cluster, tmp_path, step
):
    run = reassignment(MOVES)
    if step != "admit":
        run.do_all("admit", "set_throttle", "submit_batch")
    if step == "drop_old_replicas":
        run.do_all("sense_isr_catch_up")
        fall_behind(cluster, MOVES[0].partition, 3)
    else:
        cluster.hold_back(MOVES[0].partition, 3)
    if step == "admit":
        cluster.another_client().alter_reassignments({TopicPartition("orders", 2): (3, 4)})
    kept, samples, began = run.context, SizeSamples(), run.clock.now

    def look():
        if step == "admit":
            return admit(kept, 1, samples, began)
        if step == "drop_old_replicas":
            return drop_old_replicas(kept, 1, began)
        return sense_isr_catch_up(kept, 1, began, samples)

    assert isinstance(look(), Waiting)
    folder = tmp_path / "fake-cluster"
    folder.rename(tmp_path.parent / f"{tmp_path.name}-mounted")
    delete_every_throttle(cluster)
    try:
        result = look()
    except ReassignmentError as error:
        result = error
    assert not folder.exists() or [str(p) for p in folder.rglob("*")] == []
    assert isinstance(result, Waiting | RecordsMissingError)


def test_a_rate_that_a_trigger_sets_while_its_share_is_away_is_restored_when_the_batch_ends(
    reassignment, cluster, tmp_path
):
    canaries = cluster.create_topic("canary", [(1, 2), (2, 3)])
    cluster.catch_up_all()
    run = reassignment(MOVES, auto_rate=True, canary_topic="canary")
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    kept, samples = run.context, SizeSamples()

    def look():
        run.clock.sleep(15)
        return sense_isr_catch_up(kept, 1, run.clock.now, samples)

    assert isinstance(look(), Waiting)
    mounted, away = tmp_path / "fake-cluster", tmp_path.parent / f"{tmp_path.name}-mounted"
    mounted.rename(away)
    cluster.slow_producers(canaries, 0.8)
    with suppress(ReassignmentError):
        look()
    if mounted.exists():
        mounted.rename(tmp_path.parent / f"{tmp_path.name}-below-the-mount-point")
    away.rename(mounted)
    cluster.slow_producers(canaries, None)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.journal().is_settled
    assert run.configs("orders") == before


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_damaged_order_of_what_was_superseded_keeps_no_stop_from_freeing_the_cluster(
    reassignment, cluster, is_damaged
):
    old = reassignment(MOVES)
    old.record.run_commands.append(RunCommand(at=old.clock.now, by="ann", stopped=True, superseded_by="new"))
    old.store.release(old.cluster_id, "r")
    new = Run(cluster, old.folder, [[LATER]], reassignment_id="new", clock=old.clock, supersede=True)
    new.when_waiting = cluster.catch_up_all
    new.record.note_superseded("r", new.clock.now)
    new.do_all("admit", "set_throttle", "submit_batch")
    if is_damaged:
        (old.record.root / "run-commands" / "000001.json").write_bytes(b"")
    with suppress(RecordDamagedError):
        new.stop_all()
    assert new.store.lock_owner(new.cluster_id) is None
