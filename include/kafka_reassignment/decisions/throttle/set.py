"""Setting a throttle: the journal to store first, then the changes; no changes when nothing is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_reassignment.decisions.throttle.journal import UNSET, Earlier, Journal, ListRecord, RateRecord
from kafka_reassignment.decisions.throttle.wanted import (
    EVERY_REPLICA,
    BrokerRate,
    RateChange,
    Side,
    ThrottledReplicas,
    WantedThrottle,
    entries_of,
)
from kafka_reassignment.errors import InvalidThrottleError
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)
from kafka_reassignment.request import LOWEST_RATE_MB, MEGABYTE

SeenConfigs = Mapping[ConfigResource, Mapping[str, ConfigValue]]
"""Configs as described: a resource that did not answer or does not exist is absent, so is a key set nowhere."""


def changes_to_throttle(
    wanted: WantedThrottle, journal: Journal, seen: SeenConfigs
) -> tuple[Journal, list[ConfigChange]]:
    """Return the journal to store first, and then the changes that put the throttle in place.

    A rate that another client had set on a broker is replaced, and restored exactly later. Entries that another
    client had put on a topic's list before are not ours; a list that is ``*`` covers all and is left as it is (F4). Brokers
    that did not answer, and rates hidden by brokers before 2.6 that are not ours (they could not be put back,
    F31), are left alone: ``missing_throttle`` reports them.
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


def change_rates(
    journal: Journal,
    seen: SeenConfigs,
    *,
    asked_bytes_per_second: int,
    brokers: Collection[int] | None = None,
    sides: Collection[Side] = tuple(Side),
    allow_low: bool = False,
    rate_before_slowdown_bytes_per_second: int | None = None,
) -> tuple[Journal, list[ConfigChange]]:
    """Change the rate while moves run; return the journal to store first, and then the changes.

    Rates in force are changed at once; later batches take the new rate from ``Journal.rate_changes`` through
    ``throttle_for``.

    Args:
        journal: of the running reassignment.
        seen: configs of ``journal.resources``.
        asked_bytes_per_second: what each of the brokers may send or receive.
        brokers: only these; all when None.
        sides: leader, follower, or both.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        rate_before_slowdown_bytes_per_second: the rate to go back to, where it is lowered because the cluster is unhealthy.

    Raises:
        InvalidThrottleError: the rate is not positive, or below 1 MB/s and that was not allowed.
    """
    refuse_low_rate(asked_bytes_per_second, allow_low=allow_low)
    change = RateChange(
        asked_bytes_per_second=asked_bytes_per_second,
        brokers=None if brokers is None else tuple(sorted(brokers)),
        sides=tuple(side for side in Side if side in sides),
        rate_before_slowdown_bytes_per_second=rate_before_slowdown_bytes_per_second,
    )
    kept = tuple(old for old in journal.rate_changes if not _covers(change, old))
    wanted = WantedThrottle(
        tuple(
            BrokerRate(r.broker, r.side, asked_bytes_per_second)
            for r in journal.rates
            if change.concerns(r.broker, r.side)
        )
    )
    return changes_to_throttle(wanted, journal.model_copy(update={"rate_changes": (*kept, change)}), seen)


def refuse_low_rate(asked_bytes_per_second: int, *, allow_low: bool) -> None:
    """Refuse a rate that Kafka cannot hold accurately (F9).

    Raises:
        InvalidThrottleError: the rate is not positive, or below 1 MB/s and that was not allowed.
    """
    lowest = 1 if allow_low else round(LOWEST_RATE_MB * MEGABYTE)
    if asked_bytes_per_second < lowest:
        raise InvalidThrottleError(
            f"The new rate is {asked_bytes_per_second} bytes per second, expected at least {lowest}: Kafka cannot hold "
            "lower rates accurately, and 0 would stop replication. Nothing was changed; ask for a higher rate"
        )


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
    """Journal entries that were not there. A list that was deleted since then counts as unset before us."""
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


def _covers(new: RateChange, old: RateChange) -> bool:
    brokers_covered = new.brokers is None or (old.brokers is not None and set(old.brokers) <= set(new.brokers))
    return brokers_covered and set(old.sides) <= set(new.sides)
