"""What the controller made of a submission: another client's move (F34, F36), or another try, may have come in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.model import InFlight, Replicas, TopicPartition, View
from kafka_reassignment.text import format_brokers


@dataclass(frozen=True, slots=True)
class Distorted:
    """Submissions that became something else, with what is in flight instead.

    ``to_cancel`` would drop replicas that were to stay, or never complete: a cancel brings back what was there, before
    anything is lost. ``late`` came when the partition had been carried on: they copy again what was dropped, and a
    cancel ends that. ``foreign`` are moves that another client submitted over ours; they are left alone.
    """

    to_cancel: Mapping[TopicPartition, str] = field(default_factory=dict)
    late: Mapping[TopicPartition, str] = field(default_factory=dict)
    foreign: Mapping[TopicPartition, str] = field(default_factory=dict)


def distorted(
    targets: Mapping[TopicPartition, Replicas], before: View, in_flight: Mapping[TopicPartition, InFlight]
) -> Distorted:
    """Compare what is in flight right after a submission with what was submitted.

    Kafka 4.3.1 overwrites the adding and the removing replicas of a move that is superseded only where the new ones are
    not empty. So an expansion that races another client's move may drop what that move was to drop (F36), and a drop
    may never complete (F34). A submission that comes after such a move removes what that one has added. What is not in
    flight any more has completed.

    Args:
        targets: what the controller accepted.
        before: what was seen when they were decided.
        in_flight: the controller's list since.
    """
    to_cancel: dict[TopicPartition, str] = {}
    late: dict[TopicPartition, str] = {}
    foreign: dict[TopicPartition, str] = {}
    for partition, target in targets.items():
        flight = in_flight.get(partition)
        if flight is None:
            continue
        state, earlier = before.partitions.get(partition), before.in_flight.get(partition)
        stayed = set(state.replicas if state else ()) - set(earlier.adding if earlier else ())
        is_ours = set(flight.target) <= set(target)  # less what a move that it met removes (F36)
        if is_ours and (again := sorted(stayed & set(flight.adding))):
            late[partition] = f"{partition} copies to broker {format_brokers(again)} again"
            continue
        replicas = set(state.replicas if state else ())
        removes_more = bool(set(flight.removing) - (replicas - set(target)))
        if set(flight.target) == set(target) and not never_completes(flight) and not removes_more:
            continue
        known = {*target, *replicas}
        reason = (
            f"another client moved it at the same moment: in flight to {format_brokers(flight.target)} (adding "
            f"{format_brokers(flight.adding)}, removing {format_brokers(flight.removing)}), expected {format_brokers(target)}"
        )
        if is_ours and (set(flight.target) == set(target) or set(flight.replicas) <= known):
            to_cancel[partition] = reason
        else:
            foreign[partition] = reason
    return Distorted(to_cancel, late, foreign)
