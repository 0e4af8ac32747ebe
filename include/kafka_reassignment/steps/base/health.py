"""The health of the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.admission import (
    Health,
    health,
)
from kafka_reassignment.errors import (
    UnhealthyClusterError,
    name_some,
)
from kafka_reassignment.model import Replicas, TopicPartition, View
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.base.view import min_insync_replicas


def cluster_health(
    cluster: ClusterPort,
    request: ReassignmentRequest,
    targets: Callable[[], Mapping[TopicPartition, Replicas]] = dict,
) -> Health:
    """Return the unhealthy partitions of the cluster, without those that the reassignment itself repairs.

    Args:
        cluster: all of it is looked at.
        request: it may empty brokers.
        targets: returns the planned replicas by partition; called only when something is unhealthy.
    """
    states = cluster.describe_partitions()
    view = View(
        live_brokers=cluster.describe_cluster().live_brokers,
        partitions=states,
        in_flight=cluster.list_reassignments(),
        min_insync_replicas=min_insync_replicas(cluster, {p.topic for p in states}),
    )
    found = health(view, leaving_brokers=brokers_to_empty(request))
    if found == Health():
        return found
    return health(view, leaving_brokers=brokers_to_empty(request), targets=targets())


def planned_targets(recorded: RecordView) -> dict[TopicPartition, Replicas]:
    """Return the replicas that each planned partition will have; none before there is a plan."""
    if recorded.plan_in_force() is None:
        return {}
    withdrawn = recorded.withdrawn_partitions()
    moves = read_target(recorded.plan_ref())
    return {move.partition: move.target for move in moves if str(move.partition) not in withdrawn}


def check_health(cluster: ClusterPort, request: ReassignmentRequest) -> None:
    """Refuse a request for a cluster with more unhealthy partitions than it allows.

    Raises:
        UnhealthyClusterError: more partitions are offline, under min ISR or under-replicated.
    """
    found = cluster_health(cluster, request, lambda: _asked_targets(request))
    if found.count > request.allowed_unhealthy_partitions:
        listed = "; ".join(f"{len(those)} {kind} ({name_some(those)})" for kind, those in found.kinds if those)
        raise UnhealthyClusterError(
            f"{found.count} partitions are unhealthy, expected at most {request.allowed_unhealthy_partitions} ('allowed_unhealthy_partitions'): {listed}; "
            "moving other replicas would make it worse",
            Correct(
                "bring their brokers back first, decommission a broker that does not come back, or raise "
                "'allowed_unhealthy_partitions' if you know why"
            ),
        )


def _asked_targets(request: ReassignmentRequest) -> Mapping[TopicPartition, Replicas]:
    """The targets that a request itself names, before there is a plan."""
    return parse_plan(request.reassignment_json) if request.reassignment_json else {}


def brokers_to_empty(request: ReassignmentRequest) -> tuple[int, ...]:
    """Return the brokers that the request empties: that their replicas are out of sync is what it is to fix."""
    return request.brokers if request.job is Job.DECOMMISSION else ()
