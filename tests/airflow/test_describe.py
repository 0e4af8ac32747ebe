"""``kafka_reassignment_describe`` on a real Airflow, beside a running reassignment and when there is none."""

import pytest

from kafka_reassignment.local.data import fill_topics
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.planning.plan_files import render_plan
from kafka_reassignment_airflow.runs import DESCRIBE_DAG_ID

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]

SIZE = 20_000_000


@pytest.fixture
def look(reassignments):
    """Run the DAG and return the results and logs of its two tasks."""
    airflow = reassignments.airflow

    def run(run_id, **conf):
        airflow.trigger(DESCRIBE_DAG_ID, {"kafka_conn_id": "kafka_default", "watch_seconds": 0, **conf}, run_id)
        state = reassignments._until(
            lambda: s if (s := airflow.run_state(DESCRIBE_DAG_ID, run_id)) in {"success", "failed"} else None,
            90,
            lambda: f"{run_id} did not end: {airflow.find_tasks(DESCRIBE_DAG_ID, run_id)}",
        )
        tasks = airflow.tasks(DESCRIBE_DAG_ID, run_id)
        logs = {t: airflow.task_log(DESCRIBE_DAG_ID, run_id, t, tasks[t]["try_number"]) for t in tasks}
        assert state == "success", logs
        where = f"/dags/{DESCRIBE_DAG_ID}/dagRuns/{run_id}/taskInstances"
        return {t: airflow.get(f"{where}/{t}/xcomEntries/return_value")["value"] for t in tasks}, logs

    return run


def test_a_running_reassignment_is_listed_and_described_beside_its_own_steps(kafka, create_topic, reassignments, look):
    topic = create_topic({0: (1, 2), 1: (2, 1)})
    fill_topics(kafka.bootstrap_servers, [topic], 2 * SIZE)
    targets = {TopicPartition(topic, 0): (1, 3), TopicPartition(topic, 1): (2, 4)}
    run = reassignments.trigger(
        "described",
        job="apply_json",
        reassignment_json=render_plan(targets),
        throttle_mb_per_second=1,
    )
    reassignments.wait_for_task(run, "sense_isr_catch_up", "deferred", batch=1)
    results, logs = look("look-at-described")

    listing = results["list_reassignments"]
    [active] = listing["active"]
    assert (active["reassignment_id"], active["requested_by"]) == (run, "admin")
    [one] = listing["reassignments"]
    assert (one["batch"], one["batches"], one["whole"]["remaining_partitions"]) == (1, 1, 2)
    assert [e["replicas"] for e in one["current_batch"]["partitions"]] == [[1, 3], [2, 4]]
    assert [e["replicas"] for e in listing["in_flight"]["partitions"]] == [[1, 2, 3], [2, 1, 4]]
    assert {m["reassignment_id"] for m in listing["moves"]} == {run}

    told = results["describe"]
    described, _ = told["partitions"]
    assert (described["reassignment_id"], described["state"]) == (run, "in flight")
    assert described["started_at_seconds"] == active["started_at_seconds"]
    assert (described["current"], described["target"]) == ([1, 2], [1, 3])
    [replica] = described["replicas"]
    assert 0 < replica["bytes_left"] <= SIZE * 1.01
    assert f"Behind: {replica['messages_behind']} messages behind" in logs["describe"]
    assert "Topic" in logs["describe"]
    assert f"In flight of reassignment {run}: 2 partitions" in logs["list_reassignments"]

    # It looked, and nothing else: the reassignment ends as if nobody had.
    assert reassignments.wait(run) == "success", reassignments.story(run)
    results, logs = look("look-again", partitions=[f"{topic}-0", f"{topic}-77"], reassignment_id=run)
    assert (results["list_reassignments"]["active"], results["list_reassignments"]["moves"]) == ([], [])
    assert run in {r["reassignment_id"] for r in results["list_reassignments"]["finished"]}
    assert {row["status"] for row in results["describe"]["statuses"]} == {"In sync", "Unknown partition"}
    assert f"All 1 batches of reassignment {run} are finished" in logs["describe"]


def test_what_cannot_be_described_fails_with_one_message_and_no_retry(reassignments):
    airflow = reassignments.airflow
    run = airflow.trigger(DESCRIBE_DAG_ID, {"partitions": ["orders"], "watch_seconds": 5}, "not-describable")
    reassignments._until(
        lambda: s if (s := airflow.run_state(DESCRIBE_DAG_ID, run)) == "failed" else None, 60, lambda: run
    )
    task = airflow.tasks(DESCRIBE_DAG_ID, run)["describe"]
    assert task["try_number"] == 1
    log = airflow.task_log(DESCRIBE_DAG_ID, run, "describe", 1)
    assert "'partitions': 'orders' is not a partition, expected the form 'topic-0'" in log
