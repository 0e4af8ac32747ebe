"""What people see and are told of one reassignment, on a real Airflow: from the question to the report."""

import pytest
from tests.airflow.lab import move_json, replicas

from kafka_lab.data import fill_topics
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]


@pytest.fixture
def move_of_another(kafka, port, create_topic):
    """A move of another client that takes as long as the test likes: start it, and end it."""
    topic = create_topic({0: (4, 5)})
    fill_topics(kafka.bootstrap_servers, [topic], 24_000_000)
    partition = TopicPartition(topic, 0)
    throttle = ((ConfigResource.topic(topic), FOLLOWER_REPLICAS, "*"), (ConfigResource.broker(6), FOLLOWER_RATE, "1"))

    def start():
        port.alter_configs([ConfigChange(r, key, ConfigOperation.SET, value) for r, key, value in throttle])
        assert port.alter_reassignments({partition: (4, 6)}) == {partition: None}

    def end():
        if partition in port.list_reassignments():
            port.alter_reassignments({partition: None})
        port.alter_configs([ConfigChange(r, key, ConfigOperation.DELETE) for r, key, _ in throttle])

    yield start, end
    end()


def links(airflow, dag_id, run_id, task_id):
    found = airflow.get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links")
    return {name: url for name, url in found["extra_links"].items() if url}


def answer(client, run_id, option, reason):
    path = f"/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    client.patch(path, {"chosen_options": [option], "params_input": {"reason": reason}})


def test_two_people_approve_it_is_held_goes_on_and_ends_and_each_is_told_once(
    reassignments, mailbox, bob, port, create_topic, move_of_another
):
    start_other, end_other = move_of_another
    topic = create_topic({0: (1, 2)})
    run = reassignments.trigger(
        "people",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3)}),
        throttle_mb_per_second=200,
        require_approval=True,
        second_approver=True,
        approval_hours=8,
        batch_bytes="5 GB",
        pace="gentle",
    )
    airflow = reassignments.airflow
    reassignments.wait_for_question(run)
    asked = airflow.get(f"/dags/{DAG_ID}/dagRuns/{run}/taskInstances/approve/-1/hitlDetails")
    for part in (
        "Asked because the request asks for an approval",
        "Only this plan runs",
        "Without an answer by",
        "/plan?",
    ):
        assert part in asked["body"]

    reassignments.answer_later(lambda: answer(airflow, run, "Approve", "looks right"))
    reassignments.until(lambda: "approved by admin: looks right" in reassignments.story(run))
    reassignments.wait_for_question(run)
    start_other()
    reassignments.answer_later(lambda: answer(bob, run, "Approve", ""))
    reassignments.wait_for_task(run, "admit", "deferred", batch=1)
    end_other()
    assert reassignments.wait(run) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3)}

    asked_first, asked_again, held, goes_on, finished = (s for s in mailbox.subjects if run in s)
    assert (asked_first, asked_again) == (f"Approval wanted: {run}",) * 2
    assert (held, goes_on) == (f"Held: batch 1 of {run}", f"Goes on: batch 1 of {run}")
    assert finished == f"Finished: {run}"
    assert "another client is reassigning" in mailbox.text(held)
    page = f"/kafka-reassignment/reassignment?cluster={reassignments.record(run).cluster_id}&id={run}"
    assert f"{airflow.url}{page}" in mailbox.text(finished)

    batch = batch_run_id(run, 1)
    assert airflow.get(f"/dags/{BATCH_DAG_ID}/dagRuns/{batch}")["note"] == f"apply_json: batch 1 of 1 of {run}"
    assert set(links(airflow, BATCH_DAG_ID, batch, "submit_batch")) == {
        "Reassignment",
        "Report of the plan",
        "Record: audit trail",
    }
    assert links(airflow, DAG_ID, run, "preflight")["Reassignment"].endswith(page)
    waits = airflow.get(f"/dags/{BATCH_DAG_ID}/dagRuns/{batch}/taskInstances/admit/xcomEntries/waits_for")["value"]
    assert "batch 1 waits" in waits
    events = airflow.get("/assets/events", source_run_id=run)["asset_events"]
    assert [(e["name"], e["extra"]["reassignment_id"]) for e in events] == [("kafka_reassignment_finished", run)]


def test_a_refusal_names_fields_as_the_form_shows_them_and_is_told_with_the_next_step(reassignments, mailbox):
    run = reassignments.trigger("refused-in-words", job="move_topics", brokers="98-99", topics=["no-such-topic"])
    assert reassignments.wait(run) == "failed"
    text = mailbox.text(f"Failed: {DAG_ID}.preflight of {run}")
    assert "no throttle: expected" in text
    assert "Throttle (MB/s)" in text
    assert "Correct the request" in text
