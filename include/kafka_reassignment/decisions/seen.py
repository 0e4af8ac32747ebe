"""What every decision reads out of a view."""

from __future__ import annotations

from kafka_reassignment.model import TopicPartition, View


def in_sync_now(partition: TopicPartition, seen: View) -> frozenset[int]:
    """Return the ISR on live brokers: a broker that just died stays in the ISR until the controller fences it."""
    state = seen.partitions.get(partition)
    return state.isr & seen.live_brokers if state else frozenset()
