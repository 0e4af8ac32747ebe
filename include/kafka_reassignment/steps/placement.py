"""Looking at a cluster and placing the new partitions of a topic, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.moves import is_half_way
from kafka_reassignment.decisions.partition_count import moving_text, refused, to_plan_again, to_wait_for_moves
from kafka_reassignment.decisions.placement import BrokerLoad, Growth, Placement, place
from kafka_reassignment.errors import (
    InvalidAssignmentError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    ReassignmentInProgressError,
    name_some,
)
from kafka_reassignment.model import ClusterDescription, ConfigResource, TopicPartition, View
from kafka_reassignment.ports import MAX_NEW_PARTITIONS
from kafka_reassignment.record.partition_count import NewPartitions
from kafka_reassignment.request import Job, PartitionCountRequest
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.view import log_dirs_and_cordons, min_insync_replicas, observe
from kafka_reassignment.steps.stopped.stopped_steps import steps_of_owner
from kafka_reassignment.text import format_brokers, format_bytes

CLEANUP = "cleanup.policy"

SHOWN = 30
"""Rows of the tables that people read; the record has all of them."""


def place_new_partitions(run: RunContext, request: PartitionCountRequest) -> NewPartitions:
    """Look, place, and let the controller check the placement without doing it; errors as in ``plan_placement``."""
    surroundings = _look(run, request)
    # The look at all brokers takes a while: the replicas that count are those that are seen where nothing moves.
    topic = check_nothing_moves(run, request.topic, "plan_placement").partitions
    check_count(request, len(topic))
    growth = Growth(
        request.topic,
        {p.partition: state.replicas for p, state in topic.items()},
        request.partitions,
        min_insync_replicas(run.cluster, [request.topic]).get(request.topic, 1),
        surroundings.mean_bytes,
    )
    placement = place(growth, surroundings.loads, surroundings.unfit)
    _validate(run, request, growth, placement)
    notes = (*placement.notes, keys_note(request, len(growth.present)), *_compaction_note(run, request.topic))
    return NewPartitions(
        planned_at=run.now(),
        replication_factor=placement.replication_factor,
        assignments=dict(placement.assignments),
        notes=notes,
        text=_in_words(request, placement, notes),
    )


def _validate(run: RunContext, request: PartitionCountRequest, growth: Growth, placement: Placement) -> None:
    """Let the controller check the placement without doing it."""
    refusal = run.cluster.create_partitions(growth.topic, placement.assignments, validate_only=True)
    if refusal is None:
        return
    error = refused(refusal, doing(growth.topic, placement.assignments), request.asked, "plan_placement")
    if isinstance(error, InvalidAssignmentError) and len({len(r) for r in growth.present.values()}) > 1:
        raise InvalidReplicationFactorError(
            f"The partitions of {growth.topic} differ in replicas; {placement.replication_factor} were planned for the new "
            f"ones, as most have, and the cluster wants another number ({refusal})",
            Correct("give all partitions of the topic one replication factor (job 'replication_factor')"),
            to_plan_again(request.asked),
        )
    raise error


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the placement rests on."""

    loads: tuple[BrokerLoad, ...]
    unfit: Mapping[int, str]
    mean_bytes: int


def _look(run: RunContext, request: PartitionCountRequest) -> _Surroundings:
    description = run.cluster.describe_cluster()
    partitions = run.cluster.describe_partitions()
    log_dirs = log_dirs_and_cordons(run.cluster, sorted(description.live_brokers))
    unfit = unfit_brokers(run, request, description)
    unfit |= {b: f"its log dirs are not known ({why})" for b, why in log_dirs.unreachable.items() if b not in unfit}
    open_to_new = {d.broker for d in log_dirs.log_dirs if d.takes_replicas}
    unfit |= {
        d.broker: "each of its log dirs is cordoned or offline"
        for d in log_dirs.log_dirs
        if d.broker not in open_to_new | unfit.keys()
    }
    held: Counter[int] = Counter()
    largest: Counter[TopicPartition] = Counter()
    for replica in log_dirs.replicas:
        held[replica.broker] += replica.size_bytes
        if replica.partition.topic == request.topic and not replica.is_future:
            largest[replica.partition] = max(largest[replica.partition], replica.size_bytes)
    replicas = Counter(b for state in partitions.values() for b in state.replicas)
    leaders = Counter(state.replicas[0] for state in partitions.values())
    loads = (
        BrokerLoad(b, broker.rack, held[b], replicas[b], leaders[b])
        for b, broker in description.brokers.items()
        if b not in unfit
    )
    return _Surroundings(tuple(loads), unfit, sum(largest.values()) // len(largest) if largest else 0)


def unfit_brokers(
    run: RunContext, request: PartitionCountRequest, description: ClusterDescription, planned: Collection[int] = ()
) -> dict[int, str]:
    """Return why brokers get no new partition; they may hold others.

    ``planned`` are brokers that are to get some: below Kafka 4.0 a dead one is not described at all (KIP-1073).
    """
    unfit = dict.fromkeys({*description.brokers, *planned} - description.live_brokers, "it is down")
    unfit |= dict.fromkeys(request.exclude_brokers, "the request excludes it")
    lock_owner = run.store.lock_owner(run.record.cluster_id)
    owning = None if lock_owner is None else run.store.record(run.record.cluster_id, lock_owner.reassignment_id)
    # A sweep, or a throttle for moves of others, has the lock without a request.
    if owning is not None and owning.exists:
        other = owning.recorded_request().request
        if other.job is Job.DECOMMISSION:
            unfit |= dict.fromkeys(other.brokers, f"reassignment {owning.reassignment_id} is emptying it")
    return unfit


def check_count(request: PartitionCountRequest, present: int) -> None:
    """Refuse a count that is no increase, or one too large for one request.

    Raises:
        InvalidPartitionsError: says what the topic has.
    """
    if request.partitions < present:
        raise InvalidPartitionsError(
            f"Topic {request.topic} has {present} partitions, asked for {request.partitions}: Kafka cannot lower the count",
            Correct("ask for more, or copy the topic into a new one"),
        )
    if request.partitions == present:
        raise InvalidPartitionsError(
            f"Topic {request.topic} has {present} partitions already, expected fewer than the {request.partitions} asked for: "
            "there is nothing to do",
            Correct("ask for more if that is meant"),
        )
    if request.partitions - present > MAX_NEW_PARTITIONS:
        raise InvalidPartitionsError(
            f"Topic {request.topic} has {present} partitions, asked for {request.partitions}: that is "
            f"{request.partitions - present} more, expected at most {MAX_NEW_PARTITIONS} at once",
            Correct("grow it in several runs"),
        )


def check_nothing_moves(run: RunContext, topic: str, step: str) -> View:
    """Refuse while partitions of the topic are being reassigned, else return what is seen; ``step`` is the one that looks.

    Raises:
        ReassignmentInProgressError: names them.
        RecordDamagedError: nobody can tell what the reassignment that has the cluster's lock has half-way.
    """
    view, moving = look_at_moves(run, topic)
    if moving:
        raise ReassignmentInProgressError(moving_text(topic, view, moving), *to_wait_for_moves(step))
    return view


def look_at_moves(run: RunContext, topic: str) -> tuple[View, frozenset[TopicPartition]]:
    """Return what is seen of a topic, and which of its partitions are being reassigned: in flight, or half-way.

    Half-way are those that a reassignment has between its expansion and its drop: nothing of them is in flight, and
    they have old and new replicas.

    Raises:
        RecordDamagedError: as ``check_nothing_moves``.
    """
    steps = [s for s in steps_of_owner(run) if s.partition.topic == topic]
    view = observe(run.cluster, list(run.cluster.describe_partitions([topic])))
    return view, frozenset({*view.in_flight, *(s.partition for s in steps if is_half_way(s, view))})


def headline(request: PartitionCountRequest, planned: NewPartitions | Placement) -> str:
    """Return a placement in one line."""
    numbers = sorted(planned.assignments)
    return (
        f"{request.topic} grows from {numbers[0]} to {request.partitions} partitions: {len(numbers)} new, with "
        f"{planned.replication_factor} replicas each"
    )


def keys_note(request: PartitionCountRequest, first: int) -> str:
    """Return what happens to keys, which nobody who grows a topic should learn from production."""
    return (
        f"Keys map to other partitions of {request.topic} once it has {request.partitions} instead of {first}: a key's earlier and "
        "later messages lie in different partitions, their order is lost, and consumers that keep state by partition see "
        "keys move."
    )


def _compaction_note(run: RunContext, topic: str) -> Collection[str]:
    resource = ConfigResource.topic(topic)
    policy = run.cluster.describe_configs([resource], [CLEANUP]).get(resource, {}).get(CLEANUP)
    if policy is None or "compact" not in (policy.value or ""):
        return ()
    return (f"{topic} is compacted: the last value of a key that moves stays in its old partition too, for ever.",)


def doing(topic: str, assignments: Collection[int]) -> str:
    """Return what the cluster is asked for, for messages."""
    return f"adding partitions {name_some(sorted(assignments))} to topic {topic}"


def _in_words(request: PartitionCountRequest, placement: Placement, notes: Collection[str]) -> str:
    """Return a placement as Markdown."""
    verb = "Validated only; this would be done" if request.validate_only else "To be done"
    rows = sorted(placement.assignments.items())
    lines = [
        f"{verb}: {headline(request, placement)}",
        "",
        "| new partition | replicas, the preferred leader first |",
        "|-|-|",
    ]
    lines += [f"| {request.topic}-{number} | {format_brokers(replicas)} |" for number, replicas in rows[:SHOWN]]
    if len(rows) > SHOWN:
        lines.append(f"\nThe first {SHOWN} of {len(rows)}.")
    lines += [
        "",
        "| broker | rack | bytes | replicas of the topic now | after | leaders now | after |",
        "|-|-|-|-|-|-|-|",
    ]
    lines += [
        f"| {s.broker_id} | {s.rack or '-'} | {format_bytes(s.size_bytes)} | {s.replicas_before} | {s.replicas_after} "
        f"| {s.leaders_before} | {s.leaders_after} |"
        for s in placement.shares[:SHOWN]
    ]
    if len(placement.shares) > SHOWN:
        lines.append(f"\nThe first {SHOWN} brokers of {len(placement.shares)}.")
    return "\n".join([*lines, "", *(f"* {note}" for note in notes)])
