"""Two tries of one step at once: the first stands still right before a request, and goes on when the other one is done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.steps_lab import ProcessDiedError, StillWaiting, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1

from kafka_reassignment.decisions.throttle import LATEST_ARRIVAL
from kafka_reassignment.errors import BatchIncompleteError, OvertakenError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps.sweep import sweep

pytestmark = pytest.mark.quick

FROM_THROTTLE = ("set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
AT_TARGET = {"orders-0": (1, 3), "orders-1": (4, 3)}


@pytest.fixture
def run(reassignment):
    made = reassignment(MOVES)
    made.before = made.configs("orders")
    return made


def moved(run) -> dict[str, tuple[int, ...]]:
    return {p: r for p, r in run.replicas().items() if p in AT_TARGET}


def sweep_now(run):
    run.store.release(run.cluster_id, "r")
    return sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")


def test_a_throttle_that_is_set_after_the_batch_was_cleared_is_taken_back(run, held):
    run.do("admit")
    held("alter_configs", lambda: run.do_all(*FROM_THROTTLE))
    with pytest.raises(OvertakenError, match="taken back"):
        run.do("set_throttle")
    assert run.configs("orders") == run.before
    assert run.record.journal().is_over
    assert moved(run) == AT_TARGET


def test_a_throttle_whose_try_died_is_taken_back_by_the_sweep_when_it_arrives_after_the_batch_was_cleared(run, held):
    run.do("admit")
    held("alter_configs", lambda: run.do_all(*FROM_THROTTLE), dies=True)
    with pytest.raises(ProcessDiedError):
        run.do("set_throttle")
    assert run.configs("orders") != run.before
    assert run.record.journal().is_settled
    assert sweep_now(run).summaries == {"r": "earlier throttle values restored"}
    assert run.configs("orders") == run.before
    assert not run.record.journal().is_over, "the same request may have been sent twice"
    run.clock.now += LATEST_ARRIVAL + timedelta(seconds=1)
    sweep_now(run)
    assert run.record.journal().is_over
    assert sweep_now(run).summaries == {}


def test_an_expansion_that_arrives_when_its_batch_is_finished_is_cancelled_at_once(run, held, cluster):
    run.do_all("admit", "set_throttle")
    held(
        "alter_reassignments",
        lambda: run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle"),
    )
    with pytest.raises(OvertakenError, match="batch 1 is finished"):
        run.do("submit_batch")
    assert not cluster.list_reassignments()
    assert moved(run) == AT_TARGET, "in their order too"


def test_an_expansion_that_arrives_when_its_batch_is_dropped_is_cancelled_at_once(run, held, cluster):
    run.do_all("admit", "set_throttle")
    held("alter_reassignments", lambda: run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas"))
    with pytest.raises(OvertakenError, match="copies to broker 2 again"):
        run.do("submit_batch")
    assert not cluster.list_reassignments()
    assert moved(run) == AT_TARGET
    run.do("clear_throttle")
    assert run.record.submitted(1).left_out == {}


@pytest.mark.parametrize("cluster", [{"has_replication_factor_guard": False}], indirect=True, ids=["below Kafka 4.1"])
def test_the_order_is_put_back_where_metadata_shows_a_cancel_late(run, held, cluster, monkeypatch):
    run.do_all("admit", "set_throttle")
    alter = cluster.alter_reassignments

    def behind(targets, **options):
        """Metadata shows what was in flight before a cancel for a moment."""
        if None in targets.values():
            cluster.lag(0.25, "describe_partitions")
        return alter(targets, **options)

    monkeypatch.setattr(type(cluster), "alter_reassignments", lambda _, targets, **options: behind(targets, **options))
    held("alter_reassignments", lambda: run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas"))
    run.clock.on_sleep.append(lambda: cluster.advance(1))
    with pytest.raises(OvertakenError, match="copies to broker 2 again"):
        run.do("submit_batch")
    cluster.advance(1)
    assert moved(run) == AT_TARGET


def test_an_expansion_whose_try_died_is_cancelled_by_the_next_look_of_its_batch(run, held, cluster):
    run.do_all("admit", "set_throttle")
    held(
        "alter_reassignments", lambda: run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas"), dies=True
    )
    with pytest.raises(ProcessDiedError):
        run.do("submit_batch")
    assert cluster.list_reassignments()[ORDERS_0].adding == (2,)
    with pytest.raises(BatchIncompleteError):
        run.do("clear_throttle")
    assert not cluster.list_reassignments()
    assert {b for r in moved(run).values() for b in r} == {1, 3, 4}, "nothing was copied again"
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert moved(run) == AT_TARGET


def test_a_batch_that_another_try_has_submitted_is_not_submitted_again(run, held, cluster):
    """The look right before the request sees it, whatever the cluster showed."""
    run.do_all("admit", "set_throttle")
    held("describe_configs", lambda: run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas"))
    requests = len(cluster.altered)
    with pytest.raises(OvertakenError, match="was submitted at"):
        run.do("submit_batch")
    assert len(cluster.altered) == requests + 2, "those of the other try: its expansion and its drop"
    assert moved(run) == AT_TARGET


def test_a_drop_that_arrives_when_its_batch_was_rolled_back_is_cancelled_at_once(run, held, cluster):
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")

    def finished_and_rolled_back() -> None:
        run.do_all("drop_old_replicas", "clear_throttle")
        there = {ORDERS_0: (1, 2), ORDERS_1: (2, 3)}
        cluster.alter_reassignments(there)
        cluster.catch_up_all()

    held("alter_reassignments", finished_and_rolled_back)
    with pytest.raises(StillWaiting, match="batch 1 is finished"):
        run.do("drop_old_replicas")
    assert not cluster.list_reassignments()
    assert moved(run) == {"orders-0": (1, 2), "orders-1": (2, 3)}


@pytest.mark.parametrize("is_in_sync", [True, False])
def test_an_expansion_that_would_drop_what_another_client_has_just_added_is_cancelled(run, held, cluster, is_in_sync):
    run.do_all("admit", "set_throttle")

    def another_adds() -> None:
        cluster.another_client().alter_reassignments({ORDERS_0: (1, 2, 5)}, allow_replication_factor_change=True)
        if is_in_sync:
            cluster.catch_up(ORDERS_0)

    held("alter_reassignments", another_adds)
    run.do("submit_batch")
    assert "ours was cancelled, so that no replica is lost" in run.record.submitted(1).left_out["orders-0"]
    assert run.record.submitted(1).accepted == ("orders-1",)
    cluster.catch_up_all()
    assert set(moved(run)["orders-0"]) == {1, 2, 5}


def test_a_topic_that_is_made_anew_during_the_submission_is_left_out_and_the_rest_goes_on(reassignment, cluster, held):
    cluster.create_topic("payments", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = reassignment([move("payments", 0, (1, 2), (1, 3)), *MOVES])
    run.do_all("admit", "set_throttle")

    def made_anew() -> None:
        cluster.delete_topic("payments")
        cluster.create_topic("payments", [(4,)], size_bytes=1_000_000)

    held("alter_reassignments", made_anew)
    run.do("submit_batch")
    assert run.record.submitted(1).accepted == ("orders-0", "orders-1")
    assert "another client made it anew at the same moment" in run.record.submitted(1).left_out["payments-0"]
    assert TopicPartition("payments", 0) not in cluster.list_reassignments()
    assert run.replicas()["payments-0"] == (4,)
