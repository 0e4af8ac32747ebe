"""Picking the copies of one batch: steps of nearly one size, equally many for each broker that takes part."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

MULTIPLES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Steps per broker that are tried where one each does not fill the batch."""

GOOD = 0.9
"""A pick filled to this part is taken without looking for a better one."""

REPAIRS = 8
"""How often brokers that cannot get their number are left out, before a pick is given up."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """A step that copies: its place among all steps, and whom it keeps busy with how many bytes.

    There is one object per step, so they are compared by identity, which is fast.
    """

    step: int
    size: int
    sender: int
    receivers: tuple[int, ...]


def add_sorted(waiting: list[T], more: Sequence[T], key: Callable[[T], Any] | None = None) -> None:
    """Add to a sorted list; sorting it anew takes its whole length, even where hardly anything is out of order."""
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
    for _ in range(REPAIRS):
        left = _without_the_rare(left, number)
        if not left:
            return []
        left = _of_so_many_brokers(left, most // number)
        chosen = _greatest_matching(left, number)
        short = _short_of(chosen, left, number)
        if not short:
            return chosen
        left = [c for c in left if ("s", c.sender) not in short and ("r", c.receivers[0]) not in short]
    return []


def _degrees(copies: Sequence[Copy]) -> dict[tuple[str, int], int]:
    degrees: dict[tuple[str, int], int] = {}
    for copy in copies:
        for end in (("s", copy.sender), ("r", copy.receivers[0])):
            degrees[end] = degrees.get(end, 0) + 1
    return degrees


def _without_the_rare(copies: list[Copy], number: int) -> list[Copy]:
    """Leave out brokers with fewer than ``number`` copies, and those that have too few then."""
    while True:
        degrees = _degrees(copies)
        rest = [c for c in copies if min(degrees["s", c.sender], degrees["r", c.receivers[0]]) >= number]
        if len(rest) == len(copies):
            return rest
        copies = rest


def _of_so_many_brokers(copies: list[Copy], brokers: int) -> list[Copy]:
    """Keep the senders and the receivers with most copies, equally many of both."""
    degrees = _degrees(copies)
    kept: set[tuple[str, int]] = set()
    count = min(brokers, *(sum(1 for side, _ in degrees if side == which) for which in "sr"))
    for which in "sr":
        ends = [end for end in degrees if end[0] == which]
        ends.sort(key=lambda end: (-degrees[end], end))
        kept.update(ends[:count])
    return [c for c in copies if ("s", c.sender) in kept and ("r", c.receivers[0]) in kept]


def _short_of(chosen: list[Copy], left: list[Copy], number: int) -> set[tuple[str, int]]:
    """Who has fewer than ``number``; of each side only the one worst off, because leaving it out helps the others."""
    has = dict.fromkeys(_degrees(left), 0) | _degrees(chosen)
    short: set[tuple[str, int]] = set()
    for which in "sr":
        lacking = [end for end, got in has.items() if end[0] == which and got < number]
        if lacking:
            short.add(min(lacking, key=lambda end: (has[end], end)))
    return short


def _greatest_matching(copies: list[Copy], number: int) -> list[Copy]:
    """As many copies as possible with at most ``number`` per sender and receiver, by augmenting paths."""
    by_sender: dict[int, list[int]] = {}
    for at, copy in enumerate(copies):
        by_sender.setdefault(copy.sender, []).append(at)
    taken: set[int] = set()
    held: dict[int, set[int]] = {copy.receivers[0]: set() for copy in copies}

    def augment(sender: int, seen: set[int]) -> bool:
        for at in by_sender[sender]:
            receiver = copies[at].receivers[0]
            if at in taken or receiver in seen:
                continue
            seen.add(receiver)
            if len(held[receiver]) < number:
                _take(at, receiver)
                return True
            for other in sorted(held[receiver]):
                if copies[other].sender != sender and augment(copies[other].sender, seen):
                    held[receiver].remove(other)
                    taken.remove(other)
                    _take(at, receiver)
                    return True
        return False

    def _take(at: int, receiver: int) -> None:
        taken.add(at)
        held[receiver].add(at)

    for sender in by_sender:
        for _ in range(number):
            if not augment(sender, set()):
                break
    return [copies[at] for at in sorted(taken)]
