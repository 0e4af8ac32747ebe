"""The lock of a cluster: one owner at a time, whatever is written in between."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from upath import UPath

from kafka_reassignment.advice import ReleaseLock, Rerun, WaitUntil
from kafka_reassignment.errors import (
    LockedForSecondsError,
    ReassignmentInProgressError,
    RecordDamagedError,
    is_worth_a_retry,
)
from kafka_reassignment.record import objects
from kafka_reassignment.record.lock import LockSeries
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.objects import create_object, path_part
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import ReassignmentRequest

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["file", "memory"])
def base(request, tmp_path):
    return UPath(f"file://{tmp_path}" if request.param == "file" else f"memory://{tmp_path.name}")


@pytest.fixture
def store(base):
    return RecordStore(base)


def lock(reassignment, instance=""):
    return ClusterLock(reassignment_id=reassignment, since=NOON, requested_by="ann", instance=instance)


class Interrupted(RecordStore):
    """Another owner acts right after the first look at the lock."""

    def __init__(self, base, act):
        super().__init__(base)
        self.act = act

    def lock(self, cluster_id):
        store = self

        class Series(LockSeries):
            def last(self):
                seen = super().last()
                act, store.act = store.act, None
                if act:
                    act()
                return seen

        return Series(self._base / path_part(cluster_id), cluster_id)


def test_a_release_does_not_release_the_lock_that_another_took_in_between(base, store):
    store.acquire("c", lock("a"))

    def supersede():
        store.acquire("c", lock("b"), instead_of=lock("a"))

    assert not Interrupted(base, supersede).release("c", "a")
    assert store.lock_owner("c").reassignment_id == "b"
    with pytest.raises(ReassignmentInProgressError):
        store.acquire("c", lock("third"))


def test_of_two_that_see_the_cluster_free_one_gets_the_lock(base, store):
    with pytest.raises(ReassignmentInProgressError, match="locked by reassignment b"):
        Interrupted(base, lambda: store.acquire("c", lock("b"))).acquire("c", lock("a"))
    assert store.lock_owner("c").reassignment_id == "b"


def test_many_at_once_never_have_it_together(tmp_path):
    having: list[str] = []

    def use(name):
        store, turns = RecordStore(UPath(tmp_path)), 0
        while turns < 5:
            try:
                store.acquire("c", lock(name))
            except ReassignmentInProgressError:
                continue
            having.append(name)
            assert having == [name]
            having.remove(name)
            assert store.release("c", name)
            turns += 1

    with ThreadPoolExecutor(4) as users:
        list(users.map(use, ["a", "b", "c", "d"]))
    assert len(list((tmp_path / "c" / "lock").iterdir())) == 40, "nothing of it is ever removed"


def test_the_same_id_in_another_airflow_is_another_reassignment(store):
    store.acquire("c", lock("scheduled__0", "berlin"))
    with pytest.raises(ReassignmentInProgressError, match="of the Airflow berlin"):
        store.acquire("c", lock("scheduled__0", "paris"))
    assert not store.release("c", "scheduled__0", instance="paris")
    assert store.release("c", "scheduled__0", instance="berlin")


def test_a_lock_for_some_seconds_is_worth_a_retry_and_that_of_a_reassignment_is_not(store):
    """Airflow's retries outlast a sweep; a reassignment takes hours, so its refusal is red at once."""
    store.acquire("c", lock("kafka_throttle_sweep__x"))
    with pytest.raises(LockedForSecondsError) as refused:
        store.acquire("c", lock("a"))
    assert is_worth_a_retry(refused.value)
    request = ReassignmentRequest(job="rebalance", throttle_mb_per_second=1)
    store.record("c", "kafka_throttle_sweep__x").write_request(
        RecordedRequest(cluster_id="c", reassignment_id="r", started_at=NOON, requested_by="ann", request=request)
    )
    with pytest.raises(ReassignmentInProgressError) as refused:
        store.acquire("c", lock("a"))
    assert not is_worth_a_retry(refused.value)


OWN_NAMES = ["lock", "lock.json", "LOCK", "Lock.json", "hold.json", "Hold.json", "audit-heads"]
"""What a cluster's folder has, or had in earlier versions, beside its reassignments."""


@pytest.mark.parametrize("name", OWN_NAMES)
def test_no_run_id_leads_to_the_lock(store, name):
    store.acquire("c", lock(name))
    root = store.record("c", name).root
    assert root.name.lower() not in {"lock", "lock.json", "hold.json", "audit-heads"}
    store.record("c", name).write_file("x", b"1")
    assert store.release("c", name)
    assert store.lock_owner("c") is None


def test_the_lock_of_an_earlier_version_is_honoured_and_released_by_the_next_object(base, store):
    (base / "c").mkdir(parents=True, exist_ok=True)
    earlier = base / "c" / "lock.json"
    earlier.write_text('{"reassignment_id": "old", "since": "2026-01-01T12:00:00Z", "requested_by": "ann"}')
    with pytest.raises(ReassignmentInProgressError, match="locked by reassignment old, asked for by ann"):
        store.acquire("c", lock("new"))
    assert store.acquire("c", lock("old", "berlin")).requested_by == "ann"
    assert store.release("c", "old", instance="berlin")
    assert store.lock_owner("c") is None
    assert earlier.exists()
    assert store.acquire("c", lock("new")).reassignment_id == "new"


@pytest.mark.parametrize("content", [b"", b"{", b'{"owner": 7}'])
def test_a_damaged_lock_locks_until_it_is_released_by_force(store, content):
    store.acquire("c", lock("a"))
    (store._base / "c" / "lock" / "000001.json").write_bytes(content)
    store = RecordStore(store._base)  # of another process
    for touch in (
        lambda: store.lock_owner("c"),
        lambda: store.acquire("c", lock("b")),
        lambda: store.release("c", "a"),
    ):
        with pytest.raises(RecordDamagedError) as damaged:
            touch()
        assert damaged.value.advice == (ReleaseLock("c", number=1),)
        assert "kafka-reassignment lock release c --force --number 1" in str(damaged.value)
    assert not store.release_by_force("c", 0, at=NOON, by="ann")
    assert store.release_by_force("c", 1, at=NOON, by="ann")
    assert store.acquire("c", lock("b")).reassignment_id == "b"


def test_whoever_is_refused_is_told_what_to_wait_for(store):
    store.acquire("c", lock("sweep"))
    with pytest.raises(ReassignmentInProgressError) as refused:
        store.acquire("c", lock("b"), then=[Rerun("preflight")])
    assert refused.value.advice == (
        WaitUntil("sweep has ended"),
        ReleaseLock("c", "sweep"),
        Rerun("preflight"),
    )


def test_a_release_whose_answer_was_lost_is_known_to_have_released(store, monkeypatch):
    """The client of an object store repeats the request, which the store refuses then."""

    def answer_lost(path, content):
        create_object(path, content)
        return create_object(path, content)

    monkeypatch.setattr(objects, "create_object", answer_lost)
    store.acquire("c", lock("one"))
    assert store.release("c", "one", at=NOON, by="ann")
    assert store.lock_owner("c") is None
    store.acquire("c", lock("two"))
    assert store.release_by_force("c", 3, at=NOON, by="ann")
    assert not store.release("c", "two", at=NOON, by="ann")
