"""A plan without Airflow: the DAG's own steps, which write into a folder of their own and change nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from typer.testing import CliRunner
from upath import UPath

from kafka_reassignment import cluster as adapters
from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.record.store import RecordStore

DECOMMISSION = {"job": "decommission", "brokers": [2], "throttle_mb_per_second": 10}


class ReadOnly(FakeCluster):
    """A cluster that is only looked at."""

    def alter_reassignments(self, *_args, **_more):
        raise AssertionError("a plan submits nothing")

    def alter_configs(self, *_args, **_more):
        raise AssertionError("a plan sets nothing")


@pytest.fixture
def cluster(monkeypatch):
    fake = ReadOnly()
    fake.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    monkeypatch.setattr(adapters, "open_cluster", lambda _settings: fake)
    return fake


@pytest.fixture
def planned(cluster, tmp_path, monkeypatch):
    """The command, in a folder of its own, with a request."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", raising=False)

    def plan(request: object, *options: str):
        text = request if isinstance(request, str) else json.dumps(request)
        return CliRunner().invoke(
            app, ["plan", "-", "--bootstrap-server", "fake:1", "--spark-master", "local[1]", *options], input=text
        )

    return plan


def _but_the_hour(card: str) -> str:
    """A card without the line with the hour of the end: two plans may be made in two minutes."""
    return "\n".join(line for line in card.splitlines() if "Approved as soon as it was planned" not in line)


def test_what_a_request_would_do_is_printed_and_written(planned, cluster, tmp_path):
    done = planned(DECOMMISSION, "--folder", "out", "--json")
    assert done.exit_code == ExitCode.DONE, done.stderr
    answer = json.loads(done.stdout)
    assert answer["score_card"].startswith("**decommission: 2 of 2 partitions in ")
    assert answer["summary"]["bytes_to_copy"] == 2_000_000
    files = {what: Path(path) for what, path in answer["files"].items()}
    assert {name for name, path in files.items() if path.exists()} == set(files)
    target = json.loads(files["reassignment_json"].read_text())
    assert all(2 not in p["replicas"] for p in target["partitions"])
    would = [json.loads(line) for line in files["would_do"].read_text().splitlines()]
    assert any("leader.replication.throttled.rate" in change for change in would[0]["throttle"])
    assert "Snapshot written to" in done.stderr
    assert RecordStore(UPath(tmp_path / "out")).lock_owner(cluster.describe_cluster().cluster_id) is None

    again = planned(DECOMMISSION, "--folder", "out")
    assert (again.exit_code, "expected a new or empty folder" in again.stderr) == (ExitCode.USAGE, True)
    in_words = planned(DECOMMISSION, "--folder", "other")
    assert _but_the_hour(in_words.stdout).startswith(_but_the_hour(answer["score_card"]))
    assert f"Report: {tmp_path / 'other'}" in in_words.stdout


pytestmark = pytest.mark.spark


@pytest.mark.quick
@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        ("{", ExitCode.USAGE, "REQUEST - must be a JSON object of fields of a request, found: Expecting property name"),
        ("[]", ExitCode.USAGE, "found a list"),
        ({**DECOMMISSION, "brokers": [9]}, ExitCode.USAGE, "'brokers' names broker 9, expected brokers of cluster"),
        ({**DECOMMISSION, "job": "nosuch"}, ExitCode.USAGE, "job"),
        ({"job": "roll_back", "roll_back_of": "r", "unthrottled": True}, ExitCode.USAGE, "'roll_back_of' names r"),
    ],
)
def test_what_cannot_be_planned_is_said_and_leaves_no_folder(planned, tmp_path, request_, code, words):
    refused = planned(request_)
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.stderr
    assert "rerun" not in refused.stderr.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.quick
def test_a_folder_that_was_there_stays(planned, tmp_path):
    (tmp_path / "mine").mkdir()
    assert planned({**DECOMMISSION, "brokers": [9]}, "--folder", "mine").exit_code == ExitCode.USAGE
    assert (tmp_path / "mine").is_dir()


@pytest.mark.quick
def test_while_another_reassignment_has_the_lock_nothing_is_planned(planned, cluster, tmp_path):
    run = Run(cluster, UPath(tmp_path / "records"), [[move("orders", 0, (1, 2), (1, 3))]])
    events = sorted(str(path) for path in Path(tmp_path / "records").rglob("*"))
    refused = planned(DECOMMISSION, "--record-uri", str(tmp_path / "records"))
    assert refused.exit_code == ExitCode.REFUSED
    assert "is locked by reassignment r, asked for by ann" in refused.stderr
    assert sorted(str(path) for path in Path(tmp_path / "records").rglob("*")) == events
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"


def test_a_roll_back_is_planned_from_the_records_of_others(planned, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ReadOnly, "alter_reassignments", FakeCluster.alter_reassignments)
    monkeypatch.setattr(ReadOnly, "alter_configs", FakeCluster.alter_configs)
    run = Run(cluster, UPath(tmp_path / "records"), [[move("orders", 0, (1, 2), (1, 3))]])
    run.do_all()
    run.store.release(run.cluster_id, "r")
    monkeypatch.undo()
    monkeypatch.setattr(adapters, "open_cluster", lambda _settings: cluster)
    monkeypatch.chdir(tmp_path)
    asked = {"job": "roll_back", "roll_back_of": "r", "throttle_mb_per_second": 10}
    done = planned(asked, "--record-uri", str(tmp_path / "records"), "--json")
    assert done.exit_code == ExitCode.DONE, done.stderr
    target = json.loads(Path(json.loads(done.stdout)["files"]["reassignment_json"]).read_text())
    assert target["partitions"] == [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]
