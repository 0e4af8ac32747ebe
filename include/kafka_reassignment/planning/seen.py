"""Small things every decision needs: who is in sync, and how brokers are told."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_reassignment.model import TopicPartition, View


def in_sync_now(partition: TopicPartition, seen: View) -> frozenset[int]:
    """Return the ISR on live brokers: a broker that just died stays in the ISR until the controller fences it."""
    state = seen.partitions.get(partition)
    return state.isr & seen.live_brokers if state else frozenset()


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids as Kafka's tools print them: ``1,2,4``."""
    return ",".join(map(str, brokers))
