"""The throttle journal: what we set, and what was there before and has to be restored. Written before anything is set (KIP-179)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kafka_reassignment.decisions.throttle.wanted import (
    Correction,
    RateChange,
    Side,
    WantedThrottle,
    entries_of,
    throttle_for,
)
from kafka_reassignment.model import Batch, ConfigResource, ConfigSource, ConfigValue
from kafka_reassignment.versioned import Versioned, renamed

UNSET = ConfigValue(None, ConfigSource.DEFAULT)
"""A key that is set nowhere; brokers leave it out of their description."""


UNLIMITED = 2**63 - 1
"""Kafka's own default of the rates."""


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
    """A broker's rate that we set. ``set_values`` has every value that may be ours, the latest last.

    ``was_in_place``: the broker showed the latest one since it was set, so nothing of ours can set an older one any
    more. ``begins_low``: the latest one is a part of the rate, for a batch that is about to be submitted.
    """

    broker: int
    side: Side
    earlier: Earlier
    set_values: tuple[str, ...]
    was_in_place: bool = False
    begins_low: bool = False

    @property
    def resource(self) -> ConfigResource:
        """The broker whose config it is."""
        return ConfigResource.broker(self.broker)

    def is_ours(self, seen: ConfigValue) -> bool:
        """Whether what is seen is a value that we set; a value that the broker hides counts as ours.

        A person may set the rate to one that we had set earlier: that one is not ours once the latest was in place.
        """
        if seen.source is not ConfigSource.DYNAMIC_BROKER:
            return False
        return seen.value is None or seen.value in (self.set_values[-1:] if self.was_in_place else self.set_values)

    @property
    def as_requested(self) -> RateRecord:
        """What the request sets that is journalled with it: the latest value alone, since those before were answered."""
        return self.model_copy(update={"set_values": self.set_values[-1:]})

    def also_ours_in(self, record: RateRecord | None) -> RateRecord:
        """Return the record that the journal has of this rate with the values of this one; this one where it has none."""
        if record is None:
            return self
        values = (*(v for v in self.set_values if v not in record.set_values), *record.set_values)
        return record.model_copy(update={"set_values": values})

    def __str__(self) -> str:
        return f"broker {self.broker}: {self.side.rate_key} (before us: {self.earlier})"


class ListRecord(_Frozen):
    """A topic's list in which we need ``partition:broker`` entries.

    ``added`` are those that were not there: they are ours, and owed. ``relied_on`` are those that another client had
    put there: they are put back when they are gone while they are needed, and are not owed.
    """

    topic: str
    side: Side
    earlier: Earlier
    added: tuple[str, ...]
    relied_on: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """All that is needed, whosever it is."""
        return (*self.added, *self.relied_on)

    @property
    def resource(self) -> ConfigResource:
        """The topic whose config it is."""
        return ConfigResource.topic(self.topic)

    def __str__(self) -> str:
        return f"topic {self.topic}: {len(self.added)} entries of {self.side.replicas_key}"


class LowerRate(_Frozen):
    """A rate of another client that is at most as high as ours: it stays, before, during and after the reassignment."""

    broker: int
    side: Side
    bytes_per_second: int

    @property
    def as_seen(self) -> ConfigValue:
        """The rate as a broker shows its own."""
        return ConfigValue(str(self.bytes_per_second), ConfigSource.DYNAMIC_BROKER)

    def __str__(self) -> str:
        return (
            f"another client set {self.side.rate_key} of broker {self.broker} to {self.bytes_per_second} bytes per second, "
            "which is lower than ours and stays"
        )


class Underway(_Frozen):
    """Changes that a try has journalled and may still make: Kafka takes them however late they come.

    ``rates`` and ``lists`` are what is owed once they take effect. ``earlier`` are other tries that journalled the very
    same before and have not said either that it is made, by when.
    """

    setting: str
    since: datetime
    earlier: dict[str, datetime] = Field(default_factory=dict)
    rates: tuple[RateRecord, ...]
    lists: tuple[ListRecord, ...]

    @property
    def resources(self) -> frozenset[ConfigResource]:
        """Brokers and topics whose configs it changes."""
        return frozenset({r.resource for r in self.rates} | {r.resource for r in self.lists})

    def is_of(self, setting: str) -> bool:
        """Whether this try may still make these changes."""
        return setting == self.setting or setting in self.earlier

    def of(self, resources: Collection[ConfigResource]) -> Underway | None:
        """Return what of it changes these brokers and topics; None where that is nothing."""
        rates = tuple(r for r in self.rates if r.resource in resources)
        lists = tuple(r for r in self.lists if r.resource in resources)
        return self.model_copy(update={"rates": rates, "lists": lists}) if rates or lists else None

    def of_try(self, setting: str) -> Underway:
        """Return what this try may still change, without the others that have the very same under way."""
        since = {**self.earlier, self.setting: self.since}[setting]
        return self.model_copy(update={"setting": setting, "since": since, "earlier": {}})

    def without(self, setting: str) -> Underway | None:
        """Return what is under way when this try makes no change any more; None where no other try has the same under way."""
        tries = {name: at for name, at in {**self.earlier, self.setting: self.since}.items() if name != setting}
        if not tries:
            return None
        *_, latest = tries
        since = tries.pop(latest)
        return self.model_copy(update={"setting": latest, "since": since, "earlier": tries})


class Journal(Versioned):
    """Every config that we set and have not restored yet. A record leaves the journal when its config is restored.

    ``rate_changes`` are the rates requested while the reassignment runs, in order, ``lower_rates`` those of other
    clients that we found, ``underway`` the changes whose try has not said yet that they are made, and ``corrections``
    what was measured of brokers' rates; none of them is owed. ``rate_set_by_hand``: a person has changed the rate,
    which ends auto rate.
    """

    rates: tuple[RateRecord, ...] = ()
    lists: tuple[ListRecord, ...] = ()
    rate_changes: tuple[RateChange, ...] = ()
    lower_rates: tuple[LowerRate, ...] = ()
    underway: tuple[Underway, ...] = ()
    corrections: tuple[Correction, ...] = ()
    rate_set_by_hand: bool = False

    @classmethod
    def from_version_1(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what a file of version 1 says, by the names of this version."""
        fields = renamed(fields, rate_changes="retargets")
        changes = [
            renamed(change, rate_before_slowdown_bytes_per_second="slowed_from")
            for change in fields.get("rate_changes", ())
        ]
        return fields | {"rate_changes": changes}

    @property
    def resources(self) -> tuple[ConfigResource, ...]:
        """Brokers and topics whose configs have to be looked at, each once."""
        return tuple(sorted({r.resource for r in self.rates} | {r.resource for r in self.lists}))

    @property
    def resources_underway(self) -> frozenset[ConfigResource]:
        """Brokers and topics whose configs may still be changed by what is under way."""
        return frozenset(r for its in self.underway for r in its.resources)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is owed."""
        return not (self.rates or any(record.added for record in self.lists))

    @property
    def is_over(self) -> bool:
        """Whether nothing is owed, and nothing under way that would be once it takes effect."""
        return self.is_settled and not self.underway

    def owed_texts(self) -> tuple[str, ...]:
        """Return one line for each record that is still owed."""
        return tuple(str(record) for record in (*self.rates, *(r for r in self.lists if r.added)))

    def of_down_brokers(self, live_brokers: Collection[int]) -> Journal:
        """Return what is owed to brokers that are not alive: nobody can change their configs before they are back (F7)."""
        return Journal(rates=tuple(r for r in self.rates if r.broker not in live_brokers))

    def without(self, taken: Journal) -> Journal:
        """Return what is left when another journal has taken these records over, and what is under way; those that changed since stay."""
        return self.model_copy(
            update={
                "rates": tuple(r for r in self.rates if r not in taken.rates),
                "lists": tuple(r for r in self.lists if r not in taken.lists),
                "underway": tuple(u for u in self.underway if u not in taken.underway),
            }
        )

    @property
    def rates_set(self) -> dict[tuple[int, Side], int]:
        """The values of our rates that were set last, by broker and side."""
        return {(r.broker, r.side): int(r.set_values[-1]) for r in self.rates}

    @property
    def known_rates(self) -> dict[tuple[int, Side], RateRecord]:
        """The records of rates by broker and side, with the values that are ours as soon as what is under way sets them.

        It may have been cleared since, and the next batch has set its own rate.
        """
        known = {(r.broker, r.side): r for r in self.rates}
        for its in self.underway:
            known |= {(r.broker, r.side): r.as_requested.also_ours_in(known.get((r.broker, r.side))) for r in its.rates}
        return known

    def has_set(self, broker: int, side: Side, seen: ConfigValue) -> bool:
        """Whether the rate that is seen on a broker is one that this reassignment set, or may still have set."""
        late = (r.as_requested for its in self.underway for r in its.rates)
        return any((r.broker, r.side) == (broker, side) and r.is_ours(seen) for r in (*self.rates, *late))


def throttle_by_journal(batch: Batch, journal: Journal, *, asked_bytes_per_second: int) -> WantedThrottle:
    """Return the throttle of a batch with the rates that were requested since, and with what was measured of them."""
    wanted = throttle_for(batch, asked_bytes_per_second=asked_bytes_per_second, rate_changes=journal.rate_changes)
    return wanted.corrected(journal.corrections)


def new_rates_of_others(before: Journal, after: Journal) -> tuple[tuple[int, Side, ConfigValue], ...]:
    """Return the rates on brokers that one version of a journal took for another client's, and the version before did not."""
    known = {(r.broker, r.side, r.earlier) for r in before.rates}
    replaced = (r for r in after.rates if r.earlier.was_set_here and (r.broker, r.side, r.earlier) not in known)
    lower = (r for r in after.lower_rates if r not in before.lower_rates)
    return (
        *((r.broker, r.side, ConfigValue(r.earlier.value, r.earlier.source)) for r in replaced),
        *((r.broker, r.side, r.as_seen) for r in lower),
    )


def bytes_of(seen: ConfigValue) -> int:
    """Return the rate that a config sets as a number; one that is set nowhere, hidden or not a number limits nothing.

    Neither does one in server.properties: brokers show it, and go by the dynamic layers alone (Kafka's
    ``BrokerConfigHandler``).
    """
    if seen.value is None or seen.source not in {ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER}:
        return UNLIMITED
    try:
        return int(seen.value)
    except ValueError:
        return UNLIMITED


def union(journal: Journal, older: Journal) -> Journal:
    """Take over what an older journal still owes or has under way, of a reassignment that ended without restoring it.

    Where both journals have a record of a config, the earlier value is that of the older journal, unless another client
    changed the config in between. A value that the older reassignment set is never an earlier value. The caller takes
    out of the older journal what it took over, after writing the result.
    """
    rates = {(r.broker, r.side): r for r in older.rates}
    for rate in journal.rates:
        old = rates.get((rate.broker, rate.side))
        rates[rate.broker, rate.side] = rate if old is None else _joined_rates(rate, old)
    lists = {(r.topic, r.side): r for r in older.lists}
    for record in journal.lists:
        before = lists.get((record.topic, record.side))
        lists[record.topic, record.side] = record if before is None else _joined_lists(record, before)
    return journal.model_copy(
        update={
            "rates": tuple(rates[key] for key in sorted(rates)),
            "lists": tuple(lists[key] for key in sorted(lists)),
            "underway": (*(u for u in older.underway if u not in journal.underway), *journal.underway),
            "lower_rates": tuple(r for r in journal.lower_rates if not older.has_set(r.broker, r.side, r.as_seen)),
        }
    )


def _joined_rates(rate: RateRecord, old: RateRecord) -> RateRecord:
    from_old = rate.earlier.was_set_here and rate.earlier.value in old.set_values
    return rate.model_copy(
        update={
            "earlier": old.earlier if from_old or old.earlier == rate.earlier else rate.earlier,
            "set_values": (*(v for v in old.set_values if v not in rate.set_values), *rate.set_values),
            # A late task of the older one may have set any of its values after this one was seen in place.
            "was_in_place": rate.was_in_place and set(old.set_values) == {rate.set_values[-1]},
        }
    )


def _joined_lists(record: ListRecord, before: ListRecord) -> ListRecord:
    others = set(entries_of(record.earlier.value)) - set(before.added)
    added = (*before.added, *(e for e in record.added if e not in before.added))
    return record.model_copy(
        update={
            "earlier": before.earlier if others <= set(entries_of(before.earlier.value)) else record.earlier,
            "added": added,
            "relied_on": tuple(e for e in dict.fromkeys((*before.relied_on, *record.relied_on)) if e not in added),
        }
    )
