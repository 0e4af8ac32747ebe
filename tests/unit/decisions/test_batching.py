"""Batches: limits, order, level. Numbers small enough to check by eye."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_reassignment.decisions.batching import NOBODY, StepColumns, batches_of, split_long_lists
from kafka_reassignment.decisions.batching.columns import ThrottleLists
from kafka_reassignment.decisions.throttle.length import LONGEST_LIST_BYTES
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.request import Limits

pytestmark = pytest.mark.quick


def columns(*steps: tuple[int, int, int, tuple[int, ...], bool]) -> StepColumns:
    """From (partition, size, sender, receivers, moves leader)."""
    width = max((len(s[3]) for s in steps), default=1) or 1
    return StepColumns(
        partition=np.array([s[0] for s in steps], dtype=np.int64),
        size=np.array([s[1] for s in steps], dtype=np.int64),
        sender=np.array([s[2] if s[3] else NOBODY for s in steps], dtype=np.int64),
        receivers=np.array([s[3] + (NOBODY,) * (width - len(s[3])) for s in steps], dtype=np.int64).reshape(-1, width),
        moves_leader=np.array([s[4] for s in steps], dtype=bool),
    )


def copies(*steps: tuple[int, int, int]) -> StepColumns:
    """From (size, sender, receiver), a partition each."""
    return columns(*((n, size, sender, (receiver,), False) for n, (size, sender, receiver) in enumerate(steps)))


def limits(**fields) -> Limits:
    return Limits(**({"partition_movements": 50, "leader_movements": 50} | fields))


def busiest_to_mean(steps: StepColumns, numbers: np.ndarray) -> dict[int, tuple[float, float]]:
    """By batch: busiest to mean of its senders, and of its receivers."""
    result = {}
    for number in sorted(set(numbers.tolist())):
        send, get = defaultdict(int), defaultdict(int)
        for at in np.flatnonzero(numbers == number):
            for receiver in steps.receivers[at]:
                if receiver != NOBODY and steps.size[at]:
                    send[int(steps.sender[at])] += int(steps.size[at])
                    get[int(receiver)] += int(steps.size[at])
        if send:
            result[number] = tuple(max(side.values()) * len(side) / sum(side.values()) for side in (send, get))
    return result


def is_level(steps: StepColumns, numbers: np.ndarray) -> bool:
    return all(max(both) <= 1.10 for both in busiest_to_mean(steps, numbers).values())


def test_nothing_to_do_takes_no_batch():
    assert batches_of(copies(), limits()).tolist() == []


def test_every_broker_gets_equally_many_of_equal_steps():
    # Six senders to six receivers, every pair once, in batches of 12: two for each, each time.
    steps = copies(*((10, sender, 10 + receiver) for sender in range(6) for receiver in range(6)))

    numbers = batches_of(steps, limits(partition_movements=12))

    assert np.bincount(numbers)[1:].tolist() == [12, 12, 12]
    assert is_level(steps, numbers)


def test_one_sender_of_everything_is_level_with_itself():
    steps = copies(*((10, 1, 10 + n % 4) for n in range(16)))

    numbers = batches_of(steps, limits(partition_movements=8))

    assert np.bincount(numbers)[1:].tolist() == [8, 8]
    assert is_level(steps, numbers)


def test_a_big_step_does_not_share_its_batch_with_small_ones():
    steps = copies((1000, 1, 11), *((10, 2 + n, 12 + n) for n in range(4)))

    numbers = batches_of(steps, limits())

    assert is_level(steps, numbers)
    assert sorted(np.bincount(numbers)[1:].tolist()) == [1, 4]


def test_small_steps_together_are_level_with_a_big_one():
    # Broker 1 sends 60; broker 2 sends 30 + 30; their receivers get 60 each as well.
    steps = copies((60, 1, 11), (30, 2, 12), (30, 2, 12))

    numbers = batches_of(steps, limits())

    assert numbers.tolist() == [1, 1, 1]


def test_leader_movements_come_first_and_no_more_than_the_limit():
    steps = columns(
        *((n, 10, n, (20 + n,), False) for n in range(4)),
        *((4 + n, 10, 4 + n, (24 + n,), True) for n in range(4)),
    )

    numbers = batches_of(steps, limits(partition_movements=4, leader_movements=2))

    assert numbers.tolist().count(1) == 4
    moves = [numbers[n] for n in range(4, 8)]
    assert sorted(moves) == [1, 1, 2, 2]


def test_reorders_fill_what_copies_leave_free():
    steps = columns((0, 10, 1, (11,), False), *((1 + n, 0, 1, (), True) for n in range(5)))

    assert batches_of(steps, limits(partition_movements=6)).tolist() == [1] * 6


def test_steps_of_one_partition_are_in_successive_batches():
    steps = columns(
        (0, 10, 1, (11,), True), (0, 10, 11, (12,), False), (0, 10, 11, (13,), False), (1, 10, 2, (14,), False)
    )

    numbers = batches_of(steps, limits())

    assert numbers[:3].tolist() == [1, 2, 3]


def test_the_byte_target_is_kept_and_a_larger_step_ships_alone():
    steps = copies((500, 1, 11), *((40, 2 + n, 12 + n) for n in range(6)))

    numbers = batches_of(steps, limits(batch_bytes=100))

    by_batch = np.bincount(numbers, weights=steps.bytes_to_copy)[1:]
    assert sorted(by_batch.tolist()) == [80, 80, 80, 500]


def test_too_many_batches_are_refused_with_what_would_help():
    steps = copies(*((10, n, 20 + n) for n in range(10)))
    with pytest.raises(InfeasiblePlanError) as refused:
        batches_of(steps, limits(partition_movements=2, max_batches=4))
    assert str(refused.value) == (
        "The plan needs 5 batches: expected at most 4 ('max_batches'). Allow more partition movements per batch "
        "(now 2), more leader movements (now 50), or more batches"
    )


def test_levelling_gives_way_to_the_limit_on_batches():
    # Level would be one step a batch: all have their own size.
    steps = copies(*((10 * 2**n, n, 20 + n) for n in range(6)))

    assert batches_of(steps, limits(partition_movements=3, max_batches=2)).max() == 2


@st.composite
def plans(draw) -> tuple[StepColumns, Limits]:
    rows = []
    for partition in range(draw(st.integers(1, 25))):
        for _ in range(draw(st.integers(1, 3))):
            receivers = tuple(draw(st.lists(st.integers(10, 14), max_size=2, unique=True)))
            rows.append((partition, draw(st.integers(0, 50)), draw(st.integers(0, 5)), receivers, draw(st.booleans())))
    bytes_ = draw(st.none() | st.integers(1, 200))
    return columns(*rows), limits(
        partition_movements=draw(st.integers(1, 10)), leader_movements=draw(st.integers(1, 10)), batch_bytes=bytes_
    )


@settings(deadline=None)
@given(plans())
def test_whatever_the_steps_the_limits_and_the_order_hold(plan):
    steps, most = plan
    numbers = batches_of(steps, most)

    assert sorted(set(numbers.tolist())) == list(range(1, numbers.max() + 1))
    assert np.bincount(numbers).max() <= most.partition_movements
    assert np.bincount(numbers, weights=steps.moves_leader).max() <= most.leader_movements
    same = steps.partition[1:] == steps.partition[:-1]
    assert (numbers[1:][same] > numbers[:-1][same]).all()
    if most.batch_bytes:
        for number in set(numbers.tolist()):
            total = steps.bytes_to_copy[numbers == number]
            assert total.sum() <= most.batch_bytes or (total > 0).sum() == 1
    assert batches_of(steps, most).tolist() == numbers.tolist()


@st.composite
def plans_with_lists(draw) -> tuple[StepColumns, Limits]:
    steps, most = draw(plans())
    count = len(steps.partition)
    sizes = st.lists(st.integers(0, 3_000), min_size=count, max_size=count)
    # All partitions are of one or two topics; some steps nearly fill a list alone.
    leaders, followers = (np.array(draw(sizes), dtype=np.int64) * draw(st.sampled_from([1, 10])) for _ in range(2))
    lists = ThrottleLists(steps.partition % draw(st.integers(1, 2)), leaders, followers)
    return replace(steps, lists=lists), most


@settings(deadline=None)
@given(plans_with_lists())
def test_no_batch_needs_a_list_of_throttled_replicas_that_kafka_refuses(plan):
    steps, most = plan
    numbers = batches_of(steps, most)

    assert sorted(set(numbers.tolist())) == list(range(1, numbers.max() + 1))
    assert np.bincount(numbers).max() <= most.partition_movements
    same = steps.partition[1:] == steps.partition[:-1]
    assert (numbers[1:][same] > numbers[:-1][same]).all()
    for number in set(numbers.tolist()):
        for topic in set(steps.lists.topic.tolist()):
            mine = (numbers == number) & (steps.lists.topic == topic)
            for added in (steps.lists.leader_bytes, steps.lists.follower_bytes):
                assert added[mine].sum() - 1 <= LONGEST_LIST_BYTES


def test_batches_whose_lists_fit_stay_as_they_are():
    """Also where steps that are in no list come last."""
    steps = copies((10, 1, 2), (10, 3, 4), (0, 1, 2))
    lists = ThrottleLists(np.zeros(3, dtype=np.int64), np.array([9, 9, 0]), np.array([5, 5, 0]))
    assert batches_of(replace(steps, lists=lists), limits()).tolist() == batches_of(steps, limits()).tolist()


def test_lists_of_two_million_steps_are_split_in_seconds():
    count = 2_000_000
    numbers = np.arange(count) // 5_000 + 1
    entries = np.full(count, 27, dtype=np.int64)
    lists = ThrottleLists(np.arange(count) // 100_000, entries, entries // 3)
    began = time.process_time()
    split = split_long_lists(lists, numbers)
    assert time.process_time() - began < 5
    assert np.bincount(split).max() * 27 - 1 <= LONGEST_LIST_BYTES
    assert split.max() == 400 * 5, "5,000 entries of 27 bytes need five lists"
