"""The one batch a controller below Kafka 2.4 takes at a time: whether it has noticed it, and what holds it up."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka_reassignment.cluster.zookeeper.client import ZookeeperSession
from kafka_reassignment.cluster.zookeeper.state import (
    REASSIGN,
    Observation,
    Pending,
    in_flight,
    read_partitions,
    read_pending,
)
from kafka_reassignment.errors import ClusterUnavailableError, ReassignmentInProgressError, name_some
from kafka_reassignment.model import InFlight, PartitionState, Refusal, Replicas, TopicPartition

EFFECT_SECONDS = 10.0
"""How long the controller may take to show any effect of a new batch; it takes some 50 ms."""

_LOOK_EVERY_SECONDS = 0.1


def wait_until_taken_up(session: ZookeeperSession, before: Observation | None = None) -> Pending | None:
    """Return the batch that is there, once the controller has shown that it works on it; None when there is none.

    A controller that has it rewrites it, changes the topics, or finishes it. Something that is no batch
    shows nothing, and is returned as it is.

    Args:
        session: where to look.
        before: the topics as they were before the batch was written; without it, as they are at first look.

    Raises:
        ClusterUnavailableError: no sign of it, so the controller does not listen any more.
    """
    end = time.monotonic() + EFFECT_SECONDS
    versions_before = dict(before.topic_versions) if before is not None else {}
    while True:
        pending = read_pending(session)
        if pending is None or pending.version > 0 or not pending.is_readable:
            return pending
        states, versions = read_partitions(session, sorted({p.topic for p in pending.targets}))
        if any(versions_before.setdefault(topic, version) != version for topic, version in versions.items()):
            return pending
        if in_flight(pending.targets, states).keys() != pending.targets.keys() or _some_join(states, pending.targets):
            return pending
        if time.monotonic() > end:
            raise ClusterUnavailableError(_deaf(session, pending))
        time.sleep(_LOOK_EVERY_SECONDS)


def wait_until_gone(session: ZookeeperSession) -> dict[TopicPartition, InFlight]:
    """Wait for a batch with nothing left to do to be deleted, and return what is in flight by then (mostly nothing).

    Raises:
        ReassignmentInProgressError: it stays, and the controller takes no other one.
    """
    end = time.monotonic() + EFFECT_SECONDS
    while True:
        pending = read_pending(session)
        if pending is None:
            return {}
        states, _ = read_partitions(session, sorted({p.topic for p in pending.targets}))
        listed = in_flight(pending.targets, states)
        if listed:
            return listed
        if time.monotonic() > end:
            raise ReassignmentInProgressError(f"{_held(pending, states)} Nothing was changed.")
        time.sleep(_LOOK_EVERY_SECONDS)


def refusal_beside(
    session: ZookeeperSession, pending: Pending | None, partition: TopicPartition, target: Replicas
) -> Refusal | None:
    """Return why a partition has to wait while a batch is there; None if the batch holds just what is asked for."""
    if pending is None:
        return Refusal(
            "REASSIGNMENT_IN_PROGRESS",
            f"{REASSIGN} held another batch a moment ago, or its topics were just changed. Submit again.",
        )
    if pending.targets.get(partition) == target:
        return None
    states, _ = read_partitions(session, sorted({p.topic for p in pending.targets}))
    return Refusal("REASSIGNMENT_IN_PROGRESS", _held(pending, states))


def _held(pending: Pending, states: Mapping[TopicPartition, PartitionState]) -> str:
    """Say what is there, what it waits for, and what to do."""
    summary = f"Kafka below 2.4 takes one batch at a time, and {REASSIGN} holds {pending}"
    if not pending.is_readable:
        return (
            f"{summary}: the controller does nothing until it is gone. Find out who wrote it; delete it and restart the "
            "controller's broker, which listens again only then."
        )
    left = in_flight(pending.targets, states)
    joining = sorted({b for p, flight in left.items() for b in flight.target if b not in states[p].isr})
    if joining:
        return f"{summary}: it waits for broker {name_some(joining)} to be in sync. Submit again when it is done."
    deleted = sorted(p for p in pending.targets if p not in states)
    if deleted and not left:
        return (
            f"{summary}: {name_some(deleted)} was deleted meanwhile, and the controller never finishes that. Restart the "
            "controller's broker: its successor clears it away."
        )
    return f"{summary}. Submit again when it is done."


def _some_join(states: Mapping[TopicPartition, PartitionState], targets: Mapping[TopicPartition, Replicas]) -> bool:
    """Whether a topic holds a whole target that is not in sync: replicas the controller has added for it."""
    return any(
        set(target) <= set(states[p].replicas) and not set(target) <= states[p].isr
        for p, target in targets.items()
        if p in states
    )


def _deaf(session: ZookeeperSession, pending: Pending) -> str:
    controller = session.read("/controller")
    silence = f"has taken no notice of {pending} in {REASSIGN} for {EFFECT_SECONDS:g} s"
    if controller is None:
        return f"The cluster has no controller now (no /controller in ZooKeeper), so nobody {silence}. Look at its brokers."
    broker = controller.content.get("brokerid") if controller.content else "unknown"
    return (
        f"The controller, broker {broker}, {silence}: it does not listen any more, as happens after a person deleted an "
        f"earlier batch there. Do not delete this one. Restart broker {broker}: the next controller takes the batch up "
        "by itself."
    )
