"""What the first screen says where a reassignment stands: red for long, or with nobody at work."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.browser.night import event
from tests.steps_lab import OWN_STEPS

from kafka_reassignment.errors import CatchUpTimeoutError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.audit import LATEST_EVENTS, Actor
from kafka_reassignment.views.listing import list_reassignments
from kafka_reassignment.views.watch import Watch
from kafka_reassignment_airflow.web.answers import DOING, DONE, NOW, WAITS, answers
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


@pytest.mark.parametrize(
    ("done", "last", "doing"),
    [
        ((), "preflight", "It makes the plan"),
        (("admit", "set_throttle", "submit_batch"), None, "It copies batch 1 of 2"),
        (OWN_STEPS, "start_next_batch", "It starts batch 2 of 2"),
    ],
)
def test_nobody_is_told_that_it_goes_on_by_itself_where_nothing_was_recorded_for_long(run, done, last, doing):
    """A task was killed, its DAG could not be triggered, or Kafka is away before there is an event: it said so for ever."""
    run.do_all(*done) if done else (Path(run.record.root.path) / "frozen.json").unlink()
    if last:
        actor = Actor(dag_id="d", run_id="s", task_id=last)
        run.record.audit.append(audit_event(run, last, actor))
    assert answer(run, DOING).words == doing
    assert answer(run, NOW, timedelta(minutes=4)).words == "Nothing: it goes on by itself"
    later = timedelta(minutes=20 if done else 40)
    now = answer(run, NOW, later)
    assert now.words == "See whether its run goes on"
    assert now.more[0].startswith("Nothing was recorded for ")
    links = [(link.dag_id, link.run_id, link.task_id) for link in now.links]
    assert links[-1] == ("kafka_reassignment", "r", "")
    assert not last or ("d", "s", last) in links
    assert answer(run, WAITS, later).words.startswith("Not known: nothing was recorded for ")
    assert answer(run, DONE, later).words.startswith("Not known, because nothing was recorded for ")
    assert answer(run, DOING, later).tone == "warn"


def audit_event(run, step, actor):
    event(run.record, step, None, run.clock.now, "done")
    last = run.record.audit.event(run.record.audit.last_number())
    return last.model_copy(update={"actor": actor})
