"""Raising the rates of what copies, one part a second: done at once, brokers would burst."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

from kafka_reassignment.decisions.raising import QUOTA_SECONDS, partly_raised, raises, to_raise
from kafka_reassignment.decisions.throttle import (
    Journal,
    WantedThrottle,
    begun,
    changes_to_throttle,
    restore_rate,
    throttle_by_journal,
)
from kafka_reassignment.model import Batch, ConfigResource
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.context import AuditDraft, RunContext
from kafka_reassignment.steps.moves import left_to_copy
from kafka_reassignment.steps.throttle_configs import (
    ThrottleSetting,
    apply_changes,
    describe_throttles,
    facts_of,
    outcome_of,
)
from kafka_reassignment.steps.view import observe_replicas

PART = timedelta(seconds=1)
"""Between two parts of a raise."""

Decide = Callable[[str, Journal], ThrottleSetting]
"""Returns what is to be set as a whole, by the name of the setting, and the journal and the cluster as they are then."""


def raise_to_whole(run: RunContext, recorded: RecordView, batch: Batch, event: AuditDraft) -> bool:
    """Raise the rates of a batch that are set lower than they are wanted; return whether anything had to be set.

    It ends as soon as nothing is left to copy. A batch begins at a low rate. Whatever was cut off while it was raised, the next look takes up here.
    """
    asked = run.request.throttle_bytes_per_second
    if asked is None:
        return False

    def wanted_by(journal: Journal) -> WantedThrottle:
        return to_raise(throttle_by_journal(batch, journal, asked_bytes_per_second=asked), journal)

    def decide(name: str, journal: Journal) -> ThrottleSetting:
        wanted = wanted_by(journal)
        before = describe_throttles(run, wanted.resources)
        updated, changes = changes_to_throttle(wanted, journal, before)
        return ThrottleSetting(name, wanted, journal, updated, before, tuple(changes))

    def is_copying() -> bool:
        return bool(left_to_copy(batch, observe_replicas(run.cluster, batch.partitions)).steps)

    if not wanted_by(recorded.journal()).rates or not is_copying():
        return False
    setting, refused = set_in_parts(run, decide, is_copying)
    if not setting.changes:
        return False
    event.facts["raised"] = facts_of(setting, refused)
    for text in outcome_of(run, setting).missing:
        run.log.warning("Not raised yet: %s", text)
    return True


def finish_raise(run: RunContext, recorded: RecordView, batch: Batch) -> None:
    """Go on with a raise that was cut off, with an audit event of its own."""
    event, began = AuditDraft(), run.now()
    if raise_to_whole(run, recorded, batch, event):
        event.summary = f"the rates of batch {batch.number} are raised to what was asked for"
        run.write_event("raise_rates", batch.number, began, event)


def set_in_parts(
    run: RunContext, decide: Decide, goes_on: Callable[[], bool]
) -> tuple[ThrottleSetting, dict[str, str]]:
    """Set rates, journal first; return what the last part was, and its refusals. A large raise takes ``QUOTA_SECONDS``.

    Each part is decided on what is seen then: another client may lower the rate meanwhile. It is set ``PART`` after the one
    before, or as soon after that as it is decided, never earlier: two parts in one second are a burst.

    Args:
        run: its record has the journal.
        decide: the whole change.
        goes_on: whether there is any use in a further part; what it raises ends the raise as well.
    """
    name = str(uuid4())
    lowest: dict[tuple[ConfigResource, str], int] = {}

    def journalled(part: float, journal: Journal) -> tuple[Journal, ThrottleSetting]:
        setting = decide(name, journal)
        for key, rate in raises(setting.changes, setting.before).items():
            lowest.setdefault(key, rate)
        if part < 1:
            updated, changes = partly_raised(setting.journal, setting.changes, lowest, part)
            setting = replace(setting, journal=updated, changes=tuple(changes))
        setting = replace(setting, journal=begun(setting.journal, setting.changes, name, run.now()))
        return setting.journal, setting

    setting = run.record.update_journal(partial(journalled, 1 / QUOTA_SECONDS))
    to_look = timedelta(0)
    for part in range(2, QUOTA_SECONDS + 1) if lowest else ():
        due = run.now() + PART
        refused = _set_unless_cleared(run, setting)
        _sleep_until(run, due - to_look)
        looked_at = run.now()
        if not goes_on():
            return replace(setting, plan=WantedThrottle()), refused
        setting = run.record.update_journal(partial(journalled, part / QUOTA_SECONDS))
        to_look = run.now() - looked_at
        _sleep_until(run, due)  # where this look took less time than the one before
    return setting, _set_unless_cleared(run, setting)


def _sleep_until(run: RunContext, due: datetime) -> None:
    """Sleep for as long as a part at most, whatever becomes of the clock meanwhile."""
    left = min(due - run.now(), PART)
    if left > timedelta(0):
        run.sleep(left.total_seconds())


def _set_unless_cleared(run: RunContext, setting: ThrottleSetting) -> dict[str, str]:
    """Make the changes; take back those whose batch was cleared since they were journalled: nothing owes them any more."""
    refused = apply_changes(run, setting.changes)
    owed = {(r.resource, r.side.rate_key) for r in run.record.journal().rates}
    orphaned = {(c.resource, c.key) for c in setting.changes} - owed
    cleared = [r for r in setting.journal.rates if (r.resource, r.side.rate_key) in orphaned]
    return refused | apply_changes(run, map(restore_rate, cleared))
