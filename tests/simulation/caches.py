"""What the simulator does not work out twice, because the same bytes always give the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel
from tests.simulation.disk import Table

MOST = 20_000
"""Parsed models kept; then all are forgotten."""

MOST_RESULTS = 2_000
"""Results kept of each function of tables; then all are forgotten."""

OF_TABLES = (
    ("kafka_reassignment.plan.hash", "target_hash"),
    ("kafka_reassignment.plan.hash", "batch_hashes"),
)
"""Pure functions of tables and numbers, whose results nobody changes."""

_models: dict[tuple[type, bytes], Any] = {}
_batches: dict[tuple[Any, ...], tuple[Any, Any]] = {}
_batches_elsewhere: dict[tuple[Any, ...], tuple[Any, Any]] = {}
_elsewhere: dict[str, Any] = {"_kept_batch": None, "_kept_summary": None}
"""What another process has read of plans, by the name of the product's cache."""


def forget_batches() -> None:
    """Begin a world: its first reading of a batch is always a real one, so that a seed makes the same calls each time."""
    from kafka_reassignment.plan import store

    _batches.clear()
    _batches_elsewhere.clear()
    _elsewhere.update(dict.fromkeys(_elsewhere))
    forget = getattr(store, "forget_read_plans", None)  # not in older versions of the product
    if forget is not None:
        forget()


@contextmanager
def of_another_process() -> Iterator[None]:
    """Keep what is read of plans in here apart: what a judge or a page has read, no task has."""
    global _batches  # noqa: PLW0603 - what replaces the product's function finds it by its name
    from kafka_reassignment.plan import store

    own, own_batches = {name: getattr(store, name) for name in _elsewhere}, _batches
    _batches = _batches_elsewhere
    for name, kept in own.items():
        if _elsewhere[name] is None:
            _elsewhere[name] = lru_cache(maxsize=64)(kept.__wrapped__)
        setattr(store, name, _elsewhere[name])
    try:
        yield
    finally:
        _batches = own_batches
        for name, kept in own.items():
            setattr(store, name, kept)


def content_of(table: pa.Table) -> tuple[Any, ...]:
    """Return what is the same for two tables only if they have the same rows."""
    return (*table.schema.names, *(part.serialize().to_pybytes() for part in table.to_batches()))


def kept_table(rows: pa.Table) -> Table:
    """Return the content of a file of these rows: one object for equal rows."""
    content = content_of(rows)
    if content not in _tables:
        _make_room(_tables)
        _tables[content] = Table(rows, repr(rows.to_pylist()).encode())
    return _tables[content]


def rows_where(table: Table, filters: Any) -> pa.Table:
    """Return some rows of a table."""
    key = (table, str(filters))
    if key not in _parts:
        _make_room(_parts)
        _parts[key] = table.rows.filter(filters)
    return _parts[key]


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= MOST_RESULTS:
        kept.clear()


_tables: dict[tuple[Any, ...], Table] = {}
_parts: dict[tuple[Table, str], pa.Table] = {}
_once: dict[Callable[..., Any], Callable[..., Any]] = {}


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tables, arrays and numbers that works out each result once."""
    if function in _once:
        return _once[function]
    results: dict[tuple[Any, ...], Any] = {}

    def found(*args: Any) -> Any:
        key = tuple([_key(each) for each in args])
        if key not in results:
            _make_room(results)
            results[key] = function(*args)
        return results[key]

    _once[function] = found
    return found


def _key(given: Any) -> Any:
    if isinstance(given, pa.Table):
        return content_of(given)
    return (given.dtype.str, given.tobytes()) if isinstance(given, np.ndarray) else given


def install(modules: Sequence[ModuleType]) -> None:
    """Keep parsed frozen models by their content, checked batches by their table and hashes, and what tables lead to."""
    parse = BaseModel.model_validate_json.__func__  # type: ignore[attr-defined]

    def model_validate_json(cls: type[BaseModel], content: Any, **options: Any) -> Any:
        if options or not isinstance(content, bytes) or not cls.model_config.get("frozen"):
            return parse(cls, content, **options)
        found = _models.get((cls, content))
        if found is None:
            found = parse(cls, content)
            if len(_models) >= MOST:
                _models.clear()
            _models[cls, content] = found
        return found

    BaseModel.model_validate_json = classmethod(model_validate_json)  # type: ignore[assignment]

    from kafka_reassignment.plan import store

    for module in modules:
        for name, value in list(vars(module).items()):
            if (getattr(value, "__module__", ""), getattr(value, "__name__", "")) in OF_TABLES:
                setattr(module, name, once(value))

    checked = getattr(store, "_checked", None)
    if checked is None:
        return

    def checked_once(plan_dir: str, planned: Any, *more: Any) -> Any:
        files, path = store.filesystem(plan_dir)
        name = f"{path}/steps/part-00000.parquet"  # by name: a listing may lag
        tables = (files.open(name).content,) if files.exists(name) else ()
        key = (*map(id, tables), *((b.number, b.steps_hash) for b in planned), more)
        if key not in _batches:
            _batches[key] = (tables, checked(plan_dir, planned, *more))
        return _batches[key][1]

    store._checked = checked_once
