"""What is in flight in a cluster and whose it is, the current batch beside the whole, and what the records tell.

Only looks: nothing is written, no hold is needed, and it may run beside a reassignment at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from kafka_reassignment.decisions.moves import phase
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
from kafka_reassignment.views.overview import Listing, Move, Overview

WHOLE_UP_TO = 1_000
"""Partitions of a plan whose remaining targets are listed without being asked for: a task's result must stay small."""


def list_reassignments(
    cluster: ClusterPort,
    store: RecordStore | None,
    *,
    reassignment_id: str | None = None,
    whole: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Listing:
    """List what is in flight in the whole cluster, and what the records tell of it.

    The cost does not grow with the cluster: the controller is asked for all that is in flight, brokers only for the
    partitions of the current batch, and, for what is left of the whole, for the topics of the plan.

    Args:
        cluster: whom to ask.
        store: the records; without them every move is somebody else's.
        reassignment_id: show this one in full; by default whoever holds the cluster.
        whole: list the remaining targets of the whole however many there are.
        sleep: waits between two looks at doubtful states.

    Raises:
        RecordError: there is no record of the reassignment, or the store does not answer.
    """
    cluster_id = cluster.describe_cluster().cluster_id
    if store is None:
        return Listing(cluster_id, tuple(Move(p, f) for p, f in sorted(cluster.list_reassignments().items())))
    known = catalogue(store, cluster_id)
    one = find_reassignment(store, cluster_id, reassignment_id)
    shown = (_shown(cluster, one, sleep, whole=whole),) if one else ()
    moves = _owned(cluster.list_reassignments(), known, shown)
    return Listing(cluster_id, tuple(moves), shown, known)


def _shown(cluster: ClusterPort, one: RecordedReassignment, sleep: Callable[[float], None], *, whole: bool) -> Overview:
    current = CurrentBatch.of(one.record)
    return Overview(one, current, current.look(cluster, sleep), _remaining(cluster, one, current, whole=whole))


def _remaining(
    cluster: ClusterPort, one: RecordedReassignment, current: CurrentBatch, *, whole: bool
) -> dict[TopicPartition, Replicas] | None:
    if current.batch is None:
        return {}
    targets = {
        m.partition: m.target for m in islice(read_target(one.record.plan_uri), None if whole else WHOLE_UP_TO + 1)
    }
    if len(targets) > WHOLE_UP_TO and not whole:
        return None
    states = cluster.describe_partitions(sorted({p.topic for p in targets}))
    withdrawn = one.record.withdrawn_partitions()
    return {p: t for p, t in targets.items() if p in states and states[p].replicas != t and str(p) not in withdrawn}


def _owned(in_flight: Mapping[TopicPartition, InFlight], known: Catalogue, shown: Iterable[Overview]) -> Iterator[Move]:
    """Tell whose each move is: of the shown reassignments first, then of others whose current batch was submitted."""
    owners: dict[TopicPartition, tuple[str, int]] = {}
    told = {s.recorded.reassignment_id for s in shown}
    for one in shown:
        owners |= _moves_of(one.recorded, one.current, in_flight)
    others = (
        r
        for life in (ReassignmentStatus.ACTIVE, ReassignmentStatus.STOPPED, ReassignmentStatus.ENDED)
        for r in reversed(known.of(life))
    )
    for other in others:
        if in_flight.keys() <= owners.keys():
            break
        if other.reassignment_id not in told:
            current = CurrentBatch.of(other.record)
            if current.submitted is not None:
                owners = _moves_of(other, current, in_flight) | owners
    for partition, flight in sorted(in_flight.items()):
        yield Move(partition, flight, *owners.get(partition, (None, None)))


def _moves_of(
    one: RecordedReassignment, current: CurrentBatch, in_flight: Mapping[TopicPartition, InFlight]
) -> dict[TopicPartition, tuple[str, int]]:
    if current.batch is None:
        return {}
    view = View(frozenset(), {}, in_flight)
    ours = [s.partition for s in current.batch.steps if s.partition in in_flight and phase(s, view).ours]
    return dict.fromkeys(ours, (one.reassignment_id, current.batch.number))
