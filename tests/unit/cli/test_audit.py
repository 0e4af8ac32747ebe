"""The audit trail in a terminal."""

import json
import re
import shutil

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from typer.testing import CliRunner
from upath import UPath

from kafka_reassignment.cli import app
from kafka_reassignment.cli.common import console, plain
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope

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
    count = run.record.audit.last_number()
    assert found == {"events": count, "head": count, "last_hash": run.record.audit.last_hash()}


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


def test_an_event_that_cannot_be_read_is_named_in_its_line_and_hides_no_other_one(run):
    last = run.record.audit.last_number()
    (UPath(run.record.root) / "audit" / "000002.json").write_text("{")
    shown = audit(run, "show", "--json")
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [e["sequence"] for e in lines] == list(range(1, last + 1))
    assert "000002.json is not a readable AuditEvent" in lines[1]["unreadable"]
    assert shown.exit_code == ExitCode.DAMAGED
    assert shown.stderr.startswith("1 events cannot be read: 2")
    table = audit(run, "show")
    assert (table.exit_code, "unreadable" in table.stdout) == (ExitCode.DAMAGED, True)


def test_a_record_that_was_removed_does_not_pass_for_a_mistyped_id(run):
    shutil.rmtree(str(run.record.root))
    for command in ("show", "verify"):
        removed = audit(run, command)
        assert removed.exit_code == ExitCode.DAMAGED
        assert "The record of run r of cluster fake-cluster was removed" in removed.stderr


def test_what_people_have_typed_changes_nothing_of_how_a_terminal_shows_the_rest(run, monkeypatch):
    """Whoever may trigger a stop could clear the terminal of who reads the trail, or recolour it."""
    monkeypatch.setattr(console, "width", 500)  # a word that is wider than its column is cut off
    cancel.stop(run.context, CancelScope(), by="bob", reason="ok\x1b]0;owned\x07\x1b[2J\x9b31m\rfine")
    shown, as_json = audit(run, "show").stdout, audit(run, "show", "--json").stdout
    assert r"bob: ok\x1b]0;owned\x1b[2J\x9b31mfine" in shown
    for text in (shown, as_json, plain("a\x1b[2J\x7f\r")):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert "\x1b]0;owned\x07" in json.loads(as_json.splitlines()[-1])["summary"]
    assert plain("as it\tis\n") == "as it\tis\n"
