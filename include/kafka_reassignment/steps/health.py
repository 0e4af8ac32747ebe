"""The health of the whole cluster."""

from __future__ import annotations

from kafka_reassignment.decisions.admission import (
    Health,
    health,
)
from kafka_reassignment.errors import (
    UnhealthyClusterError,
    name_some,
)
from kafka_reassignment.model import View
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.view import min_insync_replicas


def cluster_health(cluster: ClusterPort, request: ReassignmentRequest) -> Health:
    """Return the unhealthy partitions of the cluster, without those that the request itself is to fix."""
    states = cluster.describe_partitions()
    view = View(
        live_brokers=cluster.describe_cluster().live_brokers,
        partitions=states,
        in_flight=cluster.list_reassignments(),
        min_insync_replicas=min_insync_replicas(cluster, {p.topic for p in states}),
    )
    return health(view, leaving_brokers=leaving_brokers(request))


def check_health(cluster: ClusterPort, request: ReassignmentRequest) -> None:
    """Refuse a request for a cluster with more unhealthy partitions than it allows.

    Raises:
        UnhealthyClusterError: more partitions are offline, under min ISR or under-replicated.
    """
    found = cluster_health(cluster, request)
    kinds = (
        ("offline", found.offline),
        ("under min.insync.replicas", found.under_min_isr),
        ("under-replicated", found.under_replicated),
    )
    count = sum(len(those) for _, those in kinds)
    if count > request.allowed_unhealthy_partitions:
        listed = "; ".join(f"{len(those)} {kind} ({name_some(those)})" for kind, those in kinds if those)
        raise UnhealthyClusterError(
            f"{count} partitions are unhealthy, expected at most {request.allowed_unhealthy_partitions} ('allowed_unhealthy_partitions'): {listed}. Moving "
            "replicas would make it worse: bring their brokers back first, or raise 'allowed_unhealthy_partitions' if you know why"
        )


def leaving_brokers(request: ReassignmentRequest) -> tuple[int, ...]:
    """Return the brokers that the request empties: that their replicas are out of sync is what it is to fix."""
    return request.brokers if request.job is Job.DECOMMISSION else ()
