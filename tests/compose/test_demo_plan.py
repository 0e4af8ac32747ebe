"""What the demo asks for can be planned, on the racks of the compose file."""

import pytest
import yaml

from kafka_lab.airflow import PROJECT
from kafka_lab.compose.demo import LEAVING, TOPICS, assignment
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan, write_reassignment_json
from kafka_reassignment.planner.pipeline import plan
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.spark

SERVICES = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]


@pytest.mark.parametrize(
    ("prefix", "brokers", "taker"), [("kafka", 4, 4), ("kafka-secured", 3, 2), ("kafka-zookeeper", 3, 2)]
)
def test_one_broker_takes_all_that_leaves(spark, cluster, tmp_path, prefix, brokers, taker):
    racks = {b: SERVICES[f"{prefix}-{b}"]["environment"]["KAFKA_BROKER_RACK"] for b in range(1, brokers + 1)}
    assert all(len({racks[b] for b in replicas}) == len(replicas) for replicas in assignment(brokers))
    cluster.racks(**{rack: tuple(b for b in racks if racks[b] == rack) for rack in racks.values()})
    for topic in TOPICS:
        cluster.topic(topic, *assignment(brokers))
    request = ReassignmentRequest(
        job=Job.DECOMMISSION, brokers=(LEAVING,), throttle_mb_per_second=10, keep_free_share=0
    )
    plan(spark, cluster.write(tmp_path / "snapshot"), request, str(tmp_path / "plan"))
    write_reassignment_json(str(tmp_path / "plan"), str(tmp_path / "plan.json"))
    wanted = parse_plan((tmp_path / "plan.json").read_text())
    leaving = {
        TopicPartition(topic, p): set(replicas)
        for topic in TOPICS
        for p, replicas in enumerate(assignment(brokers))
        if LEAVING in replicas
    }
    assert {p: set(replicas) for p, replicas in wanted.items()} == {
        p: replicas - {LEAVING} | {taker} for p, replicas in leaving.items()
    }
