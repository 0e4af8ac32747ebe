"""KIP-435's steps as a table."""

import pyarrow as pa
import pytest

from kafka_reassignment.decisions.batching import batches_of
from kafka_reassignment.plan.schemas import STEPS, TARGET
from kafka_reassignment.plan.steps import batching_columns, steps_table
from kafka_reassignment.request import Limits

pytestmark = pytest.mark.quick


def changes(*moves):
    rows = [
        {"topic": "orders", "partition": i, "current": list(c), "target": list(t), "size_bytes": 10 * (i + 1)}
        for i, (c, t) in enumerate(moves)
    ]
    return pa.Table.from_pylist(rows, schema=TARGET)


def rows_of(table):
    assert table.schema == STEPS
    names = ("partition", "step", "steps", "current", "target", "leader_movement")
    return [tuple(tuple(v) if isinstance(v, list) else v for v in (row[n] for n in names)) for row in table.to_pylist()]


def test_changes_within_the_limit_are_one_step_each():
    table = steps_table(changes(((1, 2), (1, 3)), ((1, 2), (2, 1)), ((1, 2, 3), (1, 2))), 1)
    assert rows_of(table) == [
        (0, 1, 1, (1, 2), (1, 3), False),
        (1, 1, 1, (1, 2), (2, 1), True),
        (2, 1, 1, (1, 2, 3), (1, 2), False),
    ]


def test_a_change_over_the_limit_becomes_several_steps_in_its_place():
    table = steps_table(changes(((1, 2), (1, 3)), ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9)), ((1, 2), (1, 4))), 2)
    assert rows_of(table) == [
        (0, 1, 1, (1, 2), (1, 3), False),
        (1, 1, 4, (0, 1, 2, 3, 4), (5, 0, 1, 2, 3, 4), True),
        (1, 2, 4, (5, 0, 1, 2, 3, 4), (5, 6, 2, 3, 4), False),
        (1, 3, 4, (5, 6, 2, 3, 4), (5, 6, 7, 8, 4), False),
        (1, 4, 4, (5, 6, 7, 8, 4), (5, 6, 7, 8, 9), False),
        (2, 1, 1, (1, 2), (1, 4), False),
    ]


def test_steps_of_one_partition_run_in_successive_batches():
    table = steps_table(changes(((1, 2, 3), (4, 5, 6)), ((1, 2), (1, 3))), 1)
    numbers = batches_of(batching_columns(table), Limits(replica_movements=1, partition_movements=10))
    of_first = [n for n, row in zip(numbers, table.to_pylist(), strict=True) if row["partition"] == 0]
    assert list(of_first) == sorted(set(of_first))
    assert len(of_first) >= 3
