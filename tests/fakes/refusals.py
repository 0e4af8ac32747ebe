"""Why the fake controller refuses an assignment: the rules and words of Kafka 4.3.1, seen on real brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tests.fakes.partition import FakePartition

from kafka_reassignment.model import Refusal, Replicas, TopicPartition

NO_REASSIGNMENT = Refusal("NO_REASSIGNMENT_IN_PROGRESS", "")
NO_PREFERRED_LEADER = Refusal("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")


def invalid(target: Replicas, registered: Collection[int]) -> Refusal | None:
    """Why a list of replicas is none."""
    text = None
    if not target:
        text = "an empty replica list."
    for broker in sorted(target):
        if text is None and broker not in registered:
            text = f"broker {broker}, but no such broker is registered."
        if text is None and target.count(broker) > 1:
            text = f"the broker {broker} more than once."
    if text is None:
        return None
    return Refusal("INVALID_REPLICA_ASSIGNMENT", f"The manual partition assignment includes {text}")


def unknown(partition: TopicPartition) -> Refusal:
    """What is said of a partition that its topic does not have."""
    text = f"Unable to find partition {partition.topic}:{partition.partition}."
    return Refusal("UNKNOWN_TOPIC_OR_PARTITION", text)


def unknown_topic(topic: str) -> Refusal:
    """What is said of a topic that is not there."""
    return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"Unable to find a topic named {topic}.")


def changes_factor(state: FakePartition, target: Replicas) -> Refusal | None:
    """Why a target of another size is refused (KIP-860)."""
    present = len([b for b in state.replicas if b not in state.removing])
    if present == len(target):
        return None
    return Refusal("INVALID_REPLICATION_FACTOR", f"The replication factor is changed from {present} to {len(target)}")


def unclean_revert(partition: TopicPartition) -> Refusal:
    """Why a cancel is refused whose old replicas are all out of sync (F15)."""
    return Refusal(
        "INVALID_REPLICA_ASSIGNMENT",
        f"Unable to revert partition assignment for {partition.topic}:{partition.partition} because it would "
        "require an unclean leader election.",
    )


def to_grow(
    topic: str,
    present: Sequence[FakePartition],
    assignments: Mapping[int, Replicas],
    registered: Collection[int],
    live: Collection[int],
) -> Refusal | None:
    """Why these partitions cannot be added, in the order in which Kafka looks.

    Where partitions differ in replicas, which of them gives the replication factor that Kafka 4.3.1 demands
    depends on the order of its hash table; here it is the first. Adding replicas count, as they do there.
    """
    if not present:
        return Refusal("UNKNOWN_TOPIC_OR_PARTITION", "")
    count, found = max(assignments) + 1, len(present)
    if count == found:
        return Refusal("INVALID_PARTITIONS", f"Topic already has {found} partition(s).")
    if count < found:
        text = f"The topic {topic} currently has {found} partition(s); {count} would not be an increase."
        return Refusal("INVALID_PARTITIONS", text)
    if count - found != len(assignments):
        text = (
            f"Attempted to add {count - found} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified."
        )
        return Refusal("INVALID_REPLICA_ASSIGNMENT", text)
    factor = len(present[0].replicas)
    for number, replicas in sorted(assignments.items()):
        refusal = invalid(replicas, registered) or _unfit(number, replicas, factor, live)
        if refusal is not None:
            return refusal
    return None


def _unfit(number: int, replicas: Replicas, factor: int, live: Collection[int]) -> Refusal | None:
    if len(replicas) != factor:
        return Refusal(
            "INVALID_REPLICA_ASSIGNMENT",
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s).",
        )
    if not set(live) & set(replicas):
        return Refusal(
            "INVALID_REPLICA_ASSIGNMENT",
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown.",
        )
    return None
