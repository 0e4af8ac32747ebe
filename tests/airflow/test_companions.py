"""The DAGs beside a running reassignment, on a real Airflow: stop, resume, roll back, supersede, change rate and limits."""

import pytest
from tests.airflow.lab import move_json, replicas

from kafka_lab.data import fill_topics
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment_airflow.operators.maintenance_window import REQUESTS_VARIABLE
from kafka_reassignment_airflow.runs import (
    CANCEL_DAG_ID,
    DAG_ID,
    LIMITS_DAG_ID,
    MAINTENANCE_DAG_ID,
    RESUME_DAG_ID,
    SWEEP_DAG_ID,
    THROTTLE_DAG_ID,
)

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]

SLOW = {"throttle_mb_per_second": 0.05, "allow_low_throttle": True}


@pytest.fixture
def slow(kafka, create_topic, reassignments):
    """A reassignment of ours: its first batch is quick, as it only changes an order; the second one copies for minutes."""

    def start(run_id: str, *, copied: int = 2, **request: object) -> tuple[str, str]:
        topic = create_topic(dict.fromkeys(range(copied), (1, 2)) | {copied: (2, 1)})
        fill_topics(kafka.bootstrap_servers, [topic], 24_000_000)
        run = reassignments.trigger(
            run_id,
            job="apply_json",
            reassignment_json=move_json(topic, dict.fromkeys(range(copied), (1, 3)) | {copied: (1, 2)}),
            partition_movements=1,
            **(SLOW | request),
        )
        reassignments.wait_for_task(
            run, "sense_isr_catch_up", "running", "deferred", batch=_copying(reassignments, run)
        )
        return run, topic

    return start


def _copying(reassignments, run: str) -> int:
    """The first batch that copies something; the one of the new order may come before or after."""
    reassignments.wait_for_task(run, "start_batches", "success")
    batches = read_summary(reassignments.record(run).plan_uri).batches
    return next(b.number for b in batches if b.bytes_to_copy)


def companion(reassignments, dag_id: str, run_id: str, seconds: float = 150, **conf: object) -> str:
    """Trigger another DAG and wait for its end."""
    reassignments.airflow.trigger(dag_id, {"kafka_conn_id": "kafka_default", **conf}, run_id)
    return reassignments.wait_for_run(dag_id, run_id, seconds=seconds)


def throttled(configs: dict) -> dict:
    """Every throttle config that has a value."""
    values = {r: {k: v.value for k, v in c.items() if v.value} for r, c in configs.items()}
    return {r: c for r, c in values.items() if c}


def test_one_click_stops_it_all_and_rolls_back_what_was_done(reassignments, port, configs, slow):
    run, topic = slow("stopped")
    assert throttled(configs(topic))
    assert (
        companion(
            reassignments, CANCEL_DAG_ID, "stop-1", reassignment_id="running", roll_back=True, reason="weekend is over"
        )
        == "success"
    )
    assert reassignments.wait(run) == "failed"
    assert "was stopped by admin at" in reassignments.log(run, "wait_for_batches")
    assert "weekend is over" in reassignments.log(run, "wait_for_batches")
    message = reassignments.result(CANCEL_DAG_ID, "stop-1", "cancel_moves")
    assert all(left.startswith("replicas 1,2") for left in message["cancelled"].values())
    assert message["cancelled"]
    assert reassignments.wait_for_run(DAG_ID, "stop-1__roll_back") == "success", reassignments.story(
        "stop-1__roll_back"
    )
    assert replicas(port, topic) == {0: (1, 2), 1: (1, 2), 2: (2, 1)}
    assert port.list_reassignments() == {}
    assert throttled(configs(topic)) == {}
    reassignments.record(run).audit.verify()


def test_a_stopped_one_goes_on_when_resumed(reassignments, port, slow):
    run, topic = slow("resumed")
    assert companion(reassignments, CANCEL_DAG_ID, "stop-2", reassignment_id=run) == "success"
    assert reassignments.wait(run) == "failed"
    assert companion(reassignments, RESUME_DAG_ID, "resume-2", reassignment_id=run) == "success"
    reassignments.wait_for_task(run, "wait_for_batches", "deferred", "running")
    assert companion(reassignments, THROTTLE_DAG_ID, "faster-2", throttle_mb_per_second=200) == "success"
    assert reassignments.wait(run) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3), 1: (1, 3), 2: (1, 2)}


def test_one_whose_run_was_deleted_goes_on_when_resumed(reassignments, airflow, port, slow):
    run, topic = slow("deleted")
    path = f"/dags/{DAG_ID}/dagRuns/{run}"
    airflow.patch(path, {"state": "failed"})
    reassignments.wait(run)
    airflow.delete(path)
    assert companion(reassignments, RESUME_DAG_ID, "resume-7", reassignment_id=run) == "success"
    reassignments.wait_for_task(run, "wait_for_batches", "deferred", "running")
    assert companion(reassignments, THROTTLE_DAG_ID, "faster-7", throttle_mb_per_second=200) == "success"
    assert reassignments.wait(run) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3), 1: (1, 3), 2: (1, 2)}


def test_rate_and_limits_are_changed_while_it_runs(reassignments, port, configs, slow):
    run, topic = slow("changed", copied=3)
    assert reassignments.record(run).plan_in_force().batches == 4
    begun = _copying(reassignments, run)
    assert companion(reassignments, LIMITS_DAG_ID, "limits-3", partition_movements=5) == "success"
    assert companion(reassignments, THROTTLE_DAG_ID, "faster-3", throttle_mb_per_second=200, side="both") == "success"
    assert reassignments.wait(run) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3), 1: (1, 3), 2: (1, 3), 3: (1, 2)}
    steps = [e.step for e in reassignments.record(run).audit]
    assert {"change_limits", "change_rate"} <= set(steps)
    assert reassignments.record(run).plan_in_force().batches == begun + 1, "all that had not begun is one batch"
    assert throttled(configs(topic)) == {}


@pytest.mark.slow
def test_one_partition_is_cancelled_and_a_new_reassignment_supersedes_the_rest(reassignments, port, slow):
    run, topic = slow("superseded")
    outcome = companion(reassignments, CANCEL_DAG_ID, "one-4", reassignment_id=run, partitions=[f"{topic}-0"])
    assert outcome == "success"
    assert reassignments.record(run).withdrawn_partitions() == {f"{topic}-0"}
    later = reassignments.trigger(
        "supersedes",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (2, 4), 1: (2, 4)}),
        throttle_mb_per_second=200,
        supersede=True,
        require_approval=True,
    )
    reassignments.wait_for_question(later)
    reassignments.wait_for_task(later, "keep_throttle", "deferred")
    reassignments.approve(later)
    reassignments.wait_for_task(later, "keep_throttle", "success")
    assert reassignments.wait(later) == "success", reassignments.story(later)
    assert reassignments.wait(run) == "failed"
    assert "superseded by supersedes" in reassignments.log(run, "wait_for_batches")
    found = replicas(port, topic)
    assert (found[0], found[1]) == ((2, 4), (2, 4))
    assert reassignments.record(run).journal().is_settled


@pytest.mark.slow
def test_a_maintenance_window_opens_what_is_asked_for(reassignments, port, create_topic):
    topic = create_topic({0: (1, 2)})
    request = {
        "job": "apply_json",
        "reassignment_json": move_json(topic, {0: (1, 3)}),
        "throttle_mb_per_second": 200,
        "keep_free_share": 0,
    }
    written = "\n".join(f"{field}: {value}" for field, value in request.items())
    assert companion(reassignments, MAINTENANCE_DAG_ID, "window-6", requests=written) == "success"
    [opened] = reassignments.result(MAINTENANCE_DAG_ID, "window-6", "choose_requests")
    run = opened["trigger_run_id"]
    assert reassignments.wait_for_run(DAG_ID, run) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3)}
    assert companion(reassignments, SWEEP_DAG_ID, "sweep-6") == "success"
    assert reassignments.result(SWEEP_DAG_ID, "sweep-6", "sweep_throttles") == {"summaries": {}, "left": []}
    assert companion(reassignments, MAINTENANCE_DAG_ID, "window-7", requests=[{"job": "rebalance"}]) == "failed"
    assert "no throttle: expected" in reassignments.log_of(MAINTENANCE_DAG_ID, "window-7", "choose_requests")


@pytest.mark.slow
def test_a_maintenance_window_reads_its_variable_as_people_have_written_it(reassignments, slow):
    """A cluster that is busy gets nothing, so what was read is seen in the log."""
    run, _ = slow("busy")
    airflow = reassignments.airflow
    for name, value in (
        ("json", '[{"job": "leaders", "throttle_mb_per_second": 9}]'),
        ("text", "job: leaders\nThrottle (MB/s): 9"),
    ):
        airflow.post("/variables", {"key": REQUESTS_VARIABLE, "value": value})
        assert companion(reassignments, MAINTENANCE_DAG_ID, f"variable-{name}") == "success"
        airflow.delete(f"/variables/{REQUESTS_VARIABLE}")
        assert f"is locked by {run} since" in reassignments.log_of(
            MAINTENANCE_DAG_ID, f"variable-{name}", "choose_requests"
        )
    assert companion(reassignments, CANCEL_DAG_ID, "stop-busy", reassignment_id=run) == "success"


@pytest.mark.slow
def test_a_rate_that_makes_no_sense_is_refused_in_the_form_and_in_the_task(reassignments, slow):
    run, _ = slow("refused")
    asked = [{"job": "rebalance", "throttle_mb_per_second": 50}]
    assert companion(reassignments, MAINTENANCE_DAG_ID, "window-5", requests=asked) == "success"
    assert f"is locked by {run} since" in reassignments.log_of(MAINTENANCE_DAG_ID, "window-5", "choose_requests")
    assert companion(reassignments, THROTTLE_DAG_ID, "low-5", throttle_mb_per_second=0.5) == "failed"
    log = reassignments.log_of(THROTTLE_DAG_ID, "low-5", "change_rate")
    assert "The new rate is 500000 bytes per second, expected at least 1000000" in log
    assert companion(reassignments, CANCEL_DAG_ID, "stop-5", reassignment_id=run) == "success"
    assert companion(reassignments, RESUME_DAG_ID, "resume-5", reassignment_id="nope") == "failed"
    assert "has no reassignment nope" in reassignments.log_of(RESUME_DAG_ID, "resume-5", "resume")
