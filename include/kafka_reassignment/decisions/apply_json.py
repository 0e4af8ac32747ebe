"""Whether a target assignment that a person brings along (job ``apply_json``) fits the cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import (
    InfeasiblePlanError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    name_some,
)
from kafka_reassignment.model import Replicas, TopicPartition


def check_targets(
    targets: Mapping[TopicPartition, Replicas],
    *,
    current: Mapping[TopicPartition, Replicas],
    live_brokers: Collection[int],
    min_insync_replicas: Mapping[str, int],
    asks_about: Callable[[str], bool] = lambda _topic: True,
    excluded_brokers: Collection[int] = (),
    cordoned_brokers: Collection[int] = (),
) -> None:
    """Refuse targets that the cluster cannot reach.

    Args:
        targets: as in the JSON.
        current: replicas of those partitions that exist.
        live_brokers: brokers that can be given replicas.
        min_insync_replicas: by topic, where known.
        asks_about: whether the request is about a topic.
        excluded_brokers: brokers that the request lets get no new replica.
        cordoned_brokers: brokers of which no log dir takes new replicas, where known.

    Raises:
        UnknownTopicOrPartitionError: a partition does not exist.
        UnknownBrokerError: a new replica would go to a broker that is not alive, or not there.
        InvalidRequestError: the JSON names what the same request leaves out.
        InfeasiblePlanError: a new replica would go to a cordoned broker.
        InvalidReplicationFactorError: a partition would have fewer replicas than min.insync.replicas.
    """
    unknown = [p for p in targets if p not in current]
    if unknown:
        raise UnknownTopicOrPartitionError(
            f"The reassignment JSON names {name_some(unknown)}, which the cluster does not have",
            Correct("remove or correct them"),
        )
    if left_out := [p for p in targets if not asks_about(p.topic)]:
        raise InvalidRequestError(
            f"The reassignment JSON names {name_some(left_out)}, which 'topics' and 'exclude_topics' of the same request leave out",
            Correct("remove them from one of the two"),
        )
    for partition, target in targets.items():
        if excluded := [b for b in target if b in excluded_brokers and b not in current[partition]]:
            raise InvalidRequestError(
                f"The reassignment JSON puts {partition} on broker {name_some(excluded)}, which 'exclude_brokers' of the same "
                "request lets get no new replica",
                Correct("correct one of the two"),
            )
        if cordoned := [b for b in target if b in cordoned_brokers and b not in current[partition]]:
            raise InfeasiblePlanError(
                f"The reassignment JSON puts {partition} on broker {name_some(cordoned)}, which takes no replicas: each of its log "
                "dirs is cordoned (cordoned.log.dirs) or offline",
                Correct("name another broker, or uncordon it or repair its disks"),
            )
        dead = [b for b in target if b not in live_brokers and b not in current[partition]]
        if dead:
            raise UnknownBrokerError(
                f"The reassignment JSON puts {partition} on broker {name_some(dead)}, expected brokers that are alive "
                f"({name_some(sorted(live_brokers), 20)})",
                Correct("correct the target or start the broker first"),
            )
    for partition, target in targets.items():
        minimum = min_insync_replicas.get(partition.topic, 1)
        if len(target) < minimum:
            raise InvalidReplicationFactorError(
                f"The reassignment JSON gives {partition} {len(target)} replicas, expected at least {minimum}: that is "
                "its topic's min.insync.replicas, and producers with acks=all would stop",
                Correct(
                    f"give it more replicas, or lower min.insync.replicas (topic {partition.topic} from {minimum} to "
                    f"{len(target)}) first"
                ),
            )
