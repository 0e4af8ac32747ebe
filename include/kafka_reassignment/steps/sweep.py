"""Paying what reassignments that are over still owe to the cluster's configs (KIP-179).

A throttle may outlive its reassignment: a broker was down when it was cleared, a run was deleted in the middle. The
journals have each value that is ours and what was there before, so it is put back whenever that can be done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_reassignment.errors import name_some
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.throttle import restore_configs


@dataclass(frozen=True, slots=True)
class Sweep:
    """By reassignment: what became of its debts, in words; ``left`` are those that still owe something."""

    summaries: dict[str, str]
    left: tuple[str, ...] = ()


def sweep(run: RunContext, *, by: str) -> Sweep:
    """Restore the throttle configs of every reassignment of this cluster that is over and still owes some.

    The cluster is locked during the sweep, so that no reassignment begins in between; where one is at work nothing is done,
    because it pays the debts of earlier ones itself. A reassignment whose topics have moves in flight keeps its
    throttle: without it they would copy at full speed.
    """
    owing = [r for r in run.store.records(run.record.cluster_id) if not r.journal().is_settled]
    if not owing:
        return Sweep({})
    cluster_id, own = run.record.cluster_id, run.record.reassignment_id
    lock_owner = run.store.lock_owner(cluster_id)
    if lock_owner is not None and lock_owner.reassignment_id != own:
        busy = f"the cluster is locked by {lock_owner.reassignment_id} since {lock_owner.since:%Y-%m-%d %H:%M} UTC"
        return Sweep({r.reassignment_id: busy for r in owing})
    run.store.acquire(cluster_id, ClusterLock(reassignment_id=own, since=run.now(), requested_by=by))
    try:
        summaries = {record.reassignment_id: _pay(run, record) for record in owing}
    finally:
        run.store.release(cluster_id, own)
    return Sweep(summaries, tuple(r.reassignment_id for r in owing if not r.journal().is_settled))


def _pay(run: RunContext, record: Record) -> str:
    own = replace(run, record=record)
    with own.audited("sweep_throttle") as event:
        topics = {entry.topic for entry in record.journal().lists}
        moving = sorted(p for p in run.cluster.list_reassignments() if p.topic in topics)
        if moving:
            event.outcome = "skipped"
            event.summary = (
                f"{name_some(moving)} of its topics are still reassigning: the throttle stays until they have landed, or "
                "were stopped with kafka_reassignment_cancel"
            )
            return event.summary
        owed = restore_configs(own, event)
        event.summary = "earlier throttle values restored" + (f"; still owed: {name_some(owed)}" if owed else "")
        return event.summary
