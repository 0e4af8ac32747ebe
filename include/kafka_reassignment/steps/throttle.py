"""Putting the throttle in place before data moves, and taking it back after, by the journal."""

from __future__ import annotations

from collections.abc import Collection

from kafka_reassignment.decisions.rate import refuse_low_rate
from kafka_reassignment.decisions.throttle import Journal, changes_to_restore, changes_to_throttle, throttle_for, union
from kafka_reassignment.errors import ThrottleMissingError, name_some
from kafka_reassignment.model import Batch, ConfigChange, Step
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.request.topics import partition_matches
from kafka_reassignment.steps.context import AuditDraft, RunContext
from kafka_reassignment.steps.throttle_configs import (
    ThrottleSetting,
    apply_changes,
    describe_throttles,
    facts_of,
    settled_configs,
    shown,
    still_missing,
    str_change,
)


def ensure_throttle(run: RunContext, batch: Batch, event: AuditDraft) -> bool:
    """Put the batch's throttle in place where it is not, journal first; return whether anything had to be set.

    Nothing is set for an unthrottled request.

    Brokers that are down take no part: nothing moves to or from them until they are back, and the next
    look puts the throttle on them.

    Raises:
        ThrottleMissingError: it could not be put in place; data must not move.
    """
    rate = run.request.throttle_bytes_per_second
    if rate is None:
        event.facts["throttle"] = "none: the request asks for no throttle"
        return False
    return _put_in_place(run, batch, rate, event, of=f"batch {batch.number}")


def _put_in_place(run: RunContext, batch: Batch, rate: int, event: AuditDraft, *, of: str) -> bool:
    live = run.cluster.describe_cluster().live_brokers

    def journalled(journal: Journal) -> tuple[Journal, ThrottleSetting]:
        plan = throttle_for(batch, asked_bytes_per_second=rate, rate_changes=journal.rate_changes).restricted_to(live)
        before = describe_throttles(run, plan.resources)
        updated, changes = changes_to_throttle(plan, journal, before)
        return updated, ThrottleSetting(plan, updated, before, tuple(changes))

    setting = run.record.update_journal(journalled)
    refused = apply_changes(run, setting.changes)
    missing = still_missing(run, setting.plan, setting.journal)
    if setting.changes:
        event.facts["throttle"] = facts_of(setting, refused) | {"asked_bytes_per_second": rate}
    if missing:
        raise ThrottleMissingError(
            f"The replication throttle of {of} is not in place: {name_some(missing)}"
            + (f" ({name_some(refused.values())})" if refused else "")
            + ". No data is moved without it. Rerun this step when the broker answers"
        )
    return bool(setting.changes)


def reinstate_throttle(run: RunContext, batch: Batch) -> None:
    """Put the batch's throttle back where it is missing, with an audit event of its own where something had to be set.

    Raises:
        ThrottleMissingError: it could not be put in place.
    """
    event, began = AuditDraft(), run.now()
    if ensure_throttle(run, batch, event):
        event.summary = f"the throttle of batch {batch.number} was missing and is in place again"
        run.write_event("reinstate_throttle", batch.number, began, event)


def throttle_in_flight(
    run: RunContext, partitions: Collection[str], *, asked_bytes_per_second: int, allow_low: bool, by: str
) -> str:
    """Throttle moves in flight that other clients started, journal first, and return what is throttled.

    The throttle stays until the moves have landed: then a sweep, or the next reassignment of the cluster, restores what
    was there before.

    Args:
        run: its record gets the journal.
        partitions: by name (``orders-3``), topic or topic pattern; all that is in flight when empty.
        asked_bytes_per_second: what each broker that takes part may send, and what it may receive.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        by: who asks.

    Raises:
        InvalidThrottleError: the rate is too low.
        ReassignmentInProgressError: a reassignment has the lock of the cluster; its moves have a throttle of their own.
        ThrottleMissingError: it could not be put in place; what could be is journalled.
    """
    with run.audited("throttle_in_flight") as event:
        refuse_low_rate(asked_bytes_per_second, allow_low=allow_low)
        cluster_id, own = run.record.cluster_id, run.record.reassignment_id
        run.store.acquire(cluster_id, ClusterLock(reassignment_id=own, since=run.now(), requested_by=by))
        try:
            steps = [
                Step(flight.as_reassignment(partition))
                for partition, flight in sorted(run.cluster.list_reassignments().items())
                if not partitions or partition_matches(partition, partitions)
            ]
            if not steps:
                event.outcome, event.summary = "skipped", "nothing of what is meant is in flight; no throttle is set"
                return event.summary
            # A value of an earlier throttle must not be taken for one of another client.
            event.facts["debts_taken_over"] = list(adopt_debts(run, although_in_flight=True))
            _put_in_place(run, Batch(1, tuple(steps)), asked_bytes_per_second, event, of="what is in flight")
            event.summary = (
                f"{len(steps)} partitions in flight are throttled to {asked_bytes_per_second / MEGABYTE:g} MB/s per broker: "
                f"{name_some(s.partition for s in steps)}"
            )
            return event.summary
        finally:
            run.store.release(cluster_id, own)


def throttle_changes(run: RunContext, batch: Batch) -> tuple[ConfigChange, ...]:
    """Return the config changes that would put the batch's throttle in place now; changes nothing."""
    rate = run.request.throttle_bytes_per_second
    if rate is None:
        return ()
    journal = run.record.journal()
    plan = throttle_for(batch, asked_bytes_per_second=rate, rate_changes=journal.rate_changes)
    return tuple(changes_to_throttle(plan, journal, describe_throttles(run, plan.resources))[1])


def restore_configs(run: RunContext, event: AuditDraft) -> tuple[str, ...]:
    """Take back what the journal says is ours, and return what is still owed.

    The journal keeps a record until the cluster shows its earlier value, so a crash at any point loses nothing.
    """
    journal = run.record.journal()
    before = describe_throttles(run, journal.resources)
    clearing = changes_to_restore(journal, before)
    refused = apply_changes(run, clearing.changes)
    settled_configs(run, journal.resources, lambda seen: not changes_to_restore(journal, seen).changes)

    def settled(latest: Journal) -> tuple[Journal, Journal]:
        left = changes_to_restore(latest, describe_throttles(run, latest.resources)).journal
        return left, left

    owed = run.record.update_journal(settled).owed_texts()
    event.facts["throttle"] = {
        "changes": [str_change(c) for c in clearing.changes],
        "before": shown(before),
        "changed_by_others": list(clearing.changed_by_others),
        "refused": refused,
        "owed": list(owed),
    }
    for text in clearing.changed_by_others:
        run.log.warning("Left alone: %s", text)
    return owed


def adopt_debts(run: RunContext, *, although_in_flight: bool = False) -> tuple[str, ...]:
    """Take over what earlier reassignments of this cluster still owe its configs (KIP-179); return from which ones.

    A reassignment whose topics have moves in flight keeps its debts, unless ``although_in_flight`` is set. This
    reassignment has the lock of the cluster, so none of them is at work; their journals are emptied once their debts are
    in this one.
    """
    adopted: list[str] = []
    in_flight = {p.topic for p in run.cluster.list_reassignments()}
    for other in run.store.records(run.record.cluster_id):
        debts = other.journal()
        if other.root == run.record.root or debts.is_settled:
            continue
        if not although_in_flight and in_flight & {record.topic for record in debts.lists}:
            run.log.warning("Debts of %s stay with it: moves of its topics are in flight", other.reassignment_id)
            continue
        run.record.update_journal(lambda own, older=debts: (union(own, older), None))  # type: ignore[misc]
        other.update_journal(lambda theirs: (theirs.model_copy(update={"rates": (), "lists": ()}), None))
        adopted.append(other.reassignment_id)
    return tuple(adopted)
