"""What cannot be asked of a local cluster; nothing is started here."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from kafka_lab.app import app
from kafka_lab.cluster import LocalCluster
from kafka_lab.errors import LocalClusterError
from kafka_lab.zookeeper import ZooKeeperCluster

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"brokers": 0}, "1 to 100 brokers, found 0"),
        ({"racks": 27}, "1 to 26 racks, found 27"),
        ({"log_dirs": 0}, "1 to 20 log dirs of each broker, found 0"),
        ({"version": "4"}, "Kafka version '4' is not a release"),
        ({"detached": True}, "needs a directory to be found by"),
        ({"version": "3.8.1"}, "Kafka 3.8.1 runs here with ZooKeeper only, expected 3.9.0 or later"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_before_anything_starts(arguments, message):
    with pytest.raises(LocalClusterError, match=message):
        LocalCluster(**arguments)


def test_a_release_without_zookeeper_is_refused_with_zookeeper():
    with pytest.raises(LocalClusterError, match=r"Kafka 4.3.1 has no ZooKeeper any more, expected a release before"):
        ZooKeeperCluster(version="4.3.1")


def test_a_broker_that_is_not_of_the_cluster_is_named_with_those_that_are():
    with pytest.raises(LocalClusterError, match=r"Broker 7 is not of this local cluster, expected one of 1, 2, 3"):
        LocalCluster(brokers=3).kill(7)


def test_a_cluster_that_is_not_started_cannot_be_steered():
    with pytest.raises(LocalClusterError, match=r"Expected a started local cluster, .* Call start\(\) first"):
        LocalCluster(brokers=3).start_broker(1)


def test_stopping_what_was_never_started_does_nothing():
    LocalCluster(brokers=3).stop()


def local(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_command_line_prints_errors_without_a_trace(tmp_path):
    result = local("status", "--dir", str(tmp_path))
    assert result.exit_code == 1
    assert f"There is no local cluster in {tmp_path}" in result.output
    assert "Traceback" not in result.output


def test_a_config_without_a_value_is_refused():
    result = local("start", "--config", "log.retention.hours")
    assert result.exit_code == 1
    assert "--config 'log.retention.hours' is not a config, expected KEY=VALUE" in result.output


def test_every_command_has_a_help_text():
    output = local("--help").output
    for command in ("start", "fetch", "status", "stop", "kill", "restart", "pause", "resume", "add-broker", "tool"):
        assert f" {command} " in output
        assert local(command, "--help").exit_code == 0
