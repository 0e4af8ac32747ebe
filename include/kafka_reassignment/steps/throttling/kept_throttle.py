"""What stays of a throttle when a batch or a reassignment is over: moves that were taken over by another client, and replicas that were left out of sync."""

from __future__ import annotations

from collections.abc import Collection

from kafka_reassignment.decisions.raising import to_raise
from kafka_reassignment.decisions.throttle import (
    Journal,
    Needed,
    WantedThrottle,
    listed_in,
    needed_replicas,
)
from kafka_reassignment.model import Step, View
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.throttling.raising import note_raised, set_in_parts
from kafka_reassignment.steps.throttling.restore import Restored, restore_configs
from kafka_reassignment.steps.throttling.throttle_configs import ThrottleSetting, observe_listed, setting_of


def restore_or_raise(run: RunContext, event: AuditDraft, *, never_begun: Collection[Step] = ()) -> Restored:
    """Restore what the throttle replaced, as ``restore_configs``, and raise to the whole rate what stays of it.

    No batch raises it any more: at the low rate with which copies begin, a replica whose partition is written faster
    would never be in sync.

    Args:
        run: its record has the journal.
        event: gets the changes as facts.
        never_begun: as there.
    """
    restored = restore_configs(run, event, never_begun=never_begun)
    if restored.copying and run.record.exists and not _is_another_at_work(run):
        asked = run.request.throttle_bytes_per_second
        if asked is not None:
            _raise_kept(run, asked, event)
    return restored


def _is_another_at_work(run: RunContext) -> bool:
    """Whether another reassignment has the lock: it looks after what this one has in place. A sweep is none."""
    owner = run.lock_of_another()
    return owner is not None and run.store.record(run.record.cluster_id, owner.reassignment_id).exists


def _raise_kept(run: RunContext, asked: int, event: AuditDraft) -> None:
    def observed(journal: Journal) -> tuple[Needed, View]:
        listed = listed_in(journal)
        view = observe_listed(run, listed)
        return needed_replicas(listed, view), view

    def wanted(journal: Journal) -> WantedThrottle:
        needed, view = observed(journal)
        whole = needed.as_throttle(asked_bytes_per_second=asked, rate_changes=journal.rate_changes)
        return to_raise(whole.corrected(journal.corrections).restricted_to(view.live_brokers), journal)

    def decide(name: str, journal: Journal) -> ThrottleSetting:
        return setting_of(run, name, wanted(journal), journal)

    if not wanted(run.record.journal()).rates:
        return
    setting, refused = set_in_parts(run, decide, lambda: bool(observed(run.record.journal())[0].rates), event)
    note_raised(run, setting, refused, event)
