"""A local cluster as its clients see it, while its brokers are killed, paused and restarted."""

from __future__ import annotations

import json
import socket

import pytest
from tests.kafka_fixtures import fresh_topic_name

from kafka_lab.clients import admin_client, controller_answers, live_brokers
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic
from kafka_lab.errors import LocalClusterError
from kafka_lab.nodes import HOST, Role

pytestmark = pytest.mark.kafka

ALL = frozenset({1, 2, 3, 4, 5, 6})


def test_six_brokers_on_three_racks_answer_each_for_itself(kafka):
    assert frozenset(kafka.brokers) == ALL
    assert "".join(kafka.rack(b) for b in kafka.brokers) == "abcabc"
    assert all(live_brokers(kafka.address(b), timeout_seconds=5) == ALL for b in ALL)


def test_clients_see_the_racks_and_the_cluster_id(kafka, kafka_admin):
    described = kafka_admin.describe_cluster(request_timeout=10).result()
    assert described.cluster_id == kafka.cluster_id
    assert {node.id: node.rack for node in described.nodes} == {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def test_features_are_those_kafkas_own_formatting_turns_on(kafka):
    # Eligible leader replicas (KIP-966) are on in new clusters of 4.1 and later, and change what a drop may do.
    controller_log = (kafka.directory / "controller-9000" / "server.log").read_text()
    assert "eligible.leader.replicas.version" in controller_log
    assert "bootstrap.checkpoint" in controller_log


def test_a_killed_broker_is_gone_for_clients_and_comes_back_on_its_data(breakable_kafka, create_topic):
    kafka = breakable_kafka
    topic = create_topic({0: (2, 3)})
    kafka.kill(2)
    assert kafka.pid(2) is None
    kafka.wait_until_live(ALL - {2})
    kafka.start_broker(2)
    kafka.wait_until_up()
    kafka.wait_until_in_sync()
    assert (kafka.data_dir(2) / f"{topic}-0").is_dir()


def test_a_paused_broker_is_fenced_and_its_process_stays(breakable_kafka):
    kafka = breakable_kafka
    pid = kafka.pid(3)
    kafka.pause(3)
    assert kafka.running_brokers == ALL - {3}
    kafka.wait_until_live(ALL - {3})
    kafka.resume(3)
    kafka.wait_until_live(ALL)
    assert kafka.pid(3) == pid


def test_a_restarted_broker_is_another_process_on_the_same_address(breakable_kafka):
    kafka = breakable_kafka
    pid, address = kafka.pid(4), kafka.address(4)
    kafka.restart(4)
    assert kafka.pid(4) not in {None, pid}
    assert live_brokers(address, timeout_seconds=5) == ALL


def test_without_the_controller_brokers_serve_but_nothing_changes(breakable_kafka):
    kafka = breakable_kafka
    kafka.kill_controller()
    assert live_brokers(kafka.address(1), timeout_seconds=5) == ALL
    assert not controller_answers(kafka.bootstrap_servers, timeout_seconds=2)
    kafka.start_controller()
    kafka.wait_until_up()
    kafka.pause_controller()
    assert not controller_answers(kafka.bootstrap_servers, timeout_seconds=2)
    kafka.resume_controller()
    kafka.wait_until_up()


def test_healing_brings_back_whatever_is_down(kafka):
    kafka.kill(5)
    kafka.pause(6)
    kafka.kill_controller()
    kafka.heal()
    assert kafka.running_brokers == ALL
    assert live_brokers(kafka.address(6), timeout_seconds=5) == ALL


def test_kafkas_own_tool_moves_a_partition(kafka, create_topic, kafka_admin, tmp_path):
    topic = create_topic({0: (1, 2)})
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2, 3]}]}))
    assert "Successfully started" in kafka.tool("--execute", "--reassignment-json-file", str(plan))
    kafka.wait_until_in_sync()
    assert kafka_admin.list_topics(topic).topics[topic].partitions[0].replicas == [2, 3]


def test_a_tool_that_fails_is_reported_with_its_output(kafka):
    with pytest.raises(
        LocalClusterError, match=r"--nonsense: expected success, found exit code 1 and this output:\n.*"
    ):
        kafka.tool("--nonsense")


class RobbedCluster(LocalCluster):
    """A cluster whose first broker finds its port taken between choosing it and listening on it."""

    thief: socket.socket | None = None
    lines: list[str]

    def _write_files(self, node):
        if node.role is Role.BROKER and self.thief is None:
            self.thief = socket.create_server((HOST, node.port))
        return super()._write_files(node)


def test_a_port_taken_in_between_costs_another_attempt_not_the_start():
    lines = []
    cluster = RobbedCluster(brokers=1, log_line=lines.append)
    try:
        with cluster:
            assert cluster.running_brokers == {1}
            assert cluster.thief.getsockname()[1] != int(cluster.address(1).split(":")[1])
    finally:
        cluster.thief.close()
    assert any("broker-1 of the local cluster could not listen" in line for line in lines)


def test_a_broker_that_cannot_start_is_reported_with_its_log_and_leaves_nothing():
    cluster = LocalCluster(brokers=1, static_configs={1: {"log.segment.bytes": "no number"}})
    with pytest.raises(LocalClusterError, match=r"broker-1 of the local cluster ended by itself.*no number") as failed:
        cluster.start()
    assert "server.log" not in str(failed.value)
    with pytest.raises(LocalClusterError, match=r"Call start\(\) first"):
        _ = cluster.directory


def test_a_kept_directory_starts_again_as_the_same_cluster(tmp_path):
    topic = fresh_topic_name("kept")
    arguments = {"directory": tmp_path, "racks": 2}
    configs = {2: {"leader.replication.throttled.rate": "5000000"}}
    with LocalCluster(brokers=2, log_dirs=2, static_configs=configs, **arguments) as first:
        create_topic(first.bootstrap_servers, topic, [(1, 2), (2, 1)])
        cluster_id, racks = first.cluster_id, [first.rack(b) for b in first.brokers]
        assert first.add_broker(rack="far") == 3
        log_dirs = [list(first.data_dir(1, i).glob(f"{topic}-*")) for i in (0, 1)]
        assert [len(partitions) for partitions in log_dirs] == [1, 1]
    with LocalCluster(**arguments) as second:
        assert second.cluster_id == cluster_id
        assert [second.rack(b) for b in second.brokers] == [*racks, "far"]
        assert set(admin_client(second.bootstrap_servers).list_topics(timeout=10).topics) >= {topic}
        assert "leader.replication.throttled.rate=5000000" in (tmp_path / "broker-2" / "server.properties").read_text()
    assert (tmp_path / "cluster.json").exists()
