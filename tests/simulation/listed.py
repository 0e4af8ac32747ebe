"""I6 for the list of what is in flight, of the describing DAG and of the command line: what it says is what is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafka_reassignment.decisions.move_status import MoveStatus
from kafka_reassignment.views.listing import Listing, list_reassignments
from kafka_reassignment.views.overview import Overview

if TYPE_CHECKING:
    from tests.simulation.play import Play

IN_FLIGHT = (MoveStatus.IN_FLIGHT, MoveStatus.FOREIGN)
EITHER = (MoveStatus.STUCK, MoveStatus.LEFT_OUT)
"""It may be in flight or not: of what was left out, another client's move may be."""


def listed_wrongly(play: Play) -> Iterator[str]:
    """Yield what the list says that is not so: what is in flight, whose it is, and what is left of the plan."""
    found = list_reassignments(play.elsewhere, play.world.truth.store, all_remaining=True, sleep=lambda _: None)
    in_flight = {p for p, seen in play.state.partitions.items() if seen.in_flight}
    if in_flight != {m.partition for m in found.moves}:
        yield f"{sorted(map(str, in_flight))} are in flight, listed are {[str(m.partition) for m in found.moves]}"
    else:
        yield from _owned_wrongly(play, found)
    for overview in found.overviews:
        yield from _left_wrongly(play, overview)


def _owned_wrongly(play: Play, found: Listing) -> Iterator[str]:
    for move in found.moves:
        who = play.ledger.movers.get(move.partition, "ours")
        if who == "ours" and move.reassignment_id is None:
            yield f"{move.partition} is in flight because of us, and is said to be another client's move"
        if who == "ours" or move.reassignment_id is None:
            continue
        seen = play.state.partitions[move.partition]
        goal = set(seen.replicas) - set(seen.removing)
        # Where it leads to what the reassignment wants too, Kafka does not say whose it is.
        moves = [m for m in play.world.truth.moves(move.reassignment_id) if m.partition == move.partition]
        if not any(goal <= {*m.current, *m.target} for m in moves):
            yield f"{move.partition} is moved by {who}, and is said to be a move of {move.reassignment_id}"


def _left_wrongly(play: Play, overview: Overview) -> Iterator[str]:
    own, partitions = overview.reassignment.reassignment_id, play.state.partitions
    withdrawn, targets = play.world.truth.withdrawn(own), play.world.truth.targets(own)
    there = {p: t for p, t in targets.items() if p in partitions and str(p) not in withdrawn}
    left = {p for p, target in there.items() if tuple(partitions[p].replicas) != tuple(target)}
    said = overview.remaining
    if overview.current.batch is not None and said is not None and set(said) != left:
        yield f"left are {sorted(map(str, left))}, said to be left are {sorted(map(str, said))}"
    for partition, shown in overview.move_statuses.items():
        seen = partitions.get(partition)
        if seen is None or shown.status in EITHER:
            continue
        if seen.in_flight is not (shown.status in IN_FLIGHT):
            flies = " and in flight" if seen.in_flight else ""
            yield f"{partition} is at {list(seen.replicas)}{flies}, and is said to be {shown}"
