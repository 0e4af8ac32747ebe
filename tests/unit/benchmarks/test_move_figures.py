"""What the samples of a measured move say."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.move_figures import (
    Latency,
    Replica,
    Sample,
    busiest,
    copies,
    extra_bytes,
    figures,
    gaps,
    medians,
    per_broker,
    producing,
    quantile,
)
from hypothesis import given
from hypothesis import strategies as some

pytestmark = pytest.mark.quick

MB = 1_000_000
START = [(1, 2), (2, 1)]


def sample(at, new=(), old=10 * MB):
    """Both partitions are on brokers 1 and 2; ``new`` are the sizes of the first, second … partition on broker 3."""
    sizes = {Replica(p, b): old for p, brokers in enumerate(START) for b in brokers}
    return Sample(at, sizes | {Replica(p, 3): size for p, size in enumerate(new) if size is not None})


ONE_AFTER_THE_OTHER = [
    sample(0),
    sample(1, [0]),
    sample(2, [4 * MB]),
    sample(3, [10 * MB]),
    sample(4, [10 * MB + 5_000], old=10 * MB + 5_000),  # the producer's bytes
    sample(8, [10 * MB, 5 * MB]),
    sample(9, [10 * MB, 10 * MB]),
    sample(20, [10 * MB, 10 * MB]),
]


def test_a_copy_lasts_from_its_first_byte_until_it_has_caught_up():
    first, second = copies(ONE_AFTER_THE_OTHER, START)

    assert (first.replica, first.leader, first.first, first.last) == (Replica(0, 3), 1, 2, 3)
    assert (second.replica, second.leader, second.first, second.last) == (Replica(1, 3), 2, 8, 9)
    assert first.sizes[-1] == 10 * MB, "what a producer writes afterwards is not copied"


def test_a_copy_ends_although_its_leader_is_dropped():
    seen = [sample(0), sample(1, [9 * MB]), Sample(2, {Replica(0, 2): 10 * MB, Replica(0, 3): 10 * MB})]

    assert [copy.last for copy in copies(seen, START)] == [2]


def test_a_copy_that_never_caught_up_lasts_until_the_last_sample():
    assert [copy.last for copy in copies([sample(0), sample(1, [MB]), sample(2, [2 * MB])], START)] == [2]


def test_the_figures_of_a_move():
    latencies = [Latency(-3, 2.0), Latency(1, 4.0), Latency(2, 400.0), Latency(30, 9_000.0)]

    found = figures(ONE_AFTER_THE_OTHER, START, 2.0 * MB, latencies, end_seconds=12, requests=40)
    assert found.requests_per_minute == 200

    assert (found.first_byte_seconds, found.last_byte_seconds, found.copy_seconds) == (2, 9, 7)
    assert found.to_bound == pytest.approx(7 / 10)  # 20 MB at 2 MB/s
    assert found.gaps == (5,)
    assert found.moved_bytes == 20 * MB
    assert found.receiver_2s == pytest.approx((10 / 2) / 2)
    assert found.receiver_30s == pytest.approx((20 / 30) / 2)
    assert found.extra_disk == 1
    assert (found.before.p50_ms, found.during.longest_ms, found.during.late_share) == (2.0, 400.0, 0.5)


def test_nothing_moved_has_no_figures():
    with pytest.raises(ValueError, match="nothing was moved"):
        figures([sample(0), sample(1)], START, MB, [], 1, 0)


def test_the_busiest_window_may_begin_between_two_samples():
    times = [0.0, 1.0, 4.0, 5.0]
    sizes = np.array([0.0, 0.0, 30.0, 30.0])

    assert busiest(times, [sizes], 2) == pytest.approx(10)
    assert busiest(times, [sizes], 4) == pytest.approx(30 / 4)
    assert busiest(times, [np.zeros(4), sizes], 30) == pytest.approx(1)


@given(some.lists(some.tuples(some.floats(0.1, 5), some.floats(0, 100)), min_size=1, max_size=20), some.floats(0.5, 40))
def test_no_window_is_busier_than_the_busiest(steps, seconds):
    times = np.cumsum([0.0, *(length for length, _ in steps)])
    sizes = np.cumsum([0.0, *(grown for _, grown in steps)])
    most = busiest(times.tolist(), [sizes], seconds)

    for begin in np.linspace(-seconds, times[-1], 50):
        grown = np.interp(begin + seconds, times, sizes) - np.interp(begin, times, sizes)
        assert grown / seconds <= most + 1e-6


@pytest.mark.parametrize(
    ("spans", "idle"),
    [
        ([], ()),
        ([(1, 2)], ()),
        ([(1, 3), (2, 4)], ()),
        ([(5, 6), (1, 2), (2.5, 3)], (0.5, 2)),
        ([(0, 10), (2, 3), (11, 12)], (1,)),
    ],
)
def test_gaps_are_what_no_span_covers(spans, idle):
    assert gaps(spans) == idle


def test_extra_disk_is_what_is_beyond_the_replication_factor():
    assert extra_bytes(sample(0), START) == 0
    assert extra_bytes(sample(0, [4 * MB, 7 * MB]), START) == 11 * MB
    assert extra_bytes(Sample(0, {Replica(0, 1): 5, Replica(0, 3): 5}), START) == 0


def test_bytes_of_copies_add_up_by_broker():
    found = copies(ONE_AFTER_THE_OTHER, START)

    assert per_broker(found, lambda copy: copy.replica.broker)[3].tolist()[-3:] == [15 * MB, 20 * MB, 20 * MB]
    assert sorted(per_broker(found, lambda copy: copy.leader)) == [1, 2]


def test_quantiles_are_values_that_were_measured():
    assert [quantile([1, 2, 3, 4], share) for share in (0, 0.5, 0.51, 0.99, 1)] == [1, 2, 3, 4, 4]
    assert math.isnan(producing([]).p99_ms)


def test_medians_take_each_figure_by_itself():
    one = figures(ONE_AFTER_THE_OTHER, START, MB, [], 12, 40)
    several = [one, replace(one, end_seconds=20, gaps=(1, 2)), replace(one, end_seconds=13, gaps=())]

    found = medians(several)

    assert (found["end_seconds"], found["gap_count"], found["gap_seconds"]) == (13, 1, 2)
    assert "during_p50_ms" in found
