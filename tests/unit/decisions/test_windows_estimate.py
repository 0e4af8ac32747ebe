"""How long a batch takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_reassignment.decisions.throttle import RateChange
from kafka_reassignment.decisions.windows.estimate import (
    MEASUREMENT_KEPT,
    OVERHEAD_SECONDS,
    Copied,
    Estimate,
    Pace,
    estimate,
    measured_pace,
    rates_of,
)
from kafka_reassignment.model import Batch, Reassignment, Step, TopicPartition

pytestmark = pytest.mark.quick

MB = 1_000_000
NOW = datetime(2026, 3, 14, 22, tzinfo=UTC)
UNKNOWN = Pace()


def batch(*sizes_mb: int) -> Batch:
    """Everything goes from broker 1 to broker 3."""
    return Batch(
        1,
        tuple(
            Step(Reassignment(TopicPartition("orders", i), (1, 2), (3, 2), mb * MB)) for i, mb in enumerate(sizes_mb)
        ),
    )


LEADERS_ONLY = Batch(1, (Step(Reassignment(TopicPartition("orders", 0), (1, 2), (2, 1), 500 * MB)),))
TO_TWO = Batch(
    1,
    (
        Step(Reassignment(TopicPartition("orders", 0), (1, 2), (3, 2), 600 * MB)),
        Step(Reassignment(TopicPartition("orders", 1), (5, 2), (4, 2), 60 * MB)),
    ),
)


def seconds(of: Batch, pace: Pace, rate_mb: int | None = 10, *changes: RateChange) -> float | None:
    """What copying takes."""
    rate = None if rate_mb is None else rate_mb * MB
    found = estimate(of, pace, asked_bytes_per_second=rate, rate_changes=changes).seconds
    return None if found is None else found - OVERHEAD_SECONDS


def took(real: float, mb: int = 600, rate_mb: int | None = 10, *, days_ago: float = 0.1) -> tuple[datetime, Copied]:
    """A batch of which so much was copied in so many seconds in which bytes moved."""
    rates = None if rate_mb is None else rates_of(batch(mb), rate_mb * MB, ())
    return NOW - timedelta(days=days_ago), Copied().plus(batch(mb), mb * MB, real, rates)


def test_the_busiest_broker_at_its_rate_and_at_the_measured_pace() -> None:
    both = batch(400, 200)
    assert seconds(both, UNKNOWN) == 60
    assert seconds(both, Pace(share=0.5)) == 120
    assert seconds(both, Pace(bytes_per_second=60.0 * MB), None) == 10


def test_each_broker_sends_all_copies_and_receives_its_own() -> None:
    two_from_one = Batch(1, (TO_TWO.steps[0], Step(Reassignment(TopicPartition("o", 2), (1, 2), (4, 2), 300 * MB))))
    assert seconds(two_from_one, UNKNOWN) == 90
    two_to_one = Batch(1, (TO_TWO.steps[0], Step(Reassignment(TopicPartition("o", 2), (5, 2), (3, 2), 300 * MB))))
    assert seconds(two_to_one, UNKNOWN) == 90


def test_unthrottled_and_never_measured_it_is_unknown_unless_nothing_is_copied() -> None:
    assert seconds(batch(600), UNKNOWN, None) is None
    assert seconds(LEADERS_ONLY, UNKNOWN, None) == 0
    assert seconds(LEADERS_ONLY, UNKNOWN) == 0


def test_the_pace_is_the_median_of_the_latest_five() -> None:
    assert measured_pace([took(100), took(10_000), took(120)], NOW).share == 0.5
    assert measured_pace([took(600), *[took(100)] * 5], NOW).share == 0.6


def test_short_batches_those_without_copies_and_old_ones_do_not_count() -> None:
    assert measured_pace([], NOW) == UNKNOWN
    assert measured_pace([took(19, mb=1), (NOW, Copied())], NOW) == UNKNOWN
    assert measured_pace([took(1_000, days_ago=MEASUREMENT_KEPT.days)], NOW) == UNKNOWN
    assert Copied().plus(LEADERS_ONLY, 5, 10, {}) == Copied()


def test_time_in_which_nothing_moved_does_not_count() -> None:
    rates = rates_of(batch(600), 10 * MB, ())
    seen = Copied().plus(batch(600), 300 * MB, 40, rates).plus(batch(600), 0, 7_200, rates)
    seen = seen.plus(batch(600), -5 * MB, 3_600, rates).plus(batch(600), 300 * MB, 40, rates)
    assert measured_pace([(NOW, seen)], NOW).share == 0.75


def test_a_batch_is_measured_against_the_rates_that_were_in_force() -> None:
    """Half of it at 10 MB/s, half of it slowed to 1 MB/s, each at the whole rate: the next one is not slower."""
    whole, slow = (rates_of(batch(600), mb * MB, ()) for mb in (10, 1))
    seen = Copied().plus(batch(600), 300 * MB, 30, whole).plus(batch(600), 300 * MB, 300, slow)
    pace = measured_pace([(NOW, seen)], NOW)
    assert pace.share == 1
    assert seconds(batch(600), pace) == 60


def test_a_higher_rate_always_makes_the_estimate_shorter() -> None:
    pace = measured_pace([took(240)], NOW)
    assert [seconds(batch(600), pace, mb) for mb in (10, 20, 40)] == [240, 120, 60]


def test_one_broker_slowed_by_hand_slows_only_what_it_takes_part_in() -> None:
    slowed = RateChange(asked_bytes_per_second=MB, brokers=(4,))
    assert seconds(batch(600), UNKNOWN, 10, slowed) == 60
    assert seconds(TO_TWO, UNKNOWN, 10, slowed) == 60, "60 MB at 1 MB/s take as long as 600 MB at 10"
    slower = RateChange(asked_bytes_per_second=MB // 2, brokers=(4,))
    assert seconds(TO_TWO, UNKNOWN, 10, slower) == 120


def test_what_was_measured_with_a_slowed_broker_does_not_slow_the_others() -> None:
    slowed = [RateChange(asked_bytes_per_second=MB // 2, brokers=(4,))]
    seen = Copied().plus(TO_TWO, TO_TWO.bytes_to_copy, 120, rates_of(TO_TWO, 10 * MB, slowed))
    assert seconds(batch(600), measured_pace([(NOW, seen)], NOW)) == 60


def test_at_its_best_a_batch_is_without_what_passes_and_with_what_a_person_asked_for_a_single_broker() -> None:
    changes = [
        RateChange(asked_bytes_per_second=20 * MB),
        RateChange(asked_bytes_per_second=MB, rate_before_slowdown_bytes_per_second=20 * MB),
    ]

    def found(*more: RateChange) -> Estimate:
        return estimate(batch(600), Pace(share=0.1), asked_bytes_per_second=10 * MB, rate_changes=[*changes, *more])

    assert found() == Estimate(6_000 + OVERHEAD_SECONDS, 30 + OVERHEAD_SECONDS, 600 + OVERHEAD_SECONDS)
    slowed = found(RateChange(asked_bytes_per_second=2 * MB, brokers=(3,)))
    assert slowed.least_seconds == 300 + OVERHEAD_SECONDS
