"""The pages, behind Airflow's own login and its permission to read runs of ``kafka_reassignment``.

Airflow mounts them under ``/kafka-reassignment``. Everything shown is escaped; nothing of a request becomes a path.
"""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, Query
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from kafka_reassignment.errors import RecordError
from kafka_reassignment.templates import html_templates
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import DAG_ID
from kafka_reassignment_airflow.web import views
from kafka_reassignment_airflow.web.rows import Rows

ClusterId = Annotated[str, Query(alias="cluster", max_length=250)]
ReassignmentId = Annotated[str, Query(alias="id", min_length=1, max_length=250)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
EventNumber = Annotated[int | None, Query(ge=1, le=100_000_000)]

_NOWHERE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

PAGE_POLICY = _NOWHERE
"""Pages of ours have no scripts; they load nothing and are shown inside Airflow's."""

REPORT_POLICY = f"sandbox allow-scripts; script-src 'nonce-{{nonce}}' 'unsafe-eval'; img-src data:; {_NOWHERE}"
"""A report draws its charts by script (Vega makes functions of expressions). It has an origin of its own, which has neither
the cookies of Airflow nor any way to send a request, and no script runs but those that the template has."""

_templates = html_templates("kafka_reassignment_airflow.web")


def create_app() -> FastAPI:
    """Return the application that Airflow's api-server mounts."""
    may_read = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=DAG_ID)
    rows, pages = Rows(), views.Pages()
    app = FastAPI(title="Kafka reassignments", dependencies=[Depends(may_read)], docs_url=None, openapi_url=None)

    @app.exception_handler(RecordError)
    def unreadable(_: object, error: RecordError) -> HTMLResponse:
        return _html("error.html.j2", status=404, text=str(error))

    @app.get("/")
    def reassignments(page: PageNumber = 1) -> HTMLResponse:
        return _html("list.html.j2", listed=rows.page(record_store(), page))

    @app.get("/reassignment")
    def reassignment(cluster: ClusterId, reassignment_id: ReassignmentId, before: EventNumber = None) -> HTMLResponse:
        page = pages.page(record_store(), cluster, reassignment_id, before)
        return _html("reassignment.html.j2", page=page, refresh=before is None)

    @app.get("/run")
    def run(run_id: ReassignmentId) -> HTMLResponse:
        store = record_store()
        found = views.find(store, run_id)
        if found is None:
            raise RecordError(
                f"Run {run_id} has no record, expected a run of kafka_reassignment or of one of its batches whose task "
                "'preflight' is done. Wait for that task, or choose another run"
            )
        return _html("reassignment.html.j2", page=pages.page(store, *found), refresh=True)

    @app.get("/audit.jsonl")
    def audit(cluster: ClusterId, reassignment_id: ReassignmentId) -> StreamingResponse:
        lines = views.audit_lines(record_store(), cluster, reassignment_id)
        return StreamingResponse(lines, media_type="application/jsonl")

    @app.get("/plan")
    def plan(cluster: ClusterId, reassignment_id: ReassignmentId) -> Response:
        nonce = token_urlsafe()
        report = views.plan_report(record_store(), cluster, reassignment_id, nonce)
        return HTMLResponse(report, headers=_headers(REPORT_POLICY.format(nonce=nonce)))

    return app


def _headers(policy: str) -> dict[str, str]:
    return {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}


def _html(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(
        _templates.get_template(template).render(**values), status_code=status, headers=_headers(PAGE_POLICY)
    )
