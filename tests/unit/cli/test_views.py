"""What ``list`` and ``describe`` refuse before they connect to any cluster."""

import json
import sys
from contextlib import nullcontext
from importlib.metadata import version

import pytest
from tests.fakes.cluster import FakeCluster
from typer.testing import CliRunner

from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode

pytestmark = pytest.mark.quick

# By its module: the package has a function of this name.
views = sys.modules["kafka_reassignment.cli.views"]

BOOTSTRAP = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", raising=False)
    monkeypatch.setenv("COLUMNS", "500")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("command", ["list", "describe"])
@pytest.mark.parametrize("options", [[], [*BOOTSTRAP, "--connection", "file.json"]], ids=["none", "both"])
def test_one_way_to_the_cluster_is_expected(run, command, options):
    result = run(command, *options)
    assert result.exit_code == ExitCode.USAGE
    assert "Expected either --bootstrap-server or --connection" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "must be a JSON object of librdkafka keys, found: Expecting property name"),
        ("[1]", "must be a JSON object of librdkafka keys, found a list"),
        ("{}", "has no 'bootstrap.servers'"),
    ],
    ids=["missing", "broken", "a list", "empty"],
)
def test_a_connection_file_that_cannot_be_used_is_refused_with_the_reason(run, tmp_path, content, message):
    file = tmp_path / "connection.json"
    if content is not None:
        file.write_text(content)
    result = run("list", "--connection", str(file))
    assert result.exit_code == ExitCode.USAGE
    assert message in result.stderr


def test_a_cluster_that_does_not_answer_is_one_message(run):
    result = run("list", *BOOTSTRAP)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "127.0.0.1:1" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("servers", ["nonsense", "a:9092,"])
def test_servers_that_are_none_are_corrected_in_the_option_not_in_airflow(run, servers):
    result = run("list", "--bootstrap-server", servers)
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("--bootstrap-server: 'bootstrap.servers' expects host:port")
    assert result.stderr.endswith("Correct --bootstrap-server\n")


@pytest.mark.parametrize(
    "keys",
    [
        {"bootstrap.servers": "nonsense"},
        {"bootstrap.servers": "a:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        {"bootstrap.servers": "a:9092", "zookeeper": {"acl": "none"}},
    ],
    ids=["servers", "login", "zookeeper"],
)
def test_a_connection_file_is_corrected_where_it_is(run, tmp_path, keys):
    file = tmp_path / "connection.json"
    file.write_text(json.dumps(keys))
    result = run("list", "--connection", str(file))
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith(f"--connection {file}")
    assert result.stderr.endswith(f"Correct --connection {file}\n")


def test_a_partition_that_does_not_exist_is_an_error(run, monkeypatch):
    fake = FakeCluster()
    fake.create_topic("orders", [(1, 2, 3)])
    monkeypatch.setattr(views, "opened_cluster", lambda *_: nullcontext(fake))
    known = ["describe", *BOOTSTRAP, "--watch-seconds", "0", "--partition", "orders-0"]
    assert run(*known).exit_code == ExitCode.DONE
    for unknown in ("orders-99", "nothing-0"):
        result = run(*known, "--partition", unknown)
        assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
        assert f"has no partition {unknown}. Correct --partition" in result.stderr


@pytest.mark.parametrize("whose", ["ours", "foreign"])
def test_whose_moves_are_in_flight_is_not_answered_without_the_records(run, monkeypatch, whose):
    """Without them our own moves would pass for another client's."""
    monkeypatch.setattr(views, "opened_cluster", lambda *_: nullcontext(FakeCluster()))
    result = run("list", *BOOTSTRAP, "--whose", whose)
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr.endswith("Give --record-uri\n")


def test_the_version_is_printed(run):
    assert run("--version").stdout == f"kafka-reassignment {version('kafka-reassignment')}\n"


def test_the_help_of_verify_says_what_does_not_count(run):
    text = " ".join(run("verify", "--help").stdout.split())
    assert (
        "What a broker that is down still has of a reassignment's throttle is named, and it is complete all the same"
        in text
    )
