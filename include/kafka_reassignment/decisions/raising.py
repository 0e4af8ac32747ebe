"""Raising rates so that brokers do not burst: in parts, one a second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS
from kafka_reassignment.decisions.throttle.journal import UNSET, Journal, bytes_of
from kafka_reassignment.decisions.throttle.set import SeenConfigs, is_hidden
from kafka_reassignment.decisions.throttle.wanted import BrokerRate, Side, WantedThrottle
from kafka_reassignment.model import ConfigChange, ConfigResource


def low_at_first(
    wanted: WantedThrottle, journal: Journal, seen: SeenConfigs, sides: Collection[Side]
) -> WantedThrottle:
    """Return the throttle at which copies begin: rates that are not in place yet are set to one part in ``QUOTA_SECONDS``.

    A leader counts every fetch of a follower, one that brings nothing too (F39). So it has ``QUOTA_SECONDS`` of its
    rate left when copies begin, and sent them at once: six times the rate for two seconds
    (docs/decisions/0024-raises-in-parts.md).

    A lower rate of another client stays as it is.

    Args:
        wanted: the whole rates.
        journal: shows which of them are set.
        seen: configs of the brokers.
        sides: of the rates that begin low. A follower that has not copied for ``QUOTA_SECONDS`` has nothing left.
    """
    records = {(r.broker, r.side): r for r in journal.rates}

    def begins(rate: BrokerRate) -> bool:
        record = records.get((rate.broker, rate.side))
        present = seen.get(rate.resource, {}).get(rate.side.rate_key, UNSET)
        is_ours = record is not None and record.is_ours(present)
        return rate.side in sides and not is_ours and bytes_of(present) > rate.set_bytes_per_second

    return _low(wanted, begins)


def still_low(wanted: WantedThrottle, journal: Journal) -> WantedThrottle:
    """Return a throttle whose low rates stay low: those that were set for a batch which is not submitted yet.

    Raised before, they would have ``QUOTA_SECONDS`` left when the batch begins.
    """
    low = {(r.broker, r.side) for r in journal.rates if r.begins_low}
    return _low(wanted, lambda rate: (rate.broker, rate.side) in low)


def _low(wanted: WantedThrottle, is_low: Callable[[BrokerRate], bool]) -> WantedThrottle:
    rates = (replace(r, factor=r.factor / QUOTA_SECONDS, begins_low=True) if is_low(r) else r for r in wanted.rates)
    return replace(wanted, rates=tuple(rates))


def to_raise(wanted: WantedThrottle, journal: Journal) -> WantedThrottle:
    """Return the rates that are or may be lower than they are wanted, and than another client allows, by the journal alone.

    One that was journalled as it is wanted may be lower where no broker has shown it yet: its try may have died before
    it was set.
    """
    records = {(r.broker, r.side): r for r in journal.rates}
    theirs = {(r.broker, r.side): r.bytes_per_second for r in journal.lower_rates}

    def is_lower(rate: BrokerRate) -> bool:
        record = records.get((rate.broker, rate.side))
        if record is None:
            return False
        may_be_earlier = not record.was_in_place and len(record.set_values) > 1
        whole = rate.set_bytes_per_second
        return may_be_earlier or int(record.set_values[-1]) < min(whole, theirs.get((rate.broker, rate.side), whole))

    return WantedThrottle(tuple(r for r in wanted.rates if is_lower(r)))


@dataclass(frozen=True, slots=True)
class Raise:
    """A rate that is raised in parts: from and to how many bytes per second, and the number of its first part."""

    old: int
    whole: int
    first_part: int

    def done_with(self, part: int) -> float:
        """How much of the way is done with a part, above 0 and at most 1."""
        return min(1.0, (part - self.first_part + 1) / QUOTA_SECONDS)


Raises = Mapping[tuple[ConfigResource, str], Raise]
"""By broker and config key."""


def raises(changes: Iterable[ConfigChange], seen: SeenConfigs, journal: Journal, earlier: Raises, part: int) -> Raises:
    """Return the rates that these changes raise by so much that brokers would burst.

    A broker that copied at a low rate has not used a higher one for ``QUOTA_SECONDS``, and makes up for it at once: one
    that was raised from 1 to 20 MB/s copied 187 MB in the next second (docs/decisions/0024-raises-in-parts.md). A raise
    by one part in ``QUOTA_SECONDS`` of the new rate makes up for one second.

    A raise goes on while it leads to the same rate. To another rate, and of a broker that joins or was set lower since,
    it begins at what is seen, or at what was set last where a broker before 2.6 hides it (F31).

    Args:
        changes: to the whole rates.
        seen: configs of their brokers.
        journal: shows what was set last.
        earlier: what was returned at the part before.
        part: the number of this part.
    """
    found: dict[tuple[ConfigResource, str], Raise] = {}
    set_last = {(r.resource, r.side.rate_key): r.set_values[-1] for r in journal.rates}
    for change in changes:
        key = (change.resource, change.key)
        present = seen.get(change.resource, {}).get(change.key, UNSET)
        shown = set_last.get(key) if is_hidden(present) else present.value
        if change.value is None or shown is None:
            continue
        new, old = int(change.value), int(shown)
        before = earlier.get(key)
        if before is not None and before.whole == new and before.old <= old:
            found[key] = before
        elif old < new and (new - old) * QUOTA_SECONDS > new:
            found[key] = Raise(old, new, part)
    return found


def partly_raised(
    journal: Journal,
    changes: Iterable[ConfigChange],
    under_way: Raises,
    part: int,
    at_once: Mapping[tuple[ConfigResource, str], int],
) -> tuple[Journal, list[ConfigChange]]:
    """Return a journal and its changes with each raise done in part only.

    When the part grows by one in ``QUOTA_SECONDS`` each second, brokers copy at the new rate from the first second on.

    Args:
        journal: to store before the changes are made.
        changes: all of them; what is no raise stays as it is.
        under_way: which are raises, of ``raises``.
        part: the number of this part.
        at_once: what rates are raised to in the first part, of ``used_up``.
    """
    done: list[ConfigChange] = []
    rates = {(r.resource, r.side.rate_key): r for r in journal.rates}
    for change in changes:
        key = (change.resource, change.key)
        if (its := under_way.get(key)) is None or (record := rates.get(key)) is None:
            done.append(change)
            continue
        old, whole, share = its.old, its.whole, its.done_with(part)
        # What was copied lately leaves the window meanwhile, and makes room for as much: until then the rate need not
        # grow.
        in_part = old + (whole - old) * share if key not in at_once else max(old, at_once[key], whole * share)
        value = str(min(whole, round(in_part)))
        # The whole rate stays among what may be ours: a batch that begins meanwhile sets it at once.
        set_values = (*(v for v in record.set_values if v != value), value)
        rates[key] = record.model_copy(update={"set_values": set_values, "was_in_place": False})
        done.append(replace(change, value=value))
    return journal.model_copy(update={"rates": tuple(rates.values())}), done
