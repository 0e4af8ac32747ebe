"""Tables without Spark: one folder of Parquet each, at any place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordDamagedError, store_errors
from kafka_reassignment.places import filesystem, is_on_disk

PART = "part-00000.parquet"
"""The only file of a table."""


def write_table(directory: str, schema: pa.Schema, parts: Iterable[pa.Table | pa.RecordBatch]) -> None:
    """Write a table as one file, a row group per part; one part is in memory at a time. An earlier file is replaced."""
    files, path = filesystem(directory)
    with store_errors("write", directory):
        if is_on_disk(directory):  # stores have no folders, and for one s3fs would look for the bucket and make it
            files.makedirs(path, exist_ok=True)
        with files.open(f"{path}/{PART}", "wb") as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for part in parts:
                writer.write(part)


def read_table(directory: str, rows: pc.Expression | None = None) -> pa.Table:
    """Read a table: its only file, by its name, since the listing of a store may lag.

    Args:
        directory: path or URL of the folder.
        rows: which rows to read; None for all.

    Raises:
        FileNotFoundError: there is no such file.
        RecordUnavailableError: the store does not answer.
        RecordDamagedError: it is no Parquet file.
    """
    files, path = filesystem(directory)
    name = f"{path}/{PART}"
    with store_errors("read", name, (FileNotFoundError,)), files.open(name, "rb") as source:
        return _parsed(source, name, rows)


def count_rows(directory: str) -> int:
    """Return the number of rows of a table, from the end of its file."""
    files, path = filesystem(directory)
    name = f"{path}/{PART}"
    with store_errors("read", name, (FileNotFoundError,)), files.open(name, "rb") as source:
        return int(pq.read_metadata(source).num_rows)


def _parsed(source: BinaryIO, name: str, rows: pc.Expression | None) -> pa.Table:
    try:
        return pq.read_table(source, filters=rows)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the store's own; Arrow's have no number
        raise RecordDamagedError(
            f"{name} is not readable, expected Parquet, found: {error}", Correct(f"restore {name} from a copy")
        ) from error
