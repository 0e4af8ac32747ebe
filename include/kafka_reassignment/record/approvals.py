"""Who approved a plan: kept in the record, so that nobody is asked again when the run goes on after a stop."""

from __future__ import annotations

from datetime import datetime

from kafka_reassignment.versioned import Versioned


class PlanApproval(Versioned):
    """One person's approval of one plan. Written once (``Series``)."""

    by: str
    at: datetime
    plan_hash: str
    reason: str = ""
