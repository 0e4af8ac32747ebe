"""What the brokers that a decommission was to empty host all the same, at its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.request import Job, ReassignmentRequest

BETWEEN_LOOKS_SECONDS = 5
"""A topic that is being made or deleted is so for less than this."""


@dataclass(frozen=True)
class LeavingBrokers:
    """What brokers that were to be emptied host all the same.

    ``hosted`` is by the metadata, ``hidden`` by their log dirs alone; ``silent`` says why of those that are alive and
    do not tell.
    """

    hosted: Sequence[TopicPartition] = ()
    hidden: Collection[TopicPartition] = ()
    silent: Mapping[int, str] = field(default_factory=dict)


def observe_leaving(
    cluster: ClusterPort,
    request: ReassignmentRequest,
    *,
    sleep: Callable[[float], None],
    asks_again: Callable[[], bool] = lambda: False,
) -> LeavingBrokers:
    """Look at the brokers that a decommission was to empty.

    New topics land on them until they are cordoned. Topics that a user may not describe are left out of the metadata by
    the brokers, without a word. A topic that is created or deleted at this moment may be in one of the two alone, so
    what only log dirs show is looked at twice.

    Args:
        cluster: the cluster.
        request: of any job; of others than a decommission nothing is looked at.
        sleep: waits between two looks.
        asks_again: whether a broker that does not answer is asked once more.
    """
    if request.job is not Job.DECOMMISSION:
        return LeavingBrokers()
    leaving = set(request.brokers)
    on_disk, silent = _on_disk(cluster, leaving & cluster.describe_cluster().live_brokers)
    while silent and asks_again():
        sleep(BETWEEN_LOOKS_SECONDS)
        more, silent = _on_disk(cluster, silent.keys() & cluster.describe_cluster().live_brokers)
        on_disk |= more
    everything = cluster.describe_partitions()  # after the wait: topics are made meanwhile
    topics = {p.topic for p in everything}
    hosted = [p for p, s in sorted(everything.items()) if leaving & set(s.replicas) and request.asks_about(p.topic)]
    hidden = {p for p in on_disk if p.topic not in topics and request.asks_about(p.topic)}
    if hidden:
        sleep(BETWEEN_LOOKS_SECONDS)
        again, unseen = _on_disk(cluster, leaving & cluster.describe_cluster().live_brokers)
        shown = {p.topic for p in cluster.describe_partitions({p.topic for p in hidden})}
        hidden = {p for p in hidden if p.topic not in shown and (p in again or unseen)}
    return LeavingBrokers(hosted, hidden, silent)


def _on_disk(cluster: ClusterPort, brokers: Collection[int]) -> tuple[set[TopicPartition], Mapping[int, str]]:
    """Return what these brokers have on their disks, and why for those that do not tell."""
    report = cluster.describe_log_dirs(sorted(brokers))
    return {r.partition for r in report.replicas if not r.is_future}, report.unreachable
