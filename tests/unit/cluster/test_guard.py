"""KIP-860's guard where the controller has none (below Kafka 4.1), and list values where it gets them wrong."""

from __future__ import annotations

import pytest

from kafka_reassignment.cluster.kafka.errors import code_name
from kafka_reassignment.cluster.kafka.list_configs import joined
from kafka_reassignment.cluster.kafka.reassignments import refusals_of_guard
from kafka_reassignment.model import ConfigOperation, InFlight, PartitionState, Refusal, TopicPartition

pytestmark = pytest.mark.quick

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
STATES = {p: PartitionState((1, 2), frozenset({1, 2}), 1) for p in (P, Q)}


def test_a_change_of_replication_factor_is_refused_in_the_controllers_words() -> None:
    assert refusals_of_guard({P: (1, 2, 3), Q: (2, 3)}, STATES, {}) == {
        P: Refusal("INVALID_REPLICATION_FACTOR", "The replication factor is changed from 2 to 3")
    }


def test_a_cancel_is_never_a_change_of_replication_factor() -> None:
    assert refusals_of_guard({P: None}, STATES, {}) == {}


def test_an_unknown_partition_is_left_to_the_controller() -> None:
    assert refusals_of_guard({TopicPartition("none", 0): (1,)}, STATES, {}) == {}


def test_a_move_in_flight_counts_by_its_target() -> None:
    flight = InFlight((1, 3, 4, 2), adding=(3, 4), removing=(2,))
    assert refusals_of_guard({P: (1, 3, 4)}, STATES, {P: flight}) == {}
    assert refusals_of_guard({P: (1, 3)}, STATES, {P: flight})[P].message.endswith("from 3 to 2")


@pytest.mark.parametrize(
    ("present", "operation", "value", "after"),
    [
        ("", ConfigOperation.APPEND, "0:1", "0:1"),
        (",0:1", ConfigOperation.APPEND, "0:2", "0:1,0:2"),
        ("0:1", ConfigOperation.APPEND, "0:1,0:2", "0:1,0:2"),
        ("0:1,0:2", ConfigOperation.SUBTRACT, "0:1", "0:2"),
        ("0:1", ConfigOperation.SUBTRACT, "0:1", ""),
        ("*", ConfigOperation.SUBTRACT, "0:1", "*"),
    ],
)
def test_lists_never_hold_an_entry_twice_nor_an_empty_one(
    present: str, operation: ConfigOperation, value: str, after: str
) -> None:
    assert joined(present, value, operation) == after


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (-1, "UNKNOWN_SERVER_ERROR"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (39, "INVALID_REPLICA_ASSIGNMENT"),
        (85, "NO_REASSIGNMENT_IN_PROGRESS"),
        (9999, "ERROR_9999"),
    ],
)
def test_error_codes_have_kafkas_own_names(code: int, name: str) -> None:
    assert code_name(code) == name
