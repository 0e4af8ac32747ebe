"""Picks the copies of one batch by total size: the brokers that take part are filled to one height on each side."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter

from kafka_reassignment.decisions.batching.picking import GOOD, Copy, add_sorted

LEVEL = 1.10
"""Busiest to mean of those taking part, up to which a side of a batch is level."""

FULL = 0.95
"""A broker filled to this part of its height gets no more."""

MAX_CANDIDATES = 40
"""Copies of one sender looked at for the next one that fits."""

PARTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)
"""Brokers that take part, as parts of the copies there is room for, that are tried."""

STRETCHES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0, 30.0, 50.0)
"""Heights that are tried, times the largest copy."""

LEFT_OUT = 6
"""Brokers left out of a batch that came out not quite level, before it is given up."""

EFFORT = 75_000
"""Copies picked in all trials of all batches together, before the trials end: a plan must not take minutes."""


NOTHING_SERVED = 2**31
"""More copies than any batch has: no batch was filled yet."""


class WaitingCopies:
    """Copies not in a batch yet, each with one receiver: by sender and size, and the bytes each broker has left."""

    def __init__(self) -> None:
        self._by_sender: dict[int, list[Copy]] = {}
        self._to_send: dict[int, int] = {}
        self._to_get: dict[int, int] = {}
        self._effort = EFFORT
        self._served = NOTHING_SERVED
        self._trials = [(part, stretch) for part in PARTS for stretch in STRETCHES]

    def add(self, copies: Iterable[Copy]) -> None:
        """Add copies."""
        fresh: dict[int, list[Copy]] = {}
        for copy in copies:
            fresh.setdefault(copy.sender, []).append(copy)
            self._count(copy, 1)
        for sender, mine in fresh.items():
            add_sorted(self._by_sender.setdefault(sender, []), mine, key=_by_size)

    def remove(self, copies: Iterable[Copy]) -> None:
        """Remove copies."""
        for copy in copies:
            waiting = self._by_sender[copy.sender]
            del waiting[bisect_left(waiting, _by_size(copy), key=_by_size)]
            self._count(copy, -1)

    def _count(self, copy: Copy, sign: int) -> None:
        for total, broker in ((self._to_send, copy.sender), (self._to_get, copy.receivers[0])):
            total[broker] = total.get(broker, 0) + sign * copy.size

    def fill(self, largest: int, most: int, most_bytes: int | None = None) -> list[Copy]:
        """Choose copies so that senders are level and receivers are level; as many as are found, up to ``most``.

        The brokers with most bytes left take part. Their number and their height are tried out: the
        height is at least the largest copy's, and the two sides' heights go with their numbers.
        """
        best: list[Copy] = []
        if self._effort <= 0:
            return best
        senders, receivers = _most_first(self._to_send), _most_first(self._to_get)
        best_trial = self._trials[0]
        tried = set()
        for part, stretch in self._trials:
            sides = _sides(senders, receivers, int(largest * stretch), max(1, int(most * part)))
            if sides is None:
                continue
            if (key := (len(sides.senders), len(sides.receivers), stretch)) in tried:
                continue
            tried.add(key)
            filled = self._fill(sides, most)
            self._effort -= len(filled)
            chosen = _leveled(filled)
            if len(chosen) > len(best) and (most_bytes is None or sum(c.size for c in chosen) <= most_bytes):
                best, best_trial = chosen, (part, stretch)
            if len(best) >= GOOD * min(most, self._served) or self._effort <= 0:
                break
        # What served this batch is likely to serve the next one.
        self._trials.remove(best_trial)
        self._trials.insert(0, best_trial)
        self._served = len(best) or self._served
        return best

    def _fill(self, sides: _Sides, most: int) -> list[Copy]:
        """Each time the sender furthest from its height gets its largest copy that fits both ends."""
        send = dict.fromkeys(sides.senders, sides.sender_height)
        get = dict.fromkeys(sides.receivers, sides.receiver_height)
        senders = [(-left, broker) for broker, left in send.items()]
        receivers = [(-left, broker) for broker, left in get.items()]
        heapify(senders)
        heapify(receivers)
        chosen: dict[Copy, None] = {}
        while senders and len(chosen) < most:
            left, sender = heappop(senders)
            while -receivers[0][0] != get[receivers[0][1]]:
                heapreplace(receivers, (-get[receivers[0][1]], receivers[0][1]))
            widest = -receivers[0][0]
            if -left <= (1 - FULL) * sides.sender_height or widest <= (1 - FULL) * sides.receiver_height:
                continue
            copy = self._largest_fit(sender, min(-left, widest), get, chosen)
            if copy is not None:
                chosen[copy] = None
                get[copy.receivers[0]] -= copy.size
                heappush(senders, (left + copy.size, sender))
        return list(chosen)

    def _largest_fit(self, sender: int, most: int, get: dict[int, int], chosen: dict[Copy, None]) -> Copy | None:
        waiting = self._by_sender[sender]
        looked_at = 0
        for at in range(bisect_right(waiting, most, key=_SIZE) - 1, -1, -1):
            copy = waiting[at]
            if copy not in chosen:
                looked_at += 1
                if get.get(copy.receivers[0], -1) >= copy.size:
                    return copy
                if looked_at == MAX_CANDIDATES:
                    return None
        return None


@dataclass(frozen=True)
class _Sides:
    """Who takes part, and the height of each side."""

    senders: list[int]
    receivers: list[int]
    sender_height: int
    receiver_height: int


_SIZE = attrgetter("size")


def _by_size(copy: Copy) -> tuple[int, int]:
    return copy.size, -copy.step


def _most_first(totals: dict[int, int]) -> list[tuple[int, int]]:
    """Return (bytes left, broker), most first."""
    return sorted(((total, broker) for broker, total in totals.items() if total > 0), key=lambda x: (-x[0], x[1]))


def _sides(senders: list[tuple[int, int]], receivers: list[tuple[int, int]], height: int, most: int) -> _Sides | None:
    """Choose who takes part at this height, or more on the side with fewer; None when no broker has so much left."""
    send, get = _reaching(senders, height, most), _reaching(receivers, height, most)
    if not send or not get:
        return None
    send_height, get_height = max(height, height * get // send), max(height, height * send // get)
    if _reaching(senders, send_height, most) < send or _reaching(receivers, get_height, most) < get:
        send = get = min(send, get)
        send_height = get_height = height
    return _Sides([b for _, b in senders[:send]], [b for _, b in receivers[:get]], send_height, get_height)


def _reaching(side: list[tuple[int, int]], height: int, most: int) -> int:
    """Return how many of a side, sorted by most bytes left, can be filled to the height; at most ``most``."""
    return min(most, bisect_right(side, -FULL * height, key=lambda entry: -entry[0]))


def _leveled(copies: Sequence[Copy]) -> list[Copy]:
    """Leave out the brokers furthest below the busiest until the rest is level; empty when that is too many."""
    sending: dict[int, list[Copy]] = {}
    getting: dict[int, list[Copy]] = {}
    for copy in copies:
        sending.setdefault(copy.sender, []).append(copy)
        getting.setdefault(copy.receivers[0], []).append(copy)
    send, get = ({broker: sum(c.size for c in mine) for broker, mine in side.items()} for side in (sending, getting))
    out: set[Copy] = set()
    for _ in range(LEFT_OUT + 1):
        if not send:
            break
        if max(_unlevel(send), _unlevel(get)) <= LEVEL:
            return [copy for copy in copies if copy not in out]
        low_send, low_get = _lowest(send), _lowest(get)
        is_sender = send[low_send] / max(send.values()) < get[low_get] / max(get.values())
        for copy in sending[low_send] if is_sender else getting[low_get]:
            if copy not in out:
                out.add(copy)
                _take_from(send, copy.sender, copy.size)
                _take_from(get, copy.receivers[0], copy.size)
    return []


def _take_from(load: dict[int, int], broker: int, size: int) -> None:
    load[broker] -= size
    if not load[broker]:
        del load[broker]


def _lowest(load: dict[int, int]) -> int:
    return min(load, key=lambda broker: (load[broker], broker))


def _unlevel(load: dict[int, int]) -> float:
    return max(load.values()) * len(load) / sum(load.values())
