"""Raising the rates of what copies, one part a second: done at once, brokers would burst."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

from kafka_reassignment.decisions.quota_use import quota_uses_of_short, used_up
from kafka_reassignment.decisions.raising import Raises, partly_raised, raises, to_raise
from kafka_reassignment.decisions.throttle import (
    BrokerRate,
    Journal,
    WantedThrottle,
    begun,
    ended,
    is_cleared,
    throttle_by_journal,
)
from kafka_reassignment.errors import ReassignmentError, overtaken
from kafka_reassignment.model import Batch, ConfigResource, Refusal, View
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.moves import left_to_copy
from kafka_reassignment.steps.base.view import observe_replicas
from kafka_reassignment.steps.throttling.restore import restore_configs
from kafka_reassignment.steps.throttling.throttle_configs import (
    ThrottleSetting,
    apply_changes,
    decided_on_what_is_there,
    facts_of,
    outcome_of,
    setting_of,
    was_cleared,
)

PART = timedelta(seconds=1)
"""Between two parts of a raise."""

Decide = Callable[[str, Journal], ThrottleSetting]
"""Returns what is to be set as a whole, by the name of the setting, and the journal and the cluster as they are then."""


def raise_to_whole(run: RunContext, recorded: RecordView, batch: Batch, event: AuditDraft) -> bool:
    """Raise the rates of a batch that are set lower than they are wanted; return whether anything had to be set.

    It ends as soon as nothing is left to copy. A batch begins at a low rate; what its brokers copied of the batch
    before uses up the most of a higher one. Whatever was cut off while it was raised, the next look takes up here.

    Raises:
        OvertakenError: another reassignment has taken the rates over.
    """
    asked = run.request.throttle_bytes_per_second
    if asked is None:
        return False

    def whole(journal: Journal) -> WantedThrottle:
        return throttle_by_journal(batch, journal, asked_bytes_per_second=asked)

    def wanted_by(journal: Journal) -> WantedThrottle:
        return to_raise(whole(journal), journal)

    def decide(name: str, journal: Journal) -> ThrottleSetting:
        return setting_of(run, name, wanted_by(journal), journal)

    rates = wanted_by(recorded.journal()).rates
    if not rates:
        return False
    began, view = run.now(), observe_replicas(run.cluster, batch.partitions)

    def is_copying() -> bool:
        nonlocal view
        view = observe_replicas(run.cluster, batch.partitions)
        return bool(left_to_copy(batch, view).steps)

    if not left_to_copy(batch, view).steps:
        return False
    note = recorded.progress()
    at_once = used_up(rates, note.quota_uses, run.now()) if note else {}
    setting, refused = set_in_parts(run, decide, is_copying, event, at_once)
    if not left_to_copy(batch, view).steps:
        _note_short(run, batch, view, whole(recorded.journal()).rates, began)
    return note_raised(run, setting, refused, event)


def _note_short(run: RunContext, batch: Batch, view: View, rates: Collection[BrokerRate], began: datetime) -> None:
    """Note what the brokers of a batch count in their quotas that was over before it could be measured."""
    now = run.now()
    uses = quota_uses_of_short(batch, view, rates, (now - began).total_seconds(), now)
    text = f"batch {batch.number}: all is copied"
    run.record.write_progress(ProgressNote(batch=batch.number, at=now, text=text, quota_uses=uses))


def finish_raise(run: RunContext, recorded: RecordView, batch: Batch) -> None:
    """Go on with a raise that was cut off, with an audit event of its own."""
    event, began = AuditDraft(), run.now()
    if raise_to_whole(run, recorded, batch, event):
        event.summary = f"the rates of batch {batch.number} are raised to what was asked for"
        run.write_event("raise_rates", batch.number, began, event)


def set_in_parts(
    run: RunContext,
    decide: Decide,
    goes_on: Callable[[], bool],
    event: AuditDraft,
    at_once: Mapping[tuple[ConfigResource, str], int] | None = None,
) -> tuple[ThrottleSetting, dict[ConfigResource, Refusal]]:
    """Set rates, journal first; return what the last part was, and its refusals. A large raise takes ``QUOTA_SECONDS``.

    Each part is decided on what is seen right before it is set: another client may lower the rate meanwhile, a person may ask for another
    one, and a broker may join. What is raised further then, or later, has its own first part. A part is set ``PART``
    after the one before, never earlier: two parts in one second are a burst. What is a whole part late is made up for,
    two parts at once. A part that is cleared before it is set is not set, and one that is set too late is taken back
    where nothing needs it; what is left to raise is decided again then. An error between two parts ends the setting:
    each of its requests has been answered. One of a request leaves it under way, since the request may still come.

    Args:
        run: its record has the journal.
        decide: the whole change.
        goes_on: whether there is any use in a further part; what it raises ends the raise as well.
        event: gets what had to be taken back as facts.
        at_once: what rates may be raised to at once, of ``used_up``.

    Raises:
        OvertakenError: another reassignment has taken the rates over.
    """
    name = str(uuid4())

    def journalled(part: int, earlier: Raises, journal: Journal) -> tuple[Journal, tuple[ThrottleSetting, Raises]]:
        setting = decide(name, journal)
        found = raises(setting.changes, setting.before, journal, earlier, part)
        updated, changes = partly_raised(setting.journal, setting.changes, found, part, at_once or {})
        updated = begun(updated, changes, name, run.now())
        return updated, (replace(setting, journal=updated, changes=tuple(changes)), found)

    part = 1
    under_way: Raises = {}

    def journalled_part() -> ThrottleSetting:
        nonlocal under_way
        its, under_way = run.record.update_journal(partial(journalled, part, under_way))
        return its

    setting = journalled_part()
    began, to_look = run.now(), timedelta(0)
    while True:
        with _ended_by_errors(run, setting, event):
            setting = decided_on_what_is_there(run, setting, journalled_part)
        refused = _set_unless_cleared(run, setting, event)
        if refused is not None and all(its.done_with(part) >= 1 for its in under_way.values()):
            return setting, refused
        with _ended_by_errors(run, setting, event):
            due = began + part * PART
            if refused is not None:
                _sleep_until(run, due - to_look)
            looked_at = run.now()
            if not goes_on():
                return replace(setting, plan=WantedThrottle()), refused or {}
            if refused is None:
                _refuse_taken_over(run)
            else:
                part += 2 if looked_at >= due + PART else 1
            setting = journalled_part()
            to_look = run.now() - looked_at
            _sleep_until(run, due)  # where this look took less time than the one before


def note_raised(
    run: RunContext, setting: ThrottleSetting, refused: Mapping[ConfigResource, Refusal], event: AuditDraft
) -> bool:
    """Note what a setting in parts has raised, and warn of what is missing of it; return whether anything had to be set."""
    if not setting.changes:
        return False
    event.facts["raised"] = facts_of(setting, refused)
    for text in missing_of(run, setting, refused, event):
        run.log.warning("Not raised yet: %s", text)
    return True


def missing_of(
    run: RunContext, setting: ThrottleSetting, refused: Collection[ConfigResource], event: AuditDraft
) -> tuple[str, ...]:
    """Return what is missing of a setting in parts; take back what was cleared while its last part was looked at."""
    outcome = outcome_of(run, setting, refused)
    if not outcome.came_too_late:
        return outcome.missing
    _take_back(run, event)
    return ()


def _sleep_until(run: RunContext, due: datetime) -> None:
    """Sleep for as long as a part at most, whatever becomes of the clock meanwhile."""
    left = min(due - run.now(), PART)
    if left > timedelta(0):
        run.sleep(left.total_seconds())


def _set_unless_cleared(
    run: RunContext, setting: ThrottleSetting, event: AuditDraft
) -> dict[ConfigResource, Refusal] | None:
    """Make the changes and return the refusals; None where something of them was cleared since they were journalled.

    Then nothing is set, or what came too late is taken back. Who cleared it may as well be another reassignment that
    has taken the rates over and needs them: so they are owed again, and what nothing needs is restored.
    """
    if not setting.changes:
        return {}
    if was_cleared(run, setting):
        return None
    refused = apply_changes(run, setting.changes)
    if not is_cleared(run.record.journal(), setting.name, setting.journal):
        return refused
    if run.record.update_journal(partial(ended, setting=setting.name, began_with=setting.journal)):
        _take_back(run, event)
    return None


@contextmanager
def _ended_by_errors(run: RunContext, setting: ThrottleSetting, event: AuditDraft) -> Iterator[None]:
    """End a setting where an error ends it: a rate that may still be set is not seen in place, nor is it another client's."""
    try:
        yield
    except Exception:
        with suppress(ReassignmentError):  # the first error says more, and what is left is under way for LATEST_ARRIVAL
            if run.record.update_journal(partial(ended, setting=setting.name, began_with=setting.journal)):
                _take_back(run, event)
        raise


def _take_back(run: RunContext, event: AuditDraft) -> None:
    its = AuditDraft()
    restored = restore_configs(run, its)
    event.facts["taken_back"] = its.facts["throttle"]
    run.log.warning("The throttle was cleared while a rate was raised: %s", restored)


def _refuse_taken_over(run: RunContext) -> None:
    if run.lock_of_another() is not None:
        raise overtaken("another reassignment has taken the throttle over while a rate was raised")
