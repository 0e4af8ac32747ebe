"""What people read of replication factors before they approve."""

import pyarrow as pa
import pytest

from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.summary import factor_changes

pytestmark = pytest.mark.quick


def changes(*moves):
    rows = [
        {"topic": topic, "partition": i, "current": list(c), "target": list(t), "size_bytes": 10}
        for i, (topic, c, t) in enumerate(moves)
    ]
    return pa.Table.from_pylist(rows, schema=TARGET)


def test_each_topic_says_how_its_factor_changes_and_where_it_is_not_the_same_for_all():
    found = factor_changes(
        changes(
            ("orders", (1, 2, 3), (1, 2)),
            ("orders", (1, 2, 3), (4, 2)),
            ("orders", (1, 2, 3), (4, 2, 3)),
            ("payments", (1, 2), (1, 2, 3)),
            ("quiet", (1, 2), (3, 2)),
        )
    )
    assert found == (
        "orders: 2 partitions from replication factor 3 to 2 (fewer); its partitions will have different replication factors: 2, 3",
        "payments: 1 partitions from replication factor 2 to 3",
    )


def test_nothing_is_said_where_no_factor_changes():
    assert factor_changes(changes(("quiet", (1, 2), (3, 2)))) == ()
    assert factor_changes(changes()) == ()
