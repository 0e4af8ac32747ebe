"""Kafka takes no config value above 32,767 bytes, and a batch needs two lists of throttled replicas per topic: one more limit."""

from __future__ import annotations

import numpy as np

from kafka_reassignment.decisions.batching.columns import ABSENT, Longs, ThrottleLists
from kafka_reassignment.decisions.throttle.length import LONGEST_LIST_BYTES

_POWERS_OF_TEN = 10 ** np.arange(1, 19, dtype=np.int64)


def throttle_lists(topic: Longs, partition: Longs, current: Longs, adding: Longs) -> ThrottleLists:
    """Return what steps add to the lists; those that add no replica are in none.

    Args:
        topic: number of each step's topic.
        partition: Kafka's number of the partition.
        current: matrix of the replicas before the step, padded with ``ABSENT``.
        adding: matrix of the replicas that are added, padded with ``ABSENT``.
    """
    is_listed = (adding != ABSENT).any(axis=1)
    sides = (_entry_bytes(partition, replicas) * is_listed for replicas in (current, adding))
    leader_bytes, follower_bytes = sides
    return ThrottleLists(topic, leader_bytes, follower_bytes)


def split_long_lists(lists: ThrottleLists | None, numbers: Longs) -> Longs:
    """Return the batch numbers where no batch needs a list that is too long: each that did is several in a row.

    The steps of a topic are spread evenly over the parts; a partition has one step per batch, so its steps stay in
    order.
    """
    if lists is None or not len(numbers):
        return numbers
    part = np.zeros(len(numbers), dtype=np.int64)
    for added in (lists.leader_bytes, lists.follower_bytes):
        part = np.maximum(part, _parts(lists.topic, added, numbers))
    if not part.any():
        return numbers
    # The side that needs more parts decides for each step; so both are looked at again until neither changes anything.
    split = np.unique(numbers * (int(part.max()) + 1) + part, return_inverse=True)[1] + 1
    return split_long_lists(lists, split)


def _parts(topic: Longs, added: Longs, numbers: Longs) -> Longs:
    """By step, the part of its batch in which the list of its topic fits, from 0."""
    order = np.lexsort((topic, numbers))
    bytes_of = added[order]
    changes = np.flatnonzero((np.diff(topic[order]) != 0) | (np.diff(numbers[order]) != 0)) + 1
    starts = np.concatenate([[0], changes])
    counts = np.diff(np.concatenate([starts, [len(order)]]))
    total = np.add.reduceat(bytes_of, starts)
    before = np.cumsum(bytes_of) - bytes_of
    before -= np.repeat(before[starts], counts)
    # The last entry has no comma. A part may begin up to one step late, hence the room for the longest one.
    room = LONGEST_LIST_BYTES + 1 - int(added.max())
    needed = np.where(total <= LONGEST_LIST_BYTES + 1, 1, -(-total // room))
    # Steps at the very end that are in no list would begin after the last part.
    parts = np.minimum(
        np.repeat(needed, counts) * before // np.repeat(np.maximum(total, 1), counts), np.repeat(needed - 1, counts)
    )
    result = np.zeros(len(numbers), dtype=np.int64)
    result[order] = parts
    return result


def _entry_bytes(partition: Longs, replicas: Longs) -> Longs:
    """The bytes of all entries ``partition:broker,`` of each step."""
    there = replicas != ABSENT
    brokers = np.where(there, _digits(np.maximum(replicas, 0)), 0).sum(axis=1)
    found: Longs = brokers + there.sum(axis=1) * (_digits(partition) + 2)
    return found


def _digits(values: Longs) -> Longs:
    counted: Longs = np.searchsorted(_POWERS_OF_TEN, values, side="right") + 1
    return counted
