"""Clearing a throttle: only what the journal says is ours is removed, and the earlier values are restored exactly."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka_reassignment.decisions.throttle.journal import UNSET, Journal, ListRecord, RateRecord
from kafka_reassignment.decisions.throttle.set import SeenConfigs
from kafka_reassignment.decisions.throttle.wanted import EVERY_REPLICA, entries_of, partition_of
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigSource, ConfigValue, TopicPartition


@dataclass(frozen=True, slots=True)
class Clearing:
    """The changes to make, and the journal of what is owed as seen *before* these changes.

    So a refused or lost change is not forgotten: apply ``changes``, look again, call again, and store ``journal``.
    ``changed_by_others`` are values that are neither ours nor the earlier ones; they are left alone and no longer
    owed. Records of brokers that did not answer stay in the journal.
    """

    changes: tuple[ConfigChange, ...]
    journal: Journal
    changed_by_others: tuple[str, ...] = ()


def changes_to_restore(journal: Journal, seen: SeenConfigs, *, keep: Collection[TopicPartition] = ()) -> Clearing:
    """Return the changes that restore every journalled config, and the journal of what is still owed.

    A rate goes back to the value the broker itself had, else it is deleted so that the layer below shows again
    (F6). From a list our entries are subtracted; a list that did not exist before and has nothing but ours is
    deleted. A deleted topic is owed nothing.

    Args:
        journal: what we owe.
        seen: configs of ``journal.resources`` now.
        keep: partitions still in flight: their entries stay, and with any of them every rate does, since data
            must not move unthrottled. A rate without entries throttles nothing.
    """
    changes: list[ConfigChange] = []
    rates: list[RateRecord] = []
    lists: list[ListRecord] = []
    changed: list[str] = []
    for rate in journal.rates:
        values = seen.get(rate.resource)
        if keep or values is None:
            rates.append(rate)
            continue
        present = values.get(rate.side.rate_key, UNSET)
        if rate.earlier.is_back(present):
            continue
        if rate.is_ours(present):
            rates.append(rate)
            changes.append(_restore(rate))
        else:
            changed.append(
                f"broker {rate.broker}: {rate.side.rate_key} is {_format_value(present)}, expected {rate.set_values[-1]} which we "
                f"set; it was {rate.earlier} before"
            )
    kept: dict[str, set[int]] = {}
    for partition in keep:
        kept.setdefault(partition.topic, set()).add(partition.partition)
    for record in journal.lists:
        values = seen.get(record.resource)
        if values is None:
            continue
        present = values.get(record.side.replicas_key, UNSET)
        staying = [e for e in record.added if partition_of(e) in kept.get(record.topic, ())]
        change = _remove_entries(record, present, set(staying))
        if change is not None:
            changes.append(change)
            lists.append(record)
        elif staying:
            lists.append(record.model_copy(update={"added": tuple(staying)}))
        elif entries_of(present.value) == (EVERY_REPLICA,):
            changed.append(f"topic {record.topic}: {record.side.replicas_key} is *, expected a list with our entries")
    return Clearing(
        tuple(changes),
        journal.model_copy(update={"rates": tuple(rates), "lists": tuple(lists)}),
        tuple(changed),
    )


def _restore(rate: RateRecord) -> ConfigChange:
    if rate.earlier.was_set_here:
        return ConfigChange(rate.resource, rate.side.rate_key, ConfigOperation.SET, rate.earlier.value)
    return ConfigChange(rate.resource, rate.side.rate_key, ConfigOperation.DELETE)


def _remove_entries(record: ListRecord, present: ConfigValue, staying: set[str]) -> ConfigChange | None:
    there = entries_of(present.value)
    ours = set(record.added) - staying
    going = [e for e in record.added if e not in staying and e in set(there)]
    alone = not record.earlier.was_set_here and all(e in ours for e in there)
    if alone and present.source is ConfigSource.DYNAMIC_TOPIC:
        return ConfigChange(record.resource, record.side.replicas_key, ConfigOperation.DELETE)
    if not going:
        return None
    return ConfigChange(record.resource, record.side.replicas_key, ConfigOperation.SUBTRACT, ",".join(going))


def _format_value(value: ConfigValue) -> str:
    return "unset" if value.value is None else f"{value.value} ({value.source})"
