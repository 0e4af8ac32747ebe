"""A raise in parts: each rate has its own way up, and no part of it is a jump."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS
from kafka_reassignment.decisions.raising import Raise, Raises, raises
from kafka_reassignment.decisions.throttle import LEADER_RATE, Journal, RateRecord, Side
from kafka_reassignment.decisions.throttle.journal import Earlier
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ConfigValue

pytestmark = pytest.mark.quick

ONE, TWO = ConfigResource.broker(1), ConfigResource.broker(2)


def found(wholes: dict[ConfigResource, int], seen: dict[ConfigResource, int], earlier: Raises, part: int) -> Raises:
    """Return the raises at a part, by broker: to these rates, from what is seen."""
    changes = [ConfigChange(r, LEADER_RATE, ConfigOperation.SET, str(whole)) for r, whole in wholes.items()]
    shown = {r: {LEADER_RATE: ConfigValue(str(rate), ConfigSource.DYNAMIC_BROKER)} for r, rate in seen.items()}
    return raises(changes, shown, Journal(), earlier, part)


@pytest.mark.parametrize("set_here", [True, False])
def test_where_a_broker_hides_its_rate_a_raise_begins_at_what_was_set_last(set_here: bool) -> None:
    """Kafka 2.4 and 2.5: every raise was done at once."""
    record = RateRecord(broker=1, side=Side.LEADER, earlier=Earlier(), set_values=("20", "10"))
    hidden = {ONE: {LEADER_RATE: ConfigValue(None, ConfigSource.DYNAMIC_BROKER)}} if set_here else {}
    changes = [ConfigChange(ONE, LEADER_RATE, ConfigOperation.SET, "20")]
    found = raises(changes, hidden, Journal(rates=(record,)), {}, 1)
    assert found == ({(ONE, LEADER_RATE): Raise(10, 20, 1)} if set_here else {})


def test_a_raise_goes_on_from_where_it_began_and_ends_after_the_seconds_of_the_quota() -> None:
    first = found({ONE: 20}, {ONE: 10}, {}, 1)
    assert first == {(ONE, LEADER_RATE): Raise(10, 20, 1)}
    assert found({ONE: 20}, {ONE: 19}, first, 10) == first
    [raised] = first.values()
    assert [raised.done_with(part) for part in (1, QUOTA_SECONDS - 1, QUOTA_SECONDS, QUOTA_SECONDS + 1)] == [
        1 / 11,
        10 / 11,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("wholes", "seen", "expected"),
    [
        ({ONE: 50}, {ONE: 10}, {ONE: Raise(10, 50, 8)}),
        ({ONE: 20}, {ONE: 5}, {ONE: Raise(5, 20, 8)}),
        ({ONE: 20, TWO: 20}, {ONE: 17, TWO: 2}, {ONE: Raise(10, 20, 1), TWO: Raise(2, 20, 8)}),
        ({ONE: 18}, {ONE: 17}, {}),
        ({}, {}, {}),
    ],
    ids=["another rate", "set lower since", "a broker joins", "little is left to another rate", "nothing is left"],
)
def test_what_is_raised_further_or_later_has_its_own_first_part(
    wholes: dict[ConfigResource, int], seen: dict[ConfigResource, int], expected: dict[ConfigResource, Raise]
) -> None:
    earlier = found({ONE: 20}, {ONE: 10}, {}, 1)
    assert found(wholes, seen, earlier, 8) == {(r, LEADER_RATE): its for r, its in expected.items()}
