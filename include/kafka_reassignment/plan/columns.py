"""Arrow columns to numpy and back; replica lists become one padded matrix."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import ABSENT, Longs

ELEMENT = pa.field("element", pa.int32(), nullable=False)


def longs(column: pa.Array | pa.ChunkedArray) -> Longs:
    """A numeric column as int64, null as 0."""
    filled: Longs = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return filled


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one contiguous array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def replica_matrix(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of broker id lists as a matrix, padded at the right with ``ABSENT``; at least one column wide."""
    lists = one_chunk(column)
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    width = max(int(lengths.max(initial=0)), 1)
    result = np.full((len(lists), width), ABSENT, dtype=np.int64)
    result[np.arange(width) < lengths[:, None]] = values
    return result


def distinct_in_rows(rows: NDArray[np.int64]) -> Longs:
    """How many different values each row has, ``ABSENT`` apart."""
    ordered = np.sort(rows, axis=1)
    found: Longs = (np.diff(ordered, axis=1) != 0).sum(axis=1) + 1 - (ordered[:, 0] == ABSENT)
    return found


def replica_lists(rows: NDArray[np.int64]) -> pa.Array:
    """The inverse of ``replica_matrix``."""
    present = rows != ABSENT
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
    values = pa.array(rows[present].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(ELEMENT))


def partition_names(rows: pa.Table) -> pa.ChunkedArray:
    """The partition of each row as ``topic-0``."""
    return pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "-")


def are_of(rows: pa.Table, partitions: Collection[str]) -> pa.Array:
    """Which rows are about these partitions (``topic-0``)."""
    return pc.is_in(partition_names(rows), pa.array(sorted(partitions), pa.string())).combine_chunks()
