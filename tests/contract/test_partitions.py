"""Adding partitions (KIP-195), the same on the fake and on real brokers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.contract.lab import Lab, eventually

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import PartitionState, Refusal, Replicas, TopicPartition


def replicas_of(lab: Lab, topic: str) -> dict[int, Replicas]:
    return {p.partition: s.replicas for p, s in sorted(lab.cluster.describe_partitions([topic]).items())}


def invalid(words: str) -> Refusal:
    return Refusal("INVALID_REPLICA_ASSIGNMENT", f"The manual partition assignment includes {words}")


def test_new_partitions_get_the_replicas_asked_for_in_their_order(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    assert lab.cluster.create_partitions(p.topic, {1: (4, 3), 2: (2, 6)}) is None
    eventually(lambda: replicas_of(lab, p.topic), lambda seen: seen == {0: (1, 2), 1: (4, 3), 2: (2, 6)})
    states = eventually(
        lambda: lab.cluster.describe_partitions([p.topic]), lambda seen: all(s.leader for s in seen.values())
    )
    assert states[TopicPartition(p.topic, 1)] == PartitionState((4, 3), frozenset({3, 4}), 4)


def test_validating_only_changes_nothing_and_tells_the_same_refusals(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    assert lab.cluster.create_partitions(p.topic, {1: (3, 4)}, validate_only=True) is None
    message = "includes broker 98, but no such broker is registered."
    refused = lab.cluster.create_partitions(p.topic, {1: (3, 98)}, validate_only=True)
    lab.assert_refused(refused, Refusal("INVALID_REPLICA_ASSIGNMENT", f"The manual partition assignment {message}"))
    # The controller knows of one partition still: the same again is as valid as before.
    assert lab.cluster.create_partitions(p.topic, {1: (3, 4)}, validate_only=True) is None
    assert replicas_of(lab, p.topic) == {0: (1, 2)}


def test_asking_again_adds_nothing(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    assert lab.cluster.create_partitions(p.topic, {1: (3, 4)}) is None
    again = lab.cluster.create_partitions(p.topic, {1: (3, 4)})
    lab.assert_refused(again, Refusal("INVALID_PARTITIONS", "Topic already has 2 partition(s)."))
    eventually(lambda: replicas_of(lab, p.topic), lambda seen: seen == {0: (1, 2), 1: (3, 4)})


def test_a_count_that_is_no_increase_is_refused(lab: Lab) -> None:
    p, *_ = lab.create_topic([(1, 2), (2, 3), (3, 4)])
    refused = lab.cluster.create_partitions(p.topic, {1: (3, 4)})
    message = f"The topic {p.topic} currently has 3 partition(s); 2 would not be an increase."
    lab.assert_refused(refused, Refusal("INVALID_PARTITIONS", message))


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (1, "Attempted to add 3 additional partition(s), but only 2 assignment(s) were specified."),
        (3, "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified."),
    ],
    ids=["smaller than thought", "grown meanwhile"],
)
def test_a_topic_of_another_size_than_thought_gets_no_partition_at_all(lab: Lab, present: int, message: str) -> None:
    p, *_ = lab.create_topic([(1, 2)] * present)
    refused = lab.cluster.create_partitions(p.topic, {2: (3, 4), 3: (4, 5)})
    lab.assert_refused(refused, Refusal("INVALID_REPLICA_ASSIGNMENT", message))
    assert len(replicas_of(lab, p.topic)) == present


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ({1: (3, 4), 2: (98, 99)}, "broker 98, but no such broker is registered."),
        ({1: (3, 4), 2: (-1, 2)}, "broker -1, but no such broker is registered."),
        ({1: (3, 4), 2: (3, 3)}, "the broker 3 more than once."),
        ({1: (3, 4), 2: ()}, "an empty replica list."),
        (
            {1: (3, 4), 2: (3,)},
            "a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2 replica(s).",
        ),
        (
            {1: (3, 4), 2: (3, 4, 5)},
            "a partition with 3 replica(s), but this is not consistent with previous partitions, which have 2 replica(s).",
        ),
    ],
    ids=["unknown", "negative", "repeated", "empty", "fewer replicas", "more replicas"],
)
def test_one_impossible_partition_refuses_all_in_the_controllers_words(
    lab: Lab, assignments: Mapping[int, Replicas], words: str
) -> None:
    [p] = lab.create_topic([(1, 2)])
    lab.assert_refused(lab.cluster.create_partitions(p.topic, assignments), invalid(words))
    assert replicas_of(lab, p.topic) == {0: (1, 2)}


def test_an_unknown_topic_is_refused_without_words(lab: Lab) -> None:
    refused = lab.cluster.create_partitions("no-such-topic", {1: (3, 4)})
    lab.assert_refused(refused, Refusal("UNKNOWN_TOPIC_OR_PARTITION", ""))


def test_where_partitions_differ_in_replicas_only_one_of_their_factors_is_accepted(lab: Lab) -> None:
    """Which one depends on a hash table of the controller: no caller can know."""
    p, wide, _ = lab.create_topic([(1,), (1,), (1,)])
    lab.cluster.alter_reassignments({wide: (1, 2)}, allow_replication_factor_change=True)
    eventually(lambda: replicas_of(lab, p.topic)[1], lambda replicas: replicas == (1, 2))
    eventually(lab.cluster.list_reassignments, lambda listed: listed == {})
    replies = [
        lab.cluster.create_partitions(p.topic, {3: tuple(range(1, factor + 1))}, validate_only=True)
        for factor in (1, 2, 3)
    ]
    accepted = [factor for factor, reply in zip((1, 2, 3), replies, strict=True) if reply is None]
    assert accepted in ([1], [2])


def test_in_the_middle_of_a_reassignment_its_adding_replicas_count_for_the_replication_factor(lab: Lab) -> None:
    """KRaft accepts partitions then, and counts wrong (F28). Controllers with ZooKeeper refuse them until it is done."""
    lab.skip_below("2.4.0", "it says REASSIGNMENT_IN_PROGRESS: see test_zookeeper.py")
    [p] = lab.create_held_topic([(1, 2)])
    lab.cluster.alter_reassignments({p: (3, 4)})
    if not lab.runs_kraft:
        for factor in (2, 4):
            refused = lab.cluster.create_partitions(p.topic, {1: tuple(range(1, factor + 1))}, validate_only=True)
            lab.assert_refused(refused, Refusal("REASSIGNMENT_IN_PROGRESS", ""))
        lab.release([p])
        eventually(lab.cluster.list_reassignments, lambda listed: listed == {})
        assert lab.cluster.create_partitions(p.topic, {1: (3, 4)}, validate_only=True) is None
        return
    words = (
        "a partition with 2 replica(s), but this is not consistent with previous partitions, which have 4 replica(s)."
    )
    assert lab.cluster.create_partitions(p.topic, {1: (3, 4)}, validate_only=True) == invalid(words)
    assert lab.cluster.create_partitions(p.topic, {1: (1, 2, 3, 4)}, validate_only=True) is None


@pytest.mark.parametrize("numbers", [(), (0, 1), (2, 4), (-1,)], ids=str)
def test_numbers_with_a_gap_or_none_are_refused_before_anything_is_asked(lab: Lab, numbers: tuple[int, ...]) -> None:
    [p] = lab.create_topic([(1, 2)])
    with pytest.raises(InvalidRequestError, match="expected numbers from the present count on, without a gap"):
        lab.cluster.create_partitions(p.topic, dict.fromkeys(numbers, (1, 2)))


def test_10_000_partitions_go_in_one_request_and_more_do_not(lab: Lab) -> None:
    [p] = lab.create_topic([(1,)])
    most = {number: (number % 6 + 1,) for number in range(1, 10_001)}
    assert lab.cluster.create_partitions(p.topic, most, validate_only=True) is None
    with pytest.raises(InvalidRequestError, match=r"adds 10001 partitions to topic .*, expected at most 10000"):
        lab.cluster.create_partitions(p.topic, most | {10_001: (1,)}, validate_only=True)


def test_a_partition_may_be_made_on_a_dead_broker_but_not_on_dead_ones_only(breakable_lab: Lab) -> None:
    """So what places them must look who is alive: this one is under-replicated from birth. With ZooKeeper it is refused."""
    lab = breakable_lab
    lab.skip_below("2.4.0", "it knows live brokers only, and refuses any other as unknown")
    [p] = lab.create_topic([(1, 2)])
    [single] = lab.create_topic([(1,)])
    lab.kill(4)
    if not lab.runs_kraft:
        for topic, replicas in ((p.topic, (4, 3)), (single.topic, (4,))):
            refused = lab.cluster.create_partitions(topic, {1: replicas})
            lab.assert_refused(refused, invalid("broker 4, but no such broker is registered."))
            assert len(replicas_of(lab, topic)) == 1
        return
    assert lab.cluster.create_partitions(p.topic, {1: (4, 3)}) is None
    born = TopicPartition(p.topic, 1)
    states = eventually(lambda: lab.cluster.describe_partitions([p.topic]), lambda seen: born in seen)
    assert states[born] == PartitionState((4, 3), frozenset({3}), 3)
    message = (
        "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled shutdown."
    )
    refused = lab.cluster.create_partitions(single.topic, {1: (4,)})
    assert refused == Refusal("INVALID_REPLICA_ASSIGNMENT", message)
