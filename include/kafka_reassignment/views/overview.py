"""What a listing holds, as values for JSON and as lines for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kafka_reassignment.decisions.move_status import MoveStatus, ReportedStatus
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import InFlight, Replicas, TopicPartition
from kafka_reassignment.plan.reassignment_json import render_plan
from kafka_reassignment.record.catalogue import Catalogue, ReassignmentStatus, RecordedReassignment
from kafka_reassignment.views.current_batch import CurrentBatch

UNEVENTFUL = frozenset(
    {MoveStatus.NOT_SUBMITTED, MoveStatus.IN_FLIGHT, MoveStatus.EXPANDED, MoveStatus.COMPLETED, MoveStatus.CANCELLED}
)
"""States that need nobody's attention."""


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
        """Return it as plain values; ``replicas`` is what the partition will have, as Kafka's own JSON has it."""
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
class Overview:
    """One reassignment with its current batch beside the whole.

    ``remaining`` has the final targets of the partitions that are not there yet, None when the plan is too large
    to be listed unasked.
    """

    recorded: RecordedReassignment
    current: CurrentBatch
    move_statuses: Mapping[TopicPartition, ReportedStatus]
    remaining: Mapping[TopicPartition, Replicas] | None

    @property
    def batch_targets(self) -> dict[TopicPartition, Replicas]:
        """What the current batch brings each of its partitions to."""
        return {s.partition: s.reassignment.target for s in self.current.batch.steps} if self.current.batch else {}

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        note = self.recorded.record.progress() if self.current.batch else None
        return {
            **_identity(self.recorded),
            "batch": self.current.batch.number if self.current.batch else None,
            "batches": self.current.batches,
            "batches_finished": self.current.finished,
            "progress": note.model_dump(mode="json") if note else None,
            "partitions": [
                {"topic": p.topic, "partition": p.partition, "state": str(s.status), "reason": s.reason}
                for p, s in sorted(self.move_statuses.items())
            ],
            "current_batch": plan_value(self.batch_targets),
            "whole": {
                "remaining_partitions": None if self.remaining is None else len(self.remaining),
                "remaining": None if self.remaining is None else plan_value(self.remaining),
                "reassignment_json": str(self.recorded.record.root / "reassignment.json"),
            },
        }

    def __str__(self) -> str:
        told = f"{_told(self.recorded)}; {self.current.finished} of {self.current.batches} batches finished"
        if self.current.batch is not None:
            counts = Counter(str(s.status) for s in self.move_statuses.values())
            told += f"; batch {self.current.batch.number}: " + ", ".join(f"{n} {state}" for state, n in counts.items())
        if self.remaining is not None:
            told += f"; {len(self.remaining)} partitions of the whole are not at their target yet"
        return told


@dataclass(frozen=True, slots=True)
class Listing:
    """A cluster's reassignments at one moment."""

    cluster_id: str
    moves: tuple[Move, ...]
    shown: tuple[Overview, ...] = ()
    known: Catalogue = field(default_factory=Catalogue)

    def targets(self, whose: Whose = Whose.ALL) -> dict[TopicPartition, Replicas]:
        """Return the targets in flight: of all, of ours, or of another client's moves."""
        return {m.partition: m.flight.target for m in self._of(whose)}

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values; ``in_flight`` is what kafka-reassign-partitions takes."""
        return {
            "cluster_id": self.cluster_id,
            "in_flight": plan_value(self.targets()),
            "moves": [m.as_json() for m in self.moves],
            "reassignments": [s.as_json() for s in self.shown],
            **{str(life): [_identity(r) for r in self.known.of(life)] for life in ReassignmentStatus},
            "unreadable": list(self.known.unreadable),
        }

    def lines(self) -> Iterator[str]:
        """Tell people what is going on, the important first."""
        if not self.moves:
            yield f"Nothing is in flight in cluster {self.cluster_id}"
        for reassignment_id, moves in sorted(self._by_owner().items(), key=lambda item: (item[0] is None, item[0])):
            owner = f"of reassignment {reassignment_id}" if reassignment_id else "of somebody else"
            yield f"In flight {owner}: {len(moves)} partitions ({name_some(m.partition for m in moves)})"
        for shown in self.shown:
            yield str(shown)
            told = [f"{p}: {s}" for p, s in sorted(shown.move_statuses.items()) if s.status not in UNEVENTFUL]
            if told:
                yield f"Look at {name_some(told, 10)}"
        earlier = {
            str(life): self.known.of(life) for life in ReassignmentStatus if life is not ReassignmentStatus.ACTIVE
        }
        if any(earlier.values()):
            yield "Earlier: " + ", ".join(f"{len(those)} {life}" for life, those in earlier.items() if those)
        yield from self.known.unreadable

    def _of(self, whose: Whose) -> Iterable[Move]:
        return [m for m in self.moves if whose is Whose.ALL or (m.reassignment_id is None) is (whose is Whose.FOREIGN)]

    def _by_owner(self) -> dict[str | None, list[Move]]:
        owned: dict[str | None, list[Move]] = {}
        for move in self.moves:
            owned.setdefault(move.reassignment_id, []).append(move)
        return owned


def plan_value(targets: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """Return the value that kafka-reassign-partitions' JSON has for these targets."""
    value: dict[str, Any] = json.loads(render_plan(targets))
    return value


def _identity(one: RecordedReassignment) -> dict[str, Any]:
    """KIP-240: what tells two reassignments apart, and when it began, which never changes."""
    return {
        "reassignment_id": one.reassignment_id,
        "started_at": one.recorded_request.started_at.isoformat(),
        "started_at_seconds": one.recorded_request.started_at.timestamp(),
        "requested_by": one.recorded_request.requested_by,
        "job": str(one.recorded_request.request.job),
        "life": str(one.status),
    }


def _told(one: RecordedReassignment) -> str:
    recorded = one.recorded_request
    return (
        f"Reassignment {one.reassignment_id} ({recorded.request.job}) is {one.status}, began "
        f"{recorded.started_at:%Y-%m-%d %H:%M:%S %Z}, asked for by {recorded.requested_by}"
    )
