"""Raising a topic's partition count (KIP-179): preflight, placement, creation, verification. Each may run again any time.

Several of these may run at once, and beside a reassignment: the controller adds planned partitions all or none,
and only to a topic of the size they were planned for. So the cluster is not locked, but brokers that the
reassignment which has it is emptying get nothing.

Audit events have names of their own, not those of a reassignment's steps: in one DAG run both write one trail.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kafka_reassignment.advice import Correct, Rerun
from kafka_reassignment.decisions.brokers import check_brokers_known
from kafka_reassignment.decisions.partition_count import (
    moved_since,
    not_as_wanted,
    partitions_to_create,
    refused,
)
from kafka_reassignment.errors import (
    InvalidAssignmentError,
    InvalidPartitionsError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
    VerificationError,
    name_some,
)
from kafka_reassignment.model import ClusterDescription, PartitionState, Replicas, TopicPartition
from kafka_reassignment.record.partition_count import (
    Added,
    PartitionCountRecord,
    RecordedPartitionCountRequest,
)
from kafka_reassignment.request import PartitionCountRequest, parse_partition_count
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.placement import (
    check_count,
    check_nothing_moves,
    doing,
    headline,
    keys_note,
    look_at_moves,
    place_new_partitions,
    unfit_brokers,
)

KAFKAS_OWN = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__remote_log_metadata", "__share_group_state", "__transaction_state"}
)
"""Topics whose keys Kafka itself maps to partitions: grown, they lose committed offsets and open transactions.

Brokers with tiered storage stop at their start where ``__remote_log_metadata`` has another count than their setting
``remote.log.metadata.topic.num.partitions``.
"""

SETTLE_SECONDS = 30
"""How long new partitions may take to show, to be led and to be in sync: they are empty, so it is well under one."""


def preflight(run: RunContext, fields: dict[str, Any], requested_by: str) -> None:
    """Read the request, check it against the cluster, open the record.

    Raises:
        InvalidPartitionsError: the topic has as many partitions already, or more.
        UnknownBrokerError, UnknownTopicOrPartitionError, InvalidRequestError: the request does not fit.
        ReassignmentInProgressError: partitions of the topic are being reassigned.
    """
    with run.audited("preflight_partition_count") as event:
        request = parse_partition_count(fields)
        record = PartitionCountRecord(run.record)
        if request.topic in KAFKAS_OWN:
            raise InvalidRequestError(
                f"Topic {request.topic} is Kafka's own, expected one of yours: its keys would be looked for in other "
                "partitions than they were written to, offsets, transactions or metadata be lost, and brokers with tiered storage "
                "might not start any more",
                Correct("set its count before its creation"),
            )
        description = run.cluster.describe_cluster()
        _check_excluded(request, description, run.cluster.describe_partitions())
        present = len(_topic_states(run, request.topic))
        if record.planned() is None:
            check_count(request, present)
            check_nothing_moves(run, request.topic, "preflight")
        record.write_request(
            RecordedPartitionCountRequest(
                cluster_id=description.cluster_id,
                run_id=run.record.reassignment_id,
                started_at=run.now(),
                requested_by=requested_by,
                request=request,
            )
        )
        event.summary = f"topic {request.topic} has {present} partitions, {request.partitions} are wanted"
        event.facts = {"request": request.model_dump(mode="json", exclude_defaults=True)}


def plan_placement(run: RunContext) -> str:
    """Place the new partitions, let the cluster check the placement, freeze it; return it in words.

    A frozen placement is kept as it is. The cluster is asked with Kafka's own ``validate_only``, so nothing is changed.

    Raises:
        InfeasiblePlanError: the rules cannot be met; the message says which and what would relax it.
        InvalidReplicationFactorError: partitions differ in replicas, and the controller wants another number than most
            have.
        PolicyViolationError, InvalidAssignmentError, InvalidPartitionsError, …: the cluster refuses the placement.
    """
    with run.audited("plan_placement") as event:
        record = PartitionCountRecord(run.record)
        request, planned = record.recorded_request().request, record.planned()
        if planned is None:
            planned = record.freeze(place_new_partitions(run, request))
        event.summary = headline(request, planned)
        event.facts = {"assignments": _listed(planned.assignments), "notes": list(planned.notes)}
        run.log.info("%s", planned.text)
        return planned.text


def create_partitions(run: RunContext) -> bool:
    """Add the planned partitions unless they are there; return whether they are there now.

    False is only returned where validation was all that was asked for.

    Raises:
        StalePlanError: the topic has grown since, to less than the wanted count, or a planned broker may not be used
            any more.
        ReassignmentInProgressError: partitions of the topic are being reassigned.
        ClusterUnavailableError: no answer; the next try finds out whether they were added.
        PolicyViolationError, InvalidAssignmentError, …: the cluster refuses.
    """
    with run.audited("create_partitions") as event:
        record = PartitionCountRecord(run.record)
        request, planned = record.recorded_request().request, record.require_planned()
        if request.validate_only:
            event.outcome, event.summary = "skipped", "validated only; nothing was changed in the cluster"
            return False
        added = record.added()
        if added is not None:
            event.summary = f"the partitions of {request.topic} were added at {added.added_at:%Y-%m-%d %H:%M:%S %Z}"
            return True
        to_create = _create(run, request, planned.assignments)
        record.write_added(Added(added_at=run.now()))
        event.facts = {"created": _listed(to_create), "planned": _listed(planned.assignments)}
        event.summary = (
            f"{len(to_create)} partitions added: {request.topic} has {request.partitions} now"
            if to_create
            else f"nothing left to add, an earlier try or another client has done it: {request.topic} has at least {request.partitions} now"
        )
        run.log.warning("%s", keys_note(request, first=min(planned.assignments)))
        return True


def verify(run: RunContext) -> str:
    """Compare the new partitions with their placement: there, with as many replicas, led, all in sync; name those that were moved since.

    Raises:
        VerificationError: they are not so; the message names them and the next step.
    """
    with run.audited("verify_partition_count") as event:
        record = PartitionCountRecord(run.record)
        request, planned = record.recorded_request().request, record.require_planned()
        until = run.now() + timedelta(seconds=SETTLE_SECONDS)
        while True:
            states = _topic_states(run, request.topic)
            wrong = not_as_wanted(request.topic, planned.assignments, states)
            if not wrong or run.now() >= until:
                break
            run.sleep(0.5)
        moved = moved_since(request.topic, planned.assignments, states)
        event.facts = {"partitions": len(states), "wrong": wrong, "moved_since": moved}
        event.summary = (
            f"topic {request.topic} has {len(states)} partitions; those that were added ({len(planned.assignments)}) are "
            + (
                f"led and in sync; moved since: {name_some(moved, 5)}"
                if moved
                else "where they were planned, led and in sync"
            )
        )
        if wrong:
            raise VerificationError(
                f"The new partitions of {request.topic} are not as planned: {name_some(wrong, 5)}",
                Correct("start the brokers they are on, or find out who moved them"),
                Rerun("verify"),
            )
        if len(states) > request.partitions:
            event.summary += f"; another client has added {len(states) - request.partitions} more"
        return event.summary


def _create(run: RunContext, request: PartitionCountRequest, planned: Mapping[int, Replicas]) -> Mapping[int, Replicas]:
    """Add what is missing, and return it.

    A broker's metadata follows the controller by a moment, so that after a crash the topic may look as if nothing
    had been added: the controller then refuses, and another look shows it.
    """
    to_create = _left(run, request, planned)
    if not to_create:
        return to_create
    refusal = run.cluster.create_partitions(request.topic, to_create)
    if refusal is None:
        return to_create
    error = refused(refusal, doing(request.topic, to_create), request.asked, "create_partitions")
    if isinstance(error, (InvalidPartitionsError, InvalidAssignmentError)):
        run.sleep(1.0)
        if not _left(run, request, planned):
            return {}
    raise error


def _left(run: RunContext, request: PartitionCountRequest, planned: Mapping[int, Replicas]) -> Mapping[int, Replicas]:
    view, moving = look_at_moves(run, request.topic)
    brokers = {b for replicas in planned.values() for b in replicas}
    unfit = unfit_brokers(run, request, run.cluster.describe_cluster(), brokers)
    return partitions_to_create(request.topic, planned, view, moving, unfit, request.asked)


def _topic_states(run: RunContext, topic: str) -> dict[TopicPartition, PartitionState]:
    states = run.cluster.describe_partitions([topic])
    if not states:
        raise UnknownTopicOrPartitionError(
            f"'topic' names {topic!r}, which the cluster does not have",
            Correct("correct the name, or create the topic with the count that is wanted"),
        )
    return states


def _check_excluded(
    request: PartitionCountRequest,
    description: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionState],
) -> None:
    known = description.known_brokers(partitions)
    check_brokers_known(request.exclude_brokers, known, subject="'exclude_brokers'", advice=Correct("correct the ids"))


def _listed(assignments: Mapping[int, Replicas]) -> dict[str, list[int]]:
    return {str(number): list(replicas) for number, replicas in sorted(assignments.items())}
