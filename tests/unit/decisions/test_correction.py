"""Rates are set by what was copied, so that what was asked for is copied: never more, and nothing without a measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps_lab import move

from kafka_reassignment.decisions.correction import (
    AIM,
    GOOD_FROM,
    GOOD_TO,
    HIGHEST,
    LARGEST_LOWERING,
    LOWEST,
    corrected,
    corrections_due,
)
from kafka_reassignment.decisions.samples import Sample
from kafka_reassignment.decisions.throttle import BrokerRate, Journal, LowerRate, RateRecord, Side, throttle_for
from kafka_reassignment.decisions.throttle.journal import Earlier
from kafka_reassignment.model import Batch, PartitionState, View

pytestmark = pytest.mark.quick

MB = 1_000_000
ASKED = 10 * MB
BATCH = Batch(1, (move("orders", 0, (1, 2), (3, 2), 2_000 * MB), move("orders", 1, (1, 2), (3, 1), 2_000 * MB)))
WANTED = throttle_for(BATCH, asked_bytes_per_second=ASKED)
JOURNAL = Journal(
    rates=tuple(
        RateRecord(broker=r.broker, side=r.side, earlier=Earlier(), set_values=(str(ASKED),), was_in_place=True)
        for r in WANTED.rates
    )
)
VIEW = View(
    live_brokers=frozenset({1, 2, 3}),
    partitions={s.partition: PartitionState(s.reassignment.expanded, frozenset({1, 2}), 1) for s in BATCH.steps},
)


def sample(at: float, received: float, *, set_to: int = ASKED, size: float = 2_000 * MB) -> Sample:
    """Broker 3 has received this much of each partition."""
    sizes = {s.partition: {1: size, 2: size, 3: received} for s in BATCH.steps}
    return Sample(at, sizes, rates_set={(r.broker, r.side): set_to for r in WANTED.rates})


def factors(*samples: Sample, wanted=WANTED, journal: Journal = JOURNAL) -> dict[tuple[int, Side], float]:
    return {(c.broker, c.side): c.factor for c in corrections_due(BATCH, VIEW, samples, wanted, journal)}


RECEIVER, SENDER = (3, Side.FOLLOWER), (1, Side.LEADER)


def test_a_broker_that_received_less_than_asked_for_is_set_higher_and_so_is_its_sender_within_bounds():
    found = factors(sample(0, 0), sample(30, 30 * 4.7 * MB))  # twice 4.7 MB/s
    assert found == {RECEIVER: 1.03, SENDER: 1.03}
    follower, leader = BrokerRate(3, Side.FOLLOWER, ASKED, 1.03), BrokerRate(1, Side.LEADER, ASKED, 1.03)
    assert corrected(follower, 9.6 * MB) == 1.051
    assert corrected(leader, 9.6 * MB) == HIGHEST[Side.LEADER]


def test_a_broker_that_received_more_is_set_lower():
    assert factors(sample(0, 0), sample(30, 30 * 5.4 * MB))[RECEIVER] == round(AIM / 1.08, 3)


def test_more_than_a_throttle_lets_through_says_nothing_about_the_rate():
    """Another client had deleted the throttle for ten seconds: it would be set to half."""
    assert factors(sample(0, 0), sample(30, 30 * 14 * MB)) == {}
    assert factors(sample(0, 0), sample(30, 30 * 6 * MB)) == {}


def test_a_low_rate_that_one_fetch_exceeds_by_much_is_corrected_but_not_by_much_at_once():
    """At 1 MB/s, eleven seconds of the rate are about as much as one fetch."""
    wanted = throttle_for(BATCH, asked_bytes_per_second=MB)
    set_to = tuple(r.model_copy(update={"set_values": (str(MB),)}) for r in JOURNAL.rates)
    seen = [sample(0, 0, set_to=MB), sample(30, 30 * 0.62 * MB, set_to=MB)]
    journal = JOURNAL.model_copy(update={"rates": set_to})
    assert factors(*seen, wanted=wanted, journal=journal) == {RECEIVER: LARGEST_LOWERING, SENDER: LARGEST_LOWERING}


@pytest.mark.parametrize("led_by", [(2, 1, 1), (1, 2, 1), (1, 1, None)])
def test_what_a_leader_sent_that_won_or_lost_a_partition_meanwhile_is_not_known(led_by):
    """All that the new replica has grown by would be put down to the leader of now."""
    first = BATCH.steps[0].partition
    seen = [
        replace(sample(at, at * 4.5 * MB), leaders={} if broker is None else {first: broker})
        for at, broker in zip((0, 15, 30), led_by, strict=True)
    ]
    expected = {RECEIVER} if 2 in led_by else {RECEIVER, SENDER}
    assert factors(*seen).keys() == expected


def test_a_leader_that_lost_its_partition_to_nobody_is_not_known():
    gone = {s.partition: PartitionState(s.reassignment.expanded, frozenset({1, 2}), None) for s in BATCH.steps[:1]}
    view = replace(VIEW, partitions={**VIEW.partitions, **gone})
    leaders = {s.partition: 1 for s in BATCH.steps}
    seen = [replace(sample(at, at * 4.5 * MB), leaders=leaders) for at in (0, 30)]
    assert SENDER not in {(c.broker, c.side) for c in corrections_due(BATCH, view, seen, WANTED, JOURNAL)}


def test_a_rate_that_is_reached_and_one_that_does_not_limit_are_left():
    assert factors(sample(0, 0), sample(30, 30 * 4.95 * MB)) == {}
    assert factors(sample(0, 0), sample(30, 30 * 2 * MB)) == {}


def test_what_a_broker_got_before_it_died_is_not_known_and_says_nothing_about_its_sender():
    def one_lost(at: float, received: float) -> Sample:
        whole = sample(at, received)
        first, second = (s.partition for s in BATCH.steps)
        sizes = {first: whole.sizes[first], second: {1: 2_000 * MB, 2: 2_000 * MB}}
        return replace(whole, sizes=sizes, earlier_sizes={second: {3: received}})

    assert factors(sample(0, 0), one_lost(30, 30 * 9.4 * MB)) == {}
    assert factors(one_lost(0, 0), one_lost(30, 30 * 9.4 * MB)) == {RECEIVER: 1.03, SENDER: 1.03}


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [sample(0, 0)],
        [sample(0, 0), sample(21, 21 * 4 * MB)],
        [sample(0, 0, set_to=5 * MB), sample(11, 11 * 4 * MB), sample(30, 30 * 4 * MB)],
        [sample(0, 1_900 * MB), sample(30, 1_995 * MB)],
        [sample(0, 0), replace(sample(30, 30 * 4 * MB), unreachable={3: "down"})],
    ],
    ids=["none", "one", "too short", "the rate was changed meanwhile", "it ran out of data", "a broker is away"],
)
def test_nothing_is_corrected_without_a_measurement_at_this_rate(samples):
    assert RECEIVER not in factors(*samples)


def test_a_rate_of_another_client_and_one_that_is_not_in_place_are_left():
    measured = [sample(0, 0), sample(30, 30 * 4 * MB)]
    assert RECEIVER in factors(*measured)
    theirs = (LowerRate(broker=3, side=Side.FOLLOWER, bytes_per_second=9 * MB),)
    assert RECEIVER not in factors(*measured, journal=JOURNAL.model_copy(update={"lower_rates": theirs}))
    not_yet = tuple(r.model_copy(update={"was_in_place": False}) for r in JOURNAL.rates)
    assert factors(*measured, journal=JOURNAL.model_copy(update={"rates": not_yet})) == {}


@given(
    share=st.floats(0.5, 1.4),
    side=st.sampled_from(list(Side)),
    asked=st.integers(MB, 500 * MB),
    begin=st.floats(LOWEST, 1.03),
)
def test_whatever_share_of_a_rate_arrives_the_corrections_settle_on_what_was_asked_for(share, side, asked, begin):
    """Also where what was measured before was disturbed, so that the rate is set to half."""
    rate = BrokerRate(3, side, asked, begin)
    before = None
    for _ in range(40):
        before, rate = rate, replace(rate, factor=corrected(rate, share * rate.set_bytes_per_second))
        assert rate.factor <= HIGHEST[side]
        assert rate.factor <= before.factor * 1.03 + 0.001, "no raise from which brokers burst"
        assert rate.factor >= before.factor * LARGEST_LOWERING - 0.001
    arrives = share * rate.set_bytes_per_second / asked
    assert rate.factor == pytest.approx(before.factor, abs=0.002), "it has settled"
    assert GOOD_FROM - 0.01 <= arrives <= GOOD_TO or rate.factor == round(HIGHEST[side], 3)
