"""What the first screen says where a reassignment stands: red for long, or with nobody at work."""

from datetime import timedelta

import pytest
from tests.browser.night import event

from kafka_reassignment.errors import CatchUpTimeoutError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.views.listing import list_reassignments
from kafka_reassignment.views.watch import Watch
from kafka_reassignment_airflow.web.answers import NOW, answers
from kafka_reassignment_airflow.web.views import Pages

pytestmark = pytest.mark.longer


@pytest.fixture
def run(two_batches):
    return two_batches(reassignment_id="r")


def page_of(run, after=timedelta()):
    return Pages(lambda: run.clock.now + after).page(run.store, run.cluster_id, "r")


def answer(run, question, after=timedelta()):
    return next(it for it in answers(page_of(run, after)) if it.question == question)


def fail_to_catch_up(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    run.cluster.hold_back(TopicPartition("orders", 0), 3)
    began = run.clock.now
    run.clock.sleep(timedelta(days=1).total_seconds())
    with pytest.raises(CatchUpTimeoutError):
        run.wait("sense_isr_catch_up", started_at=began)


def test_a_red_batch_is_told_however_often_its_throttle_was_put_back_since(run):
    """Another tool deletes the throttle every five minutes: after three hours all said that it copies."""
    fail_to_catch_up(run)
    before = answer(run, NOW)
    for number in range(2 * LATEST_EVENTS + 5):
        event(run.record, "reinstate_throttle", 1, run.clock.now, f"put back {number}")
    assert page_of(run).failed.step == page_of(run).latest.step == "sense_isr_catch_up"
    assert answer(run, NOW) == before
    listed = list_reassignments(run.cluster, run.store, sleep=run.clock.sleep)
    assert "it has failed at sense_isr_catch_up" in str(listed.overviews[0])
    assert Watch(run.cluster, run.store, now=lambda: run.clock.now).look().waits[0].startswith("sense_isr_catch_up of")
