"""The page as Airflow shows it: an application of its own origin, in a frame with Airflow's sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from kafka_reassignment_airflow.plugin import PAGE
from kafka_reassignment_airflow.web import app as web

SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"
"""Of the frame of an external view in Airflow 3.3.2."""

_OUTER = f"""<!doctype html><html lang="en" class="light"><head><title>Airflow</title></head>
<body style="margin:0"><iframe name="view" title="view" sandbox="{SANDBOX}" style="border:0;width:100%;height:100vh"></iframe>
<script>frames.view.location = new URLSearchParams(location.search).get("to")</script></body></html>"""


@contextmanager
def served(store: object) -> Iterator[str]:
    """Serve the page without Airflow's login; return the address at which it is in a frame."""
    before, web.record_store = web.record_store, lambda: store
    inner = web.create_app()
    inner.router.dependencies.clear()
    for route in inner.routes:
        route.dependant.dependencies.clear()
    outer = FastAPI()
    outer.mount(PAGE, inner)

    @outer.get("/frame")
    def frame() -> HTMLResponse:
        return HTMLResponse(_OUTER)

    @outer.get("/dags/{rest:path}")
    def dags(rest: str) -> HTMLResponse:
        return HTMLResponse(f"<!doctype html><title>DAG {rest.partition('/')[0]}</title>")

    server = uvicorn.Server(uvicorn.Config(outer, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(5)
        web.record_store = before
