"""What leaves a batch and what does not: refusals, stale partitions, other clients' moves, deletions, and our own stop."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import StillWaiting, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1

from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.errors import (
    NotSubmittedError,
    OvertakenError,
    PolicyViolationError,
    VerificationError,
)
from kafka_reassignment.model import Reassignment, Refusal, TopicPartition
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job
from kafka_reassignment.steps import cancel, found
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.left.left_out import submission
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer


class PolicedCluster(FakeCluster):
    """Its policy refuses some partitions, as KIP-179 foresees."""

    refused: frozenset[TopicPartition] = frozenset()

    def alter_reassignments(self, targets, **options):
        refusals = {p: Refusal("POLICY_VIOLATION", "not on a Friday") for p in targets if p in self.refused}
        allowed = {p: t for p, t in targets.items() if p not in refusals}
        replies = super().alter_reassignments(allowed, **options)
        return replies | refusals


@pytest.fixture
def policed(cluster):
    cluster.__class__ = PolicedCluster
    return cluster


def test_a_partition_the_controller_refuses_is_left_out_and_reported(reassignment, policed):
    run = reassignment(MOVES)
    policed.refused = frozenset({ORDERS_1})
    run.do_all()
    assert run.record.finished(1).left_out == {"orders-1": "POLICY_VIOLATION: not on a Friday"}
    assert run.replicas()["orders-0"] == (1, 3)
    with pytest.raises(
        VerificationError,
        match=r"orders-1, but replica set is 2,3 rather than 4,3 \(left out: POLICY_VIOLATION: not on a Friday\)",
    ):
        run.finish()


def test_a_partition_is_named_with_the_reason_why_its_first_step_was_not_made(reassignment, policed):
    first, second = steps_for(Reassignment(ORDERS_1, (2, 3), (4, 5), 1_000_000), replica_movements=1)
    run = reassignment([first, MOVES[0]], [second])
    policed.refused = frozenset({ORDERS_1})
    run.run_batches()
    assert "stale plan" in run.record.finished(2).left_out["orders-1"]
    with pytest.raises(VerificationError, match=r"orders-1, .* \(left out: POLICY_VIOLATION: not on a Friday\)"):
        run.finish()


def test_a_broker_that_was_emptied_and_got_new_partitions_is_not_called_empty(reassignment, cluster):
    moves = [move("orders", 1, (2, 3), (2, 4)), move("orders", 2, (3, 1), (4, 1))]
    run = reassignment(moves, job=Job.DECOMMISSION, brokers=(3,), topics=("o*",))
    run.do_all()
    verify(run.context)
    cluster.create_topic("audit", [(3, 4)])
    verify(run.context)
    cluster.create_topic("orphans", [(3, 4), (4, 5)])
    with pytest.raises(
        VerificationError, match=r"broker 3 still hosts 1 partitions .*\(orphans-0\): do not shut it down"
    ):
        run.finish()


def test_a_batch_that_is_refused_whole_fails(reassignment, policed):
    run = reassignment(MOVES)
    policed.refused = frozenset({ORDERS_0, ORDERS_1})
    with pytest.raises(
        PolicyViolationError,
        match=r"refused every one of the 2 partitions of batch 1 \(orders-0, orders-1\) \(POLICY_VIOLATION: not on a Friday\)"
        r"\. Fix what the controller names: nothing of this batch was started, then rerun submit_batch of batch 1",
    ):
        run.do("submit_batch")


def test_a_stale_partition_is_left_out_and_the_rest_goes_on(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_1: (5, 6)})
    cluster.catch_up_all()
    run.do_all()
    assert run.replicas()["orders-0"] == (1, 3)
    assert run.replicas()["orders-1"] == (5, 6)
    assert "stale plan" in run.record.finished(1).left_out["orders-1"]


def test_what_another_client_moved_after_the_drop_is_left_out_and_the_batch_ends(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    cluster.alter_reassignments({ORDERS_1: (5, 6)})
    cluster.catch_up_all()
    run.do("clear_throttle")
    assert run.replicas()["orders-1"] == (5, 6)
    assert "stale plan" in run.record.finished(1).left_out["orders-1"]


def test_a_foreign_move_makes_the_batch_wait_and_says_so(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_1: (5, 6)})
    with pytest.raises(StillWaiting, match="batch 1 waits: another client is reassigning orders-1"):
        run.do("admit")


def test_what_another_client_cancels_or_moves_is_left_out_and_the_rest_goes_on_without_a_person(reassignment, cluster):
    run = reassignment([*MOVES, move("orders", 2, (3, 1), (3, 4))])
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None, ORDERS_1: (5, 6)}, allow_replication_factor_change=True)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 2)
    assert run.replicas()["orders-1"] == (5, 6)
    assert run.replicas()["orders-2"] == (3, 4)
    left_out = run.record.finished(1).left_out
    assert left_out["orders-0"] == "another client cancelled its reassignment: at 1,2"
    assert left_out["orders-1"].startswith("another client changed it: in flight to 5,6")
    assert next(e for e in run.record.audit if e.step == "leave_out").facts == {"left_out": left_out}
    assert run.configs("orders") == before
    assert next_batch(run.context, 1) is None


def test_what_another_client_cancelled_stays_left_out_when_the_batch_is_submitted_again(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    run.do("submit_batch")
    assert ORDERS_0 not in cluster.list_reassignments()
    assert run.record.submitted(1).left_out["orders-0"].startswith("another client cancelled")


def test_a_repeated_submission_leaves_out_what_another_client_has_cancelled_since(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do("submit_batch")
    assert ORDERS_0 not in cluster.list_reassignments()
    assert run.record.submitted(1).left_out["orders-0"].startswith("another client cancelled")


def test_what_came_into_a_batch_while_it_was_submitted_is_not_taken_for_cancelled(reassignment):
    """Other limits were asked for meanwhile: what is left was re-batched."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    recorded = run.record.submitted(1)
    run.cluster.alter_reassignments({ORDERS_1: None})
    run.record.write_submitted(1, recorded.model_copy(update={"accepted": ("orders-0",)}))
    with pytest.raises(NotSubmittedError, match=r"orders-1 of 2 partitions were never submitted.*Rerun submit_batch"):
        run.do("sense_isr_catch_up")
    run.do("submit_batch")
    assert {ORDERS_0, ORDERS_1} <= run.cluster.list_reassignments().keys()


def test_a_try_that_stood_still_after_its_last_request_does_not_hide_what_a_later_one_has_recorded(
    reassignment, monkeypatch
):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    made, later = found.submit, "2026-02-03T04:05:06+00:00"

    def stands_still(*args):
        refused = made(*args)
        recorded = SubmittedBatch(
            submitted_at=later, accepted=("orders-1",), left_out={}, left_open={"orders-0": "broker 3 is down"}
        )
        run.record.write_submitted(1, recorded)
        return refused

    monkeypatch.setattr(found, "submit", stands_still)
    with pytest.raises(OvertakenError):
        run.do("submit_batch")
    assert run.record.submitted(1).left_open == {"orders-0": "broker 3 is down"}


def test_what_our_own_stop_cancelled_is_not_taken_for_another_clients_doing(reassignment):
    """After a resume a person reruns the sensor alone: it asks for the submission."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_done(lambda: run.settle(CancelScope()))
    resume(run.context, by="bob")
    with pytest.raises(NotSubmittedError, match="Rerun submit_batch of batch 1"):
        run.do("sense_isr_catch_up")
    run.do_all()
    assert run.record.finished(1).left_out == {}


def test_metadata_that_lags_is_not_mistaken_for_a_cancel(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle")
    with cluster.stale_metadata():
        run.do("submit_batch")
        cluster.catch_up(ORDERS_0, 3)
        run.clock.on_sleep.append(lambda: setattr(cluster, "_frozen", None))
        run.do("sense_isr_catch_up")


def test_a_deleted_topic_counts_as_done(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.delete_topic("orders")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.finished_batches() == {1}
    assert run.record.journal().is_settled


def ordered_by_a_clock_that_is_off(run, minutes):
    """Stop the reassignment and resume it, by a worker whose clock is off."""
    at = run.clock.now + timedelta(minutes=minutes)
    cancel.stop(replace(run.context, now=lambda: at), CancelScope(), by="bob")
    run.until_settled(CancelScope())
    resume(replace(run.context, now=lambda: at), by="bob")


def test_a_batch_that_is_resumed_by_a_clock_that_is_ahead_goes_on(submitted):
    ordered_by_a_clock_that_is_off(submitted, 60)
    submitted.do_all()
    assert submitted.replicas() | {"orders-0": (1, 3), "orders-1": (4, 3)} == submitted.replicas()
    assert submitted.record.submitted(1).run_command == 2


def test_what_a_stop_has_cancelled_by_a_clock_that_is_behind_is_not_taken_for_another_clients(submitted):
    ordered_by_a_clock_that_is_off(submitted, -60)
    assert submission(RecordView(submitted.record), 1) is None
    with pytest.raises(NotSubmittedError):
        submitted.do("sense_isr_catch_up")
    assert submitted.record.submitted(1).left_out == {}


def test_what_an_earlier_version_has_submitted_is_ordered_by_time(submitted):
    earlier = submitted.record.submitted(1).model_copy(update={"run_command": None})
    submitted.record.write_submitted(1, earlier)
    assert submission(RecordView(submitted.record), 1) == earlier
    ordered_by_a_clock_that_is_off(submitted, 1)
    assert submission(RecordView(submitted.record), 1) is None


def test_a_stop_right_after_the_last_request_is_later_than_the_submission(reassignment, cluster):
    """Its cancel has ended what this submission has begun, though that is recorded later."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    alter = cluster.alter_reassignments

    def alter_then_stop(*args, **kwargs):
        replies = alter(*args, **kwargs)
        for stopped in (True, False):
            run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=stopped))
        return replies

    cluster.alter_reassignments = alter_then_stop
    run.do("submit_batch")
    assert run.record.submitted(1).run_command == 0
    assert submission(RecordView(run.record), 1) is None
