"""How far the ISR of a batch is on its way to the whole target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.decisions.moves import Phase, drop_hangs, never_completes, phase, reason_blocked
from kafka_reassignment.model import (
    Batch,
    Reassignment,
    Replicas,
    TopicPartition,
    View,
)
from kafka_reassignment.text import format_brokers


@dataclass(frozen=True, slots=True)
class CatchUp:
    """How far the replicas of a batch have caught up.

    ``waiting`` has the target's brokers that are not in sync yet; ``blocked`` says for some of these why that does not
    change by itself, and ``held_up_by_kept`` names those in which a replica that stays is out of sync (F11).
    ``not_submitted`` has what nobody has submitted, ``in_sync`` what has the whole target in sync. ``stale`` and
    ``cancelled_by_other`` mean that another client interfered. A partition that does not exist any more is in none of
    them.
    """

    in_sync: tuple[TopicPartition, ...] = ()
    waiting: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    blocked: Mapping[TopicPartition, str] = field(default_factory=dict)
    not_submitted: tuple[TopicPartition, ...] = ()
    cancelled_by_other: tuple[TopicPartition, ...] = ()
    stale: Mapping[TopicPartition, str] = field(default_factory=dict)
    held_up_by_kept: tuple[TopicPartition, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every partition that still exists has every replica of its target in sync."""
        return not (self.waiting or self.not_submitted or self.cancelled_by_other or self.stale)


def catch_up(batch: Batch, seen: View, *, submitted: bool, controller: Controller | None = None) -> CatchUp:
    """Return which partitions have every replica of their target in the ISR, and what the others wait for.

    ``submitted`` says that the controller had accepted the expansions: one that is gone was cancelled by another
    client (F30). A partition counts as in sync as soon as every replica of its target is, even while its expansion
    is still listed: before Kafka 4.3 a dead old replica keeps it listed, and the drop ends it. One that is done counts
    as in sync, but for what the ``controller`` says is left to join.
    """
    takes_it = controller or Controller()
    in_sync: list[TopicPartition] = []
    unsubmitted: list[TopicPartition] = []
    waiting: dict[TopicPartition, Replicas] = {}
    blocked: dict[TopicPartition, str] = {}
    stale: dict[TopicPartition, str] = {}
    held_up: list[TopicPartition] = []
    for step in batch.steps:
        at = phase(step, seen)
        missing = tuple(b for b in step.reassignment.target if b not in seen.in_sync(step.partition))
        match at.phase:
            case Phase.GONE:
                pass
            case Phase.STALE:
                stale[step.partition] = at.reason
            case Phase.NOT_SUBMITTED | Phase.PARTIALLY_EXPANDED:
                unsubmitted.append(step.partition)
            case _ if not at.ours or (
                at.phase is Phase.STUCK
                and never_completes(seen.in_flight[step.partition])
                and not drop_hangs(step.reassignment, seen)
            ):
                waiting[step.partition], blocked[step.partition] = missing, at.reason
            case Phase.DONE if joining := takes_it.left_to_join(step, seen):
                waiting[step.partition] = joining
            case _ if at.phase is Phase.DONE or not missing:
                in_sync.append(step.partition)
            case _:
                waiting[step.partition] = missing
                if why := reason_blocked(step.reassignment, seen):
                    blocked[step.partition] = why
                elif why := _held_up_by_kept(step.reassignment, missing):
                    blocked[step.partition] = why
                    held_up.append(step.partition)
    cancelled, not_submitted = (tuple(unsubmitted), ()) if submitted else ((), tuple(unsubmitted))
    return CatchUp(tuple(in_sync), waiting, blocked, not_submitted, cancelled, stale, tuple(held_up))


def _held_up_by_kept(move: Reassignment, missing: Replicas) -> str | None:
    """Return the text for an out-of-sync replica that stays: it blocks completion though it does not move (F11).

    Kafka itself would complete a move that adds as many as it removes (F37). We keep the old replicas: without them the
    partition would have one replica in sync less than it is to have.
    """
    if set(missing) & set(move.adding):
        return None
    return (
        f"broker {format_brokers(missing)}, which stays, is out of sync; every adding replica has caught up. The old replicas "
        "are kept until it is back: bring it back, or cancel and trigger a reassignment that moves the partition off it"
    )
