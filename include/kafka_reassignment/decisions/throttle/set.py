"""Setting a throttle: the journal to store first, then the changes; no changes when nothing is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from kafka_reassignment.decisions.throttle.journal import (
    UNSET,
    Earlier,
    Journal,
    ListRecord,
    LowerRate,
    RateRecord,
    bytes_of,
)
from kafka_reassignment.decisions.throttle.wanted import (
    EVERY_REPLICA,
    BrokerRate,
    ThrottledReplicas,
    WantedThrottle,
    entries_of,
)
from kafka_reassignment.model import (
    DEFAULT_OF_BROKERS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)

SeenConfigs = Mapping[ConfigResource, Mapping[str, ConfigValue]]
"""Configs as described: a resource that did not answer or does not exist is absent, so is a key set nowhere."""

HIDDEN = "is set but hidden"
"""In what ``missing_throttle`` says of a rate that a broker before 2.6 does not show."""


UNREADABLE = "has an empty part, so that brokers accept it and do not apply it"
"""In what ``missing_throttle`` says of a list that Kafka stores, and no broker can read."""


def changes_to_throttle(
    wanted: WantedThrottle, journal: Journal, seen: SeenConfigs
) -> tuple[Journal, list[ConfigChange]]:
    """Return the journal to store first, and then the changes that put the throttle in place.

    A rate of another client that is higher than ours is lowered to ours, and restored exactly later. One that is at
    most as high stays, whenever it appears: ``Journal.lower_rates`` has it. One that is the default of all brokers now
    is set on the broker, because before 3.9 (KAFKA-10190) the default has no effect. One in server.properties has no
    effect at all (F41), so it does not count. Entries that another client had put on a topic's list before are not
    ours; a list that is ``*`` covers all and is left as it is (F4). Two kinds of rates are left alone, and
    ``missing_throttle`` reports them: those of brokers that did not answer, and those of another client that brokers
    before 2.6 hide, since they could not be restored (F31).
    """
    rates = {(r.broker, r.side): r for r in journal.rates}
    known = journal.known_rates
    lists = {(r.topic, r.side): r for r in journal.lists}
    changes: list[ConfigChange] = []
    for rate in wanted.rates:
        values = seen.get(rate.resource)
        if values is None:
            continue
        key = (rate.broker, rate.side)
        present, record = values.get(rate.side.rate_key, UNSET), known.get(key)
        theirs = _without_us(rate, seen, record)
        if not _needs_setting(rate, present, record, theirs) or (key not in rates and is_hidden(present)):
            continue
        if record is not None and _is_theirs_to_stay(rate, theirs):
            changes.append(restore_rate(record))
            continue
        value = min(rate.set_bytes_per_second, bytes_of(theirs))
        rates[key] = _recorded(rate, value, present, record)
        changes.append(ConfigChange(rate.resource, rate.side.rate_key, ConfigOperation.SET, str(value)))
    for topic_list in wanted.replicas:
        values = seen.get(topic_list.resource)
        if values is None:
            continue
        present = values.get(topic_list.side.replicas_key, UNSET)
        list_key = (topic_list.topic, topic_list.side)
        missing = missing_entries(topic_list, present)
        lists[list_key] = _listed(topic_list, missing, present, lists.get(list_key))
        if missing:
            changes.append(
                ConfigChange(
                    topic_list.resource, topic_list.side.replicas_key, ConfigOperation.APPEND, ",".join(missing)
                )
            )
    return (
        journal.model_copy(
            update={
                "rates": tuple(rates[key] for key in sorted(rates)),
                "lists": tuple(lists[key] for key in sorted(lists)),
                "lower_rates": lower_rates(wanted, journal, seen),
            }
        ),
        changes,
    )


def lower_rates(wanted: WantedThrottle, journal: Journal, seen: SeenConfigs) -> tuple[LowerRate, ...]:
    """Return the lower rates of other clients that are seen; of what is not wanted or did not answer, those of the journal."""
    records = journal.known_rates
    lower = {(r.broker, r.side): r for r in journal.lower_rates}
    for rate in wanted.rates:
        if rate.resource not in seen:
            continue
        key = (rate.broker, rate.side)
        others = bytes_of(_without_us(rate, seen, records.get(key)))
        if others < rate.set_bytes_per_second:
            lower[key] = LowerRate(broker=rate.broker, side=rate.side, bytes_per_second=others)
        else:
            lower.pop(key, None)
    return tuple(lower[key] for key in sorted(lower))


def without_raises(wanted: WantedThrottle, journal: Journal, seen: SeenConfigs) -> WantedThrottle:
    """Leave out the rates of ours that are in place, and lower: as they were set last, or as they were before. Lower the others to that.

    A look restores what is missing, as it was set last. It does not raise what was taken over: that copies at the rate
    that was asked for it. Nor does it raise at once what is raised in parts: the next part is journalled a moment
    before brokers show it.
    """
    records = {(r.broker, r.side): r for r in journal.rates}
    known = journal.known_rates
    kept = []
    for rate in wanted.rates:
        record = records.get((rate.broker, rate.side))
        if record is None:
            kept.append(rate)
            continue
        own = known[rate.broker, rate.side]
        present = seen.get(rate.resource, {}).get(rate.side.rate_key, UNSET)
        # What would apply without us may have been lowered once more: the default of all brokers, which ours has
        # followed.
        highest = min(rate.set_bytes_per_second, bytes_of(_without_us(rate, seen, own)))
        if not own.is_ours(present) or bytes_of(present) >= highest:
            kept.append(_at_most(rate, int(record.set_values[-1])))
    return replace(wanted, rates=tuple(kept))


def _at_most(rate: BrokerRate, highest: int) -> BrokerRate:
    is_higher = rate.set_bytes_per_second > highest
    return replace(rate, asked_bytes_per_second=highest, factor=1.0) if is_higher else rate


def confirmed(wanted: WantedThrottle, journal: Journal, seen: SeenConfigs, *, arrives_from: datetime) -> Journal:
    """Return the journal with the rates that are seen in place marked so; not those that something under way may still set.

    What has been under way since before ``arrives_from`` sets nothing any more. It stays in the journal: what clears it
    looks for it.
    """
    may_change = {(r.broker, r.side) for its in journal.underway if its.since >= arrives_from for r in its.rates}
    there = {(r.broker, r.side): seen.get(r.resource, {}).get(r.side.rate_key, UNSET).value for r in wanted.rates}
    return journal.model_copy(
        update={
            "rates": tuple(
                r.model_copy(update={"was_in_place": True})
                if there.get((r.broker, r.side)) == r.set_values[-1] and (r.broker, r.side) not in may_change
                else r
                for r in journal.rates
            )
        }
    )


def missing_throttle(wanted: WantedThrottle, seen: SeenConfigs, journal: Journal) -> tuple[str, ...]:
    """Return what is missing of the throttle, one line each; nothing when it is fully in place.

    The journal is needed only for brokers before 2.6, which hide their rates: one that we set last counts.
    A topic that does not exist needs no throttle.
    """
    records = journal.known_rates
    missing = []
    for rate in wanted.rates:
        values, key, want = seen.get(rate.resource), rate.side.rate_key, rate.set_bytes_per_second
        if values is None:
            missing.append(f"broker {rate.broker} did not answer, its {key} is not known to be {want}")
            continue
        present, record = values.get(key, UNSET), records.get((rate.broker, rate.side))
        if is_hidden(present) and record is None:
            missing.append(f"broker {rate.broker}: {key} {HIDDEN}, so it could not be put back; expected {want}")
        elif _needs_setting(rate, present, record, _without_us(rate, seen, record)):
            missing.append(f"broker {rate.broker}: {key} is {Earlier.of(present)}, expected {want}")
    for topic_list in wanted.replicas:
        values = seen.get(topic_list.resource)
        if values is None:
            continue
        present = values.get(topic_list.side.replicas_key, UNSET)
        name = f"topic {topic_list.topic}: {topic_list.side.replicas_key}"
        if entries := missing_entries(topic_list, present):
            missing.append(
                f"{name} lacks {len(entries)} of {len(topic_list.entries)} entries, expected {entries[0]} among them"
            )
        elif _has_empty_part(present):
            missing.append(f"{name} is '{present.value}': it {UNREADABLE}")
    return tuple(missing)


def restore_rate(rate: RateRecord) -> ConfigChange:
    """Return the change that brings a rate back to what it was before us."""
    if rate.earlier.was_set_here:
        return ConfigChange(rate.resource, rate.side.rate_key, ConfigOperation.SET, rate.earlier.value)
    return ConfigChange(rate.resource, rate.side.rate_key, ConfigOperation.DELETE)


def missing_entries(topic_list: ThrottledReplicas, present: ConfigValue) -> tuple[str, ...]:
    """Return the entries that a list lacks; one that is ``*`` lacks none."""
    there = set(entries_of(present.value))
    return () if EVERY_REPLICA in there else tuple(e for e in topic_list.entries if e not in there)


def _without_us(rate: BrokerRate, seen: SeenConfigs, record: RateRecord | None) -> ConfigValue:
    """The rate that would apply without us; unset where it is not known, and where it is in server.properties: no broker obeys that.

    Under ours is what the broker itself had, else the default of all brokers as it is now; as it was before us where it
    is not seen.
    """
    key = rate.side.rate_key
    without = seen.get(rate.resource, {}).get(key, UNSET)
    if is_hidden(without):
        return UNSET
    if record is not None and record.is_ours(without):
        without = ConfigValue(record.earlier.value, record.earlier.source)
        if not record.earlier.was_set_here and DEFAULT_OF_BROKERS in seen:
            without = seen[DEFAULT_OF_BROKERS].get(key, UNSET)
    return UNSET if without.source is ConfigSource.STATIC_BROKER else without


def _is_theirs_to_stay(rate: BrokerRate, theirs: ConfigValue) -> bool:
    """Whether another client has set this very broker's rate to at most ours."""
    return theirs.source is ConfigSource.DYNAMIC_BROKER and bytes_of(theirs) <= rate.set_bytes_per_second


def _needs_setting(rate: BrokerRate, present: ConfigValue, record: RateRecord | None, theirs: ConfigValue) -> bool:
    if is_hidden(present):
        return record is None or record.set_values[-1] != str(rate.set_bytes_per_second)
    if _is_theirs_to_stay(rate, theirs):
        return present.value != theirs.value
    wanted = min(rate.set_bytes_per_second, bytes_of(theirs))
    return present.source is not ConfigSource.DYNAMIC_BROKER or bytes_of(present) != wanted


def _recorded(rate: BrokerRate, value: int, present: ConfigValue, record: RateRecord | None) -> RateRecord:
    """Journal a rate. A value of ours never becomes the earlier value; one that another client set since then does."""
    want = str(value)
    if record is None:
        return RateRecord(
            broker=rate.broker,
            side=rate.side,
            earlier=Earlier.of(present),
            set_values=(want,),
            begins_low=rate.begins_low,
        )
    return record.model_copy(
        update={
            "earlier": record.earlier if record.is_ours(present) else Earlier.of(present),
            "set_values": (*(v for v in record.set_values if v != want), want),
            "was_in_place": False,
            "begins_low": rate.begins_low,
        }
    )


def _listed(
    topic_list: ThrottledReplicas, missing: tuple[str, ...], present: ConfigValue, record: ListRecord | None
) -> ListRecord:
    """Journal the missing entries, and those that are there already. When another client deleted the list, its earlier value is "unset"."""
    if record is None:
        relied_on = tuple(e for e in topic_list.entries if e not in missing)
        earlier = Earlier.of(present)
        return ListRecord(
            topic=topic_list.topic, side=topic_list.side, earlier=earlier, added=missing, relied_on=relied_on
        )
    deleted = record.earlier.was_set_here and present.source is not ConfigSource.DYNAMIC_TOPIC
    added = tuple(dict.fromkeys((*record.added, *missing)))
    ours = set(added)
    return record.model_copy(
        update={
            "earlier": Earlier.of(present) if deleted and missing else record.earlier,
            "added": added,
            "relied_on": tuple(e for e in dict.fromkeys((*record.relied_on, *topic_list.entries)) if e not in ours),
        }
    )


def _has_empty_part(present: ConfigValue) -> bool:
    """Whether a broker fails at the list (Kafka 4.3.1: ``ArrayIndexOutOfBoundsException`` in its log, no throttle).

    One at the end is harmless. Brokers fail at blanks as well (``0:1, 0:2``), but they show such a list without them.
    """
    value = (present.value or "").strip().rstrip(",")
    return bool(value) and "" in value.split(",")


def is_hidden(value: ConfigValue) -> bool:
    """Whether a broker has a rate of its own and does not show it, as those before 2.6 (F31)."""
    return value.value is None and value.source is ConfigSource.DYNAMIC_BROKER
