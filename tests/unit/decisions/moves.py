"""Moves for tests of decisions that do not look at sizes."""

from __future__ import annotations

from kafka_reassignment.model import Reassignment, Replicas, Step, TopicPartition


def move(topic: str, number: int, current: Replicas, target: Replicas) -> Step:
    """Return a partition's move in one step."""
    return Step(Reassignment(TopicPartition(topic, number), current, target))
