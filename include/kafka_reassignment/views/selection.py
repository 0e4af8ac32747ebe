"""Which partitions to describe: the current batch, named partitions or topics, those of a plan, or all in flight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from kafka_reassignment.advice import Advice, Correct
from kafka_reassignment.decisions.move_status import ReportedStatus, move_statuses
from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import Batch, Replicas, Step, TopicPartition, View
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.catalogue import RecordedReassignment, find_reassignment
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request.topics import topic_matches
from kafka_reassignment.views.current_batch import CurrentBatch

MAX_DESCRIBED = 500
"""Partitions described at once: a task's result must stay small, and nobody reads more."""


@dataclass(frozen=True, slots=True)
class DescribeQuery:
    """What to describe.

    With nothing named it is the current batch of the reassignment that has locked the cluster, or without one all
    that is in flight. ``topics`` are names or patterns, and select among what is being reassigned. ``assignments``
    are those of a kafka-reassign-partitions file: each partition and broker in it gets a status, as with KIP-179's
    ``--progress``.
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
            named = tuple(dict.fromkeys(TopicPartition.parse(p.strip()) for p in partitions))
        except ValueError as error:
            raise InvalidRequestError(f"'partitions': {error}. Correct it; topics have a field of their own") from None
        assignments = parse_plan(reassignment_json) if reassignment_json else {}
        return cls(reassignment_id or None, named, tuple(t.strip() for t in topics), assignments)

    @property
    def names_any(self) -> bool:
        """Whether partitions, topics or a plan are named."""
        return bool(self.partitions or self.topics or self.assignments)


@dataclass(frozen=True, slots=True)
class Selection:
    """What will be described.

    ``steps`` are moves: of the current batch, or made of other clients' moves in flight. ``brokers`` are those whose
    status is wanted, of the partitions for which the query names some; of the others it is the brokers of their
    target, or those of their replicas.
    """

    cluster_id: str
    reassignment: RecordedReassignment | None
    current: CurrentBatch | None
    steps: tuple[Step, ...]
    foreign: frozenset[TopicPartition]
    partitions: tuple[TopicPartition, ...]
    brokers: Mapping[TopicPartition, Replicas]
    notes: tuple[str, ...]

    @property
    def bytes_per_second(self) -> int | None:
        """The rate that was asked for, where it applies to all of the moves."""
        if self.foreign or self.reassignment is None:
            return None
        return rate_in_force(self.reassignment.recorded_request.request, self.reassignment.record.journal())

    def move_statuses(self, seen: View) -> dict[TopicPartition, ReportedStatus]:
        """Return the state of each selected move."""
        foreign = move_statuses(Batch(1, tuple(s for s in self.steps if s.partition in self.foreign)), seen)
        ours = self.current.move_statuses(seen) if self.current else {}
        return foreign | {s.partition: ours[s.partition] for s in self.steps if s.partition not in foreign}


def no_records_error(reassignment_id: str, *advice: Advice) -> InvalidRequestError:
    """Return the error of who names a reassignment without the records to find it in."""
    return InvalidRequestError(
        f"Reassignment {reassignment_id} is asked for, expected a record to find it in, found no record URI", *advice
    )


def select(cluster: ClusterPort, store: RecordStore | None, query: DescribeQuery) -> Selection:
    """Find the moves that a query is about.

    Raises:
        InvalidRequestError: a reassignment is named, but there are no records to find it in.
        RecordError: there is no record of it, or the store does not answer.
    """
    cluster_id = cluster.describe_cluster().cluster_id
    if store is None and query.reassignment_id:
        raise no_records_error(query.reassignment_id, Correct("give the record URI, or name partitions"))
    reassignment = find_reassignment(store, cluster_id, query.reassignment_id) if store else None
    current = CurrentBatch.of(reassignment.record) if reassignment else None
    ours = {s.partition: s for s in current.steps} if current and current.batch else {}
    notes: list[str] = []
    if reassignment is not None and current is not None and current.batch is None:
        notes.append(_nothing_left(reassignment, current))
    foreign: Mapping[TopicPartition, Step] = {}
    wanted: Iterable[TopicPartition] = ours
    if reassignment is None or query.names_any:
        in_flight = cluster.list_reassignments()
        foreign = {p: Step(f.as_reassignment(p)) for p, f in in_flight.items() if p not in ours}
        wanted = foreign
        if query.names_any:
            wanted = _named(query, [*ours, *foreign], notes)
        elif not foreign:
            notes.append(f"Nothing is in flight in cluster {cluster_id}, and no reassignment has locked it")
    partitions = tuple(wanted)
    if len(partitions) > MAX_DESCRIBED:
        notes.append(
            f"The first {MAX_DESCRIBED} of {len(partitions)} partitions are described; name partitions or topics to see "
            "others"
        )
        partitions = partitions[:MAX_DESCRIBED]
    moves = {**foreign, **ours}
    return Selection(
        cluster_id,
        reassignment,
        current,
        tuple(moves[p] for p in partitions if p in moves),
        frozenset(p for p in partitions if p in foreign),
        partitions,
        query.assignments,
        tuple(notes),
    )


def _named(query: DescribeQuery, moving: Iterable[TopicPartition], notes: list[str]) -> Iterable[TopicPartition]:
    """Partitions that the query names, each once, in its order; a pattern that matches nothing is noted."""
    named = dict.fromkeys([*query.assignments, *query.partitions])
    for pattern in query.topics:
        matching = sorted(p for p in moving if topic_matches(p.topic, (pattern,)))
        named |= dict.fromkeys(matching)
        if not matching:
            notes.append(f"No partition of topic {pattern!r} is being reassigned")
    return named


def _nothing_left(reassignment: RecordedReassignment, current: CurrentBatch) -> str:
    reassignment_id = reassignment.reassignment_id
    if current.batches == 0 and reassignment.record.frozen_plan() is None:
        return f"Reassignment {reassignment_id} is {reassignment.status} and has no plan yet: it moves nothing"
    return f"All {current.batches} batches of reassignment {reassignment_id} are finished: nothing of it is left to describe"
