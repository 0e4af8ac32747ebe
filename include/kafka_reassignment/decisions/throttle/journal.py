"""The throttle journal: what we set, and what was there before and has to be restored. Written before anything is set (KIP-179)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.decisions.throttle.wanted import RateChange, Side, entries_of
from kafka_reassignment.model import ConfigResource, ConfigSource, ConfigValue

UNSET = ConfigValue(None, ConfigSource.DEFAULT)
"""A key that is set nowhere; brokers leave it out of their description."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Earlier(_Frozen):
    """A config value as it was before us, with the layer it came from."""

    value: str | None = None
    source: ConfigSource = ConfigSource.DEFAULT

    @classmethod
    def of(cls, seen: ConfigValue) -> Earlier:
        """Keep what was seen."""
        return cls(value=seen.value, source=seen.source)

    @property
    def was_set_here(self) -> bool:
        """Whether this very broker or topic had it; values of lower layers come back by themselves (F6)."""
        return self.source in {ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_TOPIC}

    def is_back(self, seen: ConfigValue) -> bool:
        """Whether what is seen is what was there before, on the layer that we change."""
        if not self.was_set_here:
            return seen.source not in {ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_TOPIC}
        return seen.source is self.source and seen.value == self.value

    def __str__(self) -> str:
        return "unset" if self.value is None else f"{self.value} ({self.source})"


class RateRecord(_Frozen):
    """A broker's rate that we set. ``set_values`` has every value that may be ours, the latest last."""

    broker: int
    side: Side
    earlier: Earlier
    set_values: tuple[str, ...]

    @property
    def resource(self) -> ConfigResource:
        """The broker whose config it is."""
        return ConfigResource.broker(self.broker)

    def is_ours(self, seen: ConfigValue) -> bool:
        """Whether what is seen is a value that we set; a value that the broker hides counts as ours."""
        if seen.source is not ConfigSource.DYNAMIC_BROKER:
            return False
        return seen.value is None or seen.value in self.set_values

    def __str__(self) -> str:
        return f"broker {self.broker}: {self.side.rate_key} (before us: {self.earlier})"


class ListRecord(_Frozen):
    """A topic's list to which we added ``partition:broker`` entries; ``added`` has only those that were not there."""

    topic: str
    side: Side
    earlier: Earlier
    added: tuple[str, ...]

    @property
    def resource(self) -> ConfigResource:
        """The topic whose config it is."""
        return ConfigResource.topic(self.topic)

    def __str__(self) -> str:
        return f"topic {self.topic}: {len(self.added)} entries of {self.side.replicas_key}"


class Journal(_Frozen):
    """Every config that we set and have not restored yet. A record leaves the journal when its config is restored.

    ``rate_changes`` are the rates requested while the reassignment runs, in order; they are not owed.
    """

    version: Literal[1] = 1
    rates: tuple[RateRecord, ...] = ()
    lists: tuple[ListRecord, ...] = ()
    rate_changes: tuple[RateChange, ...] = ()

    @property
    def resources(self) -> tuple[ConfigResource, ...]:
        """Brokers and topics whose configs have to be looked at, each once."""
        return tuple(sorted({r.resource for r in self.rates} | {r.resource for r in self.lists}))

    @property
    def is_settled(self) -> bool:
        """Whether nothing is owed."""
        return not (self.rates or self.lists)

    def owed_texts(self) -> tuple[str, ...]:
        """Return one line for each record that is still owed."""
        return tuple(str(record) for record in (*self.rates, *self.lists))


def union(journal: Journal, older: Journal) -> Journal:
    """Take over what an older journal still owes, of a reassignment that ended without restoring it.

    Where both journals have a record of a config, the earlier value is that of the older journal, unless another client
    changed the config in between. A value that the older reassignment set is never an earlier value. The caller empties
    the older journal after writing the result.
    """
    rates = {(r.broker, r.side): r for r in older.rates}
    for rate in journal.rates:
        if (old := rates.get((rate.broker, rate.side))) is None:
            rates[rate.broker, rate.side] = rate
            continue
        from_old = rate.earlier.was_set_here and rate.earlier.value in old.set_values
        rates[rate.broker, rate.side] = RateRecord(
            broker=rate.broker,
            side=rate.side,
            earlier=old.earlier if from_old or old.earlier == rate.earlier else rate.earlier,
            set_values=(*(v for v in old.set_values if v not in rate.set_values), *rate.set_values),
        )
    lists = {(r.topic, r.side): r for r in older.lists}
    for record in journal.lists:
        if (before := lists.get((record.topic, record.side))) is None:
            lists[record.topic, record.side] = record
            continue
        others = set(entries_of(record.earlier.value)) - set(before.added)
        lists[record.topic, record.side] = ListRecord(
            topic=record.topic,
            side=record.side,
            earlier=before.earlier if others <= set(entries_of(before.earlier.value)) else record.earlier,
            added=(*before.added, *(e for e in record.added if e not in before.added)),
        )
    return Journal(
        rates=tuple(rates[key] for key in sorted(rates)),
        lists=tuple(lists[key] for key in sorted(lists)),
        rate_changes=journal.rate_changes,
    )
