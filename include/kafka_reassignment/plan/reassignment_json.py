"""A plan as JSON in the format of kafka-reassign-partitions: parsed from text, rendered as text, written to a file.

    {"version":1,"partitions":[{"topic":"orders","partition":3,"replicas":[1,2,4]}]}

Kafka's own reader is lenient in dangerous ways (of a repeated partition the last one wins; ids as text end up in
ZooKeeper as text). Here everything that is not exactly the format is refused, with its place in the file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import (
    DuplicatePartitionError,
    InvalidAssignmentError,
    InvalidPlanFileError,
    store_errors,
)
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.places import filesystem
from kafka_reassignment.plan.columns import longs, one_chunk
from kafka_reassignment.plan.store import PlanRef, read_target_table

VERSION = 1
"""The one version of the format there is."""

MAX_BYTES = 256 * 1024 * 1024
"""Size of a plan for about three million partitions."""

ANY_LOG_DIR = "any"
"""The only log dir accepted: moves between log dirs of one broker are another operation (KIP-113)."""

JSON_ROWS_AT_ONCE = 200_000
"""Partitions of a written file that are in memory at once."""

_TITLE = re.compile(
    r"^[ \t]*(?P<which>current|proposed) partition (?:replica assignment|reassignment configuration)[ \t]*$",
    re.I | re.M,
)
"""The titles of the two plans that '--generate' prints."""

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_MAX_ID = 2**31 - 1
_REQUIRED = {"topic", "partition", "replicas"}


def parse_plan(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> dict[TopicPartition, Replicas]:
    """Read a plan: target replicas by partition, in file order.

    Args:
        text: the JSON; bytes are UTF-8, without a byte order mark.
        max_bytes: refuse more than this before looking inside.

    Raises:
        DuplicatePartitionError: a partition is named twice.
        InvalidAssignmentError: a replica list is empty, repeats a broker or has a negative id.
        InvalidPlanFileError: anything else that is not the format.
    """
    document = _decoded(text, max_bytes)
    if isinstance(document, GeneratedPlans):
        document = document.proposed
    if not isinstance(document, dict):
        _refuse("The plan", "be a JSON object with 'version' and 'partitions'", document, "give the complete file")
    _check_keys("The plan", document, {"version", "partitions"})
    if document["version"] != VERSION or not _is_int(document["version"]):
        _refuse(
            "'version'", f"be the number {VERSION}", document["version"], "use a plan of the format that Kafka prints"
        )
    entries = document["partitions"]
    if not isinstance(entries, list) or not entries:
        _refuse("'partitions'", "be a list with at least one partition", entries, "name the partitions to reassign")
    plan: dict[TopicPartition, Replicas] = {}
    for index, entry in enumerate(entries):
        partition, replicas = _entry(f"partitions[{index}]", entry)
        if partition in plan:
            raise DuplicatePartitionError(
                f"partitions[{index}]: partition {partition} is named twice, expected once, found replicas "
                f"{_shown(list(plan[partition]))} and {_shown(list(replicas))}",
                Correct("remove one of them"),
            )
        plan[partition] = replicas
    return plan


def render_plan(assignments: Mapping[TopicPartition, Replicas]) -> str:
    """Return the plan as Kafka's tool reads it: one line, ordered by topic and partition."""
    entries = ",".join(
        f'{{"topic":{json.dumps(p.topic)},"partition":{p.partition},"replicas":[{",".join(map(str, assignments[p]))}]}}'
        for p in sorted(assignments)
    )
    return f'{{"version":{VERSION},"partitions":[{entries}]}}'


def write_reassignment_json(plan: PlanRef | str, path: str, side: Literal["target", "current"] = "target") -> None:
    """Write a plan's JSON, or with ``side="current"`` its rollback's.

    The same bytes as ``render_plan``, column by column: two million partitions take seconds.

    Args:
        plan: the frozen plan, or the directory of one; partitions are written in its order.
        path: file to write, a path or URI.
        side: which replicas to write.
    """
    files, inner = filesystem(path)
    target = read_target_table(plan)
    with store_errors("write", path), files.open(inner, "wb") as sink:
        for part in _parts(target, side):
            sink.write(part)


def reassignment_json(plan: PlanRef | str, side: Literal["target", "current"] = "target") -> Iterator[bytes]:
    """Return what ``write_reassignment_json`` writes, in parts; the plan is read before the first of them is asked for."""
    return _parts(read_target_table(plan), side)


def _parts(target: pa.Table, side: Literal["target", "current"]) -> Iterator[bytes]:
    yield b'{"version":1,"partitions":['
    written = 0
    for rows in target.to_batches(max_chunksize=JSON_ROWS_AT_ONCE):
        if not len(rows):
            continue
        yield b"," if written else b""
        yield _entries(rows, side)
        written += len(rows)
    yield b"]}"


def _decoded(text: str | bytes, max_bytes: int) -> object:
    if len(text) > max_bytes:
        _refuse("The plan", f"be at most {max_bytes} bytes", len(text), "split it into several plans")
    try:
        unicode = text if isinstance(text, str) else text.decode()
        plan: object = json.loads(unicode, object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
        return plan
    except RecursionError:
        message = "values nested too deeply"
    except UnicodeDecodeError as wrong:
        message = f"byte {wrong.start} is not UTF-8"
    except json.JSONDecodeError as wrong:
        if generated := _generated(unicode):
            return generated
        message = f"{wrong.msg} at line {wrong.lineno}, column {wrong.colno}"
        if wrong.msg == "Extra data":
            message = f"more text follows the plan at line {wrong.lineno}, column {wrong.colno}"
        if wrong.msg == "Extra data" or _TITLE.search(unicode):
            message += (
                "; 'kafka-reassign-partitions --generate' prints two plans with titles: give the plan alone, or the whole output, "
                "of which the proposed plan is taken"
            )
    except ValueError as wrong:  # a number of thousands of digits
        message = str(wrong).partition(";")[0]
    raise InvalidPlanFileError(
        f"The plan is not JSON: expected the format of kafka-reassign-partitions, found: {message}",
        Correct("correct the file"),
    )


@dataclass(frozen=True)
class GeneratedPlans:
    """What 'kafka-reassign-partitions --generate' prints: the current assignment, to go back to, and the proposed one."""

    proposed: object


def _generated(text: str) -> GeneratedPlans | None:
    """Read the whole output of '--generate': two titled plans, in either order; None where it is something else."""
    titles = list(_TITLE.finditer(text))
    if (
        {m["which"].casefold() for m in titles} != {"current", "proposed"}
        or len(titles) != 2
        or text[: titles[0].start()].strip()
    ):
        return None
    ends = [titles[1].start(), len(text)]
    plans = {m["which"].casefold(): text[m.end() : end] for m, end in zip(titles, ends, strict=True)}
    try:
        read = {
            which: json.loads(plan, object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
            for which, plan in plans.items()
        }
    except (ValueError, RecursionError):
        return None
    return GeneratedPlans(read["proposed"])


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise InvalidPlanFileError(
            f"The plan has the key {_shown(twice)} twice in one object, expected once", Correct("remove one of them")
        )
    return result


def _no_constant(name: str) -> NoReturn:
    raise InvalidPlanFileError(f"The plan has the value {name}, which JSON does not know", Correct("correct the file"))


def _entry(where: str, entry: object) -> tuple[TopicPartition, Replicas]:
    if not isinstance(entry, dict):
        _refuse(where, "be an object with topic, partition and replicas", entry, "correct the entry")
    _check_keys(where, entry, _REQUIRED, optional={"log_dirs"})
    topic, number, replicas = entry["topic"], entry["partition"], entry["replicas"]
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        _refuse(
            f"{where}: 'topic'",
            "be a Kafka topic name (1 to 249 of letters, digits, '.', '_', '-')",
            topic,
            "correct it",
        )
    if not _is_int(number) or not 0 <= number <= _MAX_ID:
        _refuse(f"{where} (topic {topic}): 'partition'", "be a whole number from 0", number, "correct it")
    partition = TopicPartition(topic, number)
    where = f"{where} ({partition})"
    if not isinstance(replicas, list) or not all(_is_int(b) for b in replicas):
        _refuse(f"{where}: 'replicas'", "be a list of broker ids as whole numbers", replicas, "correct it")
    if not replicas or len(set(replicas)) != len(replicas) or not all(0 <= b <= _MAX_ID for b in replicas):
        raise InvalidAssignmentError(
            f"{where}: 'replicas' must be at least one broker id, none negative and each named once, found "
            f"{_shown(replicas)}",
            Correct("correct the list, whose first broker is the preferred leader"),
        )
    log_dirs = entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
    if log_dirs != [ANY_LOG_DIR] * len(replicas):
        _refuse(
            f"{where}: 'log_dirs'",
            f"be '{ANY_LOG_DIR}' for each of the {len(replicas)} replicas",
            log_dirs,
            "leave it out (Kafka prints it in rollback plans): moves to a chosen log dir are not supported",
        )
    return partition, tuple(replicas)


def _check_keys(where: str, found: dict[str, object], required: set[str], optional: set[str] | None = None) -> None:
    if missing := sorted(required - found.keys()):
        _refuse(where, f"have the keys {', '.join(sorted(required))}", sorted(found)[:10], f"add '{missing[0]}'")
    if unknown := sorted(found.keys() - required - (optional or set())):
        _refuse(
            where,
            f"have only the keys {', '.join(sorted(required))}",
            unknown[:10],
            "remove what is not part of the format",
        )


def _refuse(item: str, expected: str, found: object, next_step: str) -> NoReturn:
    raise InvalidPlanFileError(f"{item} must {expected}, found {_shown(found)}", Correct(next_step))


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """A value of the file on one printable line, shortened."""
    if isinstance(value, list):
        value = value[:20]
    elif isinstance(value, str):
        value = value[:120]
    elif isinstance(value, dict):
        value = dict(list(value.items())[:5])
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "values nested too deeply"
    return text if len(text) <= 120 else text[:117] + "..."


def _entries(rows: pa.RecordBatch, side: str) -> bytes:
    lists = one_chunk(rows.column(side))
    ends = np.cumsum(longs(lists.value_lengths()))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    replicas = pc.binary_join(pa.ListArray.from_arrays(offsets, lists.flatten().cast(pa.string())), ",")
    # Topic names need no escaping: Kafka allows letters, digits, '.', '_' and '-' only.
    entries = pc.binary_join_element_wise(
        '{"topic":"',
        rows.column("topic"),
        '","partition":',
        rows.column("partition").cast(pa.string()),
        ',"replicas":[',
        replicas,
        "]}",
        "",
    )
    all_entries = pa.ListArray.from_arrays(pa.array([0, len(entries)], pa.int32()), entries)
    text: str = pc.binary_join(all_entries, ",")[0].as_py()
    return text.encode()
