"""The first step of a reassignment: it checks the request against the cluster, and takes the cluster's lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_reassignment.decisions.apply_json import check_targets
from kafka_reassignment.decisions.brokers import check_racks_left
from kafka_reassignment.decisions.windows import refuse_never_open
from kafka_reassignment.errors import (
    InvalidReplicationFactorError,
    InvalidRequestError,
    ReassignmentInProgressError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    WrongClusterError,
    name_some,
)
from kafka_reassignment.model import ClusterDescription, PartitionState, TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.request import Job, ReassignmentRequest, parse_request
from kafka_reassignment.request.topics import topics_matching
from kafka_reassignment.steps.context import RunContext, refuse_stopped
from kafka_reassignment.steps.health import check_health
from kafka_reassignment.steps.limits import check_limits
from kafka_reassignment.steps.throttle import adopt_debts
from kafka_reassignment.steps.view import min_insync_replicas


def preflight(run: RunContext, fields: dict[str, Any], requested_by: str) -> None:
    """Read the request, check it against the cluster, open the record and take the cluster.

    Raises:
        WrongClusterError, UnknownBrokerError, UnknownTopicOrPartitionError, InvalidRequestError: the
            request does not fit the cluster.
        UnhealthyClusterError: more partitions are unhealthy than the request allows.
        ReassignmentInProgressError: another reassignment, of ours or of others, is under way.
        StoppedError: this one was stopped.
    """
    with run.audited("preflight") as event:
        request = parse_request(fields)
        description = run.cluster.describe_cluster()
        if request.expected_cluster_id and request.expected_cluster_id != description.cluster_id:
            raise WrongClusterError(
                f"Connection '{request.kafka_conn_id}' leads to cluster {description.cluster_id}, expected "
                f"{request.expected_cluster_id}. Correct the connection or the request"
            )
        partitions = run.cluster.describe_partitions()
        check_limits(request.limits, description)
        _check_brokers(request, description, partitions)
        _check_topics(request, partitions)
        _check_job(run, request, description, partitions)
        refuse_stopped(run.record)
        if run.record.frozen_plan() is None:
            check_health(run.cluster, request)
            refuse_never_open(request.maintenance, run.now())
        if request.supersede and not request.validate_only:
            event.facts["superseded_reassignment"] = _take_over(run, requested_by)
        now = run.now()
        run.store.acquire(
            run.record.cluster_id,
            ClusterLock(reassignment_id=run.record.reassignment_id, since=now, requested_by=requested_by),
        )
        if run.record.frozen_plan() is None and not request.supersede:
            _check_nothing_in_flight(run)
        run.record.write_request(
            RecordedRequest(
                cluster_id=description.cluster_id,
                reassignment_id=run.record.reassignment_id,
                started_at=now,
                requested_by=requested_by,
                request=request,
            )
        )
        if not request.validate_only:
            event.facts["debts_taken_over"] = list(adopt_debts(run))
        event.facts["request"] = request.model_dump(mode="json", exclude_defaults=True)
        event.summary = (
            f"cluster {description.cluster_id}: {len(description.live_brokers)} brokers alive, "
            f"{len(partitions)} partitions; {request.job} may be planned"
        )


def _check_brokers(
    request: ReassignmentRequest,
    description: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionState],
) -> None:
    live = description.live_brokers
    hosting = {b for state in partitions.values() for b in state.replicas}
    # A dead broker may be emptied, but nothing can be put on it.
    known = live | hosting if request.job is Job.DECOMMISSION else live
    for name, brokers, allowed in (
        ("brokers", request.brokers, known),
        ("exclude_brokers", request.exclude_brokers, live | hosting),
    ):
        unknown = [b for b in brokers if b not in allowed]
        if unknown:
            raise UnknownBrokerError(
                f"'{name}' names broker {name_some(unknown)}, expected brokers of cluster {description.cluster_id} "
                f"(alive: {name_some(sorted(live), 20)}). Correct the ids, or start the broker first"
            )


def _check_topics(request: ReassignmentRequest, partitions: Mapping[TopicPartition, PartitionState]) -> None:
    names = {p.topic for p in partitions}
    for pattern in request.topics:
        if not topics_matching(pattern, names):
            raise UnknownTopicOrPartitionError(
                f"'topics' names {pattern!r}, which no topic of the cluster matches. Correct the name or the pattern"
            )


def _check_job(
    run: RunContext,
    request: ReassignmentRequest,
    description: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionState],
) -> None:
    if request.replication_factor is not None and request.replication_factor > len(description.live_brokers):
        raise InvalidReplicationFactorError(
            f"replication_factor is {request.replication_factor}, expected at most {len(description.live_brokers)}: that "
            "many brokers are alive. Lower it or add brokers"
        )
    if request.job is Job.ROLL_BACK:
        _check_roll_back(run, str(request.roll_back_of))
    if request.job is Job.DECOMMISSION:
        live = description.live_brokers
        check_racks_left({b: description.brokers[b].rack for b in live}, request.brokers)
    if request.job is not Job.APPLY_JSON or request.reassignment_json is None:
        return
    targets = parse_plan(request.reassignment_json)
    current = {p: partitions[p].replicas for p in targets if p in partitions}
    check_targets(
        targets,
        current=current,
        live_brokers=description.live_brokers,
        min_insync_replicas=min_insync_replicas(run.cluster, {p.topic for p in current}),
    )


def _check_roll_back(run: RunContext, reassignment_id: str) -> None:
    earlier = run.store.record(run.record.cluster_id, reassignment_id)
    if earlier.frozen_plan() is None:
        raise InvalidRequestError(
            f"'roll_back_of' names {reassignment_id}, expected a reassignment of cluster {run.record.cluster_id} with a "
            "plan in the record. Correct the id: it is the run id of its kafka_reassignment run"
        )


def _take_over(run: RunContext, by: str) -> str | None:
    """KIP-236: stop the reassignment that has the lock of the cluster, since this one takes its place; return its id."""
    owner = run.store.lock_owner(run.record.cluster_id)
    if owner is None or owner.reassignment_id == run.record.reassignment_id:
        return None
    other = run.store.record(run.record.cluster_id, owner.reassignment_id)
    reason = f"superseded by {run.record.reassignment_id}"
    other.run_commands.append(RunCommand(at=run.now(), by=by, stopped=True, reason=reason))
    run.store.release(run.record.cluster_id, owner.reassignment_id)
    run.log.warning(
        "Stopped %s, asked for by %s: this reassignment supersedes it", owner.reassignment_id, owner.requested_by
    )
    return owner.reassignment_id


def _check_nothing_in_flight(run: RunContext) -> None:
    in_flight = run.cluster.list_reassignments()
    if in_flight:
        run.store.release(run.record.cluster_id, run.record.reassignment_id)
        raise ReassignmentInProgressError(
            f"{len(in_flight)} partitions of the cluster are being reassigned already ({name_some(sorted(in_flight))}), "
            "not by this reassignment. Wait until they are done, cancel them with kafka_reassignment_cancel, or ask for "
            "'supersede' to cancel those that stand in the way"
        )
