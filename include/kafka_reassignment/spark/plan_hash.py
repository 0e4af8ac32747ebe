"""A plan's identity: the same for the same steps in the same batches, whatever wrote or read the files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kafka_reassignment.spark.columns import longs, one_chunk

_LISTS = ("current", "target")
_NUMBERS = ("partition", "step", "steps", "size_bytes", "leader_movement")


def batch_hash(steps: pa.Table) -> str:
    """Return the SHA-256 of the steps of one batch, in their order (``STEPS``)."""
    digest = hashlib.sha256()
    topics = one_chunk(steps["topic"])
    digest.update(len(topics).to_bytes(8, "little"))
    digest.update("\n".join(topics.to_pylist()).encode())
    for name in _NUMBERS:
        digest.update(longs(steps[name]).astype("<i8").tobytes())
    for name in _LISTS:
        lists = one_chunk(steps[name])
        digest.update(longs(lists.value_lengths()).astype("<i8").tobytes())
        digest.update(np.asarray(lists.flatten()).astype("<i8").tobytes())
    return digest.hexdigest()


def plan_hash(batch_hashes: Iterable[str]) -> str:
    """Return the hash of a whole plan: that of its batches' hashes, in order."""
    return hashlib.sha256("\n".join(batch_hashes).encode()).hexdigest()
