"""When auto rate lowers the rate, when it raises it, and when it leaves it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_reassignment.decisions.auto_rate import (
    CALM_SECONDS,
    RAISE_SECONDS,
    RateWatch,
    Signals,
    decide_rate,
    out_of_sync,
    reachable_rates,
    when_calm,
)
from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS
from kafka_reassignment.decisions.throttle import Journal, RateChange, Side
from kafka_reassignment.model import PartitionState, TopicPartition
from kafka_reassignment.request import parse_request
from kafka_reassignment.request.auto_rate import AutoRate

pytestmark = pytest.mark.quick

MB = 1_000_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AUTO = AutoRate(auto_rate=True, canary_topic="canary", watched_groups=("billing",), lag_growth_messages=1000)
SLOW = Signals(slow=(0.6, 0.8), lags={"billing": 0}, out_of_sync={1: 0})
CALM = Signals(lags={"billing": 0}, out_of_sync={1: 0})


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def watch(seconds=0.0, *, calm=0.0, lag=0, behind=None):
    return RateWatch(
        at=at(seconds), calm_since=at(calm), lowest_lags={"billing": lag}, out_of_sync={1: 0} if behind is None else behind
    )  # fmt: skip


def decide(signals, *, in_force=10, changed=None, before=None, now=15.0, auto=AUTO):
    return decide_rate(auto, 10 * MB, in_force * MB, None if changed is None else at(changed), signals, before, at(now))


def test_a_look_that_sees_no_partitions_forgets_none_that_were_behind():
    unseen = decide(
        Signals(not_seen=("the partitions of the cluster are not seen: no answer",)), before=watch(behind={1: 2})
    )
    assert unseen.bytes_per_second is None
    assert unseen.because.startswith("not raised: the partitions of the cluster are not seen")
    assert "broker 1: 3" in decide(Signals(out_of_sync={1: 5}), before=unseen.watch, now=30.0).because


@pytest.mark.parametrize(
    ("signals", "why"),
    [
        (SLOW, "canary messages took longer than 500 ms 2 times, up to 800 ms"),
        (Signals(lags={"billing": 1001}), "the lag of group billing grew by 1001 messages to 1001"),
        (Signals(out_of_sync={1: 2}), r"2 replicas left the ISR of partitions that do not move \(broker 1: 2\)"),
    ],
    ids=["produce latency", "lag", "ISR"],
)
def test_each_signal_lowers_the_rate_in_the_look_that_sees_it(signals, why):
    found = decide(signals, before=watch())
    assert found.bytes_per_second == 7 * MB
    assert re.fullmatch(why, found.because)
    assert found.watch.calm_since == at(15)


def test_one_slow_round_is_no_pressure():
    assert decide(Signals(slow=(5.0,)), before=watch(85), now=100).bytes_per_second == 10_909_090


def test_a_change_is_given_time_to_show_its_effect():
    found = decide(SLOW, in_force=7, changed=8, now=15, before=watch(lag=5))
    assert (found.bytes_per_second, found.watch.calm_since) == (None, at(15))
    assert decide(SLOW, in_force=7, changed=4, now=15, before=watch()).bytes_per_second == 4_900_000


def test_what_grew_before_the_change_settled_still_counts_afterwards():
    grown = Signals(lags={"billing": 5000}, out_of_sync={1: 3})
    early = decide(grown, changed=8, now=15, before=watch())
    assert early.bytes_per_second is None
    later = decide(grown, changed=8, now=25, before=early.watch)
    assert later.bytes_per_second == 7 * MB
    assert "grew by 5000" in later.because
    assert "3 replicas" in later.because


def test_growth_counts_once():
    grown = Signals(lags={"billing": 5000}, out_of_sync={1: 0})
    first = decide(grown, before=watch())
    assert first.bytes_per_second == 7 * MB
    assert decide(grown, in_force=7, changed=15, now=30, before=first.watch).bytes_per_second is None


def test_slow_growth_counts_when_it_is_enough():
    before, found = watch(), None
    for look, lag in enumerate((400, 800, 1200), 1):
        found = decide(Signals(lags={"billing": lag}, out_of_sync={1: 0}), before=before, now=15 * look)
        before = found.watch
    assert found.bytes_per_second == 7 * MB


@pytest.mark.parametrize(
    ("calm", "changed", "raised"), [(60, 30, True), (59, 30, False), (60, 29, False), (90, 90, True)]
)
def test_it_is_raised_after_a_minute_of_calm_and_half_a_minute_after_the_last_change(calm, changed, raised):
    now = 200
    found = decide(CALM, before=watch(now - 15, calm=now - calm), changed=now - changed, now=now)
    assert found.bytes_per_second == (10_909_090 if raised else None)


def test_a_raise_is_so_small_that_it_makes_no_burst():
    now = 100
    for rate in (1, 3, 7, 13):
        found = decide(CALM, in_force=rate, before=watch(now - 15), now=now)
        assert (found.bytes_per_second - rate * MB) * QUOTA_SECONDS <= found.bytes_per_second


@pytest.mark.parametrize(
    "restless",
    [
        Signals(lags={"billing": 0}, out_of_sync={1: 2}),
        Signals(out_of_sync={1: 0}, not_seen=("the lag of group billing is not seen: away",)),
    ],
    ids=["replicas still out of sync", "a signal that is not seen"],
)
def test_it_is_not_raised_while_something_is_not_as_it_should_be(restless):
    found = decide(restless, before=watch(85, behind={1: 2}), now=100)
    assert (found.bytes_per_second, found.watch.calm_since) == (None, at(100))
    assert found.because.startswith("not raised: ")


def test_after_a_restart_without_a_watch_calm_begins_anew():
    assert decide(CALM, before=None, now=100).watch.calm_since == at(100)
    assert decide(CALM, before=watch(-200, calm=-500), now=100).bytes_per_second is None


def test_it_stays_at_its_bounds():
    assert decide(SLOW, in_force=2.5, before=watch()).because.endswith("it is at its lowest")
    assert decide(SLOW, in_force=3, before=watch()).bytes_per_second == 2_500_000
    assert decide(CALM, in_force=20, before=watch(85), now=100).because == "it is at its highest"
    assert decide(CALM, in_force=19, before=watch(85), now=100).bytes_per_second == 20_000_000


looks = st.lists(
    st.tuples(st.sampled_from([5, 15, 40, 300]), st.booleans(), st.integers(0, 5000), st.integers(0, 3), st.booleans()),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(looks)
def test_whatever_is_seen_it_stays_in_bounds_lowers_at_most_each_eleven_seconds_and_raises_only_after_calm(seen):
    rate, changed, before, now, last_bad = 10 * MB, None, None, 0.0, 0.0
    for seconds, slow, lag, behind, is_blind in seen:
        now += seconds
        signals = Signals((0.9, 0.9) if slow else (), {"billing": lag}, {1: behind}, ("away",) if is_blind else ())
        found = decide_rate(AUTO, 10 * MB, rate, changed, signals, before, at(now))
        last_bad = now if slow or is_blind or behind else last_bad
        if found.bytes_per_second is not None:
            assert found.bytes_per_second != rate
            assert 2_500_000 <= found.bytes_per_second <= 20 * MB
            since = 1000 if changed is None else (at(now) - changed).total_seconds()
            if found.bytes_per_second > rate:
                assert now - last_bad >= CALM_SECONDS
                assert since >= RAISE_SECONDS
            else:
                assert since >= QUOTA_SECONDS
            rate, changed = found.bytes_per_second, at(now)
        before = found.watch


def test_only_replicas_of_live_brokers_and_of_partitions_that_do_not_move_are_out_of_sync():
    def state(*isr):
        return PartitionState((1, 2, 3), frozenset(isr), 1)

    rests, moves, dead = (TopicPartition("t", n) for n in range(3))
    partitions = {rests: state(1, 3), moves: state(1), dead: state(1, 2)}
    assert out_of_sync(partitions, {moves}, {1, 2}) == {1: 0, 2: 1}


def test_a_broker_that_comes_back_was_not_counted_before():
    found = decide(Signals(lags={"billing": 0}, out_of_sync={1: 0, 2: 500}), before=watch(behind={1: 0}))
    assert found.bytes_per_second is None


def test_a_batch_can_finish_if_it_could_at_the_highest_rate():
    auto = parse_request({"job": "rebalance", "throttle_mb_per_second": 10, "auto_rate": True, "canary_topic": "c"})
    plain = parse_request({"job": "rebalance", "throttle_mb_per_second": 10})
    end = (Side.FOLLOWER, 3)
    assert reachable_rates(auto, Journal(), [end]) == {end: 20 * MB}
    assert reachable_rates(auto, Journal(rate_set_by_hand=True), [end]) == {end: 10 * MB}
    assert reachable_rates(plain, Journal(), [end]) == {end: 10 * MB}


def test_a_broker_that_a_roll_back_protects_gets_no_more_at_the_highest_rate():
    auto = parse_request({"job": "rebalance", "throttle_mb_per_second": 10, "auto_rate": True, "canary_topic": "c"})
    cap = RateChange(asked_bytes_per_second=MB, brokers=(4,), because="as before")
    ends = [(Side.FOLLOWER, 3), (Side.FOLLOWER, 4)]
    assert list(reachable_rates(auto, Journal(rate_changes=(cap,)), ends).values()) == [20 * MB, MB]


def test_what_it_has_lowered_below_the_requested_rate_passes_and_nothing_else_does():
    auto = parse_request({"job": "rebalance", "throttle_mb_per_second": 10, "auto_rate": True})
    plain = parse_request({"job": "rebalance", "throttle_mb_per_second": 10})
    slowdown = RateChange(asked_bytes_per_second=2 * MB, rate_before_slowdown_bytes_per_second=7 * MB)
    cap = RateChange(asked_bytes_per_second=MB, brokers=(4,), because="as before")
    lowered, same, raised = (RateChange(asked_bytes_per_second=mb * MB, because="auto rate") for mb in (7, 10, 15))

    def left(*changes, request=auto, **fields):
        return when_calm(request, Journal(rate_changes=changes, **fields)).rate_changes

    assert left(lowered) == ()
    assert left(cap, lowered, slowdown) == (cap, slowdown), "a slow-down after it hides nothing"
    assert left(same) == (same,)
    assert left(raised) == (raised,)
    assert left(lowered, rate_set_by_hand=True) == left(lowered, request=plain) == (lowered,)
