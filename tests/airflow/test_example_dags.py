"""DAGs of a user's own, which are not among this project's: they use its operators on a real Airflow and real brokers."""

import pytest
from tests.airflow.lab import replicas
from tests.contract.lab import eventually

from kafka_lab.data import fill_topics
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment_airflow.runs import SWEEP_DAG_ID

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]

OWN, THROTTLE = "example_kafka_reassignment", "example_kafka_throttle"


@pytest.fixture(autouse=True)
def parsed(airflow):
    """Airflow is up when this project's DAGs are parsed; a user's own may come later."""

    def all_there():
        return {d["dag_id"] for d in airflow.get("/dags", limit=100)["dags"]} >= {OWN, THROTTLE}

    eventually(all_there, bool, seconds=90)


@pytest.fixture
def slow_by_hand(port, create_topic):
    """A topic whose replication another client has throttled to 2 MB/s: more than ours will allow."""
    topic = create_topic({0: (1, 2)})
    brokers = sorted(port.describe_cluster().live_brokers)
    wanted = {
        **{(ConfigResource.broker(b), key): "2000000" for b in brokers for key in (LEADER_RATE, FOLLOWER_RATE)},
        **{(ConfigResource.topic(topic), key): "*" for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS)},
    }
    changes = [ConfigChange(r, key, ConfigOperation.SET, value) for (r, key), value in wanted.items()]
    assert not any(port.alter_configs(changes).values())
    yield topic
    port.alter_configs([ConfigChange(r, key, ConfigOperation.DELETE) for r, key in wanted])


def test_the_steps_of_a_reassignment_run_in_a_dag_of_ones_own(kafka, port, create_topic, reassignments, configs):
    topic = create_topic({0: (1, 2), 1: (2, 1)})
    fill_topics(kafka.bootstrap_servers, [topic], 8_000_000)
    before = configs(topic)
    conf = {"topics": [topic], "brokers": [3, 4], "throttle_mb_per_second": 40, "keep_free_share": 0}
    reassignments.airflow.trigger(OWN, conf, "own-1")
    assert reassignments.wait_for_run(OWN, "own-1", seconds=300) == "success", reassignments.story("own-1")
    assert {b for brokers in replicas(port, topic).values() for b in brokers} == {3, 4}
    assert configs(topic) == before
    record = reassignments.record("own-1")
    assert record.finished_batches() == {1}
    assert record.recorded_request().request.topics == (topic,)
    [changed] = [event for event in record.audit if event.step == "change_rate"]
    assert "rate of all brokers (leader and follower side): 20 MB/s" in changed.summary
    assert "batches: 1, steps of partitions: 2" in reassignments.result(OWN, "own-1", "report")


def test_what_another_client_moves_is_throttled_until_it_is_over(kafka, port, reassignments, configs, slow_by_hand):
    topic = slow_by_hand
    fill_topics(kafka.bootstrap_servers, [topic], 200_000_000)
    before = configs(topic)
    moving = TopicPartition(topic, 0)
    assert port.alter_reassignments({moving: (1, 3)}) == {moving: None}
    reassignments.airflow.trigger(THROTTLE, {"topics": [topic], "throttle_mb_per_second": 1}, "throttle-1")
    assert reassignments.wait_for_run(THROTTLE, "throttle-1") == "success"
    message = reassignments.result(THROTTLE, "throttle-1", "throttle")
    assert message == f"1 partitions in flight are throttled to 1 MB/s per broker: {moving}"
    assert configs(topic) != before
    assert port.alter_reassignments({moving: None}) == {moving: None}
    eventually(port.list_reassignments, lambda listed: not listed)
    reassignments.airflow.trigger(SWEEP_DAG_ID, {"kafka_conn_id": "kafka_default"}, "sweep-example")
    assert reassignments.wait_for_run(SWEEP_DAG_ID, "sweep-example") == "success"
    assert reassignments.result(SWEEP_DAG_ID, "sweep-example", "sweep_throttles")["left"] == []
    assert configs(topic) == before
    assert replicas(port, topic) == {0: (1, 2)}
