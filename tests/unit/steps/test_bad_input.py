"""What cannot be carried out is refused at the door: one message, which names the item and the next step."""

import json
from datetime import UTC, datetime
from logging import getLogger

import pytest
from tests.fakes.cluster import FakeCluster
from upath import UPath

from kafka_reassignment.errors import (
    DuplicatePartitionError,
    InfeasiblePlanError,
    InvalidAssignmentError,
    InvalidPlanFileError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidThrottleError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
)
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.quick


def given(*entries: object, **document: object) -> dict[str, object]:
    return {
        "job": "apply_json",
        "reassignment_json": json.dumps({"version": 1, "partitions": list(entries)} | document),
    }


def entry(replicas: object, partition: int = 0) -> dict[str, object]:
    return {"topic": "orders", "partition": partition, "replicas": replicas}


BAD = {
    "a partition that the same request excludes": (
        given(entry([1, 3])) | {"exclude_topics": ["ord*"]},
        InvalidRequestError,
        (
            "The reassignment JSON names orders-0, which 'topics' and 'exclude_topics' of the same request leave out. Remove them "
            "from one of the two"
        ),
    ),
    "a new replica on a broker that the same request excludes": (
        given(entry([1, 3])) | {"exclude_brokers": [3]},
        InvalidRequestError,
        (
            "The reassignment JSON puts orders-0 on broker 3, which 'exclude_brokers' of the same request lets get no new "
            "replica. Correct one of the two"
        ),
    ),
    "an unknown broker": (
        {"job": "decommission", "brokers": [9]},
        UnknownBrokerError,
        (
            "'brokers' names broker 9, expected brokers of cluster fake-cluster (alive: 1, 2, 3, 4, 5, 6). Correct the ids, "
            "or start the broker first"
        ),
    ),
    "a repeated broker": (
        {"job": "decommission", "brokers": [2, 2]},
        DuplicatePartitionError,
        (
            "The request cannot be carried out: 'brokers': 2 is named twice; name each one once. Nothing was changed in "
            "the cluster. Correct the request"
        ),
    ),
    "a canary topic that there is not": (
        {"job": "rebalance", "throttle_mb_per_second": 5, "auto_rate": True, "canary_topic": "no-such-topic"},
        UnknownTopicOrPartitionError,
        (
            "'canary_topic' names no-such-topic, expected a topic of the cluster with a leader, found none. Create the topic, or "
            "correct its name"
        ),
    ),
    "a group that there is not": (
        {"job": "rebalance", "throttle_mb_per_second": 5, "auto_rate": True, "watched_groups": ["billing"]},
        InvalidRequestError,
        (
            "'watched_groups' names billing, expected a consumer group that has committed offsets, found none. Correct the "
            "name, or start its consumers first"
        ),
    ),
    "a rate of 0": (
        {"job": "rebalance", "throttle_mb_per_second": 0},
        InvalidThrottleError,
        (
            "The request cannot be carried out: 'throttle_mb_per_second': expected a rate above 0 MB/s, found 0: it would "
            "stop replication; ask for at least 1. Nothing was changed in the cluster. Correct the request"
        ),
    ),
    "an unknown topic": (
        {"job": "move_topics", "topics": ["ordres"], "brokers": [1, 2, 3]},
        UnknownTopicOrPartitionError,
        "'topics' names 'ordres', which no topic of the cluster matches. Correct the name or the pattern",
    ),
    "a replication factor above the live brokers": (
        {"job": "replication_factor", "topics": ["orders"], "replication_factor": 7},
        InvalidReplicationFactorError,
        "replication_factor is 7, expected at most 6: that many brokers are alive. Lower it or add brokers",
    ),
    "all brokers of a rack": (
        {"job": "decommission", "brokers": [1, 4]},
        InfeasiblePlanError,
        (
            "Cannot decommission broker 1, 4: rack 'a' would have no live broker left, and 2 of 3 racks are too few for partitions "
            "that have replicas in 3 racks now, and are kept as far apart. Leave one broker of the rack, or add one to it first"
        ),
    ),
    "brokers of fewer racks than the topic is in": (
        {"job": "move_topics", "topics": ["orders"], "brokers": [1, 4]},
        InfeasiblePlanError,
        (
            "Cannot move the topics to broker 1, 4: 1 of 3 racks are too few for partitions that have replicas in 2 racks now, and "
            "are kept as far apart. Name brokers of more racks in 'brokers'"
        ),
    ),
    "a partition twice": (
        given(entry([1, 2]), entry([1, 3])),
        DuplicatePartitionError,
        (
            "partitions[1]: partition orders-0 is named twice, expected once, found replicas [1, 2] and [1, 3]. Remove one "
            "of them"
        ),
    ),
    "a negative replica": (
        given(entry([1, -2])),
        InvalidAssignmentError,
        (
            "partitions[0] (orders-0): 'replicas' must be at least one broker id, none negative and each named once, found "
            "[1, -2]. Correct the list, whose first broker is the preferred leader"
        ),
    ),
    "a repeated replica": (
        given(entry([1, 2, 1])),
        InvalidAssignmentError,
        (
            "partitions[0] (orders-0): 'replicas' must be at least one broker id, none negative and each named once, found "
            "[1, 2, 1]. Correct the list, whose first broker is the preferred leader"
        ),
    ),
    "ids as text": (
        given(entry(["1", "2"])),
        InvalidPlanFileError,
        (
            'partitions[0] (orders-0): \'replicas\' must be a list of broker ids as whole numbers, found ["1", "2"]. '
            "Correct it"
        ),
    ),
    "an unknown version": (
        given(entry([1, 2]), version=2),
        InvalidPlanFileError,
        "'version' must be the number 1, found 2. Use a plan of the format that Kafka prints",
    ),
    "text after the plan": (
        {"job": "apply_json", "reassignment_json": '{"version":1,"partitions":[]} and more'},
        InvalidPlanFileError,
        (
            "The plan is not JSON: expected the format of kafka-reassign-partitions, found: more text follows the plan at "
            "line 1, column 31; 'kafka-reassign-partitions --generate' prints two plans with titles: give the plan "
            "alone, or the whole output, of which the proposed plan is taken. Correct the file"
        ),
    ),
    "an unknown partition": (
        given(entry([1, 2], partition=99)),
        UnknownTopicOrPartitionError,
        "The reassignment JSON names orders-99, which the cluster does not have. Remove or correct them",
    ),
    "an unknown broker in the plan": (
        given(entry([1, 42])),
        UnknownBrokerError,
        (
            "The reassignment JSON puts orders-0 on broker 42, expected brokers that are alive (1, 2, 3, 4, 5, 6). Correct "
            "the target or start the broker first"
        ),
    ),
    "fewer replicas than min.insync.replicas": (
        given(entry([1])),
        InvalidReplicationFactorError,
        (
            "The reassignment JSON gives orders-0 1 replicas, expected at least 2: that is its topic's min.insync.replicas, "
            "and producers with acks=all would stop. Give it more replicas, or lower min.insync.replicas "
            "(topic orders from 2 to 1) first"
        ),
    ),
}


@pytest.mark.parametrize(("fields", "error", "text"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_before_anything_is_written(fields, error, text, tmp_path):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2), (2, 3)], configs={"min.insync.replicas": "2"})
    cluster.create_topic("payments", [(1, 2, 3)])
    store = RecordStore(UPath(tmp_path))
    record = store.record("fake-cluster", "r")
    step = RunContext(
        cluster=cluster,
        store=store,
        record=record,
        actor=Actor(requested_by="ann", try_number=1),
        log=getLogger("tests"),
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        sleep=lambda _: None,
    )

    with pytest.raises(error) as refused:
        preflight(step, {"throttle_mb_per_second": 10, **fields}, "ann")

    assert str(refused.value) == text
    assert type(refused.value) is error
    assert cluster.altered == []
    assert not {"alter_reassignments", "alter_configs"} & set(cluster.calls)
    assert store.lock_owner("fake-cluster") is None
    # The record has the refusal as an audit event with its head, and nothing else.
    assert {path.parent.name for path in tmp_path.rglob("*") if path.is_file()} == {"audit", "audit-heads"}
