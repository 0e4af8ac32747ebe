"""Tables without Spark: one folder of Parquet each, local or at any fsspec URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PART = "part-00000.parquet"
"""The only file of a table written here; readers take every Parquet file of the folder."""


def filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path within it."""
    files, path = fsspec.core.url_to_fs(url)
    return files, path


def write_table(directory: str, schema: pa.Schema, parts: Iterable[pa.Table | pa.RecordBatch]) -> None:
    """Write a table as one file, a row group per part; one part is in memory at a time. An earlier file is replaced."""
    files, path = filesystem(directory)
    files.makedirs(path, exist_ok=True)
    with files.open(f"{path}/{PART}", "wb") as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for part in parts:
            writer.write(part)


def read_table(directory: str, rows: pc.Expression | None = None) -> pa.Table:
    """Read every Parquet file of a folder, in the order of their names.

    Args:
        directory: path or URL of the folder.
        rows: which rows to read; None for all.

    Raises:
        FileNotFoundError: the folder has no Parquet file.
    """
    return pa.concat_tables(iterate_table(directory, rows))


def iterate_table(directory: str, rows: pc.Expression | None = None) -> Iterator[pa.Table]:
    """Read a folder file by file.

    Raises:
        FileNotFoundError: the folder has no Parquet file.
    """
    files, path = filesystem(directory)
    names = sorted(files.glob(f"{path}/*.parquet"))
    if not names:
        raise FileNotFoundError(directory)
    for name in names:
        with files.open(name, "rb") as source:
            yield pq.read_table(source, filters=rows)
