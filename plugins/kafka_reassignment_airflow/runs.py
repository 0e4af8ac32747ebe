"""Names of the DAGs and of their runs: what a run of a batch is called, and what it is told."""

from __future__ import annotations

from typing import Any

DAG_ID = "kafka_reassignment"
BATCH_DAG_ID = "kafka_reassignment_batch"


def batch_run_id(reassignment_id: str, batch: int) -> str:
    """Return the run id of a batch: the same for each try, so that no batch is started twice."""
    return f"{reassignment_id}__{batch:04d}"


def batch_conf(kafka_conn_id: str, reassignment_id: str, batch: int) -> dict[str, Any]:
    """Return what a run of the batch DAG needs to know: references, never plans."""
    return {"kafka_conn_id": kafka_conn_id, "reassignment_id": reassignment_id, "batch": batch}
