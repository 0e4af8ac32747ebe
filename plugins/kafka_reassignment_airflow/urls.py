"""Addresses of the pages about a reassignment, as a person's browser opens them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from airflow.sdk.configuration import conf

PAGE = "/kafka-reassignment"
"""Below the address of Airflow's api-server."""


class Opened(NamedTuple):
    """The reassignment that a try of a task is about."""

    cluster_id: str
    reassignment_id: str


def page_url(reassignment_id: str, cluster_id: str = "") -> str:
    """Return the address of a reassignment's page. Without the cluster it is looked for; a run of one of its batches will do then."""
    return (
        _url("reassignment", cluster=cluster_id, id=reassignment_id) if cluster_id else _url("run", id=reassignment_id)
    )


def list_url() -> str:
    """Return the address of the list of all reassignments."""
    return _url("")


def report_url(cluster_id: str, reassignment_id: str) -> str:
    """Return the address of the report of a reassignment's plan."""
    return _url("plan", cluster=cluster_id, id=reassignment_id)


def audit_url(cluster_id: str, reassignment_id: str) -> str:
    """Return the address of a reassignment's audit trail, one JSON object per line."""
    return _url("audit.jsonl", cluster=cluster_id, id=reassignment_id)


def _url(page: str, **query: str) -> str:
    """Return an address; below ``[api] base_url``, and of the same host where that is not set."""
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    asked = f"?{urlencode(query)}" if query else ""
    return f"{base}{PAGE}/{page}{asked}"
