"""Whether a replica of a tiered topic has enough on its own disk to lead."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.tiering import too_cold_to_lead
from kafka_reassignment.model import PartitionState, TopicPartition, View

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("local_bytes", "cold"),
    [
        ({1: 100, 2: 49}, True),
        ({1: 100, 2: 50}, False),
        ({1: 100, 2: 300}, False),
        ({1: 0, 2: 0}, False),
        ({1: 100}, False),
        ({2: 1}, True),
    ],
    ids=["less than half", "half", "more", "both empty", "new one unknown", "leader unknown"],
)
def test_less_than_half_of_what_the_leader_has_is_too_cold(local_bytes: dict[int, int], cold: bool) -> None:
    seen = View(frozenset({1, 2}), {P: PartitionState((2, 1), frozenset({1, 2}), leader=1)})
    found = too_cold_to_lead([P], seen, {(P, broker): size for broker, size in local_bytes.items()})
    assert set(found) == ({P} if cold else set())


def test_a_partition_without_a_leader_takes_anybody() -> None:
    seen = View(frozenset({2}), {P: PartitionState((2, 1), frozenset({2}), leader=None)})
    assert too_cold_to_lead([P], seen, {(P, 1): 100, (P, 2): 0}) == {}


def test_a_leader_that_does_not_report_its_disks_leads_on_and_that_is_said() -> None:
    seen = View(frozenset({1, 2}), {P: PartitionState((2, 1), frozenset({1, 2}), leader=1)})
    assert too_cold_to_lead([P], seen, {(P, 2): 1}) == {
        P: "nobody knows how much of it its leader 1 has locally: it does not report that"
    }
