"""Tiered storage (KIP-405): whether a replica has enough data on its own disk to lead.

With KIP-1023 a new replica begins at the last tiered offset: it joins the ISR within moments and has next to nothing
locally. If it led, consumers of older data would all be served from remote storage at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_reassignment.model import TopicPartition, View
from kafka_reassignment.text import format_bytes

WARM_SHARE = 0.5
"""A replica with less than this part of the leader's local data is too cold to become leader just for the order."""


def too_cold_to_lead(
    partitions: Collection[TopicPartition], seen: View, local_bytes: Mapping[tuple[TopicPartition, int], int]
) -> dict[TopicPartition, str]:
    """Return the partitions that should keep their leader for now, and why.

    Args:
        partitions: of topics with tiered storage, not led by their preferred leader.
        seen: replicas and leaders; a partition without a leader may be led by any replica.
        local_bytes: by partition and broker, what is on that broker's disks. Unknown of the preferred leader counts
            as enough; of the leader it keeps it, since it may have all there is.
    """
    cold: dict[TopicPartition, str] = {}
    for partition in partitions:
        state = seen.partitions[partition]
        if state.leader is None:
            continue
        preferred = state.replicas[0]
        has = local_bytes.get((partition, state.leader))
        if has is None:
            cold[partition] = (
                f"nobody knows how much of it its leader {state.leader} has locally: it does not report that"
            )
            continue
        new = local_bytes.get((partition, preferred), has)
        if new < WARM_SHARE * has:
            cold[partition] = (
                f"broker {preferred} has {format_bytes(new)} of it locally, its leader {state.leader} {format_bytes(has)}"
            )
    return cold
