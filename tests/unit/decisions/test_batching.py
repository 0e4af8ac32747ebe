"""Batches: limits, order, time. Numbers small enough to check by eye."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_reassignment.decisions.batching import (
    NOBODY,
    BatchRates,
    StepColumns,
    batches_of,
    fewest_batches,
    pack,
    split_long_lists,
    within_limit,
)
from kafka_reassignment.decisions.batching.columns import ThrottleLists
from kafka_reassignment.decisions.throttle import RateChange, Side
from kafka_reassignment.decisions.throttle.length import LONGEST_LIST_BYTES
from kafka_reassignment.decisions.throttle.wanted import asked_rate
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.request import Limits, ReassignmentRequest
from kafka_reassignment.request.windows.spec import MaintenanceWindows

pytestmark = pytest.mark.longer


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


def seconds_of(steps: StepColumns, numbers: np.ndarray, rates: BatchRates) -> list[float]:
    """By batch, how long its busiest sender or receiver copies."""
    busy: dict[int, dict[tuple[Side, int], float]] = defaultdict(lambda: defaultdict(float))
    for at, number in enumerate(numbers.tolist()):
        for receiver in steps.receivers[at].tolist():
            if receiver != NOBODY and steps.size[at]:
                for side, broker in ((Side.LEADER, int(steps.sender[at])), (Side.FOLLOWER, receiver)):
                    rate = asked_rate(broker, side, rates.bytes_per_second, rates.rate_changes)
                    busy[number][side, broker] += int(steps.size[at]) / rate
    return [max(busy[number].values(), default=0.0) for number in range(1, int(numbers.max(initial=0)) + 1)]


def busiest_broker(steps: StepColumns, rates: BatchRates) -> float:
    """Seconds that the busiest broker of all copies: no cut into batches takes less."""
    return seconds_of(steps, np.ones(len(steps.partition), dtype=np.int64), rates)[0]


ONE_A_SECOND = BatchRates(bytes_per_second=1)


def random_copies(seed: int, count: int, brokers: int) -> StepColumns:
    """Copies of very different sizes; some brokers send or receive several times as much as others."""
    rng = np.random.default_rng(seed)
    weight = np.exp(rng.normal(0, 0.4, brokers))
    ends = rng.choice(brokers, size=(count, 2), p=weight / weight.sum())
    size = np.exp(rng.normal(16, 1.45, count)).astype(np.int64)
    return copies(*((int(size[n]), int(ends[n, 0]), 1000 + int(ends[n, 1])) for n in range(count)))


def test_nothing_to_do_takes_no_batch():
    assert batches_of(copies(), limits()).tolist() == []


def test_every_broker_gets_equally_many_of_equal_steps():
    # Six senders to six receivers, every pair once, in batches of 12: two for each, each time.
    steps = copies(*((10, sender, 10 + receiver) for sender in range(6) for receiver in range(6)))

    numbers = batches_of(steps, limits(partition_movements=12), ONE_A_SECOND)

    assert np.bincount(numbers)[1:].tolist() == [12, 12, 12]
    assert seconds_of(steps, numbers, ONE_A_SECOND) == [20, 20, 20]


def test_what_one_broker_needs_for_all_decides_and_batches_are_not_more_than_needed():
    # Broker 1 sends 60 in all; broker 2's small copies fit beside its large one.
    steps = copies((40, 1, 11), (20, 1, 12), (20, 2, 13), (20, 2, 14))

    numbers = batches_of(steps, limits(partition_movements=3), ONE_A_SECOND)

    assert numbers.max() == 2
    assert sum(seconds_of(steps, numbers, ONE_A_SECOND)) == 60


def test_copies_of_one_size_share_a_batch_where_partitions_are_the_limit():
    # Two large and two small ones, all of brokers of their own: 100 + 1, where one of each in both batches would take
    # 200.
    steps = copies((100, 1, 11), (1, 2, 12), (100, 3, 13), (1, 4, 14))

    numbers = batches_of(steps, limits(partition_movements=2), ONE_A_SECOND)

    assert sorted(seconds_of(steps, numbers, ONE_A_SECOND)) == [1, 100]


def test_a_broker_with_a_rate_of_its_own_counts_by_its_time():
    # Receiver 11 takes 10 a second, the others 100: what it needs decides, and the rest goes beside it.
    rates = BatchRates(100, [RateChange(asked_bytes_per_second=10, brokers=(11,), sides=(Side.FOLLOWER,))])
    steps = copies((100, 1, 11), (100, 1, 11), (900, 2, 12), (900, 3, 13))

    numbers = batches_of(steps, limits(partition_movements=2), rates)

    assert sum(seconds_of(steps, numbers, rates)) == pytest.approx(20)
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize("movements", [50, 500])
@pytest.mark.parametrize("seed", range(3))
def test_the_chain_takes_little_longer_than_the_busiest_broker(seed, movements):
    steps = random_copies(seed, 2_000, 30)

    numbers = batches_of(steps, limits(partition_movements=movements, leader_movements=movements), ONE_A_SECOND)

    assert numbers.max() == 2_000 // movements
    assert sum(seconds_of(steps, numbers, ONE_A_SECOND)) <= 1.05 * busiest_broker(steps, ONE_A_SECOND)


@pytest.mark.parametrize("seed", range(40))
def test_a_few_copies_are_packed_nearly_as_well_as_can_be(seed):
    steps = random_copies(seed, 6, 3)
    best = min(
        sum(seconds_of(steps, np.array(numbers), ONE_A_SECOND))
        for numbers in product((1, 2, 3), repeat=6)
        if max(Counter(numbers).values()) <= 2
    )

    numbers = batches_of(steps, limits(partition_movements=2), ONE_A_SECOND)

    assert sum(seconds_of(steps, numbers, ONE_A_SECOND)) <= 1.3 * best


def test_a_batch_copies_no_longer_than_it_is_to_and_a_longer_copy_ships_alone_on_its_brokers():
    steps = random_copies(1, 400, 10)
    longest = float(np.sort(steps.size)[-20])  # a few copies take longer by themselves
    rates = BatchRates(1, longest_seconds=longest)

    numbers = batches_of(steps, limits(partition_movements=500), rates)

    for number, seconds in enumerate(seconds_of(steps, numbers, rates), 1):
        assert seconds <= longest or seconds == steps.size[numbers == number].max()
    assert sum(seconds_of(steps, numbers, rates)) <= 1.1 * busiest_broker(steps, rates)


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_steps_that_is_tried_makes_a_batch_longer_than_it_may_be(seed):
    rng = np.random.default_rng(seed)
    copies = [
        (n, int(rng.lognormal(3, 0.5)) + 1, int(rng.integers(5)), (20 + int(rng.integers(5)),), False)
        for n in range(60)
    ]
    steps = columns(*copies)
    for share, movements in product((1.0, 1.5, 2.0), (3, 10, 50)):
        longest = share * float(steps.size.max())
        numbers = batches_of(steps, limits(partition_movements=movements), BatchRates(1, longest_seconds=longest))
        assert max(seconds_of(steps, numbers, ONE_A_SECOND)) <= longest


def test_no_more_batches_are_begun_than_there_are_steps():
    steps = columns(*((n, 10**9, n, (20 + n,), False) for n in range(4)))

    numbers = batches_of(steps, limits(partition_movements=500, batch_bytes=1), BatchRates(1, longest_seconds=1e-6))

    assert sorted(numbers) == [1, 2, 3, 4]


def test_the_time_of_a_batch_gives_way_to_the_limit_on_batches():
    steps = random_copies(1, 400, 10)
    rates = BatchRates(1, longest_seconds=busiest_broker(steps, ONE_A_SECOND) / 50)

    assert batches_of(steps, limits(partition_movements=500, max_batches=60), rates).max() >= 50
    assert batches_of(steps, limits(partition_movements=500, max_batches=5), rates).max() <= 5


def test_no_batch_of_a_plan_gets_too_long_for_all_windows():
    """Its admission would wait for a window that is long enough for ever; a plan can still be refused."""
    steps = random_copies(1, 400, 10)
    busiest = busiest_broker(steps, ONE_A_SECOND)
    rates, few = BatchRates(1, longest_seconds=busiest / 50, most_seconds=busiest / 20), limits(max_batches=5)
    with pytest.raises(InfeasiblePlanError, match=r"batches that each fit into a maintenance window.*longer windows"):
        within_limit(pack(steps, few, rates), few, rates)
    assert pack(steps, limits(max_batches=30), rates).max() <= 30


def test_copies_that_move_no_leader_leave_room_for_those_that_do():
    steps = columns(
        *((n, 20, n, (20 + n,), False) for n in range(4)),
        *((4 + n, 10, 4 + n, (24 + n,), True) for n in range(4)),
    )

    numbers = batches_of(steps, limits(partition_movements=4, leader_movements=2))

    assert sorted(numbers[4:].tolist()) == [1, 1, 2, 2]
    assert numbers.max() == 2


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


def test_as_few_batches_as_the_limits_allow_are_known_without_packing():
    steps = copies((500, 1, 11), *((40, 2 + n, 12 + n) for n in range(6)))
    assert fewest_batches(copies(), limits()) == 0
    assert fewest_batches(steps, limits()) == 1
    assert fewest_batches(steps, limits(partition_movements=2)) == 4
    assert fewest_batches(steps, limits(batch_bytes=100)) == 4, "the large one takes one batch, not five"


def test_how_long_a_batch_copies_is_the_requests_word_and_fits_its_windows():
    request = ReassignmentRequest(job="rebalance", throttle_mb_per_second=50)
    assert BatchRates.of(request, request.limits) == BatchRates(50_000_000, longest_seconds=15 * 60)
    assert BatchRates.of(request, Limits(batch_minutes=None)).longest_seconds is None
    night = request.model_copy(
        update={"maintenance": MaintenanceWindows(windows=("sat 22:00-22:10", "sun 22:00-22:12"))}
    )
    assert BatchRates.of(night, night.limits).longest_seconds == 0.75 * 12 * 60
    assert BatchRates.of(night, night.limits).most_seconds is None
    assert BatchRates.of(night, night.limits, fits_windows=True).most_seconds == 0.95 * (12 * 60)
    unthrottled = night.model_copy(update={"throttle_mb_per_second": None, "unthrottled": True})
    assert BatchRates.of(unthrottled, night.limits, fits_windows=True).most_seconds is None


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
    assert 1 <= fewest_batches(steps, most) <= numbers.max()


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
