"""Clearing a throttle: only what the journal says is ours is removed, and the earlier values are restored exactly."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka_reassignment.decisions.throttle.journal import UNSET, Earlier, Journal, ListRecord, RateRecord
from kafka_reassignment.decisions.throttle.needed import NOTHING, Needed
from kafka_reassignment.decisions.throttle.set import SeenConfigs, restore_rate
from kafka_reassignment.decisions.throttle.wanted import (
    EVERY_REPLICA,
    BrokerRate,
    ThrottledReplicas,
    WantedThrottle,
    entries_of,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigSource, ConfigValue


@dataclass(frozen=True, slots=True)
class Clearing:
    """The changes to make, and the journal of what is owed as seen *before* these changes.

    So a refused or lost change is not forgotten: apply ``changes``, look again, call again, and store ``journal``.
    ``changed_by_others`` are values that are neither ours nor the earlier ones; they are left alone and no longer owed.
    Records of brokers that did not answer stay in the journal. ``has_unseen``: something that is owed is not seen. It
    was restored before, or the broker does not show it yet, so look again a moment later before ``journal`` is stored.
    """

    changes: tuple[ConfigChange, ...]
    journal: Journal
    changed_by_others: tuple[str, ...] = ()
    has_unseen: bool = False


def changes_to_restore(
    journal: Journal, seen: SeenConfigs, *, keep: Needed = NOTHING, others: Collection[Journal] = ()
) -> Clearing:
    """Return the changes that restore every journalled config that is not needed, and the journal of what is still owed.

    A rate goes back to the value the broker itself had, else it is deleted so that the layer below shows again (F6).
    From a list our entries are subtracted; one that did not exist before is deleted once it is seen empty, so it takes
    a second look. A deleted topic is owed nothing.

    Args:
        journal: what we owe.
        seen: configs of ``journal.resources`` now.
        keep: the entries that are still needed: they stay, and so does the rate of each broker that one of them names.
        others: journals of other reassignments of the cluster: a rate that one of them set is not another client's, and
            is owed until it is gone.
    """
    changes: list[ConfigChange] = []
    rates: list[RateRecord] = []
    lists: list[ListRecord] = []
    changed: list[str] = []
    has_unseen = False
    kept_rates, known = keep.rates, journal.known_rates
    for rate in journal.rates:
        values = seen.get(rate.resource)
        if values is None or (rate.broker, rate.side) in kept_rates:
            rates.append(rate)
            continue
        present = values.get(rate.side.rate_key, UNSET)
        if rate.earlier.is_back(present):
            has_unseen = True
            continue
        if known[rate.broker, rate.side].is_ours(present):
            rates.append(rate)
            changes.append(restore_rate(rate))
        elif any(other.has_set(rate.broker, rate.side, present) for other in others):
            rates.append(rate)
        else:
            changed.append(
                f"broker {rate.broker}: {rate.side.rate_key} is {Earlier.of(present)}, expected {rate.set_values[-1]} which we "
                f"set; it was {rate.earlier} before"
            )
    for record in journal.lists:
        values = seen.get(record.resource)
        if values is None:
            continue
        present = values.get(record.side.replicas_key, UNSET)
        needed = keep.of(record.topic, record.side)
        staying = tuple(e for e in record.added if e in needed)
        there = entries_of(present.value)
        relied_on = tuple(e for e in record.relied_on if e in needed)
        change = _remove_entries(record, present, set(staying))
        is_deleted = change is not None and change.operation is ConfigOperation.DELETE
        has_unseen |= there != (EVERY_REPLICA,) and not is_deleted and not set(record.added) <= {*staying, *there}
        if change is not None:
            changes.append(change)
            lists.append(record)
        elif staying or relied_on:
            lists.append(record.model_copy(update={"added": staying, "relied_on": relied_on}))
        elif record.added and there == (EVERY_REPLICA,):
            changed.append(f"topic {record.topic}: {record.side.replicas_key} is *, expected a list with our entries")
    return Clearing(
        tuple(changes),
        journal.model_copy(
            update={
                "rates": tuple(rates),
                "lists": tuple(lists),
                "lower_rates": tuple(r for r in journal.lower_rates if (r.broker, r.side) in kept_rates),
            }
        ),
        tuple(changed),
        has_unseen,
    )


def owed_texts_but(journal: Journal, keep: Needed) -> tuple[str, ...]:
    """Return one line for each record that is owed now: not for what is kept because it is needed."""
    kept_rates = keep.rates
    return tuple(
        str(record)
        for record in (
            *(r for r in journal.rates if (r.broker, r.side) not in kept_rates),
            *(r for r in journal.lists if not set(r.added) <= keep.of(r.topic, r.side)),
        )
    )


def throttle_to_put_back(journal: Journal, taken: Collection[ConfigChange], needed: Needed) -> WantedThrottle:
    """Return what was just taken away though it is needed, as a throttle to put in place: something began to copy in between.

    Args:
        journal: what is owed still; what another try has cleared since is not put back.
        taken: the changes that were made.
        needed: now.
    """
    keys = {(c.resource, c.key) for c in taken}
    replicas = (
        ThrottledReplicas(r.topic, r.side, tuple(e for e in r.added if e in needed.of(r.topic, r.side)))
        for r in journal.lists
        if (r.resource, r.side.replicas_key) in keys
    )
    return WantedThrottle(
        tuple(
            BrokerRate(r.broker, r.side, int(r.set_values[-1]), begins_low=r.begins_low)
            for r in journal.rates
            if (r.resource, r.side.rate_key) in keys and (r.broker, r.side) in needed.rates
        ),
        tuple(r for r in replicas if r.entries),
    )


def _remove_entries(record: ListRecord, present: ConfigValue, staying: set[str]) -> ConfigChange | None:
    """Return the change that removes our entries, else the one that deletes a list of which nothing is left.

    A list with entries is never deleted: another client may have added to it since the look.
    """
    there = entries_of(present.value)
    if going := [e for e in record.added if e not in staying and e in set(there)]:
        return ConfigChange(record.resource, record.side.replicas_key, ConfigOperation.SUBTRACT, ",".join(going))
    is_left_empty = not there and present.source is ConfigSource.DYNAMIC_TOPIC and not record.earlier.was_set_here
    if record.added and is_left_empty:
        return ConfigChange(record.resource, record.side.replicas_key, ConfigOperation.DELETE)
    return None
