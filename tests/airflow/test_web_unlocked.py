"""What is said of a reassignment that has begun, is not over, and has not the lock: after a resume, or when it was released."""

from datetime import timedelta

import pytest
from tests.browser.night import begin
from tests.steps_lab import StillWaiting

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import CatchUpTimeoutError, LockLostError, StoppedError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import answered, approval
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.views.watch import Watch
from kafka_reassignment_airflow.web.answers import answers
from kafka_reassignment_airflow.web.forms import forms_of
from kafka_reassignment_airflow.web.rows import ListQuery, Rows, Shown
from kafka_reassignment_airflow.web.views import Pages

pytestmark = pytest.mark.longer
WHOLE = CancelScope()


@pytest.fixture
def run(two_batches):
    run = two_batches(reassignment_id="r")
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


def page_of(run):
    return Pages(lambda: run.clock.now).page(run.store, run.cluster_id, "r")


def words(run):
    return {it.question: it.words for it in answers(page_of(run))}


def look(run):
    return Watch(run.cluster, run.store, "r", now=lambda: run.clock.now).look()


@pytest.fixture
def resumed(run):
    """Stopped while it copied, and resumed two days later."""
    run.cluster.hold_back(TopicPartition("orders", 0), 3)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    cancel.stop(run.context, WHOLE, by="bob")
    with pytest.raises(StoppedError):
        run.do("sense_isr_catch_up")
    cancel.cancel_moves(run.context, WHOLE)
    run.until_settled(WHOLE)
    cancel.clear_after_stop(run.context, WHOLE)
    report_stop(run.context, WHOLE)
    run.clock.sleep(timedelta(days=2).total_seconds())
    resume(run.context, by="bob")
    return run


def test_what_was_resumed_and_has_not_the_lock_yet_is_not_over_and_can_be_stopped(resumed):
    page, said = page_of(resumed), words(resumed)
    assert page.row.status is ReassignmentStatus.UNLOCKED
    assert said["What is it doing?"] == "Nothing yet: it was resumed, and has not the lock of the cluster"
    assert said["Why does it wait?"] == "For its run to take the lock of the cluster"
    assert "stop" in forms_of(page.found)
    assert not look(resumed).is_over
    (row,) = Rows().page(resumed.store, ListQuery(state=Shown.HELD)).rows
    assert row.reassignment_id == "r"


def test_what_was_seen_before_a_resume_is_not_told_as_if_it_were_now(resumed):
    resumed.start()
    page, said = page_of(resumed), words(resumed)
    assert (page.row.note, page.submitted, page.failed) == (None, None, None)
    assert said["What is it doing?"] == "It starts batch 1 of 2"
    assert said["Is it safe to stop?"] == "Yes: nothing is submitted yet"
    assert said["What do I do now?"] == "Nothing: it goes on by itself"
    assert page.ends_at > resumed.clock.now
    assert (look(resumed).doing, look(resumed).ends_at) == ("it has not submitted batch 1 of 2", None)


def test_a_batch_in_flight_whose_lock_was_released_is_told_and_can_be_stopped_or_resumed(run):
    run.store.release(run.cluster_id, "r", by="ann")
    page, said = page_of(run), words(run)
    assert said["What is it doing?"].startswith("Its moves may be in flight: batch 1 was submitted")
    assert list(forms_of(page.found)) == ["resume", "stop", "stop-and-roll-back"]
    assert look(run).bytes_left
    cancel.stop(run.context, WHOLE, by="bob")
    run.until_settled(WHOLE)
    assert run.cluster.list_reassignments() == {}


def test_what_has_not_begun_has_ended_when_its_lock_is_released(two_batches):
    run = two_batches(reassignment_id="r")
    run.store.release(run.cluster_id, "r", by="ann")
    assert page_of(run).row.status is ReassignmentStatus.ENDED


@pytest.mark.parametrize("refused", [False, True])
def test_a_plan_that_waits_for_a_person_has_not_ended_when_its_lock_is_released(two_batches, refused):
    """Its page advised to trigger a new one; once it was approved, there were two."""
    run = two_batches(reassignment_id="r", require_approval=True)
    assert approval(run.context) == "ask"
    run.store.release(run.cluster_id, "r", by="ann")
    page, said = page_of(run), words(run)
    assert page.row.status is ReassignmentStatus.UNLOCKED
    assert said["What is it doing?"].endswith("has not the lock of the cluster any more, and waits for a person")
    assert said["What do I do now?"] == "Approve or reject the plan"
    answered(run.context, approved=not refused, by="bob")
    assert page_of(run).row.status is (ReassignmentStatus.ENDED if refused else ReassignmentStatus.UNLOCKED)
    if not refused:
        assert run.start() == 1
        assert page_of(run).row.status is ReassignmentStatus.ACTIVE


def test_a_validation_has_ended(two_batches):
    run = two_batches(reassignment_id="r", validate_only=True)
    assert approval(run.context) == "stop"
    assert page_of(run).row.status is ReassignmentStatus.ENDED


def test_a_filter_by_state_shows_what_was_stopped_without_the_lock_as_held(two_batches):
    run, now = two_batches(reassignment_id="r"), [0.0]
    rows = Rows(clock=lambda: now[0])
    run.store.release(run.cluster_id, "r", by="ann")

    def names(state):
        return [row.reassignment_id for row in rows.page(run.store, ListQuery(state=state)).rows]

    assert (names(Shown.PAST), names(Shown.HELD)) == (["r"], [])
    cancel.stop(run.context, WHOLE, by="bob")
    now[0] += 3_600
    assert (names(Shown.PAST), names(Shown.HELD)) == ([], ["r"])


def test_what_was_withdrawn_is_neither_done_nor_left_on_the_page(two_batches):
    run = two_batches(reassignment_id="r")
    before = page_of(run).work
    cancel.stop(run.context, CancelScope(("orders-0",)), by="bob")
    run.do_all(batch=1)
    work = page_of(run).work
    (end,) = page_of(run).finished
    assert (before.bytes_done, work.bytes_done) == (0, end.bytes_copied)
    assert work.bytes_to_copy < before.bytes_to_copy
    assert work.bytes_left == page_of(run).plan.batches[1].bytes_to_copy


def test_a_red_batch_that_has_lost_the_lock_takes_it_again_before_what_its_failed_step_advises(run):
    """Its first step was refused, as if it had ended; and the sweep was said to restore the throttle under which it copies."""
    run.cluster.hold_back(TopicPartition("orders", 0), 3)
    began = run.clock.now
    run.clock.sleep(timedelta(days=1).total_seconds())
    with pytest.raises(CatchUpTimeoutError) as failed:
        run.wait("sense_isr_catch_up", started_at=began)
    run.store.release(run.cluster_id, "r", by="ann")
    page, said = page_of(run), words(run)
    assert page.advice == (Rerun("start_batches"), *failed.value.advice)
    assert said["What do I do now?"].startswith("Rerun start_batches and what follows, then trigger kafka_throttle")
    last = answers(page)[-1]
    assert last.links[0].task_id == "start_batches"
    assert not any("every hour" in text for text in last.more)
    assert "trigger kafka_throttle" not in answers(page)[0].more[0].lower(), "that is the last answer"
    other = ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob")
    begin(run.store, run.cluster_id, "other", run.clock.now)
    run.store.acquire(run.cluster_id, other)
    assert words(run)["What do I do now?"].startswith("Wait until other has ended, or was stopped with kafka_rea")
    run.store.release(run.cluster_id, "other")
    with pytest.raises(LockLostError) as lost:
        run.do("sense_isr_catch_up")
    assert page_of(run).advice == lost.value.advice
