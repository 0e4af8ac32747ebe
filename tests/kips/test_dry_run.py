"""``plan`` and ``verify`` on real brokers: what is planned without Airflow is what Kafka's own tool carries out and confirms."""

import json

import pytest
from tests.contract.lab import eventually
from tests.steps_lab import move
from typer.testing import CliRunner

from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def verified(views, *options):
    where = ["--bootstrap-server", views.kafka.bootstrap_servers]
    return CliRunner().invoke(app, ["verify", *where, *options, "--json"])


def test_a_plan_is_made_carried_out_by_kafkas_tool_and_verified(views):
    partitions = views.filled_topic((1, 2), (2, 3))
    topic = partitions[0].topic
    resources = [*map(ConfigResource.broker, range(1, 7)), ConfigResource.topic(topic)]
    before = views.cluster.describe_configs(resources, THROTTLE_KEYS)
    request = {
        "job": "move_topics",
        "topics": [topic],
        "brokers": [4, 5],
        "throttle_mb_per_second": 50,
        "keep_free_share": 0,
    }

    planned = views.json("plan", views.file(json.dumps(request)), "--folder", str(views.folder / "planned"))

    assert planned["summary"]["bytes_to_copy"] >= 3 * 8_000_000
    assert planned["score_card"].startswith("**move_topics: 2 of ")
    assert views.cluster.list_reassignments() == {}
    assert views.cluster.describe_configs(resources, THROTTLE_KEYS) == before
    file = planned["files"]["reassignment_json"]

    not_yet = verified(views, "--reassignment-json-file", file)
    assert not_yet.exit_code == ExitCode.NOT_SO
    assert json.loads(not_yet.stdout)["at_target"] == 0
    views.kafka.tool("--execute", "--reassignment-json-file", file)
    eventually(lambda: verified(views, "--reassignment-json-file", file).exit_code, lambda code: code == 0, seconds=60)
    assert "is completed" in views.kafka.tool("--verify", "--reassignment-json-file", file, "--preserve-throttles")
    assert {b for p in partitions for b in views.replicas(p)} == {4, 5}

    views.kafka.tool("--execute", "--reassignment-json-file", planned["files"]["rollback_json"])
    back = ["--reassignment-json-file", planned["files"]["rollback_json"]]
    eventually(lambda: verified(views, *back).exit_code, lambda code: code == 0, seconds=60)
    assert [views.replicas(p) for p in partitions] == [(1, 2), (2, 3)]


def test_our_throttle_in_the_record_is_not_complete_until_it_is_cleared(views):
    [partition] = views.filled_topic((1, 2))
    views.submitted([move(partition.topic, 0, (1, 2), (1, 3), 8_000_000)], mb_per_second=0.02)
    records = ["--record-uri", str(views.folder / "records")]
    moving = verified(views, *records)
    assert moving.exit_code == ExitCode.NOT_SO
    found = json.loads(moving.stdout)
    assert found["wrong"] == {str(partition): f"{partition} is still being reassigned"}
    assert any("throttled.rate" in text for text in found["throttles"])
    watched = CliRunner().invoke(
        app, ["watch", "--once", "--json", "--bootstrap-server", views.kafka.bootstrap_servers, *records]
    )
    look = json.loads(watched.stdout)
    assert (look["partitions_in_flight"], look["batch"], look["status"]) == (1, 1, "active")
    assert 0 < look["bytes_left"] <= 8_500_000
