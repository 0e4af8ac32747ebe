"""A store that is away for a while: steps fail with an error that a retry outlasts, and nothing is lost."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.record_stores.conftest import running
from tests.steps_lab import Run, StillWaiting, move

from kafka_reassignment.errors import RecordUnavailableError, is_worth_a_retry
from kafka_reassignment.plan.store import forget_read_plans
from kafka_reassignment.plan.tables import read_table
from kafka_reassignment.record.objects import create_object, names_in, read_object, write_object
from kafka_reassignment.steps.batch import BATCH_STEPS


@pytest.fixture(
    scope="module",
    params=[
        "s3",
        pytest.param("gs", marks=pytest.mark.slow),  # gcsfs tries for half a minute before it gives up
        pytest.param("abfs", marks=pytest.mark.slow),  # Azure's client for one and a half
    ],
)
def server(request):
    with running(request.param) as started:
        yield started


@pytest.fixture
def door(base):
    """The way to the store, which can be closed."""
    yield base.server.door
    if base.server.door.is_closed:
        base.server.door.open()


@pytest.mark.parametrize(
    "act",
    [
        lambda base: write_object(base.folder / "a", b"2"),
        lambda base: create_object(base.folder / "b", b"2"),
        lambda base: read_object(base.folder / "a"),
        lambda base: names_in(base.folder),
        lambda base: read_table(f"{base.uri}/steps"),
    ],
    ids=["write", "create", "read", "list", "table"],
)
def test_what_is_asked_of_a_store_that_is_away_fails_and_is_worth_a_retry(base, door, act):
    write_object(base.folder / "a", b"1")
    door.close()
    with pytest.raises(RecordUnavailableError) as raised:
        act(base)
    assert is_worth_a_retry(raised.value)
    door.open()
    assert read_object(base.folder / "a") == b"1"
    assert names_in(base.folder) == ["a"]


@pytest.mark.timeout(1800)
def test_a_reassignment_whose_store_is_away_before_each_step_ends_as_if_it_had_not_been(base, door):
    cluster = FakeCluster(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = Run(cluster, base.folder, [[move("orders", 0, (1, 2), (1, 3))]])
    run.when_waiting = cluster.catch_up_all
    before = run.configs("orders")
    for step in BATCH_STEPS[:-1]:
        door.close()
        forget_read_plans()
        with pytest.raises((RecordUnavailableError, StillWaiting), match=r"Cannot (read|list|create|write) \w+://"):
            run.do(step)  # the step that senses waits, the others fail with what is worth a retry, as above
        door.open()
        run.do_all(step)
    run.finish()
    assert run.replicas() == {"orders-0": (1, 3)}
    assert run.configs("orders") == before
    record = base.store.record(run.cluster_id, run.reassignment_id)
    assert record.verify_audit() >= len(BATCH_STEPS)
    assert [e.step for e in record.audit if e.batch == 1 and e.outcome != "begun"] == list(BATCH_STEPS[:-1])
