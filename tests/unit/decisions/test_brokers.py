"""Checks of the brokers that a request leads to."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.brokers import check_racks_left
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.request import Job

pytestmark = pytest.mark.quick

RACKS = {1: "a", 2: "b", 3: "c", 4: "a"}


def test_a_rack_is_not_emptied_where_replicas_could_no_longer_be_as_far_apart() -> None:
    with pytest.raises(
        InfeasiblePlanError, match=r"rack 'c' would have no live broker left, and 2 of 3 racks are too few"
    ):
        check_racks_left(RACKS, Job.DECOMMISSION, [3], 3)
    with pytest.raises(
        InfeasiblePlanError, match=r"and 1 of 2 racks are too few for partitions that .* in 2 racks now"
    ):
        check_racks_left({1: "a", 2: "b", 3: "b"}, Job.DECOMMISSION, [1], 2)


def test_topics_are_not_moved_to_fewer_racks() -> None:
    with pytest.raises(
        InfeasiblePlanError, match=r"to broker 1, 4: 1 of 3 racks are too few .* 3 racks now.* more racks"
    ):
        check_racks_left(RACKS, Job.MOVE_TOPICS, [1, 4], 3)
    check_racks_left(RACKS, Job.MOVE_TOPICS, [1, 4], 1)
    check_racks_left(RACKS, Job.MOVE_TOPICS, [1, 2], 2)
    check_racks_left(RACKS, Job.REBALANCE, [1, 4], 3)


@pytest.mark.parametrize(
    ("rack_of", "leaving", "most_racks"),
    [
        (RACKS, [3], 2),
        (RACKS, [3], 0),
        (RACKS, [1], 3),
        ({1: None, 2: "b", 3: "c"}, [1], 3),
        ({1: "a", 2: "a"}, [1], 1),
    ],
    ids=[
        "enough racks are left",
        "it hosts nothing",
        "the rack has another broker",
        "no rack was named",
        "one rack only",
    ],
)
def test_what_keeps_replicas_as_far_apart_as_they_are_is_let_through(
    rack_of: dict[int, str | None], leaving: list[int], most_racks: int
) -> None:
    """Else nobody could give up a rack of several, or the brokers from before racks were named."""
    check_racks_left(rack_of, Job.DECOMMISSION, leaving, most_racks)
