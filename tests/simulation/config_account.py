"""Which throttle rates and entries are another client's, and which of them are ours now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tests.simulation.controller_state import FOLLOWER_LIST, ConfigKey, entries_of

from kafka_reassignment.model import ConfigChange, ConfigOperation, ResourceKind, TopicPartition

Configs = Mapping[ConfigKey, str]


class ConfigAccount:
    """The rates and entries of one cluster, by owner.

    Args:
        configs: what was set before us: all of it is another client's.
        broken: called with the invariant and the words when we change what is not ours.
        looks_like_ours: the rates and entries that our journals call ours wherever they show up, by config: another
            client's of the same value cannot be distinguished from one of ours.
    """

    def __init__(
        self,
        configs: Configs,
        broken: Callable[[str, str], None],
        looks_like_ours: Callable[[], Mapping[ConfigKey, set[str]]] = dict,
    ) -> None:
        self._broken = broken
        self._looks_like_ours = looks_like_ours
        self.theirs: dict[ConfigKey, str] = {k: v for k, v in configs.items() if is_rate(k)}
        """Each rate as others want it; one that is not here they want unset."""
        self.their_entries = {k: set(entries_of(v)) for k, v in configs.items() if not is_rate(k)}
        self.acceptable: dict[ConfigKey, set[str | None]] = {}
        """Rates of before another client's change: one of them may be restored instead of the last one."""
        self.of_either: dict[ConfigKey, set[str]] = {}
        """Entries that were ours, and that others removed and set again, or that a write of ours may set at any time;
        and rates of others which one of ours that is under way may set: nobody can tell whose they are."""
        self.our_rates: set[ConfigKey] = set()
        self._set_by_us: dict[ConfigKey, list[str]] = {}
        """Every value that we have set since a rate became ours, the latest last."""
        self.our_entries: dict[ConfigKey, set[str]] = {}
        self._were_ours: dict[ConfigKey, set[str]] = {}

    def we_changed(
        self, before: Configs, after: Configs, shown: Mapping[ConfigKey, str | None]
    ) -> set[tuple[TopicPartition, int]]:
        """Book what a call of ours changed, and return the replicas whose entry of ours on the followers' side is gone.

        Args:
            before: the call.
            after: the call.
            shown: what the code that made the call saw last; where it has changed since, the call lost a race.
        """
        gone: set[tuple[TopicPartition, int]] = set()
        for key in sorted({*before, *after}):
            was, now = before.get(key), after.get(key)
            if was == now:
                continue
            if is_rate(key):
                self._we_set_rate(key, was, now, stale=key in shown and shown[key] != was)
            else:
                gone |= self._we_listed(key, set(entries_of(was)), set(entries_of(now)))
        return gone

    def may_still_come(self, changes: Iterable[ConfigChange]) -> None:
        """Book changes of ours that have no answer: Kafka takes them however late they come."""
        for change in changes:
            if change.operation is ConfigOperation.APPEND:
                key = (change.resource, change.key)
                self.of_either[key] = self.of_either.get(key, set()) | set(entries_of(change.value))

    def they_changed(self, before: Configs, after: Configs) -> None:
        """Book what another client changed."""
        for key in sorted({*before, *after}):
            was, now = before.get(key), after.get(key)
            if was == now:
                continue
            if is_rate(key):
                self.acceptable.setdefault(key, set()).add(self.theirs.get(key))
                self.our_rates.discard(key)
                self.of_either[key] = {now} & self._looks_like_ours().get(key, set()) if now is not None else set()
                if now is None:
                    self.theirs.pop(key, None)
                else:
                    self.theirs[key] = now
                continue
            lost, new = set(entries_of(was)) - set(entries_of(now)), set(entries_of(now)) - set(entries_of(was))
            self.their_entries[key] = (self.their_entries.get(key, set()) - lost) | new
            ours = self.our_entries.get(key, set())
            self._were_ours[key] = self._were_ours.get(key, set()) | (ours & lost)
            unclear = self._were_ours[key] | (self._looks_like_ours().get(key, set()) if new else set())
            self.of_either[key] = self.of_either.get(key, set()) | (unclear & new)
            self.our_entries[key] = ours - lost - new

    def _we_set_rate(self, key: ConfigKey, was: str | None, now: str | None, *, stale: bool) -> None:
        is_theirs = was is not None and key not in self.our_rates and not self._may_be_late(key, was)
        if is_theirs and not stale:
            if now is None:
                self._broken("I3", f"{key[0]}: we deleted another client's {key[1]} {was}")
            elif int(now) > int(was or 0) and now not in self.acceptable.get(key, set()):
                self._broken("I3", f"{key[0]}: we raised another client's {key[1]} from {was} to {now}")
        if stale:
            self.acceptable.setdefault(key, set()).add(now)
        if now == self.theirs.get(key):
            self.our_rates.discard(key)
        else:
            self.our_rates.add(key)
        if now is None or key not in self.our_rates:
            self._set_by_us.pop(key, None)
        else:
            self._set_by_us.setdefault(key, []).append(now)

    def _may_be_late(self, key: ConfigKey, value: str) -> bool:
        """Whether another client has set the very value that a late request of ours could set: nobody can tell whose it is."""
        ours = self._set_by_us.get(key, ())
        return value in self.of_either.get(key, ()) or (value in ours and int(value) >= int(ours[-1]))

    def _we_listed(self, key: ConfigKey, was: set[str], now: set[str]) -> set[tuple[TopicPartition, int]]:
        ours, theirs = self.our_entries.setdefault(key, set()), self.their_entries.setdefault(key, set())
        if lost := (was - now) & (theirs - ours - self.of_either.get(key, set())):
            self._broken("I3", f"{key[0]}: we removed another client's entries {sorted(lost)} of {key[1]}")
        gone = (was - now) & ours if key[1] == FOLLOWER_LIST else set()
        ours -= was - now
        ours |= (now - was) - theirs
        return {(TopicPartition(key[0].name, int(e.partition(":")[0])), int(e.partition(":")[2])) for e in gone}


def is_rate(key: ConfigKey) -> bool:
    """Whether it is a broker's rate, and no topic's list."""
    return key[0].kind is ResourceKind.BROKER
