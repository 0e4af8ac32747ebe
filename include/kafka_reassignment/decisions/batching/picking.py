"""Picks the copies of one batch: steps of nearly one size, equally many for each broker that takes part."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from kafka_reassignment.decisions.batching.columns import Flags, Longs

T = TypeVar("T")

MULTIPLES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Steps per broker that are tried where one each does not fill the batch."""

GOOD = 0.6
"""A pick filled to this part is taken without looking for a better one."""

REPAIRS = 8
"""How often brokers that cannot get their number are left out, before a pick is given up."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """A step that copies: its place among all steps, its size, and the brokers it keeps busy.

    There is one object per step, so they are compared by identity, which is fast.
    """

    step: int
    size: int
    sender: int
    receivers: tuple[int, ...]


def add_sorted(waiting: list[T], more: Sequence[T], key: Callable[[T], Any]) -> None:
    """Add to a sorted list; sorting again reads all of it, even where hardly anything is out of order."""
    if len(more) * 16 < len(waiting):
        for item in more:
            insort(waiting, item, key=key)
    else:
        waiting += more
        waiting.sort(key=key)


def pick(copies: Sequence[Copy], most: int) -> list[Copy]:
    """Choose copies for a level batch: as many as possible, at most ``most``.

    Args:
        copies: candidates of nearly one size, the more urgent first.
        most: copies there is room for.
    """
    best = _one_each(copies, most)
    if len(best) >= GOOD * min(most, len(copies)):
        return best
    sends = Counter(Counter(copy.sender for copy in copies).values())
    gets = Counter(Counter(receiver for copy in copies for receiver in copy.receivers).values())
    for number in MULTIPLES:
        if number > most:
            break
        senders, receivers = _with_at_least(sends, number), _with_at_least(gets, number)
        for way, at_best in (
            (_many_of_each_sender, senders * number),
            (_many_of_each_receiver, receivers * number),
            (_many_of_both, min(senders, receivers) * number),
        ):
            if min(at_best, most) > len(best):
                best = max(best, way(copies, most, number), key=len)
        if len(best) >= GOOD * most:
            break
    return best


def _with_at_least(brokers_by_copies: Counter[int], number: int) -> int:
    return sum(brokers for copies, brokers in brokers_by_copies.items() if copies >= number)


def _one_each(copies: Sequence[Copy], most: int) -> list[Copy]:
    senders: set[int] = set()
    receivers: set[int] = set()
    chosen: list[Copy] = []
    for copy in copies:
        if len(chosen) == most:
            break
        if copy.sender not in senders and receivers.isdisjoint(copy.receivers):
            chosen.append(copy)
            senders.add(copy.sender)
            receivers.update(copy.receivers)
    return chosen


def _many_of_each_sender(copies: Sequence[Copy], most: int, number: int) -> list[Copy]:
    by_sender: dict[int, list[Copy]] = {}
    for copy in copies:
        by_sender.setdefault(copy.sender, []).append(copy)
    used: set[int] = set()
    chosen: list[Copy] = []
    for group in sorted(by_sender.values(), key=len, reverse=True):
        if len(group) < number or len(chosen) + number > most:
            break
        mine: list[Copy] = []
        busy: set[int] = set()
        for copy in group:
            if used.isdisjoint(copy.receivers) and busy.isdisjoint(copy.receivers):
                mine.append(copy)
                busy.update(copy.receivers)
                if len(mine) == number:
                    chosen += mine
                    used |= busy
                    break
    return chosen


def _many_of_each_receiver(copies: Sequence[Copy], most: int, number: int) -> list[Copy]:
    by_receiver: dict[int, list[Copy]] = {}
    for copy in copies:
        if len(copy.receivers) == 1:
            by_receiver.setdefault(copy.receivers[0], []).append(copy)
    used: set[int] = set()
    chosen: list[Copy] = []
    for group in sorted(by_receiver.values(), key=len, reverse=True):
        if len(group) < number or len(chosen) + number > most:
            break
        mine: dict[int, Copy] = {}
        for copy in group:
            if copy.sender not in used and copy.sender not in mine:
                mine[copy.sender] = copy
                if len(mine) == number:
                    chosen += mine.values()
                    used |= mine.keys()
                    break
    return chosen


def _many_of_both(copies: Sequence[Copy], most: int, number: int) -> list[Copy]:
    """``number`` copies for each sender and each receiver that take part; those who cannot have them are left out."""
    left = [copy for copy in copies if len(copy.receivers) == 1]
    ends = np.array([(copy.sender, copy.receivers[0]) for copy in left], dtype=np.int64).reshape(-1, 2)
    at = np.arange(len(left))
    for _ in range(REPAIRS):
        at = _without_the_rare(ends, at, number)
        if not len(at):
            return []
        at = _of_so_many_brokers(ends, at, most // number)
        chosen = _max_matching(ends[at].tolist(), number)
        keep = _without_the_worst(ends[at], chosen, number)
        if keep.all():
            return [left[i] for i in at[chosen].tolist()]
        at = at[keep]
    return []


def _degrees(brokers: Longs) -> Longs:
    """For each entry, how many entries have the same broker."""
    _, inverse, counts = np.unique(brokers, return_inverse=True, return_counts=True)
    degrees: Longs = counts[inverse]
    return degrees


def _without_the_rare(ends: Longs, at: Longs, number: int) -> Longs:
    """Leave out brokers with fewer than ``number`` copies, and those that have too few then."""
    while True:
        rest = at[np.minimum(_degrees(ends[at, 0]), _degrees(ends[at, 1])) >= number]
        if len(rest) == len(at):
            return rest
        at = rest


def _of_so_many_brokers(ends: Longs, at: Longs, brokers: int) -> Longs:
    """Keep the senders and the receivers with most copies, equally many of both."""
    sides = [np.unique(ends[at, side], return_counts=True) for side in (0, 1)]
    count = min(brokers, *(len(names) for names, _ in sides))
    keep = np.ones(len(at), dtype=bool)
    for side, (names, counts) in enumerate(sides):
        keep &= np.isin(ends[at, side], names[np.lexsort((names, -counts))[:count]])
    return at[keep]


def _without_the_worst(ends: Longs, chosen: list[int], number: int) -> Flags:
    """Leave out, of each side, the broker furthest below ``number``, because that helps the others; all True: none is."""
    keep = np.ones(len(ends), dtype=bool)
    for side in (0, 1):
        names, places = np.unique(ends[:, side], return_inverse=True)
        has = np.bincount(places[chosen], minlength=len(names))
        if has.min() < number:
            keep &= places != has.argmin()
    return keep


def _max_matching(ends: list[list[int]], number: int) -> list[int]:
    """As many copies as possible with at most ``number`` per sender and receiver, by augmenting paths."""
    by_sender: dict[int, list[int]] = {}
    for at, (sender, _) in enumerate(ends):
        by_sender.setdefault(sender, []).append(at)
    taken: set[int] = set()
    taken_by: dict[int, set[int]] = {receiver: set() for _, receiver in ends}

    def augment(sender: int, seen: set[int]) -> bool:
        for at in by_sender[sender]:
            receiver = ends[at][1]
            if at in taken or receiver in seen:
                continue
            seen.add(receiver)
            if len(taken_by[receiver]) < number:
                _take(at, receiver)
                return True
            for other in sorted(taken_by[receiver]):
                if ends[other][0] != sender and augment(ends[other][0], seen):
                    taken_by[receiver].remove(other)
                    taken.remove(other)
                    _take(at, receiver)
                    return True
        return False

    def _take(at: int, receiver: int) -> None:
        taken.add(at)
        taken_by[receiver].add(at)

    for sender in by_sender:
        for _ in range(number):
            if not augment(sender, set()):
                break
    return sorted(taken)
