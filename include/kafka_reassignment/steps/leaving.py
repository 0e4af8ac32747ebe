"""What the brokers that a decommission was to empty host all the same, at its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafka_reassignment.model import TopicPartition
from kafka_reassignment.request import Job
from kafka_reassignment.steps.context import RunContext

BETWEEN_LOOKS_SECONDS = 5
"""A topic that is being made or deleted is so for less than this."""


@dataclass(frozen=True)
class LeavingBrokers:
    """What brokers that were to be emptied host all the same.

    ``hosted`` is by the metadata, ``hidden`` by their log dirs alone; ``silent`` says why of those that are alive and do not tell.
    """

    hosted: Sequence[TopicPartition] = ()
    hidden: Collection[TopicPartition] = ()
    silent: Mapping[int, str] = field(default_factory=dict)


def leaving_brokers(run: RunContext, *, until: datetime) -> LeavingBrokers:
    """Look at the brokers that a decommission was to empty.

    New topics land on them until they are cordoned. Topics that a user may not describe are left out of the metadata by the
    brokers, without a word. A topic that is created or deleted at this moment may be in one of the two alone, so what only log
    dirs show is looked at twice. A broker that does not answer is asked again, until a moment.
    """
    if run.request.job is not Job.DECOMMISSION:
        return LeavingBrokers()
    seen = _look(run)
    while seen.silent and run.now() < until:
        run.sleep(BETWEEN_LOOKS_SECONDS)
        seen = _look(run)
    if not seen.hidden:
        return seen
    run.sleep(BETWEEN_LOOKS_SECONDS)
    again = _look(run)
    return replace(again, hidden=set(seen.hidden) & set(again.hidden))


def _look(run: RunContext) -> LeavingBrokers:
    request, everything = run.request, run.cluster.describe_partitions()
    topics, leaving = {p.topic for p in everything}, set(request.brokers)
    alive = leaving & run.cluster.describe_cluster().live_brokers
    on_disk = run.cluster.describe_log_dirs(sorted(alive))
    return LeavingBrokers(
        [p for p, s in sorted(everything.items()) if leaving & set(s.replicas) and request.asks_about(p.topic)],
        {
            r.partition
            for r in on_disk.replicas
            if not r.is_future and r.partition.topic not in topics and request.asks_about(r.partition.topic)
        },
        on_disk.unreachable,
    )
