"""What people do to runs in the UI, while replicas copy: the table of docs/operations.md, on a real Airflow."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.airflow.lab import move_json, replicas
from tests.throttle_watch import ThrottleWatch

from kafka_lab.data import fill_topics
from kafka_reassignment.model import TopicPartition
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID, batch_run_id

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.slow]


def test_marking_clearing_and_deleting_runs_never_moves_data_without_a_throttle(
    kafka, port, create_topic, reassignments, configs
):
    airflow = reassignments.airflow
    topic = create_topic({0: (1, 2), 1: (1, 2), 2: (1, 2)})
    fill_topics(kafka.bootstrap_servers, [topic], 36_000_000)
    before = configs(topic)
    asked = {
        "job": "apply_json",
        "reassignment_json": move_json(topic, dict.fromkeys(range(3), (1, 3))),
        "throttle_mb_per_second": 0.5,
        "allow_low_throttle": True,
        "partition_movements": 1,
    }

    def copying(batch: int) -> None:
        reassignments.wait_for_task(run, "sense_isr_catch_up", "running", "deferred", batch=batch)
        assert port.list_reassignments()

    partitions = [TopicPartition(topic, n) for n in range(3)]
    with ThrottleWatch(
        kafka.bootstrap_servers, partitions, lambda: 500_000.0, foreign={}, excused=frozenset[int], every_seconds=0.3
    ) as watch:
        run = reassignments.trigger("by-hand", **asked)
        first, second, third = (f"/dags/{BATCH_DAG_ID}/dagRuns/{batch_run_id(run, n)}" for n in (1, 2, 3))

        # A batch's run is marked as failed: its teardown keeps the throttle. The whole run is cleared: it goes on.
        copying(1)
        airflow.patch(first, {"state": "failed"})
        reassignments.wait_for_batch(run, 1, "failed")
        reassignments.wait_for_task(run, "clear_throttle", "failed", batch=1)
        assert "Refusing to clear the replication throttle" in reassignments.log(run, "clear_throttle", 1)
        airflow.clear(BATCH_DAG_ID, batch_run_id(run, 1), only_failed=False)

        # A sensor is marked as succeeded: the step after it looks for itself, keeps the old replicas, and waits as
        # well.
        copying(2)
        airflow.patch(f"{second}/taskInstances/sense_isr_catch_up", {"new_state": "success"})
        reassignments.wait_for_task(run, "drop_old_replicas", "running", "deferred", batch=2)
        assert len(port.describe_partitions([topic])[TopicPartition(topic, 1)].replicas) == 3
        reassignments.wait_for_batch(run, 2, "success")

        # All of it is marked as failed and the batch's run deleted: the copy goes on, under its throttle.
        copying(3)
        airflow.patch(f"/dags/{DAG_ID}/dagRuns/{run}", {"state": "failed"})
        airflow.patch(third, {"state": "failed"})
        reassignments.wait_for_batch(run, 3, "failed")
        airflow.delete(third)
        assert port.list_reassignments()
        assert configs(topic) != before

        # The whole run is cleared: the plan is kept, what is done stays so, and the third batch is started again.
        plan = reassignments.record(run).frozen_plan()
        airflow.clear(DAG_ID, run, only_failed=False)
        assert reassignments.wait(run) == "success", reassignments.story(run)
        assert reassignments.record(run).frozen_plan() == plan
        assert replicas(port, topic) == dict.fromkeys(range(3), (1, 3))
        assert configs(topic) == before

        # The run is deleted, with all that Airflow knows of it: the same id and request find everything done.
        airflow.delete(f"/dags/{DAG_ID}/dagRuns/{run}")
        reassignments.trigger("by-hand", **asked)
        assert reassignments.wait(run) == "success", reassignments.story(run)
        assert reassignments.record(run).frozen_plan() == plan

    assert watch.problems == []
    assert watch.worst.longest_gap < 0.9, "a broker's answers follow the controller by a moment"
    assert watch.looks > 20
    reassignments.record(run).audit.verify()


def test_a_batch_run_that_is_marked_while_it_waits_is_red_because_nothing_of_it_is_done(
    create_topic, reassignments, port
):
    """Airflow skips what has not begun, teardowns whose setup was skipped among them: without more the run would be green."""
    airflow = reassignments.airflow
    topic = create_topic({0: (1, 2)})
    later = datetime.now(UTC) + timedelta(days=30)
    run = reassignments.trigger(
        "marked",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3)}),
        throttle_mb_per_second=200,
        not_before=f"{later:%Y-%m-%d %H:%M}",
    )
    for state in ("failed", "success"):
        reassignments.wait_for_task(run, "admit", "deferred", batch=1)
        airflow.patch(f"/dags/{BATCH_DAG_ID}/dagRuns/{batch_run_id(run, 1)}", {"state": state})
        reassignments.wait_for_batch(run, 1, "failed")
        assert reassignments.state(run, "start_next_batch", batch=1) == "failed"
        assert reassignments.state(run, "set_throttle", batch=1) == "skipped"
        airflow.clear(BATCH_DAG_ID, batch_run_id(run, 1), only_failed=False)
    reassignments.wait_for_task(run, "admit", "deferred", batch=1)
    airflow.trigger(CANCEL_DAG_ID, {"kafka_conn_id": "kafka_default", "reassignment_id": "running"}, "stop-marked")
    assert reassignments.wait_for_run(CANCEL_DAG_ID, "stop-marked") == "success"
    assert reassignments.wait(run) == "failed"
    assert replicas(port, topic) == {0: (1, 2)}
