"""What may be written to ZooKeeper, and what is in flight there, without a ZooKeeper."""

from __future__ import annotations

import pytest

from kafka_reassignment.cluster.zookeeper.state import (
    Observation,
    Pending,
    batch_content,
    in_flight,
    refusal_before_writing,
)
from kafka_reassignment.model import InFlight, PartitionState, Refusal, Replicas, TopicPartition

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 3)


def state(replicas: Replicas, isr: set[int]) -> PartitionState:
    return PartitionState(replicas, frozenset(isr), min(isr, default=None))


def seen(*, deleting: tuple[str, ...] = (), batch: dict[TopicPartition, Replicas] | None = None) -> Observation:
    return Observation(
        live_brokers=frozenset({1, 2, 3, 4}),
        partitions={P: state((1, 2), {1, 2})},
        topics=frozenset({"orders"}),
        being_deleted=frozenset(deleting),
        pending=None if batch is None else Pending(batch, version=1),
        topic_versions={"orders": 5},
    )


def refusal(partition: TopicPartition, target: Replicas | None, look: Observation) -> Refusal | None:
    return refusal_before_writing(partition, target, look, allow_change=False)


def test_a_sound_target_may_be_written() -> None:
    assert refusal(P, (3, 4), seen()) is None


def test_a_topic_that_is_being_deleted_would_leave_the_batch_stuck() -> None:
    assert refusal(P, (3, 4), seen(deleting=("orders",))) == Refusal(
        "UNKNOWN_TOPIC_OR_PARTITION", "The topic orders is being deleted."
    )


def test_true_is_no_broker() -> None:
    """It equals 1, and would be written as ``true``."""
    text = refusal(P, (True, 2), seen())
    assert text is not None
    assert text.message == "The manual partition assignment includes broker True, but no such broker is registered."


def test_the_guard_counts_the_batch_in_flight() -> None:
    look = seen(batch={P: (1, 2, 3)})
    assert refusal(P, (1, 2, 4), look) is None
    assert refusal(P, (1, 2), look) == Refusal(
        "INVALID_REPLICATION_FACTOR", "The replication factor is changed from 3 to 2"
    )


def test_the_batch_has_the_three_keys_the_controller_reads_and_no_other() -> None:
    assert batch_content({P: (3, 4)}) == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 3, "replicas": [3, 4]}],
    }


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (state((1, 2), {1, 2}), InFlight((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))),
        (state((3, 4, 1, 2), {1, 2, 4}), InFlight((3, 4, 1, 2), adding=(3,), removing=(1, 2))),
        (state((3, 4, 1, 2), {1, 2, 3, 4}), InFlight((3, 4, 1, 2), adding=(), removing=(1, 2))),
        (state((3, 4), {3}), InFlight((3, 4), adding=(4,), removing=())),
    ],
    ids=["not taken up yet", "one joined", "all joined", "at target, one out of sync"],
)
def test_a_batch_is_in_flight_until_the_target_is_there_and_in_sync(shown: PartitionState, expected: InFlight) -> None:
    assert in_flight({P: (3, 4)}, {P: shown}) == {P: expected}
    assert expected.target == (3, 4)


def test_a_partition_at_its_target_and_in_sync_is_done_though_its_entry_is_still_there() -> None:
    assert in_flight({P: (3, 4)}, {P: state((3, 4), {3, 4})}) == {}


def test_a_deleted_topic_is_not_in_flight() -> None:
    assert in_flight({P: (3, 4)}, {}) == {}
