"""The end state of a reassignment compared with its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka_reassignment.model import Reassignment, Replicas, TopicPartition, View
from kafka_reassignment.text import format_brokers


@dataclass(frozen=True, slots=True)
class Verification:
    """The end state compared with the plan.

    ``elsewhere`` has a sentence for a partition that is neither in flight nor at its target, order included: Kafka's
    own, or that only old replicas are left to be dropped. ``under_replicated`` (with the brokers out of sync),
    ``leaderless`` and ``wrong_leader`` (with a sentence) are about partitions that are at their target.
    """

    at_target: tuple[TopicPartition, ...] = ()
    in_flight: tuple[TopicPartition, ...] = ()
    elsewhere: Mapping[TopicPartition, str] = field(default_factory=dict)
    gone: tuple[TopicPartition, ...] = ()
    under_replicated: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    wrong_leader: Mapping[TopicPartition, str] = field(default_factory=dict)
    leaderless: tuple[TopicPartition, ...] = ()

    @property
    def not_yet(self) -> dict[TopicPartition, str]:
        """What is not so yet, in words: in flight, or at the target without a leader or with a replica out of sync."""
        out_of_sync = {
            p: f"{p} is under-replicated: {format_brokers(brokers)} out of sync"
            for p, brokers in self.under_replicated.items()
        }
        offline = {
            p: f"{p} has no leader"
            + (f": {format_brokers(self.under_replicated[p])} out of sync" if p in self.under_replicated else "")
            for p in self.leaderless
        }
        return out_of_sync | offline | {p: f"{p} is still being reassigned" for p in self.in_flight}


def verification(wanted: Iterable[Reassignment], seen: View) -> Verification:
    """Compare targets with what the cluster shows: a move that is not in flight may still have failed (F32, F33)."""
    at_target: list[TopicPartition] = []
    in_flight: list[TopicPartition] = []
    gone: list[TopicPartition] = []
    elsewhere: dict[TopicPartition, str] = {}
    under_replicated: dict[TopicPartition, Replicas] = {}
    wrong_leader: dict[TopicPartition, str] = {}
    leaderless: list[TopicPartition] = []
    for move in wanted:
        partition, target = move.partition, move.target
        state = seen.partitions.get(partition)
        if partition in seen.in_flight:
            in_flight.append(partition)
        elif state is None:
            gone.append(partition)
        elif state.replicas != target:
            elsewhere[partition] = _where(partition, state.replicas, target)
        else:
            at_target.append(partition)
            # The last replica stays in the ISR while its broker is down: only the missing leader shows that.
            in_sync = state.isr if state.leader is not None else seen.in_sync(partition)
            if missing := tuple(b for b in target if b not in in_sync):
                under_replicated[partition] = missing
            if state.leader is None:
                leaderless.append(partition)
            if state.leader != target[0]:
                leader = "no broker" if state.leader is None else f"broker {state.leader}"
                wrong_leader[partition] = f"{partition} is led by {leader} rather than its preferred leader {target[0]}"
    return Verification(
        tuple(at_target), tuple(in_flight), elsewhere, tuple(gone), under_replicated, wrong_leader, tuple(leaderless)
    )


def has_another_factor(move: Reassignment, replicas: Replicas, *, is_changed_by_others: bool = False) -> bool:
    """Whether a partition has neither as many replicas as it had nor as it was to get, and is not half-way between the two.

    What another client has changed is not, though it may look so.
    """
    before, after = len(move.current), len(move.target)
    is_half_way = (
        not is_changed_by_others and len(replicas) >= min(before, after) and set(replicas) <= set(move.expanded)
    )
    return len(replicas) not in {before, after} and not is_half_way


def _where(partition: TopicPartition, replicas: Replicas, target: Replicas) -> str:
    if more := [b for b in replicas if b not in target] if set(target) < set(replicas) else []:
        # Between expansion and drop that is as it should be; Kafka's sentence would read like a loss.
        return (
            f"{partition} has all replicas of its target {format_brokers(target)}, and {format_brokers(more)} as well: "
            "dropping what is not of the target is left."
        )
    return (
        f"There is no active reassignment of partition {partition}, but replica set is "
        f"{format_brokers(replicas)} rather than {format_brokers(target)}."
    )
