"""A share that is not mounted, or a bucket that does not exist, looks empty: steps wait, and write nothing there."""

import pytest
from tests.steps_lab import WHOLE, StillWaiting, move
from upath import UPath

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import (
    InvalidRequestError,
    LockLostError,
    RecordError,
    RecordsMissingError,
    is_worth_a_retry,
)
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.waiting import Failed
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.cancel import stop
from kafka_reassignment.steps.chain import wait_for_batches
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.throttle import keep_throttle
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer


@pytest.fixture
def unmounted(reassignment, tmp_path):
    """A batch that copies, and whose share is away."""
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle", "submit_batch")
    run.mounted, run.folder = run.folder, UPath(tmp_path / "mount point")
    (tmp_path / "mount point").mkdir()
    return run


@pytest.mark.parametrize("step", ["sense_isr_catch_up", "drop_old_replicas"])
def test_a_step_that_waits_goes_on_waiting_and_writes_nothing(unmounted, step):
    with pytest.raises(
        StillWaiting, match=r"There is nothing of reassignment r at .* Mount the share again, or see whether"
    ):
        unmounted.do(step)
    assert list(unmounted.folder.iterdir()) == []
    unmounted.folder = unmounted.mounted
    unmounted.do_all()
    assert unmounted.replicas()["orders-0"] == (1, 3)


@pytest.mark.parametrize("step", ["admit", "set_throttle", "submit_batch", "clear_throttle"])
def test_another_step_fails_so_that_it_is_tried_again_and_writes_nothing(unmounted, step):
    with pytest.raises(RecordsMissingError) as away:
        unmounted.do(step)
    assert is_worth_a_retry(away.value)
    assert list(unmounted.folder.iterdir()) == []


@pytest.mark.parametrize(
    "step",
    [
        lambda run: next_batch(run.context, 1),
        lambda run: run.start(),
        lambda run: verify(run.context),
        lambda run: write_report(run.context),
        lambda run: keep_throttle(run.context),
        lambda run: wait_for_batches(RecordView(run.record), run.clock.now),
    ],
    ids=["start_next_batch", "start_batches", "verify", "report", "keep_throttle", "wait_for_batches"],
)
def test_no_step_after_it_takes_an_empty_place_for_the_end(unmounted, step):
    with pytest.raises(RecordsMissingError):
        step(unmounted)
    assert list(unmounted.folder.iterdir()) == []


@pytest.mark.parametrize(
    "order",
    [
        lambda run: stop(run.context, WHOLE, by="bob"),
        lambda run: stop(run.context, CancelScope(foreign=True), by="bob", roll_back=True),
        lambda run: resume(run.context, by="bob", has_run=True),
    ],
    ids=["stop", "stop and roll back, moves of others as well", "resume"],
)
def test_an_order_about_a_reassignment_that_is_not_there_leaves_nothing_that_would_look_like_a_record(unmounted, order):
    with pytest.raises(InvalidRequestError):
        order(unmounted)
    assert list(unmounted.folder.iterdir()) == []


def test_a_lock_that_was_released_is_not_taken_for_a_share_that_is_away(unmounted):
    unmounted.folder = unmounted.mounted
    unmounted.store.release(unmounted.cluster_id, "r")
    with pytest.raises(LockLostError):
        unmounted.do("submit_batch")


def test_a_reassignment_that_there_never_was_is_not_found_where_the_cluster_has_others(unmounted):
    unmounted.folder = unmounted.mounted
    with pytest.raises(RecordError, match="has no frozen plan") as never:
        unmounted.store.record(unmounted.cluster_id, "mistyped").plan_ref()
    assert not is_worth_a_retry(never.value)


def test_a_lock_that_somebody_took_in_the_empty_place_does_not_make_the_chain_end(unmounted):
    unmounted.store.acquire(
        unmounted.cluster_id, ClusterLock(reassignment_id="other", since=unmounted.clock.now, requested_by="b")
    )
    ended = wait_for_batches(RecordView(unmounted.record), unmounted.clock.now)
    assert isinstance(ended, Failed)
    assert "has no frozen plan" in str(ended.error)


def test_what_is_to_be_done_and_rerun_is_said_with_it(unmounted):
    with pytest.raises(RecordsMissingError) as away:
        unmounted.do("submit_batch")
    assert away.value.advice[-1] == Rerun("submit_batch", batch=1)
