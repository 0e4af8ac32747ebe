"""What brokers copied lately counts in their quotas for eleven seconds: the next batch begins at a rate that has room above it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.steps_lab import move

from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS, QuotaUse, quota_uses, used_up
from kafka_reassignment.decisions.raising import Raise, partly_raised
from kafka_reassignment.decisions.samples import Sample
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, BrokerRate, Journal, RateRecord, Side
from kafka_reassignment.decisions.throttle.journal import Earlier
from kafka_reassignment.model import (
    Batch,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    PartitionState,
    View,
)

pytestmark = pytest.mark.quick

MB = 1_000_000
RATE = 11 * MB
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BATCH = Batch(1, (move("orders", 0, (1, 2), (3, 2), 900 * MB), move("orders", 1, (1, 2), (4, 1), 900 * MB)))
VIEW = View(
    live_brokers=frozenset({1, 2, 3, 4}),
    partitions={s.partition: PartitionState(s.reassignment.expanded, frozenset({1, 2}), 1) for s in BATCH.steps},
)


def sample(at: float, *received: float, unreachable: int | None = None, rate: int | None = None) -> Sample:
    """Brokers 3 and 4 have received this much of their partition of 900 MB."""
    sizes = {
        s.partition: {1: 900 * MB, 2: 900 * MB, broker: have}
        for s, broker, have in zip(BATCH.steps, (3, 4), received, strict=True)
    }
    rates = {} if rate is None else {(b, side): rate for b in (1, 3, 4) for side in Side}
    return Sample(at, sizes, unreachable={} if unreachable is None else {unreachable: "away"}, rates_set=rates)


def uses(*samples: Sample, submitted: float | None = None) -> dict[tuple[int, Side], QuotaUse]:
    at = None if submitted is None else NOW - timedelta(seconds=submitted)
    return {(u.broker, u.side): u for u in quota_uses(BATCH, VIEW, samples, NOW, at)}


def test_each_side_has_its_speed_and_goes_on_until_nothing_is_left():
    found = uses(sample(100, 800 * MB, 600 * MB), sample(110, 880 * MB, 700 * MB))
    assert {key: round(u.bytes_per_second / MB, 3) for key, u in found.items()} == {
        (1, Side.LEADER): 18,
        (3, Side.FOLLOWER): 8,
        (4, Side.FOLLOWER): 10,
    }
    assert found[3, Side.FOLLOWER].until == NOW + timedelta(seconds=2.5)
    assert found[4, Side.FOLLOWER].until == NOW + timedelta(seconds=20)


def test_what_a_broker_copied_ends_when_it_had_all():
    found = uses(sample(100, 880 * MB, 0), sample(102, 900 * MB, 20 * MB), sample(106, 900 * MB, 60 * MB))
    assert found[3, Side.FOLLOWER] == QuotaUse(
        broker=3, side=Side.FOLLOWER, bytes_per_second=10 * MB, until=NOW - timedelta(seconds=4)
    )
    assert found[4, Side.FOLLOWER].bytes_per_second == 10 * MB


def test_samples_are_as_old_as_the_quota_counts_or_the_two_last():
    long_ago, lately = sample(0, 0, 0), sample(100, 100 * MB, 100 * MB)
    assert uses(long_ago, lately, sample(105, 150 * MB, 150 * MB))[3, Side.FOLLOWER].bytes_per_second == 10 * MB
    assert uses(long_ago, lately)[3, Side.FOLLOWER].bytes_per_second == MB


def test_one_sample_is_compared_with_nothing_at_all_when_the_copies_were_submitted():
    found = uses(sample(100, 200 * MB, 100 * MB), submitted=20)
    assert {key: u.bytes_per_second / MB for key, u in found.items()} == {
        (1, Side.LEADER): 15,
        (3, Side.FOLLOWER): 10,
        (4, Side.FOLLOWER): 5,
    }
    assert found[3, Side.FOLLOWER].until == NOW + timedelta(seconds=70)
    assert uses(sample(100, 0, 100 * MB, unreachable=3), submitted=20).keys() == {(4, Side.FOLLOWER)}
    assert uses(sample(100, 200 * MB, 0), submitted=0) == {}
    assert uses(sample(100, 900 * MB, 0), submitted=90).keys() == {(1, Side.LEADER)}, (
        "3 has all, since when nobody knows"
    )


def test_what_grew_faster_than_its_rate_since_it_was_submitted_had_something_before():
    found = uses(sample(100, 400 * MB, 240 * MB, rate=10 * MB), submitted=20)
    assert {key: u.bytes_per_second / MB for key, u in found.items()} == {(4, Side.FOLLOWER): 10}


@pytest.mark.parametrize("samples", [(), (sample(100, 0, 0),), (sample(100, 5, 5), sample(101, 5, 5))])
def test_nothing_is_known_without_two_samples_or_without_growth(samples):
    assert uses(*samples) == {}


def test_nothing_is_known_of_a_broker_that_did_not_answer_nor_of_its_sender():
    found = uses(sample(100, 800 * MB, 600 * MB), sample(110, 800 * MB, 700 * MB, unreachable=3))
    assert found.keys() == {(4, Side.FOLLOWER)}


def test_nothing_is_known_of_what_two_leaders_sent_one_after_the_other():
    first = BATCH.steps[0].partition
    before, now = sample(100, 800 * MB, 600 * MB), sample(110, 880 * MB, 700 * MB)
    found = uses(replace(before, leaders={first: 2}), replace(now, leaders={first: 1}))
    assert found.keys() == {(3, Side.FOLLOWER), (4, Side.FOLLOWER)}


def test_bytes_leave_the_window_second_by_second():
    use = QuotaUse(broker=3, side=Side.FOLLOWER, bytes_per_second=10 * MB, until=NOW)
    counted = [use.bytes_counted(NOW + timedelta(seconds=s)) / MB for s in (-5, 0, 1, 10, 11, 900)]
    assert counted == [110, 110, 100, 10, 0, 0]


def at_once(speed: float, seconds_ago: float) -> dict[str, int]:
    use = QuotaUse(broker=3, side=Side.FOLLOWER, bytes_per_second=speed, until=NOW - timedelta(seconds=seconds_ago))
    rates = [BrokerRate(3, Side.FOLLOWER, RATE), BrokerRate(4, Side.FOLLOWER, RATE)]
    return {f"{r.name} {key}": v for (r, key), v in used_up(rates, [use], NOW).items()}


@pytest.mark.parametrize(
    ("speed", "seconds_ago", "rate"),
    [(RATE, 5, 6.5 * MB), (RATE, 0.5, RATE), (RATE, 10, 1.5 * MB), (2 * RATE, 3, RATE)],
)
def test_half_a_second_of_a_rate_is_left_above_what_is_counted_and_never_more_than_the_rate(speed, seconds_ago, rate):
    assert at_once(speed, seconds_ago) == {f"3 {FOLLOWER_RATE}": rate}


def test_what_is_not_counted_any_more_is_not_known():
    assert at_once(RATE, 11) == {}


@pytest.mark.parametrize("pause", range(1, QUOTA_SECONDS))
def test_a_broker_copies_at_once_at_its_rate_whatever_the_pause_and_does_not_burst(pause):
    """A broker as Kafka has them: it copies while what it copied in ``QUOTA_SECONDS`` is below its rate."""
    step = 10  # parts of a second
    counted = [RATE / step] * (QUOTA_SECONDS * step - pause * step) + [0.0] * (pause * step)
    three, whole = ConfigResource.broker(3), BrokerRate(3, Side.FOLLOWER, RATE)
    record = RateRecord(
        broker=3, side=Side.FOLLOWER, earlier=Earlier(), set_values=(str(RATE // 11),), was_in_place=True
    )
    change = ConfigChange(three, FOLLOWER_RATE, ConfigOperation.SET, str(RATE))
    use = QuotaUse(broker=3, side=Side.FOLLOWER, bytes_per_second=RATE, until=NOW - timedelta(seconds=pause))
    room = used_up([whole], [use], NOW)
    for second in range(QUOTA_SECONDS):
        under_way = {(three, FOLLOWER_RATE): Raise(RATE // 11, RATE, first_part=1)}
        _, (part,) = partly_raised(Journal(rates=(record,)), [change], under_way, second + 1, room)
        for _ in range(step):
            window = counted[-QUOTA_SECONDS * step :]
            counted.append(max(0.0, int(part.value) * QUOTA_SECONDS - sum(window)))
    new = counted[-QUOTA_SECONDS * step :]
    assert new[0] > 0
    assert sum(new[:step]) == pytest.approx(RATE, rel=0.55)
    assert sum(new) >= 0.88 * QUOTA_SECONDS * RATE
    assert max(sum(new[i : i + 2 * step]) for i in range(len(new))) <= 1.5 * 2 * RATE
