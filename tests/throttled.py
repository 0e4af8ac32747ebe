"""Whether what copies at this moment is throttled, and at no higher rate than was asked for: looked at while a run is under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from kafka_reassignment.decisions.correction import HIGHEST
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS, Side, covers
from kafka_reassignment.model import ConfigResource, InFlight, TopicPartition
from kafka_reassignment.ports import ClusterPort

LOOKS = 4
"""A broker's answers follow what the controller accepted by a moment."""


def unthrottled(
    cluster: ClusterPort,
    ours: Collection[TopicPartition],
    asked_bytes_per_second: float,
    *,
    shaken: Collection[int] = (),
    changed: Collection[int] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Return which copies of ours run without a throttle, or at a higher one; none is right, whatever was killed.

    Args:
        cluster: to look at.
        ours: partitions that nobody else moves.
        asked_bytes_per_second: the rate that was asked for.
        shaken: brokers that were down; the next look of a step puts their rate back, and their copies begin again.
        changed: brokers whose rates another client has set; the next look of a step lowers them.
        sleep: waits between the looks.

    Raises:
        ClusterUnavailableError: the cluster does not answer now.
    """
    found: set[str] = set()
    for look in range(LOOKS):
        flights = {p: f for p, f in cluster.list_reassignments(ours).items() if f.adding}
        seen = missing_throttle(cluster, flights, asked_bytes_per_second, shaken=shaken, changed=changed)
        found = seen if look == 0 else found & seen
        if not found:
            break
        sleep(0.3)
    return sorted(found)


def missing_throttle(
    cluster: ClusterPort,
    flights: Mapping[TopicPartition, InFlight],
    asked_bytes_per_second: float,
    *,
    shaken: Collection[int] = (),
    changed: Collection[int] = (),
    lowered: Mapping[tuple[Side, int], int] | None = None,
) -> set[str]:
    """Look once at the throttle of what is in flight; return what is missing of it, or higher than it may be.

    Args:
        cluster: to look at.
        flights: moves that copy.
        asked_bytes_per_second: the rate that was asked for; by how much a correction may exceed it is the product's.
        shaken: brokers whose rates are no matter.
        changed: brokers whose rates may be any.
        lowered: by side and broker, lower rates that another client has set.
    """
    if not flights:
        return set()
    highest = {side: round(asked_bytes_per_second * HIGHEST[side]) for side in Side}
    brokers = {b for f in flights.values() for b in f.replicas}
    topics = {ConfigResource.topic(p.topic) for p in flights}
    configs = cluster.describe_configs([*topics, *map(ConfigResource.broker, brokers)], THROTTLE_KEYS)
    missing = set()
    for partition, flight in flights.items():
        for side, replicas in ((Side.FOLLOWER, flight.adding), (Side.LEADER, flight.original)):
            entries = configs.get(ConfigResource.topic(partition.topic), {}).get(side.replicas_key)
            for broker in replicas:
                values = configs.get(ConfigResource.broker(broker))
                if values is None:  # it is down: it copies nothing
                    continue
                if not covers(entries.value if entries else None, partition.partition, broker):
                    missing.add(f"{partition} copies though {side.replicas_key} lacks {partition.partition}:{broker}")
                rate, most = values.get(side.rate_key), (lowered or {}).get((side, broker), highest[side])
                if broker in shaken:
                    continue
                if rate is None or rate.value is None:
                    missing.add(f"{partition} copies though broker {broker} has no {side.rate_key}")
                elif int(rate.value) > most and broker not in changed:
                    found = f"{side.rate_key} of broker {broker} is {rate.value}, expected at most {most}"
                    missing.add(f"{partition} copies though {found}")
    return missing
