"""Admission of a batch: the reasons why it may not start now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_reassignment.decisions.moves import (
    ADDED_AND_REMOVED,
    Expansions,
    expansions_to_submit,
    never_completes,
    to_begin,
    waits_for,
)
from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, Sample
from kafka_reassignment.decisions.throttle.wanted import Side
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Batch, LogDir, Replicas, TopicPartition, View
from kafka_reassignment.text import format_brokers, format_bytes


@dataclass(frozen=True, slots=True)
class Health:
    """The unhealthy partitions of a cluster, each once: offline, else under min ISR, else under-replicated."""

    offline: tuple[TopicPartition, ...] = ()
    under_min_isr: tuple[TopicPartition, ...] = ()
    under_replicated: tuple[TopicPartition, ...] = ()

    @property
    def kinds(self) -> tuple[tuple[str, tuple[TopicPartition, ...]], ...]:
        """Each kind in words, with its partitions."""
        return (
            ("offline", self.offline),
            ("under min.insync.replicas", self.under_min_isr),
            ("under-replicated", self.under_replicated),
        )

    @property
    def count(self) -> int:
        """How many partitions are unhealthy."""
        return sum(len(those) for _, those in self.kinds)

    def elsewhere(self, own: Collection[TopicPartition]) -> Health:
        """Return those that are not among some partitions: what a batch moves is no reason to hold it up."""
        return Health(*(tuple(p for p in those if p not in own) for _, those in self.kinds))

    def beyond(self, allowed: int) -> Health:
        """Return all of them where they are more than so many, else none."""
        return self if self.count > allowed else Health()


NONE_UNHEALTHY = Health()


def health(
    seen: View,
    *,
    leaving_brokers: Collection[int] = (),
    targets: Mapping[TopicPartition, Replicas] | None = None,
) -> Health:
    """Return the unhealthy partitions, without what the reassignment itself repairs.

    A replica that is being added does not count as missing (F32, KIP-352). A replica that the reassignment takes away
    does not count either, because it is replaced; nor does a partition under min ISR that has enough replicas then.
    Where ``min.insync.replicas`` is more than there are replicas, brokers ask for all of them
    (``Partition.effectiveMinIsr``, 4.3.1). An offline partition always counts: without a leader there is nothing to
    copy from.

    Args:
        seen: the partitions.
        leaving_brokers: every replica on them is replaced.
        targets: by partition, the replicas that it will have.
    """
    offline: list[TopicPartition] = []
    under_min_isr: list[TopicPartition] = []
    under_replicated: list[TopicPartition] = []
    for partition, state in sorted(seen.partitions.items()):
        flight = seen.in_flight.get(partition)
        target = (targets or {}).get(partition, state.replicas)
        leaving = (set(state.replicas) - set(target)) | set(leaving_brokers)
        expected = set(state.replicas) - set(flight.adding if flight else ()) - leaving
        synced = seen.in_sync(partition)
        arriving = set(target) & seen.live_brokers - set(state.replicas)
        replaced = len(arriving) or len((leaving & set(state.replicas)) - synced)
        if state.leader is None:
            offline.append(partition)
        elif len(synced) + replaced < min(seen.min_insync_replicas.get(partition.topic, 1), len(state.replicas)):
            under_min_isr.append(partition)
        elif not expected <= synced:
            under_replicated.append(partition)
    return Health(tuple(offline), tuple(under_min_isr), tuple(under_replicated))


def reasons_to_wait(
    batch: Batch,
    seen: View,
    *,
    unhealthy: Health = NONE_UNHEALTHY,
    foreign: Collection[TopicPartition] = (),
    of_superseded: Mapping[TopicPartition, str] | None = None,
    hung: Mapping[TopicPartition, str] | None = None,
    throttled: Collection[TopicPartition] = (),
    full: Sequence[str] = (),
    supersede: bool = False,
    goes_without_blocked: bool = False,
    other_reasons: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return every reason why a batch may not start now; call again until there is none.

    A batch that has started is judged by the same rules; its own moves are no reason to wait. A step that cannot
    start now is no reason for the others to wait. That its partitions are unhealthy is none either: replicas are moved
    because of it.

    Args:
        batch: the batch to start.
        seen: the batch's own partitions.
        unhealthy: partitions elsewhere, where they are more than the request allows.
        foreign: partitions that this reassignment does not move and that are in flight, anywhere in the cluster (F30).
        of_superseded: which of these a superseded reassignment has left in flight, and why they are not cancelled yet;
            all others are another client's.
        hung: which of all these do not end by themselves, and why.
        throttled: which of all these copy under the throttle of this reassignment, because it began to.
        full: which log dirs have too little room, of ``disk_reasons``.
        supersede: moves of other clients of its partitions are cancelled when it is submitted.
        goes_without_blocked: start although no step can start now; all of them are left for later.
        other_reasons: found elsewhere: the maintenance window, ``outpaced``.
    """
    beginning = to_begin(batch, seen, supersede=supersede)
    reasons = [
        *other_reasons,
        *([] if goes_without_blocked else _blocked_reasons(expansions_to_submit(batch, seen), beginning)),
        *(f"{len(those)} partitions are {kind} ({name_some(those)})" for kind, those in unhealthy.kinds if those),
    ]
    staying = of_superseded or {}
    if of_others := sorted(set(foreign) - staying.keys()):
        reasons.append(
            f"another client is reassigning {name_some(of_others)}: let it finish, and pause tools that move replicas by "
            "themselves"
        )
    if staying:
        reasons.append(
            f"what was superseded still moves {name_some(f'{p} ({why})' for p, why in staying.items())}: it is cancelled "
            "as soon as that is safe"
        )
    if hung:
        reasons.append(f"these moves do not end by themselves: {name_some(f'{p} ({why})' for p, why in hung.items())}")
    if throttled:
        reasons.append(f"the throttle of this reassignment is on {name_some(throttled)}, which it began to move")
    return (*reasons, *full)


NO_LEADER = "it has no leader, and gets none by itself"
"""Why a move does not end though the brokers that may lead its partition are up: there is nothing to copy from (F19)."""


def hung_moves(seen: View) -> dict[TopicPartition, str]:
    """Return which of the moves in flight do not end by themselves, and why.

    Kafka never completes them (F34), their broker is down (F12), or they have no leader to copy from (F19).
    """
    hung: dict[TopicPartition, str] = {}
    for partition, flight in sorted(seen.in_flight.items()):
        if twice := never_completes(flight):
            hung[partition] = f"Kafka never completes it: broker {format_brokers(twice)} {ADDED_AND_REMOVED}"
        elif down := waits_for(flight, seen.live_brokers, seen.partitions.get(partition)):
            hung[partition] = f"it waits for broker {format_brokers(down)}, which is down"
        elif partition in seen.leaderless:
            hung[partition] = NO_LEADER
    return hung


def inbound_bytes_per_second(batch: Batch, seen: View, samples: Sequence[Sample]) -> dict[TopicPartition, float]:
    """Return what producers write to each partition of a batch, as its leader grows; deletions can hide some of it.

    Empty until there are two samples in the window.
    """
    recent = [s for s in samples if samples[-1].at_seconds - s.at_seconds <= SPEED_WINDOW_SECONDS]
    if len(recent) < 2:
        return {}
    first, last = recent[0], recent[-1]
    result: dict[TopicPartition, float] = {}
    for partition in batch.partitions:
        leader = state.leader if (state := seen.partitions.get(partition)) else None
        before, now = first.sizes.get(partition, {}), last.sizes.get(partition, {})
        if leader is not None and leader in before and leader in now:
            result[partition] = max(0.0, (now[leader] - before[leader]) / (last.at_seconds - first.at_seconds))
    return result


def new_writes(batch: Batch, seen: View, inbound: Mapping[TopicPartition, float]) -> dict[tuple[Side, int], float]:
    """Return the new writes that each side of each broker would have to copy for a batch, in bytes per second.

    Each new replica of a partition is sent all that producers write to it.
    """
    load: dict[tuple[Side, int], float] = {}
    for step in batch.steps:
        state, adding = seen.partitions.get(step.partition), step.reassignment.adding
        written = inbound.get(step.partition, 0.0)
        for broker in adding:
            load[Side.FOLLOWER, broker] = load.get((Side.FOLLOWER, broker), 0.0) + written
        if state is not None and state.leader is not None:
            load[Side.LEADER, state.leader] = load.get((Side.LEADER, state.leader), 0.0) + written * len(adding)
    return load


def outpaced(
    load: Mapping[tuple[Side, int], float], rates: Mapping[tuple[Side, int], int]
) -> dict[tuple[Side, int], str]:
    """Return why a rate can never finish, by side and broker of ``load``; nothing when all can.

    A new replica joins the ISR only when it copies faster than producers write. The rate is per broker and
    shared by all that it sends or receives (F2), so the writes to all moving partitions of a broker together have
    to stay below it (F1). A broker that takes no part may be as slow as a person wants it.

    Args:
        load: of ``new_writes``.
        rates: what each of them may reach, in bytes per second.
    """
    return {
        (side, broker): (
            f"at {format_bytes(rates[side, broker])}/s the batch can never finish: broker {broker} would have to {side.verb} "
            f"{format_bytes(written)}/s of new writes alone. Raise the rate above that, or move fewer partitions at once"
        )
        for (side, broker), written in sorted(load.items())
        if written >= rates[side, broker]
    }


def _blocked_reasons(due: Expansions, beginning: Batch) -> list[str]:
    """KIP-435: a step waits whose partition is offline or whose target broker is down; the other steps go on."""
    if not due.none_can_move(beginning):
        return []
    return [
        f"none of its {len(due.waiting)} partitions can be moved now: {name_some(f'{p}: {why}' for p, why in due.waiting.items())}"
    ]


def disk_reasons(beginning: Batch, log_dirs: Iterable[LogDir], keep_free_share: float) -> list[str]:
    """Return which log dirs have too little room for a batch.

    A broker puts a new replica where it has the fewest, not where there is room, so the worst log dir counts (F25).
    That one gets its share of what the broker receives, or its largest copy, as the planner counts it too.

    Args:
        beginning: what of the batch does not move yet.
        log_dirs: of the receiving brokers; those that report no sizes do not count.
        keep_free_share: the part of each log dir that has to stay free.
    """
    brought: dict[int, int] = {}
    largest: dict[int, int] = {}
    for step in beginning.steps:
        size = step.reassignment.size_bytes
        for broker in step.reassignment.adding:
            brought[broker] = brought.get(broker, 0) + size
            largest[broker] = max(largest.get(broker, 0), size)
    room: dict[int, tuple[float, LogDir]] = {}
    taking: dict[int, int] = {}
    for log_dir in log_dirs:
        if not log_dir.takes_replicas:
            continue
        taking[log_dir.broker] = taking.get(log_dir.broker, 0) + 1
        if log_dir.usable_bytes is None or log_dir.total_bytes is None:
            continue
        free = log_dir.usable_bytes - keep_free_share * log_dir.total_bytes
        if log_dir.broker not in room or free < room[log_dir.broker][0]:
            room[log_dir.broker] = (free, log_dir)
    needed = {b: max(largest[b], -(-size // taking[b])) for b, size in sorted(brought.items()) if b in room}
    return [
        f"log dir {room[broker][1].path} of broker {broker} has room for {format_bytes(max(0.0, room[broker][0]))} with "
        f"{keep_free_share:.0%} kept free, the batch may bring {format_bytes(size)}: free space there, or lower the limits and "
        "rerun start_batches"
        for broker, size in needed.items()
        if size > room[broker][0]
    ]
