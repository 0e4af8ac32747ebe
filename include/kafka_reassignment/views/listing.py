"""What is in flight in a cluster and which client moves it, and the reassignments that the records have.

Only reads: no lock of the cluster is needed, and it may run beside a reassignment at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from kafka_reassignment.decisions.moves import phase
from kafka_reassignment.errors import RecordDamagedError, name_some
from kafka_reassignment.model import InFlight, Replicas, TopicPartition, View
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.catalogue import (
    Catalogue,
    ReassignmentStatus,
    RecordedReassignment,
    catalogue,
    find_reassignment,
)
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.views.current_batch import CurrentBatch
from kafka_reassignment.views.overview import UNEVENTFUL, Overview, identity, plan_value

MAX_REMAINING = 1_000
"""Partitions of a plan whose remaining targets are listed unless all are asked for: a task's result must stay small."""


NOT_OVER = (ReassignmentStatus.UNLOCKED, ReassignmentStatus.UNKNOWN)
EARLIER = (ReassignmentStatus.FINISHED, ReassignmentStatus.STOPPED, ReassignmentStatus.ENDED)
"""What is counted beside the one that has the lock."""


class Whose(StrEnum):
    """Which moves in flight to list."""

    ALL = "all"
    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Move:
    """One partition in flight; ``reassignment_id`` and ``batch`` are None for another client's move."""

    partition: TopicPartition
    flight: InFlight
    reassignment_id: str | None = None
    batch: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; ``replicas`` is what the partition will have, as in Kafka's own JSON."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "replicas": list(self.flight.target),
            "adding": list(self.flight.adding),
            "removing": list(self.flight.removing),
            "reassignment_id": self.reassignment_id,
            "batch": self.batch,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """A cluster's reassignments at one moment."""

    cluster_id: str
    moves: tuple[Move, ...]
    overviews: tuple[Overview, ...] = ()
    known: Catalogue = field(default_factory=Catalogue)

    def targets(self, whose: Whose = Whose.ALL) -> dict[TopicPartition, Replicas]:
        """Return the targets in flight: of all moves, of ours, or of other clients'."""
        return {
            m.partition: m.flight.target
            for m in self.moves
            if whose is Whose.ALL or (m.reassignment_id is None) is (whose is Whose.FOREIGN)
        }

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values; ``in_flight`` is what kafka-reassign-partitions takes."""
        return {
            "cluster_id": self.cluster_id,
            "in_flight": plan_value(self.targets()),
            "moves": [m.as_json() for m in self.moves],
            "reassignments": [o.as_json() for o in self.overviews],
            **{str(status): [identity(r) for r in self.known.of(status)] for status in ReassignmentStatus},
            "unreadable": list(self.known.unreadable),
        }

    def lines(self) -> Iterator[str]:
        """Describe it in words, the most important first."""
        if not self.moves:
            yield f"Nothing is in flight in cluster {self.cluster_id}"
        for reassignment_id, moves in sorted(self._by_owner().items(), key=lambda item: (item[0] is None, item[0])):
            owner = f"of reassignment {reassignment_id}" if reassignment_id else "of another client"
            yield f"In flight {owner}: {len(moves)} partitions ({name_some(m.partition for m in moves)})"
        for overview in self.overviews:
            yield str(overview)
            eventful = [f"{p}: {s}" for p, s in sorted(overview.move_statuses.items()) if s.status not in UNEVENTFUL]
            if eventful:
                yield f"Look at {name_some(eventful, 10)}"
        for what, statuses in (("Not over", NOT_OVER), ("Earlier", EARLIER)):
            counts = {status: len(self.known.of(status)) for status in statuses}
            if any(counts.values()):
                yield f"{what}: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        yield from self.known.unreadable

    def _by_owner(self) -> dict[str | None, list[Move]]:
        owned: dict[str | None, list[Move]] = {}
        for move in self.moves:
            owned.setdefault(move.reassignment_id, []).append(move)
        return owned


def list_reassignments(
    cluster: ClusterPort,
    store: RecordStore | None,
    *,
    reassignment_id: str | None = None,
    all_remaining: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Listing:
    """List what is in flight in the cluster, and the reassignments that the records have.

    The cost does not grow with the cluster: the controller is asked for all that is in flight, brokers only for the
    partitions of the current batch and, for what is left of the plan, for its topics.

    Args:
        cluster: the cluster.
        store: the records; without them every move counts as another client's.
        reassignment_id: the one to show in full; by default the one that has locked the cluster.
        all_remaining: list the remaining targets of its plan however many there are.
        sleep: waits between two looks at doubtful states.

    Raises:
        RecordError: there is no record of the reassignment, or the store does not answer.
    """
    cluster_id = cluster.describe_cluster().cluster_id
    if store is None:
        return Listing(cluster_id, tuple(Move(p, f) for p, f in sorted(cluster.list_reassignments().items())))
    known = catalogue(store, cluster_id)
    is_known = reassignment_id is not None or known.lock.error is None
    shown = find_reassignment(store, cluster_id, reassignment_id) if is_known else None
    overviews = (_overview(cluster, shown, sleep, all_remaining=all_remaining),) if shown else ()
    unreadable = [text for overview in overviews for text in overview.unreadable]
    moves = tuple(_owned(cluster.list_reassignments(), known, overviews, unreadable))
    return Listing(cluster_id, moves, overviews, replace(known, unreadable=(*known.unreadable, *unreadable)))


def _overview(
    cluster: ClusterPort,
    reassignment: RecordedReassignment,
    sleep: Callable[[float], None],
    *,
    all_remaining: bool,
) -> Overview:
    current = CurrentBatch.of(reassignment.record)
    remaining = _remaining(cluster, reassignment, all_remaining=all_remaining)
    return Overview(reassignment, current, current.look(cluster, sleep), remaining)


def _remaining(
    cluster: ClusterPort, reassignment: RecordedReassignment, *, all_remaining: bool
) -> dict[TopicPartition, Replicas] | None:
    record = reassignment.record
    if record.frozen_plan() is None or reassignment.status is ReassignmentStatus.FINISHED:
        return {}  # what is finished was verified, and later ones may have moved it on
    planned = islice(read_target(record.plan_ref()), None if all_remaining else MAX_REMAINING + 1)
    targets = {move.partition: move.target for move in planned}
    if len(targets) > MAX_REMAINING and not all_remaining:
        return None
    states = cluster.describe_partitions(sorted({p.topic for p in targets}))
    withdrawn = record.withdrawn_partitions()
    return {p: t for p, t in targets.items() if p in states and states[p].replicas != t and str(p) not in withdrawn}


def _owned(
    in_flight: Mapping[TopicPartition, InFlight],
    known: Catalogue,
    overviews: Iterable[Overview],
    unreadable: list[str],
) -> Iterator[Move]:
    """Find the owner of each move: first among the overviews, then among others whose current batch was submitted.

    One of the others that is damaged hides nothing of the rest: it is added to ``unreadable``.
    """
    owners: dict[TopicPartition, tuple[str, int]] = {}
    for overview in overviews:
        owners |= _moves_of(overview.reassignment, overview.current, in_flight)
    looked_at = {overview.reassignment.reassignment_id for overview in overviews}
    others = (
        reassignment
        for status in ReassignmentStatus
        if status is not ReassignmentStatus.FINISHED
        for reassignment in reversed(known.of(status))
    )
    for other in others:
        if in_flight.keys() <= owners.keys():
            break
        if other.reassignment_id in looked_at:
            continue
        try:
            current = CurrentBatch.of(other.record)
        except RecordDamagedError as error:
            unreadable.append(f"Which moves are of {other.reassignment_id} is not known: {error.problem}")
            continue
        if current.submitted is not None or current.left_open:
            owners = _moves_of(other, current, in_flight) | owners
    for partition, flight in sorted(in_flight.items()):
        yield Move(partition, flight, *owners.get(partition, (None, None)))


def _moves_of(
    reassignment: RecordedReassignment, current: CurrentBatch, in_flight: Mapping[TopicPartition, InFlight]
) -> dict[TopicPartition, tuple[str, int]]:
    if current.batch is None:
        return {}
    view = View(frozenset(), {}, in_flight)
    ours = [s.partition for s in current.steps if s.partition in in_flight and phase(s, view).ours]
    return {p: (reassignment.reassignment_id, number) for p in ours if (number := current.batch_of(p))}
