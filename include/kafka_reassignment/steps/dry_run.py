"""A reassignment up to its first change: the steps of ``kafka_reassignment`` with ``validate_only``, in a folder of their own.

The same preflight, planner and description of what would be done; neither the cluster nor the records of others are
changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from upath import UPath

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import PLAN_REPORT, ClusterLock
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.approval import approval
from kafka_reassignment.steps.base.context import Log, RunContext
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.validate_only import WOULD_DO

DRY_RUN_ID = "plan"
"""In place of a run id: the folder of a dry run has no other record."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A plan that nothing carries out. ``card`` is what people approve by, ``files`` are paths by what they are."""

    cluster_id: str
    summary: PlanSummary
    card: str
    files: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "cluster_id": self.cluster_id,
            "score_card": self.card,
            "summary": self.summary.model_dump(mode="json"),
            "files": self.files,
        }


class _FolderStore(RecordStore):
    """A store in a folder, with the dry run's own record and lock; ``others`` has all other records, and is only read."""

    def __init__(self, folder: UPath, others: RecordStore | None) -> None:
        super().__init__(folder)
        self._others = others

    def record(self, cluster_id: str, reassignment_id: str) -> Record:
        """Return the own record, or one of the others."""
        if self._others is None or reassignment_id == DRY_RUN_ID:
            return super().record(cluster_id, reassignment_id)
        return self._others.record(cluster_id, reassignment_id)

    def lock_owner(self, cluster_id: str) -> ClusterLock | None:
        """Return the own lock or, before it is taken, that of another reassignment: preflight refuses then."""
        own = super().lock_owner(cluster_id)
        return own if own is not None or self._others is None else self._others.lock_owner(cluster_id)


def dry_run(
    cluster: ClusterPort,
    fields: dict[str, Any],
    folder: UPath,
    *,
    others: RecordStore | None,
    master: str,
    by: str,
    log: Log,
) -> DryRun:
    """Check a request against the cluster, plan it, and write into a folder what it would do.

    Args:
        cluster: the cluster; it is only read.
        fields: of the request, as the form and the API give them.
        folder: where plan and report are written; it has the layout of a record store.
        others: the records of earlier reassignments, for ``roll_back`` and to see whether one runs now.
        master: Spark's.
        by: who asks.
        log: for progress.

    Raises:
        ReassignmentError: what preflight or the planner refuses; nothing of the advice is about a run of Airflow.
    """
    cluster_id = cluster.describe_cluster().cluster_id
    store = _FolderStore(folder, others)
    record = store.record(cluster_id, DRY_RUN_ID)
    run = RunContext(cluster=cluster, store=store, record=record, actor=Actor(requested_by=by), log=log)
    try:
        preflight(run, {**fields, "validate_only": True}, by)
        card = make_plan(run, master=master)
        approval(run)
    except ReassignmentError as error:
        error.set_advice(*(item for item in error.advice if not isinstance(item, Rerun)))
        raise
    names = {
        "report": PLAN_REPORT,
        "reassignment_json": "reassignment.json",
        "rollback_json": "rollback.json",
        "would_do": WOULD_DO,
    }
    files = {what: record.uri_of(name) for what, name in names.items()}
    return DryRun(cluster_id, read_summary(record.plan_ref()), card, files)
