"""The page and the list where something of the records cannot be read, or all of them."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient
from tests.airflow.test_web import client_of

from kafka_reassignment.errors import (
    InvalidRequestError,
    RecordError,
    RecordStoreUnusableError,
    RecordUnavailableError,
)
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment_airflow.web import app as web
from kafka_reassignment_airflow.web.answers import answers
from kafka_reassignment_airflow.web.forms import forms_of
from kafka_reassignment_airflow.web.rows import Rows
from kafka_reassignment_airflow.web.views import Pages

pytestmark = pytest.mark.longer
NOW = datetime(2026, 1, 1, 12, 1, tzinfo=UTC)


@pytest.fixture
def run(two_batches):
    run = two_batches(reassignment_id="r")
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


@pytest.fixture
def damaged(run):
    Path(str(run.folder), run.cluster_id, "lock", "000001.json").write_bytes(b"")
    return run


def test_the_page_says_that_the_lock_cannot_be_read_and_how_it_is_released(damaged, monkeypatch):
    page = Pages().page(damaged.store, damaged.cluster_id, "r")
    said = {it.question: it for it in answers(page)}
    assert page.row.status is ReassignmentStatus.UNKNOWN
    assert said["What is it doing?"].words == "Not known: the lock of the cluster cannot be read"
    assert "--force --number 1" in said["What do I do now?"].words
    assert {it.tone for it in said.values()} == {"bad"}
    assert forms_of(page.found) == {}
    shown = client_of(damaged, monkeypatch).get("/reassignment", params={"cluster": damaged.cluster_id, "id": "r"})
    assert "The lock of the cluster cannot be read." in shown.text
    assert "The cluster is not locked" not in shown.text


def test_the_list_takes_the_lock_as_it_is_before_and_after_it_is_damaged_and_released(run):
    rows, lock = Rows(), Path(str(run.folder), run.cluster_id, "lock", "000001.json")

    def seen():
        page = rows.page(run.store)
        return page.rows[0].status, bool(page.problems)

    assert seen() == (ReassignmentStatus.ACTIVE, False)
    lock.write_bytes(b"")
    assert seen() == (ReassignmentStatus.UNKNOWN, True)
    run.store.release_by_force(run.cluster_id, 1, at=NOW, by="ann")
    assert seen() == (ReassignmentStatus.UNLOCKED, False)


def test_the_json_lines_of_the_trail_name_an_event_that_cannot_be_read_and_have_all_others(run, monkeypatch):
    Path(str(run.record.root), "audit", "000002.json").write_text("{")
    lines = client_of(run, monkeypatch).get("/audit.jsonl", params={"cluster": run.cluster_id, "id": "r"}).text
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, run.record.audit.last_number() + 1))
    assert [event["sequence"] for event in events if "unreadable" in event] == [2]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RecordUnavailableError("the store does not answer"), 503),
        (InvalidRequestError("There is no Airflow connection records"), 500),
        (RecordStoreUnusableError("s3fs is missing"), 500),
        (RecordError("There is no record of it"), 404),
    ],
    ids=["away", "no such connection", "no client library", "no record"],
)
def test_without_records_the_page_says_why(run, monkeypatch, error, status):
    client = client_of(run, monkeypatch)

    def failing():
        raise error

    monkeypatch.setattr(web, "record_store", failing)
    shown = client.get("/")
    assert (shown.status_code, str(error) in shown.text) == (status, True)


def test_a_record_store_that_hangs_leaves_the_api_server_its_threads(run, monkeypatch):
    """Tasks would miss their heartbeats: the api-server has 40 threads for all of its own endpoints."""
    until, client = Event(), client_of(run, monkeypatch)
    monkeypatch.setattr(web, "record_store", lambda: until.wait(30))
    server = FastAPI()
    server.mount("/kafka-reassignment", client.app)

    @server.get("/heartbeat")
    def heartbeat() -> str:
        return "taken"

    async def beat():
        transport = ASGITransport(app=server, raise_app_exceptions=False)
        async with AsyncClient(transport=transport, base_url="http://airflow") as browser:
            tabs = [
                asyncio.create_task(browser.get(f"/kafka-reassignment{page}"))
                for page in ["/", "/audit.jsonl?cluster=c&id=r"] * 25
            ]
            try:
                await asyncio.sleep(0.5)
                return await asyncio.wait_for(browser.get("/heartbeat"), 5)
            finally:
                until.set()
                await asyncio.gather(*tabs, return_exceptions=True)

    assert asyncio.run(beat()).json() == "taken"
