"""A request resolved against a snapshot: which brokers may give and take, and which topics it is about.

Whatever can be refused without reading the partitions is refused here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.batching.columns import Flags, Longs
from kafka_reassignment.decisions.brokers import check_brokers_known
from kafka_reassignment.errors import (
    InfeasiblePlanError,
    InvalidReplicationFactorError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    name_some,
)
from kafka_reassignment.plan.columns import longs
from kafka_reassignment.planner.shard_goals import Fleet
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.planner.space import Space
from kafka_reassignment.request import Job, ReassignmentRequest, balances_bytes
from kafka_reassignment.request.topics import topics_matching

FILLS_NAMED = frozenset({Job.ADD_BROKERS, Job.MOVE_TOPICS, Job.REBALANCE})
"""Jobs that give replicas to the brokers they name."""

NO_RACK = "(no rack)"
"""The rack of brokers that name none: they may be in the same place, so they count as one rack."""


@dataclass(frozen=True)
class ResolvedRequest:
    """A request resolved against a snapshot.

    ``takes_part`` are the brokers that have a fair share of the bytes; ``topics`` is None when the
    request is about all topics.
    """

    request: ReassignmentRequest
    fleet: Fleet
    takes_part: Flags
    free: Longs
    topics: frozenset[str] | None

    @property
    def balances_bytes(self) -> bool:
        """Whether replicas are moved for balance alone."""
        return balances_bytes(self.request.job, self.request.mode)

    @property
    def fills_only(self) -> bool:
        """Whether moves for balance go to named brokers only."""
        return self.request.job is Job.ADD_BROKERS and self.request.mode == "fewest_bytes"

    @property
    def restores_racks(self) -> bool:
        """Whether partitions with several replicas in a rack are spread."""
        return self.request.job is Job.RESTORE_RACKS


def resolve(request: ReassignmentRequest, snapshot: Snapshot) -> ResolvedRequest:
    """Resolve the brokers and topics of a request.

    Raises:
        UnknownBrokerError: a named broker does not exist, or is not alive and would get replicas.
        UnknownTopicOrPartitionError: a named topic does not exist.
        InvalidReplicationFactorError: above the live brokers, or below min.insync.replicas.
        InfeasiblePlanError: no broker could take the replicas.
    """
    ids = longs(snapshot.brokers["broker"])
    alive = snapshot.brokers["alive"].to_numpy(zero_copy_only=False).astype(bool)
    rack_names = [rack or NO_RACK for rack in snapshot.brokers["rack"].to_pylist()]
    racks = tuple(sorted(set(rack_names)))
    rack_of = np.array([racks.index(r) for r in rack_names], dtype=np.int64)
    _check_brokers(request, ids, alive)
    named, excluded = np.isin(ids, request.brokers), np.isin(ids, request.exclude_brokers)
    none = np.zeros(len(ids), dtype=bool)
    job = request.job
    leaves, takes = none, alive & ~excluded
    takes_part = takes
    gives = takes
    if job is Job.DECOMMISSION:
        leaves = named
        takes = takes_part = gives = takes & ~named
    elif job is Job.ADD_BROKERS and request.mode == "fewest_bytes":
        takes = takes & named
    elif job is Job.MOVE_TOPICS:
        leaves, takes = ~named, takes & named
        takes_part = takes
    elif job is Job.REBALANCE and request.brokers:
        takes = takes_part = gives = takes & named
    space = Space.of(snapshot.log_dirs, ids, request.keep_free_share)
    _check_not_cordoned(request, ids, space.cordoned)
    takes = takes & ~space.cordoned
    fleet = Fleet(ids, racks, rack_of, alive, takes, gives, leaves, space.log_dirs)
    topics = topics_in_scope(request, snapshot.topics["topic"].to_pylist())
    _check_replication_factor(request, snapshot, fleet, topics)
    _check_takers(fleet, named)
    return ResolvedRequest(request, fleet, takes_part, space.free, topics)


def _check_brokers(request: ReassignmentRequest, ids: Longs, alive: Flags) -> None:
    known = dict(zip(ids.tolist(), alive.tolist(), strict=True))
    advice = Correct("correct the ids; a broker that is to be added must have registered first")
    check_brokers_known(request.brokers, known, subject="'brokers'", advice=advice)
    dead = [b for b in request.brokers if not known[b]]
    if dead and request.job in FILLS_NAMED:
        raise UnknownBrokerError(
            f"Broker {name_some(dead)} is not alive: job '{request.job}' would give it replicas, which would never "
            "join the ISR",
            Correct("start it, or leave it out of 'brokers'"),
        )


def _check_not_cordoned(request: ReassignmentRequest, ids: Longs, cordoned: Flags) -> None:
    """Kafka accepts a reassignment to a cordoned broker (seen on 4.3.1), but it was cordoned to get no replicas."""
    named = sorted(set(request.brokers) & set(ids[cordoned].tolist()))
    if named and request.job in FILLS_NAMED:
        raise InfeasiblePlanError(
            f"Broker {name_some(named)} takes no replicas: each of its log dirs is cordoned (cordoned.log.dirs) or offline, "
            f"and job '{request.job}' would give it some",
            Correct("uncordon it or repair its disks, or leave it out of 'brokers'"),
        )


def topics_in_scope(request: ReassignmentRequest, names: Collection[str]) -> frozenset[str] | None:
    """Return the topics that match, or None for all.

    Raises:
        UnknownTopicOrPartitionError: a name or pattern matches no topic.
    """
    if not request.topics and not request.exclude_topics:
        return None
    known = frozenset(names)
    chosen = _matching(request.topics, known, "topics") if request.topics else known
    return chosen - _matching(request.exclude_topics, known, "exclude_topics")


def _matching(patterns: Iterable[str], names: frozenset[str], where: str) -> frozenset[str]:
    found: set[str] = set()
    missing = []
    for pattern in patterns:
        if matches := topics_matching(pattern, names):
            found |= matches
        else:
            missing.append(repr(pattern))
    if missing:
        raise UnknownTopicOrPartitionError(
            f"{name_some(missing)} in '{where}' matches no topic of the cluster: expected names, or patterns with "
            f"'*' and '?', of its {len(names)} topics",
            Correct("check the spelling"),
        )
    return frozenset(found)


def _check_replication_factor(
    request: ReassignmentRequest, snapshot: Snapshot, fleet: Fleet, topics: frozenset[str] | None
) -> None:
    wanted = request.replication_factor
    if wanted is None:
        return
    # An excluded or cordoned broker keeps its replicas. Where too few others may take one, the placement names the
    # partition.
    live = int(fleet.alive.sum())
    if wanted > live:
        raise InvalidReplicationFactorError(
            f"Replication factor {wanted} is above the {live} brokers that are alive: expected at most {live}",
            Correct("lower it, or add brokers"),
        )
    names = snapshot.topics["topic"].to_pylist()
    least = snapshot.topics["min_insync_replicas"].to_pylist()
    above = [
        (name, minimum)
        for name, minimum in zip(names, least, strict=True)
        if minimum is not None and minimum > wanted and (topics is None or name in topics)
    ]
    if above:
        raise InvalidReplicationFactorError(
            f"Replication factor {wanted} is below min.insync.replicas of {len(above)} topics "
            f"({name_some(f'{name}: {minimum}' for name, minimum in above)}): producers with acks=all would be "
            "refused for ever",
            Correct("raise the replication factor, or lower min.insync.replicas of those topics first"),
        )


def _check_takers(fleet: Fleet, named: Flags) -> None:
    named_brokers = name_some(fleet.ids[named].tolist(), 10)
    if not fleet.takes.any():
        raise InfeasiblePlanError(
            f"No broker may take replicas: expected at least one that is alive, not excluded and not leaving, found "
            f"none of {fleet.size} (named: {named_brokers or 'none'})",
            Correct("name fewer brokers, or exclude fewer"),
        )
