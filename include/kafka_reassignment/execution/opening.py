"""Before the first batch: preflight, approval, and where the chain of batches stands."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kafka_reassignment.errors import (
    InvalidReplicationFactorError,
    InvalidRequestError,
    ReassignmentInProgressError,
    StoppedError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    WrongClusterError,
    name_some,
)
from kafka_reassignment.execution.context import StepContext
from kafka_reassignment.execution.gates import check_health
from kafka_reassignment.execution.holding import require_go_ahead, stopped_text
from kafka_reassignment.execution.observing import min_insync_replicas
from kafka_reassignment.execution.schedule import check_limits
from kafka_reassignment.execution.throttling import adopt_debts
from kafka_reassignment.execution.validation import what_would_be_done
from kafka_reassignment.model import ClusterDescription, PartitionState, TopicPartition
from kafka_reassignment.planning.plan_files import parse_plan
from kafka_reassignment.planning.refusing import check_racks_left
from kafka_reassignment.planning.windows import refuse_never_open
from kafka_reassignment.record.models import Hold, Opening
from kafka_reassignment.record.orders import RunOrder
from kafka_reassignment.record.record import Record
from kafka_reassignment.request import Job, ReassignmentRequest, parse_request

APPROVED = "approved-by.txt"
"""In the record: who approved the plan, so that nobody is asked again when the run goes on after a stop."""

Verdict = Literal["go", "ask", "stop"]


def preflight(step: StepContext, fields: dict[str, Any], requested_by: str) -> None:
    """Read the request, check it against the cluster, open the record and take the cluster.

    Raises:
        WrongClusterError, UnknownBrokerError, UnknownTopicOrPartitionError, InvalidRequestError: the
            request does not fit the cluster.
        UnhealthyClusterError: more partitions are not well than the request tolerates.
        ReassignmentInProgressError: another reassignment, of ours or of others, is under way.
        StoppedError: this one was stopped.
    """
    with step.audited("preflight") as event:
        request = parse_request(fields)
        description = step.cluster.describe_cluster()
        if request.expected_cluster_id and request.expected_cluster_id != description.cluster_id:
            raise WrongClusterError(
                f"Connection '{request.kafka_conn_id}' leads to cluster {description.cluster_id}, expected "
                f"{request.expected_cluster_id}. Correct the connection or the request"
            )
        partitions = step.cluster.describe_partitions()
        check_limits(request.limits, description)
        _check_brokers(request, description, partitions)
        _check_topics(request, partitions)
        _check_job(step, request, description, partitions)
        if told := stopped_text(step.record):
            raise StoppedError(told)
        if step.record.frozen_plan() is None:
            check_health(step.cluster, request)
            refuse_never_open(request.maintenance, step.now())
        if request.supersede and not request.validate_only:
            event.facts["superseded_reassignment"] = _take_over(step, requested_by)
        now = step.now()
        step.store.acquire(
            step.record.cluster_id,
            Hold(reassignment_id=step.record.reassignment_id, since=now, requested_by=requested_by),
        )
        if step.record.frozen_plan() is None and not request.supersede:
            _check_nothing_in_flight(step)
        step.record.open(
            Opening(
                cluster_id=description.cluster_id,
                reassignment_id=step.record.reassignment_id,
                started_at=now,
                requested_by=requested_by,
                request=request,
            )
        )
        if not request.validate_only:
            event.facts["debts_taken_over"] = list(adopt_debts(step))
        event.facts["request"] = request.model_dump(mode="json", exclude_defaults=True)
        event.summary = (
            f"cluster {description.cluster_id}: {len(description.live_brokers)} brokers alive, "
            f"{len(partitions)} partitions; {request.job} may be planned"
        )


def approval(step: StepContext) -> Verdict:
    """Return whether to go on, to ask a person first, or to stop because only a validation was asked for."""
    request = step.record.opening().request
    if request.validate_only:
        with step.audited("approve") as event:
            told = what_would_be_done(step)
            step.log.info("%s", told)
            step.store.release(step.record.cluster_id, step.record.reassignment_id)
            event.outcome, event.summary = "skipped", "validated only; nothing was changed in the cluster"
            event.facts = {"would_do": told}
        return "stop"
    if request.require_approval and step.record.read_file(APPROVED) is None:
        return "ask"
    with step.audited("approve") as event:
        event.outcome = "skipped"
        event.summary = "approved already" if request.require_approval else "the request asks for no approval"
    return "go"


def answered(step: StepContext, *, approved: bool, by: str) -> None:
    """Record a person's answer; a rejection gives the cluster back."""
    with step.audited("approve") as event:
        event.outcome = "succeeded" if approved else "refused"
        event.summary = f"{'approved' if approved else 'rejected'} by {by}"
        if approved:
            step.record.write_file(APPROVED, by.encode())
        else:
            step.store.release(step.record.cluster_id, step.record.reassignment_id)


def first_batch(step: StepContext) -> int | None:
    """Return the first batch that is not finished, or None when all are.

    Raises:
        ReassignmentInProgressError: another reassignment has the cluster by now.
    """
    plan = step.plan()
    finished = step.record.finished_batches()
    unfinished = [n for n in range(1, plan.batches + 1) if n not in finished]
    with step.audited("start_batches") as event:
        if unfinished:
            require_go_ahead(step)
        event.summary = f"{len(finished)} of {plan.batches} batches finished" + (
            f"; starting batch {unfinished[0]}" if unfinished else "; nothing to start"
        )
    return unfinished[0] if unfinished else None


def batches_finished(step: StepContext) -> BatchesProgress:
    """Return how far the chain is; its end is told in the audit trail.

    Raises:
        StoppedError: somebody stopped the reassignment.
    """
    progress = batches_progress(step.record)
    if not progress.complete and (why := stopped_text(step.record)):
        raise StoppedError(why)
    if progress.complete:
        with step.audited("wait_for_batches") as event:
            event.summary = progress.text
    return progress


@dataclass(frozen=True, slots=True)
class BatchesProgress:
    """How far the chain of batches is."""

    finished: int
    batches: int
    next_batch: int
    detail: str = ""

    @property
    def complete(self) -> bool:
        """Whether every batch is finished."""
        return self.finished >= self.batches

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.finished} of {self.batches} batches finished" + (f"; {self.detail}" if self.detail else "")


def batches_progress(record: Record) -> BatchesProgress:
    """Return how far the chain is, from the record alone."""
    plan = record.plan_in_force()
    batches = plan.batches if plan else 0
    finished = record.finished_batches()
    left = [n for n in range(1, batches + 1) if n not in finished]
    told = record.progress() if left else None
    detail = f"batch {told.batch}: {told.text}" if told and told.batch in left else ""
    return BatchesProgress(len(finished), batches, left[0] if left else batches, detail)


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
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise UnknownTopicOrPartitionError(
                f"'topics' names {pattern!r}, which no topic of the cluster matches. Correct the name or the pattern"
            )


def _check_job(
    step: StepContext,
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
        _check_roll_back(step, str(request.roll_back_of))
    if request.job is Job.DECOMMISSION:
        live = description.live_brokers
        check_racks_left({b: description.brokers[b].rack for b in live}, request.brokers)
    if request.job is not Job.APPLY_JSON or request.reassignment_json is None:
        return
    targets = parse_plan(request.reassignment_json)
    unknown = [p for p in targets if p not in partitions]
    if unknown:
        raise UnknownTopicOrPartitionError(
            f"The reassignment JSON names {name_some(unknown)}, which the cluster does not have. Remove or correct them"
        )
    dead = {p: [b for b in target if b not in description.live_brokers] for p, target in targets.items()}
    for partition, brokers in dead.items():
        new = [b for b in brokers if b not in partitions[partition].replicas]
        if new:
            raise UnknownBrokerError(
                f"The reassignment JSON puts {partition} on broker {name_some(new)}, expected brokers that are alive "
                f"({name_some(sorted(description.live_brokers), 20)}). Correct the target or start the broker first"
            )
    minimum = min_insync_replicas(step.cluster, {p.topic for p in targets})
    for partition, target in targets.items():
        if len(target) < minimum.get(partition.topic, 1):
            raise InvalidReplicationFactorError(
                f"The reassignment JSON gives {partition} {len(target)} replicas, expected at least "
                f"{minimum[partition.topic]}: that is its topic's min.insync.replicas, and producers with acks=all would "
                "stop. Give it more replicas, or lower min.insync.replicas first"
            )


def _check_roll_back(step: StepContext, reassignment_id: str) -> None:
    earlier = step.store.record(step.record.cluster_id, reassignment_id)
    if earlier.frozen_plan() is None:
        raise InvalidRequestError(
            f"'roll_back_of' names {reassignment_id}, expected a reassignment of cluster {step.record.cluster_id} with a "
            "plan in the record. Correct the id: it is the run id of its kafka_reassignment run"
        )


def _take_over(step: StepContext, by: str) -> str | None:
    """KIP-236: stop the reassignment that holds the cluster, since this one is to take its place; return its id."""
    held = step.store.holder(step.record.cluster_id)
    if held is None or held.reassignment_id == step.record.reassignment_id:
        return None
    other = step.store.record(step.record.cluster_id, held.reassignment_id)
    reason = f"superseded by {step.record.reassignment_id}"
    other.run_orders.append(RunOrder(at=step.now(), by=by, stopped=True, reason=reason))
    step.store.release(step.record.cluster_id, held.reassignment_id)
    step.log.warning(
        "Stopped %s, asked for by %s: this reassignment supersedes it", held.reassignment_id, held.requested_by
    )
    return held.reassignment_id


def _check_nothing_in_flight(step: StepContext) -> None:
    in_flight = step.cluster.list_reassignments()
    if in_flight:
        step.store.release(step.record.cluster_id, step.record.reassignment_id)
        raise ReassignmentInProgressError(
            f"{len(in_flight)} partitions of the cluster are being reassigned already ({name_some(sorted(in_flight))}), "
            "not by this reassignment. Wait until they are done, cancel them with kafka_reassignment_cancel, or ask for "
            "'supersede' to cancel those that stand in the way"
        )
