"""What people read of replication factors before they approve."""

import pyarrow as pa
import pytest

from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.summary import factor_changes, fewer_racks, short_of_min_insync

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


def test_what_min_insync_replicas_lets_wait_or_stay_is_told_by_topic():
    """Producers stopped for the whole copy, and what was not moved waited for a day before anybody said so."""
    found = changes(
        ("raised", (1,), (1, 4)),
        ("raised", (2,), (2, 4)),
        ("moved", (1,), (4,)),
        ("enough", (1, 2), (1, 4)),
        ("unknown", (1,), (1, 4)),
        ("lower", (1, 2, 3), (1,)),
        ("reordered", (1,), (1,)),
    )
    least = {"raised": 2, "moved": 2, "enough": 2, "lower": 2, "reordered": 2, "one": 1}
    assert short_of_min_insync(found, least) == (
        ("raised (2 partitions with 1 of 2)",),
        ("lower (1 partitions with 1 of 2)", "moved (1 partitions with 1 of 2)"),
    )
    assert short_of_min_insync(found, {}) == short_of_min_insync(changes(), least) == ((), ())


def test_partitions_that_will_be_in_fewer_racks_than_they_could_be_in_are_counted():
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: None}
    fewer = changes(("to one rack", (1, 2, 3), (1, 4, 3)), ("fewer replicas", (1, 4, 2), (1, 4)))
    as_many = changes(("same", (1, 2), (4, 2)), ("fewer replicas", (1, 2, 3), (1, 2)), ("no rack", (5, 1), (4, 1)))
    assert fewer_racks(fewer, racks) == 2
    assert fewer_racks(as_many, racks) == 0
    assert fewer_racks(fewer, dict.fromkeys(racks)) == fewer_racks(changes(), racks) == 0
