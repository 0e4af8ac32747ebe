"""``kafka_reassignment_describe`` on a real Airflow, beside a running reassignment and when there is none."""

import pytest
from tests.airflow.lab import move_json

from kafka_lab.data import fill_topics
from kafka_reassignment_airflow.runs import DESCRIBE_DAG_ID, THROTTLE_DAG_ID

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]

SIZE = 5_000_000


@pytest.fixture
def look(reassignments):
    """Run the DAG and return the results and the logs of its two tasks."""

    def run(run_id, **conf):
        asked = {"kafka_conn_id": "kafka_default", "watch_seconds": 0, **conf}
        reassignments.airflow.trigger(DESCRIBE_DAG_ID, asked, run_id)
        state = reassignments.wait_for_run(DESCRIBE_DAG_ID, run_id)
        tasks = ("list_reassignments", "describe")
        logs = {t: reassignments.log_of(DESCRIBE_DAG_ID, run_id, t) for t in tasks}
        assert state == "success", logs
        return {t: reassignments.result(DESCRIBE_DAG_ID, run_id, t) for t in tasks}, logs

    return run


def test_a_running_reassignment_is_listed_and_described_beside_its_own_steps(kafka, create_topic, reassignments, look):
    topic = create_topic({0: (1, 2), 1: (2, 1)})
    fill_topics(kafka.bootstrap_servers, [topic], 2 * SIZE)
    run = reassignments.trigger(
        "described",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3), 1: (2, 4)}),
        throttle_mb_per_second=0.02,
        allow_low_throttle=True,
    )
    reassignments.wait_for_task(run, "sense_isr_catch_up", "running", "deferred", batch=1)
    results, logs = look("look-at-described")

    listing = results["list_reassignments"]
    [active] = listing["active"]
    assert (active["reassignment_id"], active["requested_by"]) == (run, "admin")
    [one] = listing["reassignments"]
    assert (one["batch"], one["batches"], one["remaining_partitions"]) == (1, 1, 2)
    assert [e["replicas"] for e in one["current_batch"]["partitions"]] == [[1, 3], [2, 4]]
    assert [e["replicas"] for e in listing["in_flight"]["partitions"]] == [[1, 2, 3], [2, 1, 4]]
    assert {m["reassignment_id"] for m in listing["moves"]} == {run}
    assert f"In flight of reassignment {run}: 2 partitions" in logs["list_reassignments"]

    message = results["describe"]
    described, _ = message["partitions"]
    assert (described["reassignment_id"], described["state"]) == (run, "in flight")
    assert described["started_at_seconds"] == active["started_at_seconds"]
    assert (described["current"], described["target"]) == ([1, 2], [1, 3])
    [replica] = described["replicas"]
    assert 0 < replica["bytes_left"] <= SIZE * 1.01
    assert f"Behind: {replica['messages_behind']} messages behind" in logs["describe"]

    # It looked, and nothing else: the reassignment ends as if nobody had.
    reassignments.airflow.trigger(
        THROTTLE_DAG_ID, {"kafka_conn_id": "kafka_default", "throttle_mb_per_second": 500}, "faster"
    )
    assert reassignments.wait(run) == "success", reassignments.story(run)
    results, logs = look("look-again", partitions=[f"{topic}-0", f"{topic}-77"], reassignment_id=run)
    assert (results["list_reassignments"]["active"], results["list_reassignments"]["moves"]) == ([], [])
    assert run in {r["reassignment_id"] for r in results["list_reassignments"]["finished"]}
    assert {row["status"] for row in results["describe"]["statuses"]} == {"In sync", "Unknown partition"}
    assert f"All 1 batches of reassignment {run} are finished" in logs["describe"]


def test_what_cannot_be_described_fails_with_one_message_and_no_retry(reassignments):
    asked = {"kafka_conn_id": "kafka_default", "partitions": ["orders"]}
    reassignments.airflow.trigger(DESCRIBE_DAG_ID, asked, "not-describable")
    assert reassignments.wait_for_run(DESCRIBE_DAG_ID, "not-describable") == "failed"
    assert reassignments.airflow.tasks(DESCRIBE_DAG_ID, "not-describable")["describe"]["try_number"] == 1
    log = reassignments.log_of(DESCRIBE_DAG_ID, "not-describable", "describe")
    assert "'Partitions' (partitions): 'orders' is not a partition, expected the form 'topic-0'" in log
