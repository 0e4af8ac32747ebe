"""Places the steps of a plan into batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import numpy as np

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.batching.columns import Longs, StepColumns
from kafka_reassignment.decisions.batching.least import Least
from kafka_reassignment.decisions.batching.loads import Copy, Filling, copies_of, in_succession
from kafka_reassignment.decisions.batching.rates import BATCH_SECONDS, BatchRates, Seconds
from kafka_reassignment.decisions.batching.throttle_lists import split_long_lists
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.request import Limits

TRIALS = ((1.0, 1.0), (0.5, 2.7), (0.25, 1.0), (2.0, 1.0), (0.0, 1.15))
"""Orders and heights that are tried: (how much the load of a copy's busiest broker counts beside its size, factor of the heights)."""

GOOD = 1.01
"""A packing that takes at most so many times the least time ends the trials."""

MAX_EFFORT = 1_500_000_000
"""Copies times batches that one trial looks at, above which a plan is split into chunks: about ten seconds."""

TRIALS_EFFORT = 600_000_000
"""Copies times batches that all trials together look at, unless the first alone takes more: some seconds."""


def batches_of(steps: StepColumns, limits: Limits, rates: BatchRates | None = None) -> Longs:
    """Return the number of each step's batch, counted from 1 without gaps.

    A partition's steps are in successive batches in their order. A copy larger than the byte target
    ships with no other copy. Works on the rest of a plan as well, after the limits have changed.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    return within_limit(pack(steps, limits, rates), limits)


def within_limit(numbers: Longs, limits: Limits, rates: BatchRates | None = None) -> Longs:
    """Return the batch numbers as they are.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    if numbers.max(initial=0) > limits.max_batches:
        in_windows = rates is not None and rates.most_seconds is not None
        fitting = " that each fit into a maintenance window" if in_windows else ""
        raise InfeasiblePlanError(
            f"The plan needs {numbers.max()} batches{fitting}: expected at most {limits.max_batches} ('max_batches')",
            to_need_fewer_batches(limits, in_windows=in_windows),
        )
    return numbers


def to_need_fewer_batches(limits: Limits, *, in_windows: bool = False) -> Correct:
    """Return the advice for limits, and windows where these count, that need more batches than they allow."""
    windows = "a higher rate, longer windows, " if in_windows else ""
    target = "" if limits.batch_bytes is None else f"a larger byte target (now {limits.batch_bytes}), "
    return Correct(
        f"allow more partition movements per batch (now {limits.partition_movements}), more leader movements (now "
        f"{limits.leader_movements}), {target}{windows}or more batches"
    )


def pack(steps: StepColumns, limits: Limits, rates: BatchRates | None = None) -> Longs:
    """Return the number of each step's batch as ``batches_of`` does, even where these are more than ``max_batches``."""
    if not len(steps.partition):
        return np.zeros(0, dtype=np.int64)
    rates = rates or BatchRates()
    plan = _Plan.of(steps, rates)
    numbers = _best(plan, limits, rates, plan.least.batches(limits, rates))
    if rates.longest_seconds is not None and numbers.max() > limits.max_batches:
        longer = replace(rates, longest_seconds=rates.most_seconds)
        numbers = _best(plan, limits, longer, max(limits.max_batches, plan.least.batches(limits, longer)))
    return numbers


def _best(plan: _Plan, limits: Limits, rates: BatchRates, batches: int) -> Longs:
    """Try several orders, and return the batches that end first."""
    found: list[tuple[float, Longs]] = []
    heights, least = plan.heights(batches, limits), plan.least.seconds(batches, limits)
    for weight, factor in TRIALS[: max(1, TRIALS_EFFORT // max(1, plan.effort(batches)))]:
        # A batch that was given more than its longest time at no cost would be filled beyond it.
        given = np.minimum(heights * factor, np.inf if rates.longest_seconds is None else rates.longest_seconds)
        numbers, seconds = plan.placed(limits, rates, given, weight)
        found.append((seconds, numbers))
        if seconds <= GOOD * least:
            break
    _, best = min(found, key=itemgetter(0))
    return split_long_lists(plan.steps.lists, np.unique(best, return_inverse=True)[1] + 1)


def chunks_of(steps: StepColumns, limits: Limits) -> int:
    """Return into how many chunks a plan is to be split so that no process needs more than ``MAX_EFFORT`` for its first trial."""
    copies = int((steps.bytes_to_copy > 0).sum())
    batches = -(-len(steps.partition) // min(limits.partition_movements, limits.leader_movements))
    # A chunk has a part of the copies and a part of the batches.
    return max(1, int(np.ceil(np.sqrt(copies * batches / MAX_EFFORT))))


@dataclass(frozen=True)
class _Plan:
    """What the packing needs to know of a plan.

    Args:
        steps: the plan.
        chains: the steps of each partition that copies or has several steps, in their order.
        light: the other steps, by whether they move a leader.
        least: what bounds its batches.
    """

    steps: StepColumns
    chains: list[list[Copy]]
    light: dict[bool, Longs]
    least: Least

    @classmethod
    def of(cls, steps: StepColumns, rates: BatchRates) -> _Plan:
        starts = np.flatnonzero(np.concatenate([[True], steps.partition[1:] != steps.partition[:-1]]))
        counts = np.diff(np.append(starts, len(steps.partition)))
        is_light = np.repeat((counts == 1) & (steps.bytes_to_copy[starts] == 0), counts)
        least = Least.of(steps, rates)
        copies = copies_of(steps, np.flatnonzero(~is_light), least.ends)
        chains = [list(chain) for _, chain in groupby(copies, lambda copy: steps.partition[copy.step])]
        light = {moves: np.flatnonzero(is_light & (steps.moves_leader == moves)) for moves in (True, False)}
        return cls(steps, chains, light, least)

    def effort(self, batches: int) -> int:
        return len(self.least.longest) * batches

    def heights(self, batches: int, limits: Limits) -> Seconds:
        """By batch, the height that it has at least when each takes P copies of the next size.

        The lowest is first where many copies have to wait for the batch of another step of their partition.
        """
        first = self.least.longest[:: limits.partition_movements][:batches]
        heights = np.pad(first, (0, batches - len(first)))
        return np.roll(heights, 1) if self.least.often_follows_nothing else heights

    def placed(self, limits: Limits, rates: BatchRates, heights: Seconds, weight: float) -> tuple[Longs, float]:
        """Place all steps; return the batch of each, with gaps, and how long all batches take."""
        movements = int(self.steps.moves_leader.sum())
        filling = Filling(len(self.least.ends.whole), heights, movements, limits, rates.longest_seconds)
        numbers = np.zeros(len(self.steps.partition), dtype=np.int64)
        for chain in self._in_order(weight):
            for copy, batch in zip(chain, _batches_for(chain, filling), strict=True):
                filling.put(copy, batch)
                numbers[copy.step] = batch
        for moves_leader, light in self.light.items():
            numbers[light] = filling.fill(len(light), moves_leader=moves_leader)
        return numbers, filling.seconds + BATCH_SECONDS * len(np.unique(numbers))

    def _in_order(self, weight: float) -> list[list[Copy]]:
        whole = self.least.ends.whole
        busiest = whole.max(initial=0.0)

        def need(chain: list[Copy]) -> float:
            share = max((whole[end] / busiest for copy in chain for end in copy.ends), default=0.0)
            return float(max(max(copy.seconds, default=0.0) for copy in chain) * share**weight)

        return sorted(self.chains, key=need, reverse=True)


def _batches_for(chain: list[Copy], filling: Filling) -> list[int]:
    """Choose a batch for each step of a partition; new ones at the end where the others are full."""
    chosen = in_succession([filling.costs(copy) for copy in chain])
    if chosen is None:
        filling.append(len(chain))
        return _batches_for(chain, filling)
    return chosen
