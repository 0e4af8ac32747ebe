"""Which partitions to describe: the current batch, chosen partitions or topics, a plan, or whatever is in flight."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from kafka_reassignment.decisions.move_status import ReportedStatus, move_statuses
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import Batch, Replicas, Step, TopicPartition, View
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.catalogue import RecordedReassignment, find_reassignment
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.rate import rate_in_force
from kafka_reassignment.views.current_batch import CurrentBatch

MOST = 500
"""Partitions described at once: a task's result must stay small, and nobody reads more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to describe; with nothing named, the current batch of whoever holds the cluster, else all that is in flight.

    ``topics`` are names or patterns, and choose among what is being reassigned. ``assignments`` are those of a
    kafka-reassign-partitions file: each partition and broker in it gets a status, as with KIP-179's ``--progress``.
    """

    reassignment_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    assignments: Mapping[TopicPartition, Replicas] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        reassignment_id: str | None = None,
        partitions: Iterable[str] = (),
        topics: Iterable[str] = (),
        reassignment_json: str | bytes | None = None,
    ) -> Self:
        """Read it from texts; partitions are written ``orders-3``.

        Raises:
            InvalidRequestError: a partition is not written so, or the JSON is no plan.
        """
        try:
            chosen = tuple(dict.fromkeys(TopicPartition.parse(p.strip()) for p in partitions))
        except ValueError as error:
            raise InvalidRequestError(f"'partitions': {error}. Correct it; topics have a field of their own") from None
        assignments = parse_plan(reassignment_json) if reassignment_json else {}
        return cls(reassignment_id or None, chosen, tuple(t.strip() for t in topics), assignments)

    @property
    def chooses(self) -> bool:
        """Whether partitions, topics or a plan are named."""
        return bool(self.partitions or self.topics or self.assignments)


@dataclass(frozen=True, slots=True)
class Selection:
    """What will be described.

    ``steps`` are moves: of the current batch, or made of another client's moves in flight. ``asked`` are the brokers
    whose status is wanted, of the partitions that say so; of the others it is those of their target, or of their
    replicas.
    """

    cluster_id: str
    one: RecordedReassignment | None
    current: CurrentBatch | None
    steps: tuple[Step, ...]
    foreign: frozenset[TopicPartition]
    partitions: tuple[TopicPartition, ...]
    asked: Mapping[TopicPartition, Replicas]
    notes: tuple[str, ...]

    @property
    def bytes_per_second(self) -> int | None:
        """The rate that was asked for, where all of the moves are under it."""
        return None if self.foreign or self.one is None else rate_in_force(self.one.record)

    def move_statuses(self, seen: View) -> dict[TopicPartition, ReportedStatus]:
        """Tell how each chosen move stands."""
        told = move_statuses(Batch(1, tuple(s for s in self.steps if s.partition in self.foreign)), seen)
        ours = self.current.move_statuses(seen) if self.current else {}
        return told | {s.partition: ours[s.partition] for s in self.steps if s.partition not in told}


def choose(cluster: ClusterPort, store: RecordStore | None, asked: Asked) -> Selection:
    """Find the moves that were asked for.

    Raises:
        InvalidRequestError: a reassignment is named, but there are no records to find it in.
        RecordError: there is no record of it, or the store does not answer.
    """
    cluster_id = cluster.describe_cluster().cluster_id
    if store is None and asked.reassignment_id:
        raise InvalidRequestError(
            f"Reassignment {asked.reassignment_id} is asked for, expected a record to find it in, found no record URI. "
            "Give the record URI, or name partitions"
        )
    one = find_reassignment(store, cluster_id, asked.reassignment_id) if store else None
    current = CurrentBatch.of(one.record) if one else None
    steps = {s.partition: s for s in current.batch.steps} if current and current.batch else {}
    notes: list[str] = []
    if current is not None and current.batch is None and one is not None:
        notes.append(_nothing_left(one, current))
    if one is not None and not asked.chooses:
        return _chosen(cluster_id, one, current, steps, {}, steps, asked, notes)
    in_flight = cluster.list_reassignments()
    foreign = {p: Step(f.as_reassignment(p)) for p, f in in_flight.items() if p not in steps}
    if not asked.chooses:
        if not foreign:
            notes.append(f"Nothing is in flight in cluster {cluster_id}, and no reassignment has locked it")
        return _chosen(cluster_id, one, current, steps, foreign, foreign, asked, notes)
    wanted = dict.fromkeys([*asked.assignments, *asked.partitions])
    for pattern in asked.topics:
        matching = sorted(p for p in {*steps, *foreign} if fnmatch.fnmatchcase(p.topic, pattern))
        wanted |= dict.fromkeys(matching)
        if not matching:
            notes.append(f"No partition of topic {pattern!r} is being reassigned")
    return _chosen(cluster_id, one, current, steps, foreign, wanted, asked, notes)


def _chosen(
    cluster_id: str,
    one: RecordedReassignment | None,
    current: CurrentBatch | None,
    ours: Mapping[TopicPartition, Step],
    foreign: Mapping[TopicPartition, Step],
    wanted: Iterable[TopicPartition],
    asked: Asked,
    notes: list[str],
) -> Selection:
    everything = list(wanted)
    partitions = tuple(everything[:MOST])
    if len(everything) > MOST:
        notes.append(
            f"The first {MOST} of {len(everything)} partitions are described; name partitions or topics to see others"
        )
    steps = [ours.get(p) or foreign.get(p) for p in partitions]
    return Selection(
        cluster_id,
        one,
        current,
        tuple(s for s in steps if s is not None),
        frozenset(p for p in partitions if p in foreign and p not in ours),
        partitions,
        asked.assignments,
        tuple(notes),
    )


def _nothing_left(one: RecordedReassignment, current: CurrentBatch) -> str:
    if current.batches == 0 and one.record.frozen_plan() is None:
        return f"Reassignment {one.reassignment_id} is {one.status} and has no plan yet: it moves nothing"
    return (
        f"All {current.batches} batches of reassignment {one.reassignment_id} are finished: nothing of it is left to "
        "describe"
    )
