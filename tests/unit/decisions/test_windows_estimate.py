"""How long a batch takes."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.windows.estimate import OVERHEAD_SECONDS, Finished, batch_seconds, measured_speed
from kafka_reassignment.model import Batch, Reassignment, Step, TopicPartition

pytestmark = pytest.mark.quick

MB = 1_000_000


def batch(*sizes_mb: int) -> Batch:
    """Everything goes from broker 1 to broker 3."""
    return Batch(
        1,
        tuple(
            Step(Reassignment(TopicPartition("orders", i), (1, 2), (3, 2), mb * MB)) for i, mb in enumerate(sizes_mb)
        ),
    )


LEADERS_ONLY = Batch(1, (Step(Reassignment(TopicPartition("orders", 0), (1, 2), (2, 1), 500 * MB)),))


def took(seconds: float, mb: int = 600, rate_mb: int | None = 10) -> Finished:
    """A batch whose copying took so long."""
    return Finished(batch(mb), seconds + OVERHEAD_SECONDS, None if rate_mb is None else rate_mb * MB)


def test_the_busiest_broker_at_the_lower_of_both_speeds_and_overhead() -> None:
    both = batch(400, 200)
    assert batch_seconds(both, asked_bytes_per_second=10 * MB) == 60 + OVERHEAD_SECONDS
    assert (
        batch_seconds(both, asked_bytes_per_second=10 * MB, measured_bytes_per_second=6.0 * MB)
        == 100 + OVERHEAD_SECONDS
    )
    assert (
        batch_seconds(both, asked_bytes_per_second=10 * MB, measured_bytes_per_second=60.0 * MB)
        == 60 + OVERHEAD_SECONDS
    )
    assert (
        batch_seconds(both, asked_bytes_per_second=None, measured_bytes_per_second=60.0 * MB) == 10 + OVERHEAD_SECONDS
    )


def test_unthrottled_and_never_measured_it_is_unknown_unless_nothing_is_copied() -> None:
    assert batch_seconds(batch(600), asked_bytes_per_second=None) is None
    assert batch_seconds(LEADERS_ONLY, asked_bytes_per_second=None) == OVERHEAD_SECONDS
    assert batch_seconds(LEADERS_ONLY, asked_bytes_per_second=10 * MB) == OVERHEAD_SECONDS


def test_the_speed_is_the_median_of_the_latest_five() -> None:
    """A batch held up for hours by a dead broker must not keep the next one out of every window."""
    assert measured_speed([took(100), took(10_000), took(120)], asked_bytes_per_second=10 * MB) == 5 * MB
    latest = [took(600), *[took(100)] * 5]
    assert measured_speed(latest, asked_bytes_per_second=10 * MB) == 6 * MB


def test_short_batches_and_those_without_copies_do_not_count() -> None:
    assert measured_speed([], asked_bytes_per_second=10 * MB) is None
    assert measured_speed([took(19, mb=1)], asked_bytes_per_second=10 * MB) is None
    assert measured_speed([Finished(LEADERS_ONLY, 1_000)], asked_bytes_per_second=10 * MB) is None


def test_a_batch_limited_by_a_lower_rate_says_nothing_about_a_higher_one() -> None:
    """600 MB in 60 s is all that 10 MB/s allow; in 120 s something else was in the way."""
    assert measured_speed([took(60)], asked_bytes_per_second=20 * MB) is None
    assert measured_speed([took(60)], asked_bytes_per_second=None) is None
    assert measured_speed([took(60)], asked_bytes_per_second=10 * MB) == 10 * MB
    assert measured_speed([took(120)], asked_bytes_per_second=20 * MB) == 5 * MB
    assert measured_speed([took(60, rate_mb=None)], asked_bytes_per_second=20 * MB) == 10 * MB
