"""The pages, behind Airflow's own login and its permission to read runs of ``kafka_reassignment``.

Airflow mounts them under ``/kafka-reassignment``. Everything shown is escaped; nothing of a request becomes a path.
"""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, Query
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.models import REPORT
from kafka_reassignment.templates import html_templates
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import DAG_ID
from kafka_reassignment_airflow.web import views

ClusterId = Annotated[str, Query(alias="cluster", max_length=250)]
ReassignmentId = Annotated[str, Query(alias="id", min_length=1, max_length=250)]

_templates = html_templates("kafka_reassignment_airflow.web")


def create_app() -> FastAPI:
    """Return the application that Airflow's api-server mounts."""
    may_read = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=DAG_ID)
    app = FastAPI(title="Kafka reassignments", dependencies=[Depends(may_read)], docs_url=None, openapi_url=None)

    @app.exception_handler(RecordError)
    def unreadable(_: object, error: RecordError) -> HTMLResponse:
        return _html("error.html.j2", status=404, text=str(error))

    @app.get("/")
    def reassignments() -> HTMLResponse:
        found, problems = views.rows(record_store())
        return _html("list.html.j2", rows=found, problems=problems)

    @app.get("/reassignment")
    def reassignment(cluster: ClusterId, reassignment_id: ReassignmentId) -> HTMLResponse:
        return _html("reassignment.html.j2", page=views.page(record_store(), cluster, reassignment_id))

    @app.get("/run")
    def run(run_id: ReassignmentId) -> HTMLResponse:
        store = record_store()
        found = views.find(store, run_id)
        if found is None:
            raise RecordError(
                f"Run {run_id} has no record, expected a run of kafka_reassignment or of one of its batches whose task "
                "'preflight' is done. Wait for that task, or choose another run"
            )
        return _html("reassignment.html.j2", page=views.page(store, *found))

    @app.get("/audit.jsonl")
    def audit(cluster: ClusterId, reassignment_id: ReassignmentId) -> StreamingResponse:
        lines = views.audit_lines(record_store(), cluster, reassignment_id)
        return StreamingResponse(lines, media_type="application/jsonl")

    @app.get("/plan")
    def plan(cluster: ClusterId, reassignment_id: ReassignmentId) -> Response:
        report = views.plan_report(record_store(), cluster, reassignment_id)
        if report is None:
            raise RecordError(
                f"Reassignment {reassignment_id} has no report, expected {REPORT} in its record. The task 'plan' writes it: wait for it"
            )
        return Response(report, media_type="text/html")

    return app


def _html(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(template).render(**values), status_code=status)
