"""Checks of the brokers that a request leads to."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.brokers import check_racks_left, check_way_back
from kafka_reassignment.errors import InfeasiblePlanError, UnknownBrokerError
from kafka_reassignment.model import InFlight, PartitionState, Reassignment, Replicas, TopicPartition, View

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 0)
BACK = Reassignment(P, (3, 4), (1, 2))
"""A roll back to brokers of which 1 is down."""


def seen(replicas: Replicas, in_flight: InFlight | None = None) -> View:
    state = PartitionState(replicas, frozenset(replicas), replicas[0])
    return View(frozenset({2, 3, 4, 5}), {P: state}, {P: in_flight} if in_flight else {})


@pytest.mark.parametrize(
    "now",
    [
        seen((3, 4)),
        seen((2, 4)),
        seen((1, 3, 4), InFlight((1, 3, 4), (1,), ())),
    ],
    ids=["moved", "half-way", "in flight there, until it is cancelled"],
)
def test_no_replica_goes_back_to_a_broker_that_is_down(now: View) -> None:
    with pytest.raises(
        UnknownBrokerError, match=r"would copy 1 partitions \(orders-0\) to broker 1, expected .* alive \(2, 3, 4, 5\)"
    ):
        check_way_back([BACK], now)


@pytest.mark.parametrize(
    "now",
    [seen((1, 2)), seen((1, 3)), seen((5, 4)), View(frozenset({2}), {})],
    ids=["back already", "its replica is there still", "moved elsewhere by others", "deleted"],
)
def test_what_copies_nothing_to_it_is_let_through(now: View) -> None:
    check_way_back([BACK], now)


RACKS = {1: "a", 2: "b", 3: "c", 4: "a"}


def test_a_rack_is_not_emptied_where_replicas_could_no_longer_be_on_distinct_racks() -> None:
    with pytest.raises(
        InfeasiblePlanError, match=r"rack 'c' would have no live broker left, and 2 of 3 racks are too few"
    ):
        check_racks_left(RACKS, [3], 3)
    with pytest.raises(InfeasiblePlanError, match=r"and 1 of 2 racks are too few for partitions with 3 replicas"):
        check_racks_left({1: "a", 2: "b", 3: "b"}, [1], 3)


@pytest.mark.parametrize(
    ("rack_of", "leaving", "most_replicas"),
    [
        (RACKS, [3], 2),
        (RACKS, [1], 3),
        ({1: None, 2: "b", 3: "c"}, [1], 3),
        ({1: "a", 2: "a"}, [1], 2),
    ],
    ids=["enough racks are left", "the rack has another broker", "no rack was named", "one rack only"],
)
def test_what_keeps_replicas_as_far_apart_as_they_are_is_let_through(
    rack_of: dict[int, str | None], leaving: list[int], most_replicas: int
) -> None:
    """Else nobody could give up a rack of several, or the brokers from before racks were named."""
    check_racks_left(rack_of, leaving, most_replicas)
