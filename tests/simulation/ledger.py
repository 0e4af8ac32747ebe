"""Who did what to the cluster: which copies are there because of us, and which moves, rates and entries are others'.

Every write is compared with the state before it, so that a lost answer or half a request is booked as what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.simulation.config_account import ConfigAccount
from tests.simulation.controller_state import (
    ConfigKey,
    Seen,
    State,
    read_state,
)
from tests.simulation.violations import Violation

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource, Replicas, TopicPartition

Replica = tuple[TopicPartition, int]

RIGHT_BEFORE = timedelta(seconds=10)
"""How old a look may be that a change goes by: a slow store is asked in between whose the cluster is, and the world goes on."""


@dataclass
class Copy:
    """A replica that we added; ``bare_since`` is when it was first seen to copy without our throttle."""

    reassignment_id: str
    since: datetime
    bare_since: datetime | None = None


@dataclass
class Shown:
    """What the code of ours that acts now was shown last."""

    partitions: dict[TopicPartition, Any] = field(default_factory=dict)
    in_flight: set[TopicPartition] = field(default_factory=set)
    configs: dict[ConfigKey, str | None] = field(default_factory=dict)
    recreated: set[TopicPartition] = field(default_factory=set)
    """What of a topic was deleted or created again since, its throttle gone with it: what begins then is a lost race (F36)."""
    live: dict[TopicPartition, tuple[datetime, frozenset[int]]] = field(default_factory=dict)
    """When each partition was shown, and which brokers were alive then."""
    changed_since: dict[ConfigResource, datetime] = field(default_factory=dict)
    """Since when others have changed the throttle of a broker or topic that was shown before: such a race is lost as well."""


class Bare(NamedTuple):
    """Which side of a copy no throttle holds as asked, "leader" or "follower", and why."""

    side: str
    reason: str


TOPICS_OWNER = "the topic's owner"
"""Who deletes a topic and creates it again."""


class Ledger:
    """The account of one world.

    Args:
        cluster: the simulated one.
        now: virtual time.
        owner: the reassignment that has the lock of the cluster, by the record; where that is damaged, which had it
            before.
        limit: by reassignment, broker and side, the highest rate that was asked for; None when unthrottled.
        targets: what the plan of a reassignment asks for.
        found: where the plan of a reassignment has found its partitions.
        noted: by reassignment, the partitions that its record shows as moved, or begun with.
        may_be_asked: by reassignment, those of which its record says so before each request, which may never be sent.
        settled: partitions that a record shows as settled.
        may_touch_foreign: whether the code that acts now was asked to cancel or supersede others' moves.
        actor: the name of the code that acts now.
        acting_for: the Airflow and the reassignment whose batch acts now; None where it is no batch's task.
        record_changes: how often the record, which owner and limit are read from, has changed.
        looks_like_ours: rates and entries of throttled replicas that the journals call ours wherever they show up.
    """

    def __init__(
        self,
        cluster: Any,
        *,
        now: Callable[[], datetime],
        owner: Callable[[], str | None],
        limit: Callable[[str, int, str], float | None],
        targets: Callable[[str], Mapping[TopicPartition, Replicas]],
        found: Callable[[str], Mapping[TopicPartition, Replicas]] = lambda _: {},
        noted: Callable[[str], Collection[str]] = lambda _: (),
        may_be_asked: Callable[[str], Collection[str]] = lambda _: (),
        settled: Callable[[], Collection[str]] = tuple,
        may_touch_foreign: Callable[[], bool] = lambda: False,
        actor: Callable[[], str] = lambda: "",
        acting_for: Callable[[], tuple[str, str] | None] = lambda: None,
        record_changes: Callable[[], int] = lambda: 0,
        looks_like_ours: Callable[[], Mapping[ConfigKey, set[str]]] = dict,
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._owner = owner
        self._limit = limit
        self._targets = targets
        self._found = found
        self._noted = noted
        self._may_be_asked = may_be_asked
        self._settled = settled
        self._may_touch_foreign = may_touch_foreign
        self._actor = actor
        self._acting_for = acting_for
        self._record_changes = record_changes
        self._state: tuple[tuple[int, int], State] | None = None
        self._observed: tuple[int, ...] | None = None
        """The versions of all that ``observe`` went by the last time."""
        self._airflows: dict[str, str] = {}
        self._shown: dict[str, Shown] = {}
        self._dropping: set[TopicPartition] = set()
        self.copies: dict[Replica, Copy] = {}
        self.movers: dict[TopicPartition, str] = {}
        """Who started what is in flight: "ours" or another's name."""
        self._begun: dict[TopicPartition, str] = {}
        """Of which reassignment something was submitted of a partition."""
        self._of_others: dict[TopicPartition, frozenset[int]] = {}
        """Where another client has brought what nothing was submitted of: nobody may take a replica of it away."""
        self._asked: dict[TopicPartition, set[Replicas]] = {}
        """What we have asked for, order included: the same move of another client may as well be a late request of ours."""
        self._cancelled: dict[TopicPartition, frozenset[int]] = {}
        """Where a move would have led that we have cancelled since."""
        self.unanswered_at: datetime | None = None
        """When the last change of configs had no answer."""
        self.configs = ConfigAccount(self.state().configs, self._broken, looks_like_ours)
        self.violations: list[Violation] = []

    # ---------------------------------------------------------------- the cluster as it is

    def state(self) -> State:
        version = self._cluster.version
        if self._state is None or self._state[0] != version:
            self._state = version, read_state(self._cluster)
        return self._state[1]

    @property
    def live(self) -> set[int]:
        return set(self._cluster._controller.live)

    def min_isr(self, topic: str) -> int:
        values = self._cluster._configs.describe(ConfigResource.topic(topic), ["min.insync.replicas"])
        return int(values["min.insync.replicas"].value) if values else 1

    def bare(self) -> dict[Replica, Bare]:
        """Return replicas that copy, or will, because of us without a throttle as asked, and what is wrong.

        A leader that nothing holds counts where it sends more than was asked for.
        """
        return {replica: sides[0] for replica, sides in self._bare_sides().items()}

    def _bare_sides(self, *, idle_too: bool = False) -> dict[Replica, tuple[Bare, ...]]:
        """Return all that is wrong with each; with ``idle_too`` a leader counts also where it sends less than was asked for."""
        if not self.copies:
            return {}
        found: dict[Replica, tuple[Bare, ...]] = {}
        partitions, live = self._cluster._controller.partitions, self._cluster._controller.live
        for (partition, broker), copy in self.copies.items():
            seen = partitions.get(partition)
            if seen is None or broker not in seen.replicas or broker in seen.isr or seen.leader is None:
                continue
            if broker not in live or seen.leader not in live:
                continue
            if bare := tuple(self._why_bare(partition, broker, seen.leader, copy.reassignment_id, idle_too=idle_too)):
                found[partition, broker] = bare
        return found

    def copying(self) -> set[Replica]:
        return {(c.partition, c.broker) for c in self._cluster.copying()} & self.copies.keys()

    def _rates(self, partition: TopicPartition, broker: int, leader: int) -> dict[str, int]:
        """Return the rates that hold what a broker receives of a partition, by side."""
        found = {}
        for side, by in (("leader", leader), ("follower", broker)):
            listed = self._cluster._configs.throttled_replicas(side, partition.topic)
            rate = self._cluster._configs.throttle_rate(side, by)
            if rate is not None and (listed is None or (partition.partition, by) in listed):
                found[side] = rate
        return found

    def _why_bare(
        self, partition: TopicPartition, broker: int, leader: int, reassignment_id: str, *, idle_too: bool
    ) -> Iterator[Bare]:
        limit = self._limit(reassignment_id, broker, "follower")
        if limit is None:
            return
        rates = self._rates(partition, broker, leader)
        if "follower" not in rates:
            yield Bare("follower", f"no throttle holds what broker {broker} receives of {partition}")
        elif rates["follower"] > limit:
            yield Bare(
                "follower",
                f"broker {broker} may receive {rates['follower']} bytes per second, asked for were {limit:.0f}",
            )
        most = self._limit(reassignment_id, leader, "leader")
        if most is None or rates.get("leader", most + 1) <= most:
            return
        sent = sum(c.bytes_per_second for c in self._cluster.copying() if c.leader == leader and c[:2] in self.copies)
        if sent > most or idle_too:
            yield Bare("leader", f"broker {leader} sends {sent:.0f} bytes per second, asked for were {most:.0f}")

    # ---------------------------------------------------------------- who writes

    @contextmanager
    def ours(self, call: str, *arguments: Any) -> Iterator[None]:
        """Book a call of the product that changes the cluster."""
        before, bare = self.state(), self._bare_sides(idle_too=True)
        try:
            yield
        except BaseException:
            if call == "alter_configs":
                self.unanswered_at = self._now()
                self.configs.may_still_come(arguments[0])
            raise
        finally:
            after = self.state()
            self._observed = None
            if call == "alter_reassignments":
                self._we_moved(arguments[0], before, after)
            elif call == "alter_configs":
                gone = self.configs.we_changed(before.configs, after.configs, self._shown_now().configs)
                for replica in gone & self.copies.keys():
                    seen = after.partitions.get(replica[0])
                    if seen is None or replica[1] in seen.isr:
                        del self.copies[replica]
            self._judge_bare(bare, call)
            self._judge_outcome(before, after, call)

    @contextmanager
    def another(self, who: str) -> Iterator[None]:
        """Book what another client does in between."""
        before = self.state()
        try:
            yield
        finally:
            after = self.state()
            self._observed = None
            if who == TOPICS_OWNER:
                recreated = {p for p, was in before.partitions.items() if after.partitions.get(p) != was}
                for shown in self._shown.values():
                    shown.recreated |= recreated
            changed = {resource for (resource, _), _ in before.configs.items() ^ after.configs.items()}
            for shown in self._shown.values():
                for resource in changed:
                    shown.changed_since.setdefault(resource, self._now())
            self._they_moved(who, before, after)
            self.configs.they_changed(before.configs, after.configs)

    def observe(self) -> None:
        """Look at what happened by itself: moves that ended, replicas that went. Where nothing changed there is nothing."""
        now = (*self._cluster.version, self._cluster.flow_version, self._record_changes() if self.copies else 0)
        if now == self._observed:
            return
        self._observed = now
        state = self.state()
        for partition in [p for p in self.movers if not _flies(state, p)]:
            del self.movers[partition]
        for partition, broker in list(self.copies):
            seen = state.partitions.get(partition)
            done = seen is not None and broker in seen.isr and not seen.in_flight and partition in self._dropping
            if seen is None or broker not in seen.replicas or done:
                del self.copies[partition, broker]
        self._dropping -= {
            p for p in self._dropping if not _flies(state, p) and not any(q == p for q, _ in self.copies)
        }
        bare = self.bare()
        for replica, copy in self.copies.items():
            if replica not in bare:
                copy.bare_since = None
            elif copy.bare_since is None:
                copy.bare_since = self._now()

    def forget(self, reassignment_id: str) -> None:
        """A reassignment has ended: what of its replicas is in sync copies no more because of us."""
        state = self.state()
        self._observed = None
        for (partition, broker), copy in list(self.copies.items()):
            seen = state.partitions.get(partition)
            if copy.reassignment_id == reassignment_id and (seen is None or broker in seen.isr):
                del self.copies[partition, broker]

    def _shown_now(self) -> Shown:
        actor = self._actor()
        if actor not in self._shown:
            self._shown[actor] = Shown()
        return self._shown[actor]

    def saw(self, call: str, answer: Any) -> None:
        """Book what a call of the product was shown."""
        if call == "describe_partitions":
            self._shown_now().partitions.update(answer)
            self._shown_now().recreated.difference_update(answer)
            self._shown_now().live.update(dict.fromkeys(answer, (self._now(), frozenset(self.live))))
        elif call == "list_reassignments":
            self._shown_now().in_flight = set(answer)
            self._forget_ambiguous(answer)
        elif call == "describe_configs":
            self._shown_now().configs |= {
                (r, k): values[k].value if k in values else None for r, values in answer.items() for k in THROTTLE_KEYS
            }
            for resource in answer:
                self._shown_now().changed_since.pop(resource, None)

    def _is_planned(self, owner: str, partition: TopicPartition, seen: Seen) -> bool:
        """Whether a move in flight is the planned one: Kafka does not say who started it, so it counts as the reassignment's own."""
        target = self._targets(owner).get(partition)
        return target is not None and set(target) == set(seen.replicas) - set(seen.removing)

    def _we_moved(self, targets: Mapping[TopicPartition, Replicas | None], before: State, after: State) -> None:
        owner = self._owner() or "nobody"
        shown = self._shown_now()
        self._judge_lock(owner)
        for partition, target in targets.items():
            was, now = before.partitions.get(partition), after.partitions.get(partition)
            if target is not None:  # also where the request is lost: it may still come
                self._asked.setdefault(partition, set()).add(target)
            if was is None or now is None:
                continue
            if was == now:
                self._find_done_since(owner, partition, was, target)
                continue
            mover = self.movers.get(partition, "ours")
            may_be_ours = self._is_planned(owner, partition, was) or _heading_for(was) in self._asked.get(partition, ())
            is_foreign = mover != "ours" and not may_be_ours
            if was.in_flight and is_foreign and not self._may_touch_foreign() and partition in shown.in_flight:
                self._broken("I3", f"{partition}: we changed the move of {mover}, {_move(was)}, to {_move(now)}")
            for broker in set(now.replicas) - set(was.replicas):
                self.copies[partition, broker] = Copy(owner, self._now())
            if now.in_flight:
                self.movers[partition] = "ours"
            self._judge_of_others(owner, partition, was, target)
            goes = set(was.replicas) - set(target or now.replicas)
            if target is None:
                continue
            if goes:
                self._dropping.add(partition)
            in_sync = self._shown_in_sync(partition, was)
            if goes & in_sync and not set(target) <= in_sync:
                missing = sorted(set(target) - in_sync)
                self._broken(
                    "I2", f"{partition}: {sorted(goes)} go though {missing} of the target {target} are not in the ISR"
                )

    def _shown_in_sync(self, partition: TopicPartition, was: Seen) -> frozenset[int]:
        """The replicas that the look right before has shown in sync, on brokers that were alive then."""
        shown = self._shown_now()
        if partition not in shown.partitions:
            return was.isr & self.live
        seen_at, live = shown.live[partition]
        is_right_before = self._now() - seen_at <= RIGHT_BEFORE
        return frozenset(shown.partitions[partition].isr) & (live if is_right_before else self.live)

    def _they_moved(self, who: str, before: State, after: State) -> None:
        for partition, was in before.partitions.items():
            now = after.partitions.get(partition)
            if now is None or (was.replicas, was.adding, was.removing) == (now.replicas, now.adding, now.removing):
                continue
            counts_as_ours = self._may_come_of_us(partition, now) or self._counts_as_half_way(who, partition, now)
            if self._begun.get(partition, "") != self._owner() and not counts_as_ours:
                self._of_others[partition] = frozenset(_heading_for(now))
            if now.in_flight:
                self.movers[partition] = who
            else:
                self.movers.pop(partition, None)
            for copied, broker in list(self.copies):
                if copied == partition:
                    del self.copies[copied, broker]

    def _may_come_of_us(self, partition: TopicPartition, now: Seen) -> bool:
        """Whether a late request, or one that was cancelled, may bring it about; once it is noted as settled, nobody looks for one."""
        made = frozenset(_heading_for(now))
        is_late = any(made == set(asked) for asked in self._asked.get(partition, ()))
        is_late |= made <= self._cancelled.get(partition, frozenset())
        owner = self._owner() or ""
        is_late |= made == set().union(*self._ends(owner, partition)) and str(partition) in self._may_be_asked(owner)
        return is_late and str(partition) not in self._settled()

    def _ends(self, owner: str, partition: TopicPartition) -> tuple[set[int], set[int]]:
        """Where a reassignment has found a partition, and where it wants it."""
        return set(self._found(owner).get(partition, ())), set(self._targets(owner).get(partition, ()))

    def _counts_as_half_way(self, who: str, partition: TopicPartition, now: Seen) -> bool:
        """Whether it was created again after its submission, and looks as a reassignment does that is under way (decision 0040)."""
        owner, made = self._owner() or "", set(now.replicas)
        if who != TOPICS_OWNER or str(partition) not in self._noted(owner) or str(partition) in self._settled():
            return False
        ends = self._ends(owner, partition)
        return made <= set().union(*ends) and any(end <= made for end in ends)

    def _judge_of_others(self, owner: str, partition: TopicPartition, was: Seen, target: Replicas | None) -> None:
        """Kafka does not say who has added a replica; a reassignment knows what was there before its own request."""
        theirs = self._of_others.pop(partition, None)
        if target is None:
            self._begun.pop(partition, None)
            self._cancelled[partition] = frozenset(_heading_for(was))
            return
        self._begun[partition] = owner
        self._cancelled.pop(partition, None)
        if theirs is None or self._may_touch_foreign() or theirs != set(was.replicas) - set(was.removing):
            return
        shown = self._shown_now().partitions.get(partition)
        if goes := sorted(theirs - set(target)):
            found = self._found(owner).get(partition)
            came_since = shown is not None and not set(goes) & set(shown.replicas)  # such a race is undone (F36)
            # What others have only taken away from, between two looks, is on the way to where it goes (decision 0040).
            is_half_way = set(target) <= theirs < set(found or ()) and str(partition) in self._noted(owner)
            if not (set(found or ()) == theirs or is_half_way or came_since):
                self._broken(
                    "I3", f"{partition}: we take away {goes} of {sorted(theirs)}, which others have made of it"
                )

    def _find_done_since(self, owner: str, partition: TopicPartition, was: Seen, target: Replicas | None) -> None:
        """Count what another client has made between our look and our request, which asked for just that, as ours."""
        shown = self._shown_now().partitions.get(partition)
        is_news = shown is not None and set(shown.replicas) != set(was.replicas)
        if is_news and set(target or ()) == self._of_others.get(partition):
            del self._of_others[partition]
            self._begun[partition] = owner

    def _forget_ambiguous(self, in_flight: Mapping[TopicPartition, Any]) -> None:
        """What is in flight as one of our own moves would be counts as ours from the first look on."""
        for partition in self._of_others.keys() & in_flight.keys():
            owner = self._owner() or ""
            if self._of_others[partition] <= set().union(*self._ends(owner, partition)):
                del self._of_others[partition]
                self._begun[partition] = owner

    def _judge_bare(self, before: Mapping[Replica, tuple[Bare, ...]], call: str) -> None:
        begins = call == "alter_reassignments"
        what = "we began a copy" if begins else "we took the throttle from a copy"
        for (partition, broker), bare in self._bare_sides().items():
            was = {each.side for each in before.get((partition, broker), ())}
            for each in bare:
                if each.side not in was and not (begins and self._is_lost_race(partition, broker)):
                    self._broken("I1", f"{what}: {partition} to broker {broker}, {each.reason}")

    def _is_lost_race(self, partition: TopicPartition, broker: int) -> bool:
        """Whether the throttle of a copy that begins is gone since the look right before."""
        shown, seen = self._shown_now(), self.state().partitions.get(partition)
        brokers = [b for b in (broker, seen.leader if seen else None) if b is not None]
        throttle = [ConfigResource.topic(partition.topic), *map(ConfigResource.broker, brokers)]
        gone = [at for r in throttle if (at := shown.changed_since.get(r)) is not None]
        return partition in shown.recreated or any(self._now() - at <= RIGHT_BEFORE for at in gone)

    def _judge_lock(self, owner: str) -> None:
        """A batch moves data only with the cluster's lock, and only one Airflow moves that of a reassignment."""
        acting = self._acting_for()
        if acting is None:
            return
        airflow, reassignment_id = acting
        if owner != reassignment_id:
            self._broken("I5", f"a batch of {reassignment_id} moves data though {owner} has the lock of the cluster")
        if self._airflows.setdefault(reassignment_id, airflow) != airflow:
            self._broken("I5", f"two Airflows move the data of {reassignment_id}")

    def _judge_outcome(self, before: State, after: State, call: str) -> None:
        for partition, was in before.partitions.items():
            now = after.partitions.get(partition)
            if now is None or was == now:
                continue
            if was.leader is not None and now.leader is None:
                self._broken("I2", f"{partition} has no leader any more after our {call}: {was} → {now}")
            # Brokers ask for all replicas where there are fewer than min ISR (Partition.effectiveMinIsr).
            least = min(self.min_isr(partition.topic), len(now.replicas))
            if len(was.isr & self.live) >= least > len(now.isr & self.live):
                self._broken("I2", f"{partition} is below min ISR {least} after our {call}: {was} → {now}")

    def _broken(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant, what, self._now(), by=self._actor()))


def _flies(state: State, partition: TopicPartition) -> bool:
    seen = state.partitions.get(partition)
    return seen is not None and seen.in_flight


def _heading_for(seen: Seen) -> Replicas:
    return tuple(b for b in seen.replicas if b not in seen.removing)


def _move(seen: Seen) -> str:
    return f"{list(seen.replicas)} adding {list(seen.adding)} removing {list(seen.removing)}"
