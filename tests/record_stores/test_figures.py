"""How many requests and seconds a listing takes with 10,000 audit events and with 1,000 reassignments (docs/record.md)."""

import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from kafka_reassignment.record.catalogue import catalogue
from kafka_reassignment.record.models import RecordedRequest
from kafka_reassignment.record.objects import as_bytes
from kafka_reassignment.request import ReassignmentRequest

pytestmark = pytest.mark.slow

EVENTS = 10_000
REASSIGNMENTS = 1_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@contextmanager
def counted(base, what, most=None):
    """Print the requests and seconds of the block; with ``most``, it may take no more requests."""
    door, began = base.server and base.server.door, time.monotonic()
    before = door.requests if door else 0
    yield
    requests = door.requests - before if door else 0
    print(f"{base.uri.partition('://')[0]}: {what}: {requests} requests, {time.monotonic() - began:.1f} s")
    assert most is None or requests <= most


def test_ten_thousand_events_are_listed_with_a_request_for_each_page(base):
    folder = base.store.record("c", "r").root / "audit"
    folder.fs.makedirs(folder.path, exist_ok=True)
    folder.fs.pipe({(folder / f"{n:06d}.json").path: b"{}" for n in range(1, EVENTS + 1)})
    with counted(base, "number of the last event", most=EVENTS // 1_000 + 3):
        assert base.store.record("c", "r").audit.last_number() == EVENTS


def test_a_thousand_reassignments_are_listed(base):
    for n in range(REASSIGNMENTS):
        request = ReassignmentRequest.model_validate({"job": "rebalance", "unthrottled": True})
        recorded = RecordedRequest(
            cluster_id="c", reassignment_id=f"r{n}", started_at=NOON, requested_by="ann", request=request
        )
        path = base.store.record("c", f"r{n}").root / "request.json"
        path.fs.makedirs(path.parent.path, exist_ok=True) if base.server is None else None
        path.fs.pipe_file(path.path, as_bytes(recorded))
    with counted(base, "folders"):
        assert len(list(base.store._folders("c"))) == REASSIGNMENTS
    with counted(base, "list with the status of each"):
        assert len(catalogue(base.store, "c").reassignments) == REASSIGNMENTS
