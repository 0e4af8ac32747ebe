"""KIP-435's steps as a table."""

import pyarrow as pa
import pytest

from kafka_reassignment.decisions.batching import batches_of
from kafka_reassignment.decisions.throttle import LONGEST_LIST_BYTES, replicas_listed
from kafka_reassignment.model import Reassignment, Step, TopicPartition
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


def test_steps_look_at_racks_where_they_are_known():
    table = steps_table(changes(((1, 2, 3), (4, 5, 6))), 1, rack_of={1: "a", 2: "b", 3: "c", 4: "b", 5: "c", 6: "a"})
    assert [row[4] for row in rows_of(table)] == [(4, 1, 3), (4, 5, 1), (4, 5, 6)]


def test_steps_of_one_partition_run_in_successive_batches():
    table = steps_table(changes(((1, 2, 3), (4, 5, 6)), ((1, 2), (1, 3))), 1)
    numbers = batches_of(batching_columns(table), Limits(replica_movements=1, partition_movements=10))
    of_first = [n for n, row in zip(numbers, table.to_pylist(), strict=True) if row["partition"] == 0]
    assert list(of_first) == sorted(set(of_first))
    assert len(of_first) >= 3


def test_a_batch_of_5000_partitions_of_one_topic_has_lists_that_kafka_takes():
    """Entries of the leaders' side are the current replicas; those of the followers' side are the added ones."""
    moves = [((101, 102, 103), (101, 102, 200 + i % 100)) for i in range(3_000)]
    table = steps_table(changes(*moves, *[((101, 102, 103), (101, 103, 102))] * 2_000), 3)
    numbers = batches_of(batching_columns(table), Limits(partition_movements=5_000, leader_movements=5_000))
    assert numbers.max() > 1
    for number in range(1, int(numbers.max()) + 1):
        rows = table.filter(pa.array(numbers == number)).to_pylist()
        steps = [
            Step(
                Reassignment(
                    TopicPartition(row["topic"], row["partition"]), tuple(row["current"]), tuple(row["target"])
                )
            )
            for row in rows
        ]
        assert all(len(",".join(r.entries)) <= LONGEST_LIST_BYTES for r in replicas_listed(steps))
