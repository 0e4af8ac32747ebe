"""What is left to add of a planned partition count, whatever the cluster shows."""

import pytest

from kafka_reassignment.advice import Trigger
from kafka_reassignment.decisions.partition_count import moved_since, not_as_wanted, partitions_to_create
from kafka_reassignment.errors import (
    ReassignmentInProgressError,
    StalePlanError,
    UnknownTopicOrPartitionError,
)
from kafka_reassignment.model import InFlight, PartitionState, TopicPartition, View

pytestmark = pytest.mark.quick

PLANNED = {2: (3, 1), 3: (2, 3)}
TWO = [(1, 2), (2, 3)]
ASKED = {"topic": "orders", "partitions": 4}


def view(*replicas, in_flight=()):
    states = {TopicPartition("orders", n): PartitionState(r, frozenset(r), r[0]) for n, r in enumerate(replicas)}
    flights = {TopicPartition("orders", n): InFlight(replicas[n], (4,), ()) for n in in_flight}
    return View(frozenset({1, 2, 3}), states, flights)


def left(*replicas, in_flight=(), unfit=None):
    seen = view(*replicas, in_flight=in_flight)
    return partitions_to_create("orders", PLANNED, seen, set(seen.in_flight), unfit or {}, ASKED)


def test_all_are_added_to_a_topic_of_the_planned_size():
    assert left(*TWO) == PLANNED


def test_none_is_left_when_all_are_there_as_planned():
    assert left(*TWO, (3, 1), (2, 3)) == {}


def test_none_is_left_when_another_client_added_more_after_ours():
    assert left(*TWO, (3, 1), (2, 3), (1, 2)) == {}


def test_what_an_earlier_try_added_is_recognised_though_the_topic_is_in_flight_and_brokers_are_gone():
    assert left(*TWO, (3, 1), (2, 3), in_flight=[0], unfit={3: "it is down"}) == {}


def test_none_is_left_when_what_was_added_has_been_moved_since():
    assert left(*TWO, (3, 1), (1, 2)) == {}


@pytest.mark.parametrize("there", [(1, 2), (3, 1)], ids=["less than asked", "the first as planned by chance"])
def test_a_topic_that_another_client_has_grown_to_less_than_is_wanted_gets_none(there):
    with pytest.raises(StalePlanError) as stale:
        left(*TWO, there)
    assert str(stale.value) == (
        "Topic orders has 3 partitions, expected 2 as when it was planned: another client has added some. Nothing was added now. "
        "Trigger kafka_partition_count with topic orders, partitions 4"
    )
    assert stale.value.advice == (Trigger("kafka_partition_count", ASKED),)


def test_a_topic_that_was_created_again_gets_none():
    with pytest.raises(StalePlanError, match=r"has 1 partitions, expected 2 .*: it was deleted and created again"):
        left((1, 2))


def test_a_topic_that_is_gone_gets_none():
    with pytest.raises(UnknownTopicOrPartitionError, match=r"orders does not exist, expected 2 partitions"):
        left()


def test_a_topic_in_flight_gets_none_for_now():
    with pytest.raises(ReassignmentInProgressError) as refused:
        left((1, 2, 4), (2, 3), in_flight=[0])
    assert str(refused.value) == (
        "1 of 2 partitions of topic orders are being reassigned (orders-0), expected none: while replicas are added its "
        "replication factor is not known. Wait until the moves are done, or cancel them with kafka_reassignment_cancel, then "
        "rerun create_partitions and what follows"
    )


def test_a_topic_whose_replication_factor_has_changed_gets_none():
    with pytest.raises(
        StalePlanError, match=r"orders has 3 replicas of a partition, expected 2 as when it was planned"
    ):
        left((1, 2, 3), (2, 3, 1))


def test_a_plan_on_a_broker_that_may_not_take_replicas_now_is_stale():
    with pytest.raises(
        StalePlanError, match=r"on brokers that may not take replicas now \(3: it is down\)\. Nothing was"
    ):
        left(*TWO, unfit={3: "it is down", 9: "it is down"})


def test_only_planned_partitions_are_reported_when_they_are_not_where_they_were_planned():
    states = view((9, 8), (2, 3), (3, 1), (3, 2)).partitions
    assert moved_since("orders", PLANNED, states) == ["orders-3 is on 3,2 rather than 2,3"]
    assert not_as_wanted("orders", PLANNED, states) == [], "as many replicas, led and in sync"
    assert not_as_wanted("orders", PLANNED, view((9, 8), (2, 3), (3, 1, 2)).partitions) == [
        "orders-2 is on 3,1,2 rather than 3,1",
        "orders-3 is not there",
    ]
