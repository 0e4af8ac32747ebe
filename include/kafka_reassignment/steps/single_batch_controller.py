"""Submitting where the controller takes one batch at a time (Kafka below 2.4): each waits for the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from kafka_reassignment.decisions.single_batch_controller import not_finished
from kafka_reassignment.model import Refusal, Replicas, TopicPartition, View
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.steps.context import RunContext, refuse_stopped

BUSY = "REASSIGNMENT_IN_PROGRESS"
"""The refusal of such a controller while it has another batch; newer ones have no reason for it."""

BUSY_SECONDS = 60
"""How long a submission waits for the batch before it to go; one that copies nothing is gone in a second."""


def takes_turns(cluster: ClusterPort) -> bool:
    """Whether the controller takes one batch at a time, and cannot cancel it."""
    return not cluster.describe_cluster().has_reassignment_api


def alter_in_turn(
    run: RunContext, targets: Mapping[TopicPartition, Replicas], *, changes: bool, although_stopped: bool
) -> dict[TopicPartition, Refusal]:
    """Submit one slice, when the controller is free, and return the refusals; ``BUSY`` when it did not become free.

    What settles a stopped reassignment does not wait here: its next look submits again.

    Raises:
        StoppedError: the reassignment was stopped, and this does not settle it.
    """
    until = run.now() + timedelta(seconds=0 if although_stopped else BUSY_SECONDS)
    asked = dict(targets)
    refused: dict[TopicPartition, Refusal] = {}
    while True:
        if not although_stopped:
            refuse_stopped(run.record)
        replies = run.cluster.alter_reassignments(asked, allow_replication_factor_change=changes)
        refused = {p: r for p, r in refused.items() if p not in asked}
        refused |= {p: r for p, r in replies.items() if r is not None}
        asked = {p: targets[p] for p, r in refused.items() if r.code == BUSY}
        if not asked or run.now() >= until:
            return refused
        run.sleep(0.5)


def busy_with(refused: Mapping[TopicPartition, Refusal]) -> str | None:
    """Return what the controller was busy with when it refused; None when that was not the reason."""
    return next((r.message for r in refused.values() if r.code == BUSY), None)


def controller_not_finished(cluster: ClusterPort, view: View) -> str | None:
    """Say why a batch in sync cannot be dropped yet: a controller of one batch at a time is still at it."""
    return not_finished(view) if view.in_flight and takes_turns(cluster) else None
