"""A plan's hash: the same for the same steps in the same batches, whichever program wrote the files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.plan.columns import longs, one_chunk

_LISTS = ("current", "target")
_NUMBERS = ("partition", "step", "steps", "size_bytes", "leader_movement")
_TARGET_NUMBERS = ("partition", "size_bytes")


def plan_hash(batch_hashes: Iterable[str]) -> str:
    """Return the hash of a plan: that of its batches' hashes, in order."""
    return hashlib.sha256("\n".join(batch_hashes).encode()).hexdigest()


def batch_hashes(steps: pa.Table, numbers: Longs, count: int) -> tuple[str, ...]:
    """Return the SHA-256 of each batch from 1 to ``count``.

    Args:
        steps: ``STEPS``, in the order of their batches.
        numbers: by step, the number of its batch.
        count: number of batches.
    """
    starts = np.searchsorted(numbers, np.arange(1, count + 2)).tolist()
    rows = _HashedRows(steps, _NUMBERS)
    return tuple(rows.hash(start, end) for start, end in pairwise(starts))


def target_hash(target: pa.Table) -> str:
    """Return the SHA-256 of a target assignment (``TARGET``)."""
    return _HashedRows(target, _TARGET_NUMBERS).hash(0, len(target))


class _HashedRows:
    """Rows of moves whose columns are turned into bytes once for all hashes."""

    def __init__(self, rows: pa.Table, numbers: Sequence[str]) -> None:
        self._topics = one_chunk(rows["topic"])
        self._numbers = [longs(rows[name]).astype("<i8") for name in numbers]
        self._lists = [one_chunk(rows[name]) for name in _LISTS]
        self._values = [longs(lists.flatten()).astype("<i8") for lists in self._lists]
        self._offsets = [
            np.concatenate([[0], np.cumsum(longs(lists.value_lengths()))]).astype("<i8") for lists in self._lists
        ]

    def hash(self, start: int, end: int) -> str:
        """Return the SHA-256 of the rows from ``start`` up to, not including, ``end``."""
        digest = hashlib.sha256()
        digest.update((end - start).to_bytes(8, "little"))
        digest.update(_lines(self._topics.slice(start, end - start)))
        for numbers in self._numbers:
            digest.update(numbers[start:end].tobytes())
        for offsets, values in zip(self._offsets, self._values, strict=True):
            digest.update(np.diff(offsets[start : end + 1]).tobytes())
            digest.update(values[offsets[start] : offsets[end]].tobytes())
        return digest.hexdigest()


def _lines(texts: pa.Array) -> bytes:
    """The texts with a line feed between any two."""
    all_of_them = pa.ListArray.from_arrays([0, len(texts)], texts)
    joined: bytes = pc.binary_join(all_of_them, "\n")[0].as_buffer().to_pybytes()
    return joined
