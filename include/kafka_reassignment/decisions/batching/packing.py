"""Fills one batch after the other, within the limits of the request."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.batching.columns import NOBODY, Longs, StepColumns
from kafka_reassignment.decisions.batching.heights import WaitingCopies
from kafka_reassignment.decisions.batching.picking import Copy, add_sorted, pick
from kafka_reassignment.decisions.batching.throttle_lists import split_long_lists
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.request import Limits

ONE_SIZE = 0.92
"""Copies of at least this part of the largest count as of one size: a batch of them is level within 1.10."""

WINDOW = 3
"""Candidates looked at for a batch, times the copies there is room for."""

CHOICE = 8
"""In a batch that is not levelled: of this many copies, the one between the least busy brokers is taken."""

LEVEL_BATCHES = 4
"""Level batches may be this many times the batches that the limits alone need. The remaining steps are packed without levelling."""


def batches_of(steps: StepColumns, limits: Limits) -> Longs:
    """Return the number of each step's batch, counted from 1 without gaps.

    A partition's steps are in successive batches in their order. A copy larger than the byte target
    ships with no other copy. Works on the rest of a plan as well, after the limits have changed.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    return within_limit(pack(steps, limits), limits)


def within_limit(numbers: Longs, limits: Limits) -> Longs:
    """Return the batch numbers as they are.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    if numbers.max(initial=0) > limits.max_batches:
        target = "" if limits.batch_bytes is None else f"a larger byte target (now {limits.batch_bytes}), "
        raise InfeasiblePlanError(
            f"The plan needs {numbers.max()} batches: expected at most {limits.max_batches} ('max_batches')",
            Correct(
                f"allow more partition movements per batch (now {limits.partition_movements}), more leader movements (now "
                f"{limits.leader_movements}), {target}or more batches"
            ),
        )
    return numbers


def pack(steps: StepColumns, limits: Limits) -> Longs:
    """Return the number of each step's batch as ``batches_of`` does, even where these are more than ``max_batches``."""
    if not len(steps.partition):
        return np.zeros(0, dtype=np.int64)
    least = _least_batches(steps, limits)
    numbers = _Packing(steps, limits, aim=min(LEVEL_BATCHES * least, limits.max_batches)).run()
    if numbers.max() > limits.max_batches:
        numbers = _Packing(steps, limits, aim=least).run()
    return numbers


def _least_batches(steps: StepColumns, limits: Limits) -> int:
    least = [
        -(-len(steps.partition) // limits.partition_movements),
        -(-int(steps.moves_leader.sum()) // limits.leader_movements),
        int(np.bincount(steps.partition - steps.partition.min()).max()),
    ]
    if limits.batch_bytes:
        least.append(-(-int(steps.bytes_to_copy.sum()) // limits.batch_bytes))
    return max(least)


@dataclass
class _Room:
    """What still fits into the batch that is being filled."""

    partitions: int
    leaders: int
    bytes: int | None
    chosen: list[int] = field(default_factory=list)


class _Packing:
    """Steps that wait, by what they need; a partition's next step joins them once the one before is placed."""

    def __init__(self, steps: StepColumns, limits: Limits, *, aim: int) -> None:
        self._limits = limits
        self._lists = steps.lists
        self._aim = aim
        total = steps.bytes_to_copy
        self._total: list[int] = total.tolist()
        self._moves_leader: list[bool] = steps.moves_leader.tolist()
        self._copies = {
            int(at): Copy(
                int(at),
                int(steps.size[at]),
                int(steps.sender[at]),
                tuple(int(r) for r in steps.receivers[at] if r != NOBODY),
            )
            for at in np.flatnonzero(total > 0)
        }
        self._copies_left = len(self._copies)
        self._bytes_left = int(total.sum())
        is_last = np.append(steps.partition[1:] != steps.partition[:-1], values=True)
        self._next: dict[int, int] = {int(at): int(at) + 1 for at in np.flatnonzero(~is_last)}
        # By whether they move a leader: copies by size, smallest first; the rest as they come.
        self._heavy: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._light: dict[bool, deque[int]] = {True: deque(), False: deque()}
        self._waiting_copies = {True: WaitingCopies(), False: WaitingCopies()}
        self._numbers = np.zeros(len(total), dtype=np.int64)
        is_first = np.concatenate([[True], is_last[:-1]])
        self._wait(np.flatnonzero(is_first).tolist())

    def _wait(self, steps: list[int]) -> None:
        copies = [self._copies[at] for at in steps if self._total[at]]
        for moves in (True, False):
            # The negative keeps plan order among equals: lists are read from their large end.
            mine = [copy for copy in copies if self._moves_leader[copy.step] is moves]
            add_sorted(self._heavy[moves], [(copy.size, -copy.step) for copy in mine], key=tuple)
            self._waiting_copies[moves].add(copy for copy in mine if len(copy.receivers) == 1)
            self._light[moves] += [at for at in steps if not self._total[at] and self._moves_leader[at] is moves]

    def run(self) -> Longs:
        """Number all steps; a batch that needs too long a list of throttled replicas is several."""
        placed = number = 0
        while placed < len(self._numbers):
            number += 1
            chosen = self._fill(number)
            self._numbers[chosen] = number
            placed += len(chosen)
            self._wait([self._next[at] for at in chosen if at in self._next])
        return split_long_lists(self._lists, self._numbers)

    def _fill(self, number: int) -> list[int]:
        """Fill one batch: leader movements first, those that copy before those that do not; then the rest."""
        room = _Room(self._limits.partition_movements, self._limits.leader_movements, self._limits.batch_bytes)
        copies_move_leaders = bool(self._heavy[True])
        if copies_move_leaders:
            self._take_copies(room, number)
        self._take_light(room, moves_leader=True)
        if not copies_move_leaders:
            self._take_copies(room, number)
        self._take_light(room, moves_leader=False)
        return room.chosen

    def _take_light(self, room: _Room, *, moves_leader: bool) -> None:
        waiting = self._light[moves_leader]
        while waiting and room.partitions and (room.leaders or not moves_leader):
            room.chosen.append(waiting.popleft())
            room.partitions -= 1
            room.leaders -= moves_leader

    def _take_copies(self, room: _Room, number: int) -> None:
        if not room.partitions or not (self._heavy[False] or (self._heavy[True] and room.leaders)):
            return
        may_be_few = self._batches_still_needed() <= self._aim - number
        chosen = self._level(room) if may_be_few else self._filled(room)
        for moves, stock in self._waiting_copies.items():
            stock.remove(c for c in chosen if len(c.receivers) == 1 and self._moves_leader[c.step] is moves)
        for copy in chosen:
            moves = self._moves_leader[copy.step]
            waiting = self._heavy[moves]
            del waiting[bisect_left(waiting, (copy.size, -copy.step))]
            room.chosen.append(copy.step)
            room.partitions -= 1
            room.leaders -= moves
            self._bytes_left -= self._total[copy.step]
        self._copies_left -= len(chosen)

    def _batches_still_needed(self) -> int:
        needed = -(-self._copies_left // self._limits.partition_movements)
        if self._limits.batch_bytes:
            needed = max(needed, -(-self._bytes_left // self._limits.batch_bytes))
        return needed

    def _level(self, room: _Room) -> list[Copy]:
        """The larger of two level batches: copies of one size, or brokers filled to one height."""
        candidates = self._of_one_size(room)
        if room.bytes is None:
            most = room.partitions
        else:
            most = max(1, min(room.partitions, room.bytes // max(self._total[c.step] for c in candidates)))
        chosen = pick(candidates, most)
        moves = self._moves_leader[candidates[0].step]
        most = min(room.partitions, room.leaders) if moves else room.partitions
        if len(chosen) < most and len(candidates[0].receivers) == 1:
            filled = self._waiting_copies[moves].fill(candidates[0].size, most, room.bytes)
            if len(filled) > len(chosen):
                return filled
        return chosen

    def _of_one_size(self, room: _Room) -> list[Copy]:
        order = [moves for moves in (True, False) if self._heavy[moves] and (room.leaders or not moves)]
        largest = self._heavy[order[0]][-1][0]
        candidates: list[Copy] = []
        for moves in order:
            waiting = self._heavy[moves]
            end = bisect_left(waiting, (largest + 1, 0))
            start = max(
                bisect_left(waiting, (int(largest * ONE_SIZE), -len(self._total))), end - WINDOW * room.partitions
            )
            part = [self._copies[-negative] for _, negative in reversed(waiting[start:end])]
            # Where L is the tighter limit, no more leader movements are looked at than it allows.
            candidates += part[: room.leaders] if moves and room.leaders < room.partitions else part
        # A sender of two copies is as busy as two senders: steps with more receivers have batches of their own.
        return [c for c in candidates if len(c.receivers) == len(candidates[0].receivers)]

    def _filled(self, room: _Room) -> list[Copy]:
        """As many as fit, largest first; of the next few, each time the one whose brokers are least busy so far."""
        by_size = chain(reversed(self._heavy[True]), reversed(self._heavy[False]))
        waiting = (self._copies[-negative] for _, negative in islice(by_size, 2 * WINDOW * room.partitions))
        busy: dict[tuple[str, int], int] = {}
        chosen: list[Copy] = []
        leaders, bytes_left = room.leaders, room.bytes
        fitting: list[Copy] = []

        def fits(copy: Copy) -> bool:
            is_small = bytes_left is None or not chosen or self._total[copy.step] <= bytes_left
            return is_small and (leaders > 0 or not self._moves_leader[copy.step])

        while len(chosen) < room.partitions:
            fitting = [copy for copy in fitting if fits(copy)]
            fitting += islice((copy for copy in waiting if fits(copy)), CHOICE - len(fitting))
            if not fitting:
                break
            best = min(fitting, key=lambda copy: max(busy.get(end, 0) for end in _ends(copy)))
            fitting.remove(best)
            chosen.append(best)
            leaders -= self._moves_leader[best.step]
            if bytes_left is not None:
                bytes_left -= self._total[best.step]
            for end in _ends(best):
                busy[end] = busy.get(end, 0) + best.size
        return chosen


def _ends(copy: Copy) -> list[tuple[str, int]]:
    return [("sends", copy.sender), *(("gets", receiver) for receiver in copy.receivers)]
