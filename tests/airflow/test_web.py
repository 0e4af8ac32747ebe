"""The progress page, served to a logged-in user and to nobody else."""

import json
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, StillWaiting, move
from upath import UPath

from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.cancel import CancelScope
from kafka_reassignment_airflow.web import app as web

pytestmark = pytest.mark.quick


@pytest.fixture
def run(tmp_path):
    cluster = FakeCluster(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    cluster.catch_up_all()
    moves = [move("orders", 0, (1, 2), (1, 3))], [move("orders", 1, (2, 3), (4, 3))]
    made = Run(cluster, UPath(tmp_path), list(moves), reassignment_id="manual__<b>1+2:3</b>")
    made.when_waiting = cluster.catch_up_all
    return made


@pytest.fixture
def client(run, monkeypatch):
    """The application as the api-server mounts it, with its login left out: that is tested on a real Airflow."""
    monkeypatch.setattr(web, "record_store", lambda: run.store)
    app = web.create_app()
    app.router.dependencies.clear()
    for route in app.routes:
        route.dependant.dependencies.clear()
    return TestClient(app)


def query(run):
    return {"cluster": run.cluster_id, "id": "manual__<b>1+2:3</b>"}


def test_the_list_has_each_reassignment_with_what_it_does_now(client, run):
    run.do_all(batch=1)
    run.record.write_progress(ProgressNote(batch=2, at=datetime(2026, 1, 1, tzinfo=UTC), text="waits: <disk> full"))
    shown = client.get("/").text
    assert "manual__&lt;b&gt;1+2:3&lt;/b&gt;" in shown
    assert "1 of 2" in shown
    assert "waits: &lt;disk&gt; full" in shown
    assert "<b>1+2" not in shown


def test_a_page_shows_why_a_batch_waits_and_its_audit_trail(client, run):
    run.cluster.kill(3)
    with pytest.raises(StillWaiting):
        run.do("admit")
    shown = client.get("/reassignment", params=query(run)).text
    assert "batch 1 waits:" in shown
    run.cluster.restart(3)
    run.do_all(batch=1)
    shown = client.get("/reassignment", params=query(run)).text
    assert "expansions submitted" in shown
    lines = client.get("/audit.jsonl", params=query(run)).text.splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(lines) == len(list(run.record.audit))


def test_a_run_and_a_run_of_a_batch_lead_to_the_reassignment(client, run):
    for run_id in (query(run)["id"], query(run)["id"] + "__0002"):
        assert "0 of 2" in client.get("/run", params={"id": run_id}).text
    assert client.get("/run", params={"id": "scheduled__other"}).status_code == 404


def test_a_stopped_one_says_who_stopped_it(client, run):
    cancel.stop(run.context, CancelScope(), by="bob", reason="weekend is over")
    assert "stopped by bob: weekend is over" in client.get("/").text


@pytest.mark.parametrize("id_", ["../../etc/passwd", "/etc/passwd", "..", "a" * 250, "\x00", "%2e%2e%2f"])
def test_an_id_never_becomes_a_path(client, run, id_):
    for path in ("/reassignment", "/audit.jsonl", "/plan", "/run"):
        answer = client.get(path, params={"cluster": run.cluster_id, "id": id_})
        assert answer.status_code == 404
        assert "root:" not in answer.text


def test_without_the_plan_there_is_no_report(client, run):
    assert client.get("/plan", params=query(run)).status_code == 404
    run.record.write_file("plan.html", b"<html>report</html>")
    assert "report" in client.get("/plan", params=query(run)).text
