"""Setting a throttle: the journal to store first, then the changes; no changes when nothing is missing."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_reassignment.decisions.throttle.journal import UNSET, Earlier, Journal, ListRecord, RateRecord
from kafka_reassignment.decisions.throttle.wanted import (
    EVERY_REPLICA,
    BrokerRate,
    ThrottledReplicas,
    WantedThrottle,
    entries_of,
)
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)

SeenConfigs = Mapping[ConfigResource, Mapping[str, ConfigValue]]
"""Configs as described: a resource that did not answer or does not exist is absent, so is a key set nowhere."""


def changes_to_throttle(
    wanted: WantedThrottle, journal: Journal, seen: SeenConfigs
) -> tuple[Journal, list[ConfigChange]]:
    """Return the journal to store first, and then the changes that put the throttle in place.

    A rate that another client had set on a broker is replaced, and restored exactly later. Entries that another
    client had put on a topic's list before are not ours; a list that is ``*`` covers all and is left as it is (F4). Two
    kinds of rates are left alone, and ``missing_throttle`` reports them: those of brokers that did not answer, and those
    of another client that brokers before 2.6 hide, since they could not be restored (F31).
    """
    rates = {(r.broker, r.side): r for r in journal.rates}
    lists = {(r.topic, r.side): r for r in journal.lists}
    changes: list[ConfigChange] = []
    for rate in wanted.rates:
        values = seen.get(rate.resource)
        if values is None:
            continue
        key = (rate.broker, rate.side)
        present = values.get(rate.side.rate_key, UNSET)
        if not _needs_setting(rate, present, rates.get(key)):
            continue
        rates[key] = _recorded(rate, present, rates.get(key))
        value = str(rate.set_bytes_per_second)
        changes.append(ConfigChange(rate.resource, rate.side.rate_key, ConfigOperation.SET, value))
    for topic_list in wanted.replicas:
        values = seen.get(topic_list.resource)
        if values is None:
            continue
        present = values.get(topic_list.side.replicas_key, UNSET)
        if missing := _missing_entries(topic_list, present):
            lists[topic_list.topic, topic_list.side] = _listed(
                topic_list, missing, present, lists.get((topic_list.topic, topic_list.side))
            )
            changes.append(
                ConfigChange(
                    topic_list.resource, topic_list.side.replicas_key, ConfigOperation.APPEND, ",".join(missing)
                )
            )
    return (
        Journal(
            rates=tuple(rates[key] for key in sorted(rates)),
            lists=tuple(lists[key] for key in sorted(lists)),
            rate_changes=journal.rate_changes,
        ),
        changes,
    )


def missing_throttle(wanted: WantedThrottle, seen: SeenConfigs, journal: Journal | None = None) -> tuple[str, ...]:
    """Return what is missing of the throttle, one line each; nothing when it is fully in place.

    The journal is needed only for brokers before 2.6, which hide their rates: one that we set last counts.
    A topic that does not exist needs no throttle.
    """
    records = {(r.broker, r.side): r for r in journal.rates} if journal else {}
    missing = []
    for rate in wanted.rates:
        values, key, want = seen.get(rate.resource), rate.side.rate_key, rate.set_bytes_per_second
        if values is None:
            missing.append(f"broker {rate.broker} did not answer, its {key} is not known to be {want}")
            continue
        present = values.get(key, UNSET)
        if _is_hidden(present) and (rate.broker, rate.side) not in records:
            missing.append(
                f"broker {rate.broker}: {key} is set but hidden, so it could not be put back; expected {want}. "
                "Remove it by hand, or upgrade the broker to 2.6 or later"
            )
        elif _needs_setting(rate, present, records.get((rate.broker, rate.side))):
            missing.append(f"broker {rate.broker}: {key} is {Earlier.of(present)}, expected {want}")
    for topic_list in wanted.replicas:
        values = seen.get(topic_list.resource)
        if values is not None and (
            entries := _missing_entries(topic_list, values.get(topic_list.side.replicas_key, UNSET))
        ):
            missing.append(
                f"topic {topic_list.topic}: {topic_list.side.replicas_key} lacks {len(entries)} of {len(topic_list.entries)} "
                f"entries, expected {entries[0]} among them"
            )
    return tuple(missing)


def _needs_setting(rate: BrokerRate, present: ConfigValue, record: RateRecord | None) -> bool:
    want = str(rate.set_bytes_per_second)
    if _is_hidden(present):
        return record is not None and record.set_values[-1] != want
    return present.value != want


def _recorded(rate: BrokerRate, present: ConfigValue, record: RateRecord | None) -> RateRecord:
    """Journal a rate. A value of ours never becomes the earlier value; one that another client set since then does."""
    want = str(rate.set_bytes_per_second)
    if record is None:
        return RateRecord(broker=rate.broker, side=rate.side, earlier=Earlier.of(present), set_values=(want,))
    return record.model_copy(
        update={
            "earlier": record.earlier if record.is_ours(present) else Earlier.of(present),
            "set_values": (*(v for v in record.set_values if v != want), want),
        }
    )


def _listed(
    topic_list: ThrottledReplicas, missing: tuple[str, ...], present: ConfigValue, record: ListRecord | None
) -> ListRecord:
    """Journal the missing entries. When another client deleted the list, its earlier value is "unset"."""
    if record is None:
        return ListRecord(topic=topic_list.topic, side=topic_list.side, earlier=Earlier.of(present), added=missing)
    deleted = record.earlier.was_set_here and present.source is not ConfigSource.DYNAMIC_TOPIC
    journalled = set(record.added)
    return record.model_copy(
        update={
            "earlier": Earlier.of(present) if deleted else record.earlier,
            "added": (*record.added, *(e for e in missing if e not in journalled)),
        }
    )


def _missing_entries(topic_list: ThrottledReplicas, present: ConfigValue) -> tuple[str, ...]:
    there = set(entries_of(present.value))
    return () if EVERY_REPLICA in there else tuple(e for e in topic_list.entries if e not in there)


def _is_hidden(value: ConfigValue) -> bool:
    return value.value is None and value.source is ConfigSource.DYNAMIC_BROKER
