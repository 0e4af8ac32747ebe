"""Changes on their way to the cluster: Kafka takes a change of a config however late it comes, and nothing can refuse it.

A try stands still right before its request, Airflow starts another, the throttle is cleared, and then the request
arrives. So a setting is journalled as under way before its changes are made, and leaves the journal when its try has
seen them. In between nothing that is cleared is forgotten: what shows up after all is owed again.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from kafka_reassignment.decisions.throttle.journal import UNSET, Journal, ListRecord, RateRecord, Underway, union
from kafka_reassignment.decisions.throttle.set import SeenConfigs
from kafka_reassignment.decisions.throttle.wanted import entries_of
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ConfigValue, ResourceKind

LATEST_ARRIVAL = timedelta(hours=1)
"""How long a change may be under way: longer than a connection holds what was written into it, and than two sweeps are apart."""


def begun(journal: Journal, changes: Collection[ConfigChange], setting: str, at: datetime) -> Journal:
    """Return the journal to store before changes are made: with them as under way. Values that are put back are not among them.

    Where a try before has the very same under way, it is journalled once: a look that fails each time adds its name
    alone, for as long as its change may arrive.
    """
    made = {(c.resource, c.key): c for c in changes}
    rates = tuple(
        r
        for r in journal.rates
        if (c := made.get((r.resource, r.side.rate_key))) is not None
        and c.operation is ConfigOperation.SET
        and c.value == r.set_values[-1]
    )
    lists = tuple(
        r.model_copy(update={"added": entries_of(c.value), "relied_on": ()})
        for r in journal.lists
        if (c := made.get((r.resource, r.side.replicas_key))) is not None and c.operation is ConfigOperation.APPEND
    )
    others = _without_try(journal.underway, setting)
    if not (rates or lists):
        return journal.model_copy(update={"underway": others})
    its = Underway(setting=setting, since=at, rates=rates, lists=lists)
    if same := next((u for u in others if (u.rates, u.lists) == (rates, lists)), None):
        tries = {**same.earlier, same.setting: same.since}
        earlier = {name: since for name, since in tries.items() if since >= at - LATEST_ARRIVAL}
        its = its.model_copy(update={"earlier": earlier})
    return journal.model_copy(update={"underway": (*(u for u in others if u is not same), its)})


def ended(
    journal: Journal, setting: str, began_with: Journal, *, unseen: Collection[ConfigResource] = ()
) -> tuple[Journal, bool]:
    """Return the journal when the changes of a setting have been made, and whether they came too late.

    They did where something has been cleared since they were journalled. Then it is owed again. Where the next batch
    has set its own rate since, what came late is one more value of ours.

    Args:
        journal: as it is now.
        setting: the name of the setting.
        began_with: the journal that was stored before the changes were made.
        unseen: brokers and topics whose changes stay under way, of ``unseen_of``.
    """
    its = _named(journal, setting) or _named(began_with, setting)
    if its is None:
        return journal, False
    late = {(r.broker, r.side): r for r in its.rates}
    left = journal.model_copy(
        update={
            "rates": tuple(_with_late(r, late.get((r.broker, r.side))) for r in journal.rates),
            "underway": _without_seen(journal, setting, unseen),
        }
    )
    missing = _not_owed(its, [journal])
    return (_owing(left, missing), True) if missing.rates or missing.lists else (left, False)


def _with_late(record: RateRecord, late: RateRecord | None) -> RateRecord:
    """Return a record with what was set late: that may be what the broker has now, whatever was seen before."""
    if late is None or late.set_values[-1] == record.set_values[-1]:
        return record
    return late.also_ours_in(record).model_copy(update={"was_in_place": False})


def is_cleared(journal: Journal, setting: str, began_with: Journal) -> bool:
    """Whether something of a setting that is under way has been cleared since it was journalled; as ``ended``."""
    its = _named(journal, setting) or _named(began_with, setting)
    missing = _not_owed(its, [journal]) if its else None
    return missing is not None and bool(missing.rates or missing.lists)


def _named(journal: Journal, setting: str) -> Underway | None:
    """Return what a setting has under way by this journal, which forgets it after ``LATEST_ARRIVAL``: a try may stand still for longer."""
    return next((u for u in journal.underway if u.is_of(setting)), None)


def unseen_of(journal: Journal, setting: str, seen: SeenConfigs) -> frozenset[ConfigResource]:
    """Return the brokers and topics that show nothing of what a setting has changed; a topic that is gone has nothing to show.

    What clears it meanwhile does not see it either, and would forget it. A rate that shows another value of ours is
    seen: what clears it changes it after all that was asked for before.
    """
    its = _named(journal, setting)
    if its is None:
        return frozenset()
    return frozenset(
        {r.resource for r in its.rates if not r.is_ours(_rate_seen(r, seen))}
        | {r.resource for r in its.lists if r.resource in seen and _seen_of(r, seen) != r}
    )


def arrived(journal: Journal, seen: SeenConfigs, others: Collection[Journal] = ()) -> Journal:
    """Return the journal with what is seen of changes that were under way when it was cleared, as owed.

    Args:
        journal: of one reassignment.
        seen: configs of the ``resources`` of what is under way.
        others: journals of other reassignments of the cluster: what one of them owes is not ours.
    """
    for its in journal.underway:
        missing = _not_owed(its, [journal, *others])
        there = its.model_copy(
            update={
                "rates": tuple(r for r in missing.rates if r.as_requested.is_ours(_rate_seen(r, seen))),
                "lists": tuple(found for r in missing.lists if (found := _seen_of(r, seen)).added),
            }
        )
        journal = _owing(journal, there)
    return journal


def without_older(journal: Journal, than: datetime, seen: SeenConfigs) -> Journal:
    """Return the journal without what has been under way since before a moment: it does not arrive any more.

    What may have arrived on a broker that does not answer stays until that broker is seen.
    """
    unseen = {r for u in journal.underway for r in u.resources if r.kind is ResourceKind.BROKER and r not in seen}
    left = (u if u.since >= than else u.of(unseen) for u in journal.underway)
    return journal.model_copy(update={"underway": tuple(u for u in left if u is not None)})


def _without_try(underway: Collection[Underway], setting: str) -> tuple[Underway, ...]:
    left = (u.without(setting) if u.is_of(setting) else u for u in underway)
    return tuple(u for u in left if u is not None)


def _without_seen(journal: Journal, setting: str, unseen: Collection[ConfigResource]) -> tuple[Underway, ...]:
    """Return what is under way when a try makes no change any more, but for those that are not seen yet."""
    its = _named(journal, setting)
    still = its.of(unseen) if its is not None else None
    if its is None or still == its:  # other tries go on to share it
        return journal.underway
    left = _without_try(journal.underway, setting)
    return left if still is None else (*left, still.of_try(setting))


def _rate_seen(record: RateRecord, seen: SeenConfigs) -> ConfigValue:
    return seen.get(record.resource, {}).get(record.side.rate_key, UNSET)


def _not_owed(its: Underway, journals: Collection[Journal]) -> Underway:
    rates = {(r.broker, r.side) for j in journals for r in j.rates}
    entries = {(r.topic, r.side, e) for j in journals for r in j.lists for e in r.entries}
    lists = (
        r.model_copy(update={"added": tuple(e for e in r.added if (r.topic, r.side, e) not in entries)})
        for r in its.lists
    )
    return its.model_copy(
        update={
            "rates": tuple(r for r in its.rates if (r.broker, r.side) not in rates),
            "lists": tuple(r for r in lists if r.added),
        }
    )


def _seen_of(record: ListRecord, seen: SeenConfigs) -> ListRecord:
    there = set(entries_of(seen.get(record.resource, {}).get(record.side.replicas_key, UNSET).value))
    return record.model_copy(update={"added": tuple(e for e in record.added if e in there)})


def _owing(journal: Journal, its: Underway) -> Journal:
    return union(journal, Journal(rates=its.rates, lists=its.lists))
