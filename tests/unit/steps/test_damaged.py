"""A damaged record, or one of a newer version: final for its own reassignment, of no weight for the others."""

import json

import pytest
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.advice import ReleaseLock, Rerun
from kafka_reassignment.errors import RecordDamagedError, is_worth_a_retry
from kafka_reassignment.record.catalogue import catalogue
from kafka_reassignment.record.debts import debts
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps.clear import clear_throttle
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.sweep import sweep

pytestmark = pytest.mark.longer

MOVES = [move("orders", 0, (1, 2), (1, 3))]
REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10}


@pytest.fixture
def old(reassignment):
    """A reassignment that is over and has a throttle in place."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    run.store.release(run.cluster_id, "r")
    return run


def of_newer_version(file):
    found = json.loads(file.read_bytes())
    found["field_of_a_newer_version"] = 1
    file.write_bytes(json.dumps(found).encode())


def emptied(file):
    file.write_bytes(b"")


DAMAGES = {
    "a request of a newer version": ("request.json", of_newer_version),
    "an empty request": ("request.json", emptied),
    "a journal of a newer version": ("throttle-journal", of_newer_version),
    "an empty journal": ("throttle-journal", emptied),
}


def damage(run, which):
    name, how = DAMAGES[which]
    place = run.record.root / name
    how(max(place.iterdir(), key=str) if place.is_dir() else place)


@pytest.mark.parametrize("which", DAMAGES)
def test_a_damaged_record_of_another_reassignment_holds_nobody_up_and_is_named(old, which, caplog):
    damage(old, which)
    new = old.store.record(old.cluster_id, "new")
    preflight(old.context_of(new), REQUEST, "bob")
    assert old.store.lock_owner(old.cluster_id).reassignment_id == "new"
    if "journal" in which:
        assert "Its debts are not known" in caplog.text
        assert ".json is not a readable Journal" in caplog.text
        assert "throttle-journal" in str(debts(old.store, old.cluster_id).damaged_journals[0])
    else:
        assert any("request.json" in text for text in catalogue(old.store, old.cluster_id).unreadable)


@pytest.mark.parametrize("which", ["a request of a newer version", "an empty request"])
def test_what_a_reassignment_with_a_damaged_request_owes_is_paid_all_the_same(old, which):
    before = old.configs("orders")
    assert any("replication.throttled.rate" in key for values in before.values() for key in values)
    damage(old, which)
    sweep(old.context_of(old.store.record(old.cluster_id, "sweep")), by="cron")
    assert old.record.journal().is_settled
    assert debts(old.store, old.cluster_id).owing == ()


@pytest.mark.parametrize("name", ["progress.json", "sizes.json"])
@pytest.mark.parametrize("how", [of_newer_version, emptied])
def test_a_damaged_note_holds_nothing_up_since_the_next_look_replaces_it(reassignment, name, how):
    run = reassignment(MOVES)
    run.start()
    run.do_all("admit", "set_throttle", "submit_batch")
    how(run.record.root / name) if (run.record.root / name).exists() else emptied(run.record.root / name)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()


def test_after_a_damaged_lock_is_released_by_force_the_step_is_to_be_rerun(reassignment):
    run = reassignment(MOVES)
    emptied(max((run.record.root.parent / "lock").iterdir(), key=str))
    with pytest.raises(RecordDamagedError) as red:
        run.start()
    release, rerun = red.value.advice
    assert isinstance(release, ReleaseLock)
    assert rerun == Rerun("start_batches")


def test_a_sweep_goes_on_beside_a_damaged_journal(old, cluster):
    damage(old, "an empty journal")
    cluster.create_topic("payments", [(1, 2)], size_bytes=1_000)
    cluster.catch_up_all()
    other = Run(cluster, UPath(old.store._base), [[move("payments", 0, (1, 2), (1, 4))]], reassignment_id="other")
    other.do_all("admit", "set_throttle")
    other.store.release(other.cluster_id, "other")
    done = sweep(old.context_of(old.store.record(old.cluster_id, "sweep")), by="cron")
    assert list(done.summaries) == ["other"]
    assert ["throttle-journal" in str(error) for error in done.for_a_person] == [True]
    assert other.record.journal().is_settled


def test_a_debt_whose_payment_cannot_be_recorded_keeps_no_other_waiting(old, cluster):
    cluster.create_topic("payments", [(4, 5)], size_bytes=1_000)  # of other brokers: it takes over none of the debts
    cluster.catch_up_all()
    other = Run(cluster, UPath(old.store._base), [[move("payments", 0, (4, 5), (4, 6))]], reassignment_id="z")
    other.do_all("admit", "set_throttle")
    other.store.release(other.cluster_id, "z")
    emptied(old.record.root / "frozen.json")
    cluster.kill(3)  # so that the first one goes on owing
    done = sweep(old.context_of(old.store.record(old.cluster_id, "sweep")), by="cron")
    assert list(done.summaries) == ["z"]
    assert other.record.journal().is_settled
    assert done.left == ("r",)
    (error,) = done.for_a_person
    assert "frozen.json is not a readable FrozenPlan" in str(error)
    assert error.advice
    assert old.store.lock_owner(old.cluster_id) is None


@pytest.mark.parametrize("which", DAMAGES)
def test_a_damaged_object_of_its_own_is_final_and_nothing_is_changed(old, cluster, which):
    damage(old, which)
    old.store.acquire(old.cluster_id, ClusterLock(reassignment_id="r", since=old.clock.now, requested_by="ann"))
    changed = len(cluster.altered)
    steps = (lambda: old.do("submit_batch"), lambda: clear_throttle(old.context, 1))
    for step in steps:
        with pytest.raises(RecordDamagedError) as error:
            step()
        assert not is_worth_a_retry(error.value)
        assert error.value.advice
    assert len(cluster.altered) == changed
