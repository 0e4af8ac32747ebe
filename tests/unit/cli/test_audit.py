"""The audit trail in a terminal."""

import json

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from typer.testing import CliRunner
from upath import UPath

from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode

pytestmark = pytest.mark.quick


@pytest.fixture
def run(tmp_path):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000)
    made = Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (1, 3))]])
    made.do_all()
    return made


def audit(run, command, *options):
    return CliRunner().invoke(
        app, ["audit", command, run.cluster_id, "r", "--record-uri", str(run.store._base), *options]
    )


def test_it_is_printed_as_json_lines(run):
    lines = audit(run, "show", "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [e["step"] for e in events] == [e.step for e in run.record.audit]
    assert events[0]["actor"]["requested_by"] == "ann"


def test_an_intact_trail_is_confirmed_and_an_altered_one_found(run):
    intact = audit(run, "verify")
    assert (intact.exit_code, intact.stdout.split(";")[0]) == (
        0,
        f"{run.record.audit.last_number()} events, chain intact",
    )
    event = UPath(run.record.root) / "audit" / "000002.json"
    event.write_text(event.read_text().replace("succeeded", "succeeded "))
    altered = audit(run, "verify")
    assert altered.exit_code == ExitCode.DAMAGED
    assert "altered" in altered.stderr


def test_what_verify_finds_is_there_for_programs_too(run):
    found = json.loads(audit(run, "verify", "--json").stdout)
    assert found == {"events": run.record.audit.last_number(), "last_hash": run.record.audit.last_hash()}


def test_a_trail_that_was_removed_from_a_reassignment_with_a_plan_is_an_error(run):
    for event in (run.record.root / "audit").iterdir():
        event.unlink()
    (run.store._base / run.cluster_id / "audit-heads" / "r.json").unlink()
    removed = audit(run, "verify")
    assert removed.exit_code == ExitCode.DAMAGED
    assert "has a frozen plan and no audit event" in removed.stderr


def test_a_run_that_does_not_exist_is_an_error(run):
    for command in ("show", "verify"):
        mistyped = CliRunner().invoke(
            app, ["audit", command, run.cluster_id, "mistyped", "--record-uri", str(run.store._base)]
        )
        assert mistyped.exit_code == ExitCode.NOT_FOUND
        assert "There is no record of run mistyped of cluster fake-cluster" in mistyped.stderr
