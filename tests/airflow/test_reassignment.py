"""The real DAGs on a real Airflow against real brokers, rerun in every way the UI offers."""

import re
from importlib.metadata import version

import pytest
from packaging.version import Version
from tests.airflow.lab import move_json, replicas
from tests.contract.lab import eventually

from kafka_lab.airflow import COMPONENTS
from kafka_lab.airflow_client import AirflowApiError
from kafka_lab.data import fill_topics
from kafka_lab.ledger import Ledger
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]

FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"

CLEARED_WITH_IT = (
    {"set_throttle", "clear_throttle", "start_next_batch"}
    if Version(version("apache-airflow")) >= Version("3.3")
    else set()
)
"""Since 3.3 Airflow clears setup and teardown with a task between them."""


@pytest.fixture
def by_hand(port):
    """Configs that another client set before; taken back after the test."""
    done = []

    def set_config(resource, key, value):
        assert not any(port.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)]).values())
        done.append(ConfigChange(resource, key, ConfigOperation.DELETE))
        # A broker shows a config a moment after the controller has taken it.
        eventually(
            lambda: port.describe_configs([resource], [key])[resource], lambda s: key in s and s[key].value == value
        )

    yield set_config
    for change in done:
        port.alter_configs([change])


def test_a_decommission_under_throttle_ends_verified_with_everything_as_before(
    kafka, port, create_topic, reassignments, configs, by_hand
):
    topic = create_topic({i: (1 + i % 3, 4 + i % 3) for i in range(6)}, configs={"min.insync.replicas": "1"})
    fill_topics(kafka.bootstrap_servers, [topic], 12_000_000)
    placed_before = replicas(port, topic)
    by_hand(ConfigResource.broker(1), FOLLOWER_RATE, "77000000")
    by_hand(ConfigResource.topic(topic), LEADER_LIST, "0:1")
    before = configs(topic)
    with Ledger(kafka.bootstrap_servers, [topic]) as ledger:
        run = reassignments.trigger(
            "decommission",
            job="decommission",
            brokers=[6],
            topics=[topic],
            throttle_mb_per_second=5,
            partition_movements=1,
        )
        assert reassignments.wait(run) == "success", reassignments.story(run)
        ledger.stop()
        text = ledger.verify()
    assert text.lost == 0
    assert text.acknowledged > 0
    assert configs(topic) == before
    assert all(6 not in r and len(r) == 2 for r in replicas(port, topic).values())

    # One column per batch, one row per step, each with its own try, log and audit event.
    record = reassignments.record(run)
    assert record.frozen_plan().batches == 2
    rollback = parse_plan(record.read_file("rollback.json"))
    assert {p.partition: r for p, r in rollback.items()} == {p: placed_before[p] for p in (2, 5)}
    assert {p.partition: r for p, r in parse_plan(record.read_file("reassignment.json")).items()}.items() <= replicas(
        port, topic
    ).items()
    for number in (1, 2):
        tasks = reassignments.airflow.tasks(BATCH_DAG_ID, batch_run_id(run, number))
        assert {t: i["state"] for t, i in tasks.items()} == dict.fromkeys(BATCH_STEPS, "success") | (
            {"start_next_batch": "skipped"} if number == 2 else {}
        )
        assert "audit event" in reassignments.log(run, "submit_batch", number)
        events = [e for e in record.audit if e.batch == number]
        assert sorted(e.step for e in events if e.outcome != "begun") == sorted(BATCH_STEPS)
        assert [e.step for e in events if e.outcome == "begun"] == ["drop_old_replicas"]
    assert {e.actor.requested_by for e in record.audit if e.batch is None} == {"admin"}
    assert record.audit.verify() == 2 * (len(BATCH_STEPS) + 1) + 9

    # Days later: one step alone, then everything again. Nothing is left to do, and nothing is changed.
    after = replicas(port, topic)
    cleared = reassignments.clear(run, 1, "sense_isr_catch_up", only_failed=False)
    assert set(cleared) == {"sense_isr_catch_up"} | CLEARED_WITH_IT
    reassignments.wait_for_batch(run, 1, "success")
    reassignments.airflow.clear("kafka_reassignment", run, only_failed=False)
    assert reassignments.wait(run) == "success", reassignments.story(run)
    assert replicas(port, topic) == after
    assert configs(topic) == before


def test_a_failed_sensor_is_rerun_and_the_chain_goes_on_by_itself(kafka, port, create_topic, reassignments, configs):
    topic = create_topic({0: (1, 2), 1: (1, 2)})
    fill_topics(kafka.bootstrap_servers, [topic], 50_000_000)
    before = configs(topic)
    run = reassignments.trigger(
        "failed-sensor",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3), 1: (1, 3)}),
        throttle_mb_per_second=1,
        partition_movements=1,
    )
    reassignments.wait_for_task(run, "sense_isr_catch_up", "running", "deferred", batch=1)

    # The sensor fails while data moves: the throttle must stay.
    batch = batch_run_id(run, 1)
    reassignments.airflow.patch(
        f"/dags/{BATCH_DAG_ID}/dagRuns/{batch}/taskInstances/sense_isr_catch_up", {"new_state": "failed"}
    )
    reassignments.wait_for_batch(run, 1, "failed")
    assert "Refusing to clear the replication throttle: 1 of 1 partitions of batch 1" in reassignments.log(
        run, "clear_throttle", 1
    )
    assert port.list_reassignments([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert configs(topic) != before

    # Another request for the same cluster is refused with the name of the lock's owner.
    second = reassignments.trigger("second", job="rebalance", throttle_mb_per_second=5)
    assert reassignments.wait(second) == "failed"
    assert "locked by reassignment failed-sensor, asked for by admin, since" in reassignments.log(second, "preflight")

    # "Clear only failed" on the run, as the UI does it: the batch, the next one and the whole go on.
    reassignments.clear(run, 1, only_failed=True)
    assert reassignments.wait(run) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3), 1: (1, 3)}
    assert configs(topic) == before


def test_what_another_client_cancels_is_left_out_and_named_at_the_end(
    kafka, port, create_topic, reassignments, configs
):
    topic = create_topic({0: (1, 2), 1: (1, 2)})
    fill_topics(kafka.bootstrap_servers, [topic], 40_000_000)
    before = configs(topic)
    moves = move_json(topic, {0: (3, 2), 1: (3, 2)})
    run = reassignments.trigger("cancelled", job="apply_json", reassignment_json=moves, throttle_mb_per_second=1.5)
    partition = TopicPartition(topic, 0)
    reassignments.wait_for_task(run, "sense_isr_catch_up", "running", "deferred", batch=1)
    assert port.alter_reassignments({partition: None}) == {partition: None}
    reassignments.wait_for_batch(run, 1, "success")
    assert reassignments.wait(run) == "failed"
    assert "another client cancelled its reassignment" in reassignments.log(run, "verify")
    assert replicas(port, topic) == {0: (1, 2), 1: (3, 2)}
    assert configs(topic) == before


def test_a_partition_that_moved_since_the_plan_is_left_out_and_reported(
    kafka, port, create_topic, reassignments, configs
):
    topic = create_topic({0: (1, 2), 1: (1, 2)})
    before = configs(topic)
    run = reassignments.trigger(
        "stale",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3), 1: (1, 3)}),
        throttle_mb_per_second=5,
        require_approval=True,
    )
    reassignments.wait_for_question(run)
    port.alter_reassignments({TopicPartition(topic, 1): (1, 5)}, allow_replication_factor_change=False)
    reassignments.approve(run)
    assert reassignments.wait(run) == "failed", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3), 1: (1, 5)}
    log = reassignments.log(run, "verify")
    assert f"There is no active reassignment of partition {topic}-1, but replica set is 1,5 rather than 1,3" in log
    assert "stale plan" in log
    assert configs(topic) == before
    assert reassignments.lock_owner() is None


def test_killing_airflow_in_the_middle_of_a_batch_and_starting_it_again_completes_the_reassignment(
    kafka, port, create_topic, reassignments, configs
):
    topic = create_topic({0: (1, 2), 1: (2, 1)})
    fill_topics(kafka.bootstrap_servers, [topic], 40_000_000)
    before = configs(topic)
    run = reassignments.trigger(
        "killed",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3), 1: (4, 1)}),
        throttle_mb_per_second=2,
        partition_movements=1,
    )
    reassignments.wait_for_task(run, "sense_isr_catch_up", "running", "deferred", batch=1)
    # First what tasks report to; then the whole machine: the scheduler has the LocalExecutor's workers and their
    # tasks below it.
    for dying in (["api-server"], COMPONENTS):
        for component in dying:
            reassignments.airflow.kill_component(component)
        for component in dying:
            reassignments.airflow.start_component(component)
        reassignments.airflow.wait_until_healthy()
    assert reassignments.wait(run, seconds=300) == "success", reassignments.story(run)
    assert replicas(port, topic) == {0: (1, 3), 1: (4, 1)}
    assert configs(topic) == before


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"job": "decommission", "brokers": [99]}, "'brokers' names broker 99, expected brokers of cluster"),
        (
            {"job": "move_topics", "topics": ["nowhere"], "brokers": [1]},
            "'topics' names 'nowhere', which no topic of the cluster matches",
        ),
        ({"job": "rebalance", "rate": 5}, "'rate' is not a known field; check its spelling"),
        ({"job": "apply_json", "reassignment_json": "{"}, "reassignment"),
        ({"job": "rebalance", "throttle_mb_per_second": 0.5}, "throttle_mb_per_second is 0.5, expected at least 1"),
    ],
    ids=["unknown broker", "unknown topic", "unknown field", "broken JSON", "low rate"],
)
def test_a_request_that_cannot_be_carried_out_fails_at_preflight_with_one_message(
    reassignments, port, conf, message, request
):
    run = reassignments.trigger(
        "bad-" + request.node.callspec.id.replace(" ", "-"), **{"throttle_mb_per_second": 5, **conf}
    )
    assert reassignments.wait(run) == "failed"
    assert message in reassignments.log(run, "preflight")
    assert reassignments.state(run, "plan") == "upstream_failed"
    assert port.list_reassignments() == {}


@pytest.mark.parametrize(
    "conf",
    [
        {"throttle_mb_per_second": 0},
        {"throttle_mb_per_second": -1},
        {"throttle_mb_per_second": "fast"},
        {"partition_movements": 0},
        {"job": "explode"},
    ],
    ids=str,
)
def test_the_form_refuses_what_its_schema_can_tell(reassignments, conf, request):
    never = "never-" + "-".join(
        re.findall(r"\w+", request.node.callspec.id)
    )  # of its own: a second one would be a conflict
    with pytest.raises(AirflowApiError, match="HTTP 400"):
        reassignments.trigger(never, **{"job": "rebalance", "throttle_mb_per_second": 5, **conf})
    assert never not in reassignments.airflow.runs(DAG_ID)
