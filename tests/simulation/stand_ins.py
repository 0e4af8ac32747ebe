"""Puts the simulated files in the place of the real ones in the product's modules that touch files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pyarrow as pa
from tests.simulation.caches import rows_where
from tests.simulation.disk import Table
from tests.simulation.files import FILES, SimFile, SimFiles, SimOs, SimPath

from kafka_reassignment import places


class _Parquet:
    """Stands for ``pyarrow.parquet``: tables are kept as they are."""

    @staticmethod
    @contextmanager
    def _writer(sink: SimFile, schema: pa.Schema) -> Iterator[_Parts]:
        parts = _Parts()
        yield parts
        sink.write_table(pa.concat_tables(parts.tables) if parts.tables else schema.empty_table())

    def ParquetWriter(self, sink: SimFile, schema: pa.Schema, **_: object) -> Any:  # noqa: N802 - pyarrow's name
        return self._writer(sink, schema)

    def read_table(self, source: SimFile, filters: Any = None) -> pa.Table:
        content = source.content
        if not isinstance(content, Table):
            raise pa.ArrowInvalid("Parquet magic bytes not found in footer")
        return content.rows if filters is None else rows_where(content, filters)


class _Parts:
    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def write(self, part: pa.Table | pa.RecordBatch) -> None:
        self.tables.append(part if isinstance(part, pa.Table) else pa.Table.from_batches([part]))


class _Fsspec:
    class core:  # noqa: N801 - fsspec's name
        @staticmethod
        def url_to_fs(url: object) -> tuple[SimFiles, str]:
            return FILES, SimPath(url).path


@contextmanager
def in_place(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Put the simulation's files in the place of the real ones in these modules of the product, for a while."""
    stand_ins = {"Path": SimPath, "UPath": SimPath, "os": SimOs(), "fsspec": _Fsspec, "pq": _Parquet()}
    real = [(m, name, getattr(m, name)) for m in (*modules, places) for name in stand_ins if hasattr(m, name)]
    try:
        for module, name, _ in real:
            setattr(module, name, stand_ins[name])
        yield
    finally:
        for module, name, was in real:
            setattr(module, name, was)
