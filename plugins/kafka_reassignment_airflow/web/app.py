"""The pages, behind Airflow's own login and its permission to read runs of ``kafka_reassignment``.

Airflow mounts them under ``/kafka-reassignment``. Everything shown is escaped; nothing of a request becomes a path.
Every request reads: no page changes anything. The threads that read are the page's own: a record store that hangs would
else take those with which the api-server answers tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from hashlib import sha256
from http import HTTPStatus
from secrets import token_urlsafe
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from anyio import CapacityLimiter
from fastapi import Depends, FastAPI, Header, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from kafka_reassignment.errors import (
    ReassignmentError,
    RecordError,
    RecordStoreUnusableError,
    RecordUnavailableError,
)
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import DAG_ID
from kafka_reassignment_airflow.web import views
from kafka_reassignment_airflow.web.forms import form_of
from kafka_reassignment_airflow.web.html import templates, values_of
from kafka_reassignment_airflow.web.kept import AuditQuery
from kafka_reassignment_airflow.web.rows import ListQuery, Rows, Shown

ClusterId = Annotated[str, Query(alias="cluster", max_length=250)]
ReassignmentId = Annotated[str, Query(alias="id", min_length=1, max_length=250)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
EventNumber = Annotated[int | None, Query(ge=1, le=100_000_000)]
Word = Annotated[str, Query(max_length=250)]
Number = Annotated[str, Query(pattern=r"^\d{0,6}$")]
Part = Literal["", "live"]
Known = Annotated[str | None, Header(alias="If-None-Match", max_length=100)]

T = TypeVar("T")

MOST_THREADS = 8
"""In which pages read records at a time, in one api-server; further requests wait without a thread."""

_THREADS = CapacityLimiter(MOST_THREADS)

_NOWHERE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'self'"

PAGE_POLICY = f"{_NOWHERE}; form-action 'self'; script-src 'nonce-{{nonce}}'; connect-src 'self'"
"""Pages run the scripts of their template and no other, load from Airflow alone, and are shown inside Airflow's."""

REPORT_POLICY = (
    f"sandbox allow-scripts; script-src 'nonce-{{nonce}}' 'unsafe-eval'; img-src data:; form-action 'none'; {_NOWHERE}"
)
"""A report draws its charts by script (Vega makes functions of expressions). It has an origin of its own, which has
neither the cookies of Airflow nor any way to send a request, and no script runs but those that the template has."""

LIVE_SECONDS = 5
"""How often a page of what is at work asks again."""

QUIET_SECONDS = 30
"""The same for what does nothing."""


def create_app() -> FastAPI:
    """Return the application that Airflow's api-server mounts."""
    may_read = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=DAG_ID)
    rows, pages = Rows(), views.Pages()
    app = FastAPI(title="Kafka reassignments", dependencies=[Depends(may_read)], docs_url=None, openapi_url=None)

    @app.exception_handler(ReassignmentError)
    async def unreadable(_: object, error: ReassignmentError) -> Response:
        return _html("error.html.j2", status=_status_of(error), text=str(error), part="", again=0)

    @app.get("/")
    @_in_own_thread
    def reassignments(
        page: PageNumber = 1,
        state: Shown | Literal[""] = "",
        cluster: Word = "",
        text: Word = "",
        part: Part = "",
        known: Known = None,
    ) -> Response:
        query = ListQuery(page, state or None, cluster, text.strip())
        listed = rows.page(record_store(), query)
        return _html("list.html.j2", known=known, part=part, again=LIVE_SECONDS, listed=listed, states=list(Shown))

    @app.get("/reassignment")
    @_in_own_thread
    def reassignment(
        cluster: ClusterId,
        reassignment_id: ReassignmentId,
        before: EventNumber = None,
        outcome: Word = "",
        step: Word = "",
        batch: Number = "",
        text: Word = "",
        part: Part = "",
        known: Known = None,
    ) -> Response:
        query = AuditQuery(before, outcome, step, int(batch) if batch else None, text.strip())
        return shown(cluster, reassignment_id, query, part, known)

    @app.get("/run")
    @_in_own_thread
    def run(run_id: ReassignmentId, part: Part = "", known: Known = None) -> Response:
        store = record_store()
        found = views.find(store, run_id)
        if len(found) > 1:  # the list has them all, with their clusters, to choose from
            return RedirectResponse(f"./?{urlencode({'text': found[0][1]})}", headers=_headers(_NOWHERE))
        if not found:
            raise RecordError(
                f"Run {run_id} has no record, expected a run of kafka_reassignment or of one of its batches whose task "
                "'preflight' is done. Wait for that task, or choose another run. Airflow shows this tab at the runs of every DAG"
            )
        return shown(*found[0], AuditQuery(), part, known)

    def shown(cluster_id: str, reassignment_id: str, query: AuditQuery, part: Part, known: str | None) -> Response:
        page = pages.page(record_store(), cluster_id, reassignment_id, query)
        again = LIVE_SECONDS if page.row.status is ReassignmentStatus.ACTIVE else QUIET_SECONDS
        return _html("reassignment.html.j2", known=known, part=part, again=again, **values_of(page))

    @app.get("/form")
    @_in_own_thread
    def form(cluster: ClusterId, reassignment_id: ReassignmentId, do: Word) -> Response:
        page = pages.page(record_store(), cluster, reassignment_id)
        filled = form_of(page.found, do, page.advice, page.row.roll_back)
        return _html("form.html.j2", part="", again=0, found=page.found, form=filled)

    @app.get("/audit.jsonl")
    @_in_own_thread
    def audit(cluster: ClusterId, reassignment_id: ReassignmentId) -> Response:
        lines = views.audit_lines(record_store(), cluster, reassignment_id)
        return StreamingResponse(_each(lines), media_type="application/jsonl", headers=_headers(_NOWHERE))

    @app.get("/plan.json")
    @_in_own_thread
    def plan_json(
        cluster: ClusterId, reassignment_id: ReassignmentId, side: Literal["target", "current"] = "target"
    ) -> Response:
        parts = views.plan_json(record_store(), cluster, reassignment_id, side)
        return StreamingResponse(_each(parts), media_type="application/json", headers=_headers(_NOWHERE))

    @app.get("/plan")
    @_in_own_thread
    def plan(cluster: ClusterId, reassignment_id: ReassignmentId) -> Response:
        nonce = token_urlsafe()
        report = views.plan_report(record_store(), cluster, reassignment_id, nonce)
        return HTMLResponse(report, headers=_headers(REPORT_POLICY.format(nonce=nonce)))

    return app


async def _run(call: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(call, limiter=_THREADS)


def _in_own_thread(page: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    @wraps(page)
    async def endpoint(**given: Any) -> T:
        return await _run(partial(page, **given))

    return endpoint


async def _each(parts: Iterator[T]) -> AsyncIterator[T]:
    while (part := await _run(partial(next, parts, None))) is not None:
        yield part


def _status_of(error: ReassignmentError) -> HTTPStatus:
    """Return the status of a page that cannot be shown: the store is away or not set up right, or there is no such record."""
    if isinstance(error, RecordUnavailableError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    is_set_up = isinstance(error, RecordError) and not isinstance(error, RecordStoreUnusableError)
    return HTTPStatus.NOT_FOUND if is_set_up else HTTPStatus.INTERNAL_SERVER_ERROR


def _headers(policy: str) -> dict[str, str]:
    return {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}


def _html(
    template: str, *, part: Part, again: int, known: str | None = None, status: int = 200, **values: Any
) -> Response:
    """Return a whole page, or its living part; nothing but a status where the browser has that part already."""
    nonce = "" if part else token_urlsafe()
    html = templates().get_template(template).render(part=part, again=again, nonce=nonce, **values)
    headers = _headers(PAGE_POLICY.format(nonce=nonce))
    if part:
        tag = f'"{sha256(html.encode()).hexdigest()[:32]}"'
        headers |= {"ETag": tag, "Cache-Control": "private, no-cache"}
        if known == tag:
            return Response(status_code=304, headers=headers)
    return HTMLResponse(html, status_code=status, headers=headers)
