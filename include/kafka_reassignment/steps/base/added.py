"""Partitions that were added to the asked topics since the plan was made, and are not as was asked for."""

from __future__ import annotations

from collections.abc import Callable

from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.planner.resolve import NO_RACK
from kafka_reassignment.planner.snapshot import read_replicas, snapshot_of
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.record import Record
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.text import format_brokers


def observe_added(cluster: ClusterPort, record: Record, request: ReassignmentRequest) -> dict[TopicPartition, str]:
    """Return by partition in which way it is not as was asked for, of those that the plan could not know.

    That is those of the asked topics that are not in the snapshot from which the plan was made. Nothing where that
    snapshot is not there, or not readable: then nobody can tell which came since.

    Args:
        cluster: the cluster.
        record: of the reassignment; its plan is frozen.
        request: of any job; only of one that asks for something of each partition of its topics anything is returned.
    """
    if (what_is_wrong := _what_is_wrong(cluster, request)) is None:
        return {}
    wrong = {
        p: why
        for p, state in sorted(cluster.describe_partitions().items())
        if (why := what_is_wrong(state.replicas)) and request.asks_about(p.topic)
    }
    if not wrong:
        return {}
    try:
        before = read_replicas(snapshot_of(record.plan_uri), wrong)
    except (FileNotFoundError, RecordDamagedError):
        return {}
    return {p: f"{p} {why}" for p, why in wrong.items() if p not in before}


def _what_is_wrong(cluster: ClusterPort, request: ReassignmentRequest) -> Callable[[Replicas], str] | None:
    """Return what says of replicas in which way they are not as was asked for, empty where they are."""
    if request.job is Job.REPLICATION_FACTOR:
        factor = request.replication_factor
        return lambda r: "" if len(r) == factor else f"has {len(r)} replicas rather than {factor}"
    if request.job is Job.MOVE_TOPICS:
        named = set(request.brokers)
        return lambda r: f"is at broker {format_brokers(r)}" if set(r) - named else ""
    if request.job is not Job.RESTORE_RACKS:
        return None
    description = cluster.describe_cluster()
    rack_of = {b: broker.rack or NO_RACK for b, broker in description.brokers.items()}
    open_racks = {rack_of[b] for b in description.live_brokers if b not in request.exclude_brokers}

    def shares_a_rack(replicas: Replicas) -> str:
        # As the planner has it: replicas on racks without a live broker make no room for others.
        has_room = len({rack_of.get(b, NO_RACK) for b in replicas}) < min(len(replicas), len(open_racks))
        return f"has several replicas in one rack (broker {format_brokers(replicas)})" if has_room else ""

    return shares_a_rack
