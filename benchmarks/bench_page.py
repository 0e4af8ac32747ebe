"""What each view of the page costs at scale: calls to the store and milliseconds, the first time in a process and later.

Run it with ``make bench-page``. The records are made on a local disk: 1,000 reassignments, and one at work with 1,000 batches of
100 moves, 998 of them finished.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from fastapi.testclient import TestClient
from rich.console import Console
from rich.table import Table
from tests.airflow.file_calls import file_calls
from tests.browser.night import AT_WORK, CLUSTER, begin, copying, night, plan
from tests.steps_lab import move
from upath import UPath

from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.web import app as web

BATCHES, MOVES, REASSIGNMENTS = 1_000, 100, 1_000
BIG = "big"


def records(folder: Path) -> RecordStore:
    """Write the records; those that are only listed are written without flushing each file."""
    store, at = night(UPath(folder), done=3), datetime.now(UTC)
    first = store.record(CLUSTER, AT_WORK)
    request = json.loads((Path(first.root.path) / "request.json").read_text())
    for n in range(REASSIGNMENTS - 8):
        made = Path(first.root.path).with_name(f"r{n:04d}")
        made.mkdir()
        asked = request | {"reassignment_id": made.name, "started_at": str(at - timedelta(hours=n + 1))}
        (made / "request.json").write_text(json.dumps(asked))
        (made / "report.txt").write_text("verified")
    begun = at - timedelta(minutes=15 * BATCHES)
    big = begin(store, "prod-big", BIG, begun, job="rebalance", throttle_mb_per_second=80)
    store.acquire("prod-big", ClusterLock(reassignment_id=BIG, since=begun, requested_by="ann"))
    moves = [[move("t", 100 * n + i, (1, 2), (1, 3), 10**9) for i in range(MOVES)] for n in range(BATCHES)]
    plan(big, moves, begun)
    copying(big, BATCHES - 1, at, 6)
    (Path(big.root.path) / "batches").mkdir(exist_ok=True)
    for n in range(1, BATCHES - 1):
        started = begun + timedelta(minutes=15 * n)
        done = {"number": n, "partitions": MOVES, "bytes_copied": MOVES * 10**9, "left_out": {}}
        done |= {"started_at": str(started), "finished_at": str(started + timedelta(minutes=14))}
        (Path(big.root.path) / "batches" / f"{n:04d}.done.json").write_text(json.dumps(done))
    audit = Path(big.root.path) / "audit"
    last = json.loads((audit / "000003.json").read_text())
    for n in range(4, 7 * BATCHES):
        (audit / f"{n:06d}.json").write_text(json.dumps(last | {"sequence": n}))
    return store


def main() -> None:
    """Measure every view and print the table."""
    table = Table("view", "calls, first", "ms, first", "calls, later", "ms, later", "kB")
    one = {"cluster": "prod-big", "id": BIG}
    with tempfile.TemporaryDirectory() as folder:
        records(Path(folder))

        def client() -> TestClient:
            app = web.create_app()
            app.router.dependencies.clear()
            for route in app.routes:
                route.dependant.dependencies.clear()  # type: ignore[attr-defined]
            return TestClient(app)

        with patch.object(web, "record_store", lambda: RecordStore(UPath(folder))):
            client().get("/", params={"text": "nobody"})  # imports and templates
            for name, path, query in (
                ("list of 1,000", "/", {}),
                ("list, held ones alone", "/", {"state": "held"}),
                ("1,000 batches, 100,000 moves", "/reassignment", one),
                ("the same, one update", "/reassignment", one | {"part": "live"}),
                ("audit trail, failed ones of 7,000", "/reassignment", one | {"outcome": "failed"}),
                ("JSON of 100,000 moves", "/plan.json", one),
            ):
                app = client()
                first, later = (_measured(lambda: app.get(path, params=query).content, folder) for _ in range(2))  # noqa: B023 - called at once
                table.add_row(name, *(f"{value:,.0f}" for value in (*first[:2], *later)))
    Console().print(table)


def _measured(get: Callable[[], bytes], folder: str) -> tuple[int, float, float]:
    began = time.perf_counter()
    with file_calls(folder) as calls:
        content = get()
    return len(calls), 1_000 * (time.perf_counter() - began), len(content) / 1_000


if __name__ == "__main__":
    main()
