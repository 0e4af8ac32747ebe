"""Waiting steps: one function each, which the task and its trigger call alike."""

from datetime import timedelta

import pytest
from tests.steps_lab import Run, StillWaiting, move

from kafka_reassignment.advice import Rerun
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS, changes_to_restore
from kafka_reassignment.errors import (
    BatchIncompleteError,
    CatchUpTimeoutError,
    ClusterUnavailableError,
    InvalidRequestError,
    NotSubmittedError,
    ReassignmentInProgressError,
    RecordUnavailableError,
    StoppedError,
    UnsafeDropError,
)
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.waiting import LONGEST_WAIT, STORE_AWAY, Done, Failed, SizeSamples, Waiting
from kafka_reassignment.steps.cancel import settle_moves
from kafka_reassignment.steps.chain import wait_for_batches
from kafka_reassignment.steps.resume import resume

pytestmark = pytest.mark.quick

ORDERS_0 = TopicPartition("orders", 0)
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
WHOLE = CancelScope()


def steps(run: Run) -> list[str]:
    return [event.step for event in run.record.audit]


def failure(result):
    assert isinstance(result, Failed)
    return type(result.error)


# Admission


def test_admission_is_done_waiting_or_failed(reassignment, cluster):
    run = reassignment([MOVES[0]], [MOVES[1]])
    result = run.look("admit")
    assert isinstance(result, Done)
    assert result.message == "batch 1 admitted: 1 partitions, 1.0 MB to copy"
    assert failure(run.look("admit", 2)) is BatchIncompleteError
    cluster.alter_reassignments({TopicPartition("orders", 3): (1, 4)})
    waiting = run.look("admit")
    assert isinstance(waiting, Waiting)
    assert waiting.reason.startswith("batch 1 waits: ")
    assert waiting.until == run.clock.now + LONGEST_WAIT
    assert run.record.progress().text == waiting.reason


def test_producers_that_wait_for_the_copies_are_told_of_before_and_meanwhile(reassignment, cluster):
    """Brokers ask for min.insync.replicas in sync as soon as there are as many replicas, the new ones included."""
    cluster.create_topic("few", [(1,)], size_bytes=1_000_000, configs={"min.insync.replicas": "2"})
    run = reassignment([move("few", 0, (1,), (1, 4)), MOVES[0]])
    assert cluster.blocked_producers() == frozenset()
    told = "producers with acks=all of few wait from the submission until the new replicas are in sync"
    assert told in run.look("admit").message
    run.do_all("set_throttle", "submit_batch")
    assert cluster.blocked_producers() == {TopicPartition("few", 0)}
    assert told in run.look("sense_isr_catch_up").reason
    cluster.catch_up(TopicPartition("few", 0))
    assert "producers" not in run.look("sense_isr_catch_up").reason


def test_a_trigger_notices_a_stop_and_a_lock_of_another_reassignment(reassignment):
    run = reassignment(MOVES)
    run.store.release(run.cluster_id, "r")
    other = ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob")
    run.store.acquire(run.cluster_id, other)
    run.store.record(run.cluster_id, "other").write_request(run.record.recorded_request())
    assert failure(run.look("admit")) is ReassignmentInProgressError
    run.store.release(run.cluster_id, "other")
    cancel.stop(run.context, WHOLE, by="bob")
    assert failure(run.look("admit")) is StoppedError
    assert failure(run.look("sense_isr_catch_up")) is StoppedError


@pytest.mark.parametrize("step", ["sense_isr_catch_up", "drop_old_replicas"])
def test_a_cluster_that_is_away_is_waited_for_and_a_day_of_it_ends_the_wait(submitted, cluster, step):
    cluster.fail("describe_partitions", ClusterUnavailableError("no broker answers"), applied=0, times=2)
    began = submitted.clock.now
    assert submitted.look(step) == Waiting("no broker answers", until=began + timedelta(days=1))
    late = submitted.look(step, started_at=began - timedelta(days=2))
    assert failure(late) is CatchUpTimeoutError
    assert late.error.advice == (Rerun("sense_isr_catch_up", batch=1),)


@pytest.mark.parametrize("step", ["sense_isr_catch_up", "drop_old_replicas"])
def test_a_store_that_is_away_is_waited_for(submitted, monkeypatch, step):
    def away(*_):
        raise RecordUnavailableError("the store does not answer")

    for name in ("finished", "recorded_request"):
        monkeypatch.setattr(type(submitted.record), name, away)
    assert submitted.look(step) == Waiting("the store does not answer", until=submitted.clock.now + STORE_AWAY)


def test_the_samples_of_earlier_looks_are_used_instead_of_another_pause(reassignment):
    run = reassignment(MOVES)
    slept = []
    run.clock.on_sleep.append(lambda: slept.append(run.clock.now))
    samples = SizeSamples()
    for _ in range(3):
        run.look("admit", samples=samples)
    assert len(slept) == 1
    assert len(samples.seen) == 4


# Catch-up


def test_catch_up_waits_with_its_progress_and_is_done_in_sync(submitted, cluster):
    waiting = submitted.look("sense_isr_catch_up")
    assert isinstance(waiting, Waiting)
    assert waiting.reason.startswith("batch 1: 0 of 2 partitions in sync, 2.0 MB left")
    assert waiting.until == submitted.clock.now + timedelta(minutes=24 * 60)
    note = submitted.record.progress()
    assert (note.text, note.bytes_left) == (waiting.reason, 2_000_000)
    cluster.catch_up_all()
    done = submitted.look("sense_isr_catch_up")
    assert isinstance(done, Done)
    assert done.message == "batch 1: 2 partitions have their whole target in sync"


def test_the_task_and_its_trigger_see_the_same(submitted):
    with pytest.raises(StillWaiting) as report_text:
        submitted.do("sense_isr_catch_up")
    assert submitted.look("sense_isr_catch_up").reason == str(report_text.value)


def test_a_throttle_that_is_gone_is_put_back_by_whatever_looks_with_an_event_of_its_own(submitted, cluster):
    throttled = submitted.configs("orders")
    journal = submitted.record.journal()
    seen = cluster.describe_configs(journal.resources, THROTTLE_KEYS)
    cluster.alter_configs(changes_to_restore(journal, seen).changes)
    assert submitted.configs("orders") != throttled
    assert isinstance(submitted.look("sense_isr_catch_up"), Waiting)
    assert submitted.configs("orders") == throttled
    assert steps(submitted)[-1] == "reinstate_throttle"
    before = len(steps(submitted))
    assert isinstance(submitted.look("sense_isr_catch_up"), Waiting)
    assert len(steps(submitted)) == before, "a look that finds everything in place leaves no event"


@pytest.fixture
def large(reassignment, cluster):
    """A batch whose copies take ten minutes at its rate, and have one by the request; it was submitted that long ago."""
    cluster.create_topic("large", [(1, 2)], size_bytes=600 * 10**6)
    copies = [move("large", 0, (1, 2), (1, 3), 600 * 10**6)]
    run = reassignment(copies, throttle_mb_per_second=1, catch_up_timeout_minutes=1, keep_free_share=0)
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


def test_what_copies_at_its_rate_is_not_late(large):
    """With the request's time alone it would fail however well it goes, and a person would be told to raise the rate."""
    now = large.clock.now
    assert isinstance(large.look("sense_isr_catch_up", started_at=now - timedelta(minutes=19)), Waiting)
    late = large.look("sense_isr_catch_up", started_at=now - timedelta(minutes=21))
    assert failure(late) is CatchUpTimeoutError
    assert "1 of 1 partitions did not catch up within 20 min" in str(late.error)


def test_what_does_not_copy_has_no_more_time_than_was_asked_for(large, cluster):
    cluster.kill(3)
    late = large.look("sense_isr_catch_up", started_at=large.clock.now - timedelta(minutes=2))
    assert failure(late) is CatchUpTimeoutError
    assert "did not catch up within 1 min" in str(late.error)


def test_a_cluster_that_is_away_does_not_end_the_wait_of_what_copies_at_its_rate(large, cluster):
    cluster.fail("describe_partitions", ClusterUnavailableError("no broker answers"), applied=0, times=2)
    began = large.clock.now - timedelta(minutes=19)
    until = began + timedelta(minutes=20)
    assert large.look("sense_isr_catch_up", started_at=began) == Waiting("no broker answers", until=until)


def test_catch_up_fails_with_what_a_person_has_to_do(reassignment, submitted):
    assert failure(submitted.look("sense_isr_catch_up", started_at=submitted.clock.now - timedelta(days=2))) is (
        CatchUpTimeoutError
    )


def test_what_was_never_submitted_is_not_waited_for(reassignment):
    assert failure(reassignment(MOVES).look("sense_isr_catch_up")) is NotSubmittedError


# The chain


def test_the_chain_waits_until_every_batch_is_finished(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]])
    run.do_all(batch=1)
    waiting = wait_for_batches(RecordView(run.record), run.clock.now)
    assert isinstance(waiting, Waiting)
    assert waiting.reason.startswith("1 of 2 batches finished")
    run.do("next_batch", 1)
    run.do_all(batch=2)
    assert wait_for_batches(RecordView(run.record), run.clock.now) == Done("2 of 2 batches finished")


def test_the_chain_names_the_batch_only_once(submitted):
    submitted.look("sense_isr_catch_up")
    waiting = wait_for_batches(RecordView(submitted.record), submitted.clock.now)
    assert waiting.reason.startswith("0 of 1 batches finished; batch 1: 0 of 2 partitions in sync")


def test_a_stopped_chain_is_not_waited_for(reassignment):
    run = reassignment(MOVES)
    cancel.stop(run.context, WHOLE, by="bob")
    assert failure(wait_for_batches(RecordView(run.record), run.clock.now)) is StoppedError


# Settling


def test_settling_acts_at_each_look_and_leaves_an_event_where_it_has(submitted, cluster):
    cluster.kill(2)
    cluster.catch_up(ORDERS_0, 3)
    cancel.stop(submitted.context, WHOLE, by="bob")
    waiting = settle_moves(submitted.context, WHOLE, submitted.clock.now)
    assert isinstance(waiting, Waiting)
    assert steps(submitted)[-1] == "cancel_moves"
    cluster.catch_up_all()
    submitted.until_done(lambda: settle_moves(submitted.context, WHOLE, submitted.clock.now))
    assert cluster.list_reassignments() == {}


def test_what_does_not_settle_in_time_fails(submitted, cluster):
    cluster.kill(2)
    cluster.kill(4)
    cancel.stop(submitted.context, WHOLE, by="bob")
    began = submitted.clock.now - timedelta(days=2)
    assert failure(settle_moves(submitted.context, WHOLE, began)) is UnsafeDropError


def test_a_trigger_that_is_late_cancels_nothing_of_a_reassignment_that_was_resumed(submitted, cluster):
    cancel.stop(submitted.context, WHOLE, by="bob")
    resume(submitted.context, by="bob")
    in_flight = cluster.list_reassignments()
    assert failure(settle_moves(submitted.context, WHOLE, submitted.clock.now)) is InvalidRequestError
    assert cluster.list_reassignments() == in_flight


# What never changes


def test_the_request_is_read_once_per_try(submitted, monkeypatch):
    reads = []
    read = type(submitted.record).recorded_request
    monkeypatch.setattr(type(submitted.record), "recorded_request", lambda self: reads.append(1) or read(self))
    submitted.look("sense_isr_catch_up")
    assert len(reads) == 1
    assert ConfigResource.topic("orders") in submitted.record.journal().resources
