"""Which replica each copy is read from: among plans of equal bytes, the one whose busiest sender sends least.

A new replica is read from the partition's leader. So a broker that leads much of what changes sends much, and a broker
that is decommissioned sends all that it leads. Where another current replica stays, it can become the leader first, in
a step that copies nothing, and send in its place. That lowers the busiest sender as far as to what the busiest receiver
gets: below that nothing ends earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafka_reassignment.decisions.batching.columns import ABSENT, Flags, Longs
from kafka_reassignment.plan.columns import longs, replica_lists, replica_matrix
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.steps import adding
from kafka_reassignment.planner.shard_goals import Fleet

MORE_LEADER_CHANGES = 0.01
"""The part of the changed partitions whose leader may change only so that another broker sends."""

PRECISION = 0.01
"""Where some broker has to send more than the busiest receiver gets: how near to the lowest level the search ends."""


@dataclass(frozen=True)
class Copies:
    """What changes, by row; brokers are places in ``Fleet.ids``.

    ``first`` are the bytes that are copied before the new preferred leader leads, ``later`` those after it does.
    """

    current: Longs
    target: Longs
    first: Longs
    later: Longs
    received: Longs

    @classmethod
    def of(cls, changes: pa.Table, fleet: Fleet, replica_movements: int) -> Copies:
        """Sum up changes (``TARGET``) that are cut into steps of at most ``replica_movements`` new replicas."""
        current, target = (fleet.index_of(replica_matrix(changes[name])) for name in ("current", "target"))
        size = longs(changes["size_bytes"])
        new = adding(current, target)
        there = new != ABSENT
        count = there.sum(axis=1)
        # What leaves dead brokers does so with the first step, which adds as many as that takes.
        leaves_dead = ((adding(target, current) != ABSENT) & ~fleet.alive[current]).sum(axis=1)
        before, after = (current != ABSENT).sum(axis=1), (target != ABSENT).sum(axis=1)
        in_place_of_dead = np.minimum(before, after) - (before - leaves_dead)
        movements = np.maximum(replica_movements, in_place_of_dead)
        # KIP-435: a new leader comes alone where more than one step is needed.
        alone = (new[:, 0] != ABSENT) & (count > movements) & (in_place_of_dead <= 1)
        at_first = np.where(alone, 1, np.minimum(count, movements))
        received = np.zeros(fleet.size, dtype=np.int64)
        np.add.at(received, new[there], np.broadcast_to(size[:, None], new.shape)[there])
        return cls(current, target, size * at_first, size * (count - at_first), received)

    def sent(self, brokers: int) -> Longs:
        """Bytes that each broker sends when leaders change as the steps say."""
        sent = np.zeros(brokers, dtype=np.int64)
        np.add.at(sent, self.current[:, 0], self.first)
        np.add.at(sent, self.target[:, 0], self.later)
        return sent

    def able_to_send(self, may_lead: Flags) -> Flags:
        """By row and current replica, whether it stays and may lead; the preferred leader itself is left out."""
        stays = (self.current[:, :, None] == self.target[:, None, :]).any(axis=2) & (self.current != ABSENT)
        able: Flags = stays & may_lead[self.current]
        able[:, 0] = False
        return able


class _Levelling:
    """The state while leaders are chosen: bytes sent and leaderships by broker, and the new leader of each chosen row.

    Args:
        copies: what changes.
        able: by row and current replica, whether it may lead first.
        leaders: by broker, the leaderships after the changes as they are.
        most_leaders: a broker gets no further leadership once it has so many.
        level: what no broker is to send more than, if possible.
    """

    def __init__(self, copies: Copies, able: Flags, leaders: Longs, most_leaders: int, level: int) -> None:
        self._copies, self._able, self._most_leaders, self._level = copies, able, most_leaders, level
        self._leaders = leaders.tolist()
        self._sent = copies.sent(len(leaders)).tolist()
        self.chosen: dict[int, int] = {}

    @property
    def is_level(self) -> bool:
        """Whether no broker sends more than the level."""
        return int(max(self._sent)) <= self._level

    def relieve(self, rows: Longs, spare: int, *, only_planned: bool, all_rows: bool = False) -> None:
        """Let others send some of these rows, so that no broker sends more than the level.

        Args:
            rows: in the order in which they are looked at.
            spare: so many at most.
            only_planned: the target's preferred leader leads first, and no other one.
            all_rows: also rows of senders that are within the level, if the other one then sends less.
        """
        relieved = 0
        if not all_rows:
            rows = rows[(np.array(self._sent) > self._level)[self._copies.current[rows, 0]]]
        for row in rows.tolist():
            if relieved == spare:
                break
            relieved += self._relieve(row, only_planned=only_planned, all_rows=all_rows)

    def _relieve(self, row: int, *, only_planned: bool, all_rows: bool) -> bool:
        copies = self._copies
        sender, planned = int(copies.current[row, 0]), int(copies.target[row, 0])
        is_above = self._sent[sender] > self._level
        if not is_above and not all_rows:
            return False
        others = copies.current[row][self._able[row]].tolist()
        fitting = [b for b in others if b == planned or (not only_planned and self._leaders[b] < self._most_leaders)]
        if not fitting:
            return False
        first, later = int(copies.first[row]), int(copies.later[row])

        def would_send(broker: int) -> int:
            return int(self._sent[broker] + first + (0 if broker == planned else later))

        leader = min(fitting, key=lambda b: (would_send(b), b))
        if would_send(leader) > (self._level if is_above else self._sent[sender] - first):
            return False
        self._sent[sender] -= first
        self._sent[planned] -= later
        self._sent[leader] += first + later
        self._leaders[planned] -= 1
        self._leaders[leader] += 1
        self.chosen[row] = leader
        return True


@dataclass(frozen=True)
class Senders:
    """Changes (``TARGET``) with the leaders that were chosen, and by row, whether its leader moves first."""

    changes: pa.Table
    leaders_first: Flags


def levelled_senders(
    changes: pa.Table,
    fleet: Fleet,
    leaders: Longs,
    may_lead: Flags,
    replica_movements: int,
    *,
    only_planned: bool,
    all_rows: bool = False,
) -> Senders:
    """Choose leaders that move first, as few as bring the busiest sender down to the busiest receiver.

    First among partitions whose leader changes anyway, the largest first. Then the leaders of up to
    ``MORE_LEADER_CHANGES`` of the changed partitions change for it. No broker leads more than the one that leads most
    without that.

    Args:
        changes: what changes (``TARGET``); what is copied stays the same.
        fleet: the brokers.
        leaders: by broker, the partitions it is the preferred leader of after the changes.
        may_lead: brokers that may get leaderships.
        replica_movements: KIP-435's R.
        only_planned: leave every preferred leader as the changes say.
        all_rows: level all senders, not only those that send more than the busiest receiver gets; as many leaders move
            first as it takes.
    """
    nothing = Senders(changes, np.zeros(len(changes), dtype=bool))
    if not len(changes):
        return nothing
    copies = Copies.of(changes, fleet, replica_movements)
    level = int(copies.received.max())
    sent = copies.sent(fleet.size)
    if sent.max() <= level:
        return nothing
    able = copies.able_to_send(may_lead & fleet.alive)
    # A step that only moves the leader keeps all replicas: with a dead one it could not be carried out.
    has_dead = ((copies.current != ABSENT) & ~fleet.alive[copies.current]).any(axis=1)
    rows = np.flatnonzero(able.any(axis=1) & (copies.first > 0) & ~has_dead)
    rows = rows[np.argsort(-(copies.first + copies.later)[rows], kind="stable")]
    changes_leader = copies.current[rows, 0] != copies.target[rows, 0]
    most_leaders = int(leaders[may_lead].max(initial=0))

    def attempt(level: int) -> _Levelling:
        state = _Levelling(copies, able, leaders, most_leaders, level)
        state.relieve(rows[changes_leader], len(rows), only_planned=only_planned, all_rows=all_rows)
        if not only_planned:
            state.relieve(rows[~changes_leader], int(len(changes) * MORE_LEADER_CHANGES), only_planned=False)
        return state

    best = _lowest(attempt, level, int(sent.max()))
    return nothing if best is None else _with_leaders(changes, copies, fleet, best.chosen)


def _lowest(attempt: Callable[[int], _Levelling], level: int, unlevelled: int) -> _Levelling | None:
    """The attempt with the lowest level that it reaches, from ``level`` on; None where none is below ``unlevelled``."""
    state = attempt(level)
    if state.is_level:
        return state
    best, low, high = None, level, unlevelled
    while high - low > max(1, PRECISION * high):
        middle = (low + high) // 2
        state = attempt(middle)
        if state.is_level:
            best, high = state, middle
        else:
            low = middle
    return best


def sent_alone(changes: pa.Table, fleet: Fleet) -> Longs:
    """Return by broker the bytes that only it can send: no other replica of the partition is alive and stays.

    In: ``TARGET``.
    """
    copies = Copies.of(changes, fleet, replica_movements=1)
    only = ~copies.able_to_send(fleet.alive).any(axis=1)
    alone = np.zeros(fleet.size, dtype=np.int64)
    np.add.at(alone, copies.current[only, 0], copies.first[only])
    stays = only & (copies.current[:, 0] == copies.target[:, 0])
    np.add.at(alone, copies.current[stays, 0], copies.later[stays])
    return alone


def _with_leaders(changes: pa.Table, copies: Copies, fleet: Fleet, chosen: dict[int, int]) -> Senders:
    first = np.zeros(len(changes), dtype=bool)
    target = copies.target.copy()
    for row, leader in chosen.items():
        replicas = [int(b) for b in target[row] if b != ABSENT]
        target[row, : len(replicas)] = [leader, *(b for b in replicas if b != leader)]
        first[row] = True
    ids = np.where(target == ABSENT, ABSENT, fleet.ids[target])
    at = TARGET.names.index("target")
    return Senders(changes.set_column(at, TARGET.field(at), replica_lists(ids).cast(TARGET.field(at).type)), first)
