"""Auto rate: the rate of what copies goes down while others suffer, and up while all is calm."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.auto_rate import (
    RateWatch,
    Signals,
    auto_rate_in_words,
    decide_rate,
    out_of_sync,
)
from kafka_reassignment.decisions.rate import rate_of_all_brokers
from kafka_reassignment.errors import InvalidRequestError, ReassignmentError, UnknownTopicOrPartitionError
from kafka_reassignment.model import Batch, PartitionState, TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import MEGABYTE, ReassignmentRequest
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.rate import change_rate

MOST_CANARIES = 100
"""Partitions of a canary topic to which messages are written in one look."""

CANARY_ROUNDS = 10
CANARY_PAUSE_SECONDS = 0.2
"""Copies come in bursts of a second, because a follower that has had its share of the quota sleeps: messages meet all of one."""

CANARY_SECONDS = 10.0
"""No further round begins when messages have taken so long."""


def adjust_rate_to_signals(run: RunContext, recorded: RecordView, batch: Batch) -> tuple[str, RateWatch | None]:
    """Lower or raise the rate by what is seen, where the request asks for it, with an audit event of its own.

    A signal that cannot be seen fails nothing: then the rate is not raised. A person's change of the rate ends auto
    rate, and it waits while the cluster's health has lowered the rate.

    Args:
        run: its record has the journal.
        recorded: what the look has read of the record; its progress note has what the look before kept.
        batch: what copies: its own partitions do not count.

    Returns:
        What to say in the line of progress, and what to keep for the next look.
    """
    request, journal = run.request, recorded.journal()
    requested, in_force = request.throttle_bytes_per_second, rate_of_all_brokers(request, journal)
    if not request.auto.auto_rate or requested is None or in_force is None:
        return "", None
    stands = auto_rate_in_words(request.auto, requested, journal)
    if journal.rate_set_by_hand:
        return f"; {stands}", None
    latest = journal.rate_changes[-1] if journal.rate_changes else None
    if latest is not None and latest.is_slowdown:
        return f"; {stands}: it waits while the cluster is unhealthy", None
    due = decide_rate(
        request.auto,
        requested,
        in_force,
        latest.at if latest else None,
        _signals_of(run, batch),
        _kept(recorded, batch),
        run.now(),
    )
    if due.bytes_per_second is not None:
        summary = change_rate(
            run,
            asked_bytes_per_second=due.bytes_per_second,
            allow_low=True,  # the bounds were checked with the request
            decided_on=journal,
            because=f"auto rate {'lowers' if due.bytes_per_second < in_force else 'raises'} it: {due.because}",
        )
        run.log.warning("%s", summary)
    return f"; {_in_words(stands, in_force, rate_of_all_brokers(request, recorded.journal()), due.because)}", due.watch


def check_signals(
    cluster: ClusterPort, request: ReassignmentRequest, states: Mapping[TopicPartition, PartitionState]
) -> None:
    """Refuse a request whose canary topic or consumer groups are not there, or may not be used.

    Args:
        cluster: a canary message is written to each partition of the topic, unless the request is only validated.
        request: names them.
        states: all partitions of the cluster.

    Raises:
        UnknownTopicOrPartitionError: the canary topic does not exist, or has no leader.
        InvalidRequestError: a group has committed no offsets.
        NotAuthorizedError: the right to write to the topic, or to describe a group, is missing.
    """
    auto = request.auto
    if auto.canary_topic is not None:
        partitions = _canary_partitions(auto.canary_topic, states)
        if not partitions:
            raise UnknownTopicOrPartitionError(
                f"'canary_topic' names {auto.canary_topic}, expected a topic of the cluster with a leader, found none",
                Correct("create the topic, or correct its name"),
            )
        if not request.validate_only:
            cluster.produce_latencies(partitions)
    for group in auto.watched_groups:
        if not cluster.committed_offsets(group):
            raise InvalidRequestError(
                f"'watched_groups' names {group}, expected a consumer group that has committed offsets, found none",
                Correct("correct the name, or start its consumers first"),
            )


def _signals_of(run: RunContext, batch: Batch) -> Signals:
    """Look at what auto rate goes by: canary messages, the lag of groups, and the ISR of all that does not move."""
    cluster, auto = run.cluster, run.request.auto
    try:
        states = cluster.describe_partitions()
        moving = {*batch.partitions, *cluster.list_reassignments()}
        live = cluster.describe_cluster().live_brokers
    except ReassignmentError as error:
        return Signals(not_seen=(f"the partitions of the cluster are not seen: {error}",))
    not_seen: list[str] = []
    slow: tuple[float, ...] = ()
    try:
        slow = _slow_canaries(run, states, moving)
    except ReassignmentError as error:
        not_seen.append(f"canary messages are not written: {error}")
    lags: dict[str, int] = {}
    for group in auto.watched_groups:
        try:
            lags[group] = _lag(cluster, group, states)
        except ReassignmentError as error:
            not_seen.append(f"the lag of group {group} is not seen: {error}")
    return Signals(slow, lags, out_of_sync(states, moving, live), tuple(not_seen))


def _canary_partitions(
    topic: str, states: Mapping[TopicPartition, PartitionState], moving: Collection[TopicPartition] = ()
) -> list[TopicPartition]:
    """Return the partitions that canary messages are written to."""
    there = (p for p, s in states.items() if p.topic == topic and p not in moving and s.leader is not None)
    return sorted(there)[:MOST_CANARIES]


def _slow_canaries(
    run: RunContext,
    states: Mapping[TopicPartition, PartitionState],
    moving: Collection[TopicPartition],
) -> tuple[float, ...]:
    """Write canary messages in some rounds; return the slowest of each round that was too slow, in seconds."""
    auto = run.request.auto
    if auto.canary_topic is None:
        return ()
    partitions = _canary_partitions(auto.canary_topic, states, moving)
    if not partitions:
        raise ReassignmentError(f"Topic {auto.canary_topic} has no partition with a leader that does not move")
    slowest: list[float] = []
    for number in range(CANARY_ROUNDS):
        if number:
            run.sleep(CANARY_PAUSE_SECONDS)
        slowest.append(max(run.cluster.produce_latencies(partitions).values(), default=0.0))
        if sum(slowest) > CANARY_SECONDS:
            break
    return tuple(seconds for seconds in slowest if seconds * 1000 > auto.canary_limit_ms)


def _lag(cluster: ClusterPort, group: str, states: Mapping[TopicPartition, PartitionState]) -> int:
    """How many messages a group is behind.

    Raises:
        ReassignmentError: the end of one of its partitions is not known now, or it has committed nothing.
    """
    committed = {p: offset for p, offset in cluster.committed_offsets(group).items() if p in states}
    if not committed:
        raise ReassignmentError("it has committed no offsets")
    ends = cluster.end_offsets(committed)
    if missing := committed.keys() - ends.keys():
        raise ReassignmentError(f"the leader of {min(missing)} does not answer")
    return sum(max(0, ends[p] - offset) for p, offset in committed.items())


def _kept(recorded: RecordView, batch: Batch) -> RateWatch | None:
    note = recorded.progress()
    if note is None or note.watch is None:
        return None
    return note.watch if note.batch == batch.number else note.watch.of_next_batch()


def _in_words(stands: str, before: int, now: int | None, because: str) -> str:
    change = "" if now is None or now == before else "lowered to " if now < before else "raised to "
    return f"{stands}: {change}{(now or before) / MEGABYTE:g} MB/s, {because}"
