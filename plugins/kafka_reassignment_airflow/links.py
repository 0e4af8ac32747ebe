"""Links from a task to what its reassignment has outside Airflow's tables: its page, the report of its plan, its audit trail.

Airflow asks for them whenever a try ends or begins to wait. The pages are behind Airflow's own login.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperatorLink

from kafka_reassignment_airflow.runs import reassignment_of_run
from kafka_reassignment_airflow.urls import audit_url, list_url, page_url, report_url


class ReassignmentLink(BaseOperatorLink):
    """Its page: progress, batches, what it waits for."""

    name = "Reassignment"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address; by the run's id where the task has not come so far as to know the reassignment.

        A step of no reassignment has the list of all.
        """
        if not _is_of_reassignment(operator):
            return list_url()
        opened = getattr(operator, "opened", None)
        if opened:
            return page_url(opened.reassignment_id, opened.cluster_id)
        return page_url(reassignment_of_run(ti_key.dag_id, ti_key.run_id))


class PlanReportLink(BaseOperatorLink):
    """The report of its plan."""

    name = "Report of the plan"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address; nothing where the task has not come so far, or is of no reassignment."""
        opened = getattr(operator, "opened", None) if _is_of_reassignment(operator) else None
        return report_url(opened.cluster_id, opened.reassignment_id) if opened else ""


class AuditLink(BaseOperatorLink):
    """Its record, as the audit trail tells it."""

    name = "Record: audit trail"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address; nothing where the task has not come so far, or is of no reassignment."""
        opened = getattr(operator, "opened", None) if _is_of_reassignment(operator) else None
        return audit_url(opened.cluster_id, opened.reassignment_id) if opened else ""


def _is_of_reassignment(operator: Any) -> bool:
    return bool(getattr(operator, "is_of_reassignment", True))


LINKS: tuple[BaseOperatorLink, ...] = (ReassignmentLink(), PlanReportLink(), AuditLink())
"""Of every step."""
