"""KIP-240's description of a reassignment and KIP-179's table of replicas."""

from __future__ import annotations

import json

import pytest

from kafka_reassignment.decisions.describe import NoRate, describe_step, description_lines, replica_status, status_table
from kafka_reassignment.decisions.move_status import MoveStatus, ReportedStatus
from kafka_reassignment.decisions.progress import progress
from kafka_reassignment.decisions.samples import Sample
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from kafka_reassignment.model import (
    Batch,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    PartitionState,
    Reassignment,
    Step,
    TopicPartition,
    View,
)

pytestmark = pytest.mark.quick

ORDERS_3 = TopicPartition("orders", 3)
STEP = Step(Reassignment(ORDERS_3, (1, 2), (3, 2), 100))
VIEW = View(frozenset({1, 2, 3}), {ORDERS_3: PartitionState((1, 2, 3), frozenset({1, 2}), 1)})


def dynamic(value: str) -> ConfigValue:
    return ConfigValue(value, ConfigSource.DYNAMIC_BROKER)


CONFIGS = {
    ConfigResource.broker(1): {LEADER_RATE: dynamic("10"), FOLLOWER_RATE: dynamic("11")},
    ConfigResource.broker(2): {LEADER_RATE: dynamic("20"), FOLLOWER_RATE: dynamic("21")},
    ConfigResource.broker(3): {FOLLOWER_RATE: dynamic("31")},
    ConfigResource.topic("orders"): {LEADER_REPLICAS: dynamic("3:1,3:2"), FOLLOWER_REPLICAS: dynamic("3:3")},
}


IN_FLIGHT = ReportedStatus(MoveStatus.IN_FLIGHT, "in flight to 1,2,3, waiting for 3")


def described(configs: object = CONFIGS, view: View = VIEW, run: str = "run-1", status: ReportedStatus = IN_FLIGHT):  # type: ignore[no-untyped-def]
    samples = [
        Sample(0, {ORDERS_3: {1: 100, 3: 40}}),
        Sample(30, {ORDERS_3: {1: 100, 3: 70}}, {ORDERS_3: {3: 300}}, {ORDERS_3: 1000}),
    ]
    replicas = progress(Batch(1, (STEP,)), view, samples).replicas
    return describe_step(
        STEP,
        view,
        status,
        replicas,
        configs,  # type: ignore[arg-type]
        reassignment_id=run,
        started_at_seconds=1000.0,
        now_seconds=1090.0,
    )


def test_a_description_has_everything_kip_240_asks_for() -> None:
    found = described().as_json()
    assert json.loads(json.dumps(found)) == found
    assert found == {
        "reassignment_id": "run-1",
        "topic": "orders",
        "partition": 3,
        "started_at_seconds": 1000.0,
        "elapsed_seconds": 90.0,
        "state": "in flight",
        "reason": "in flight to 1,2,3, waiting for 3",
        "current_leader": 1,
        "leader_throttle": 10,
        "current": [1, 2],
        "target": [3, 2],
        "adding": [3],
        "removing": [1],
        "throttles": {"3": 31, "2": "unlimited"},
        "replicas": [
            {
                "broker": 3,
                "state": "moving",
                "reason": "",
                "log_end_offset": 700,
                "messages_behind": 300,
                "bytes_left": 30,
                "bytes_per_second": 1.0,
                "seconds_left": 30.0,
            }
        ],
    }


def test_a_rate_without_an_entry_and_an_entry_without_a_rate_are_unlimited() -> None:
    unlisted = {**CONFIGS, ConfigResource.topic("orders"): {LEADER_REPLICAS: dynamic("3:2")}}
    unlimited = (NoRate.UNLIMITED, {3: NoRate.UNLIMITED, 2: NoRate.UNLIMITED})
    assert (described(unlisted).leader_throttle, described(unlisted).throttles) == unlimited
    assert (described(unrated()).leader_throttle, described(unrated()).throttles) == unlimited
    assert described(unrated()).as_json()["leader_throttle"] == "unlimited"


def unrated():  # type: ignore[no-untyped-def]
    listed = {ConfigResource.topic("orders"): {LEADER_REPLICAS: dynamic("*"), FOLLOWER_REPLICAS: dynamic("*")}}
    return listed | {ConfigResource.broker(b): {} for b in (1, 2, 3)}


def test_a_rate_that_a_broker_does_not_report_is_unknown_not_unlimited() -> None:
    silent = {r: c for r, c in CONFIGS.items() if r != ConfigResource.broker(3)}
    assert described(silent).throttles == {3: NoRate.UNKNOWN, 2: NoRate.UNLIMITED}
    hidden = {**CONFIGS, ConfigResource.broker(3): {FOLLOWER_RATE: ConfigValue(None, ConfigSource.DYNAMIC_BROKER)}}
    assert described(hidden).throttles[3] is NoRate.UNKNOWN
    unset = {**CONFIGS, ConfigResource.broker(3): {FOLLOWER_RATE: ConfigValue(None, ConfigSource.DEFAULT)}}
    assert described(unset).throttles[3] is NoRate.UNLIMITED


def test_a_star_covers_every_replica() -> None:
    star = {**CONFIGS, ConfigResource.topic("orders"): {FOLLOWER_REPLICAS: dynamic("*")}}
    assert described(star).throttles == {3: 31, 2: 21}


def test_each_move_and_each_replica_has_a_line_of_its_own() -> None:
    assert list(description_lines(described())) == [
        "orders-3: 1,2 → 3,2, leader 1 (10 bytes/s), run-1, for 1 min 30 s: in flight: in flight to 1,2,3, waiting for 3",
        "  to broker 3: moving, 30 bytes left, 300 messages behind, log end 700, 1 byte/s, about 30 s, throttle 31 bytes/s",
    ]


def test_a_replica_that_copies_nothing_makes_its_move_stuck() -> None:
    dead = View(frozenset({1, 2}), VIEW.partitions)
    status = described(view=dead).status
    assert status == ReportedStatus(MoveStatus.STUCK, "in flight to 1,2,3, waiting for 3; broker 3: broker 3 is down")
    done = ReportedStatus(MoveStatus.COMPLETED, "at 3,2")
    assert described(view=dead, status=done).status == done


def test_two_successive_reassignments_of_one_partition_differ() -> None:
    assert described(run="run-1") != described(run="run-2")


def test_a_partition_that_is_gone_has_no_description() -> None:
    assert described(view=View(frozenset({1}), {})) is None


def test_an_offline_partition_has_no_leader_and_no_leader_throttle() -> None:
    offline = View(VIEW.live_brokers, {ORDERS_3: PartitionState((1, 2, 3), frozenset({1}), None)})
    assert (described(view=offline).current_leader, described(view=offline).leader_throttle) == (None, None)


# KIP-179's table

MY_TOPIC = [TopicPartition("my_topic", n) for n in (0, 1)]
CLUSTER = View(
    frozenset({0, 1}),
    {
        MY_TOPIC[0]: PartitionState((0, 1), frozenset({0}), 0),
        MY_TOPIC[1]: PartitionState((1,), frozenset({1}), 1),
    },
)


def test_the_table_of_the_kip() -> None:
    asked = [
        (MY_TOPIC[0], 0),
        (MY_TOPIC[0], 1),
        (TopicPartition("asdf", 0), 1),
        (TopicPartition("my_topic", 42), 1),
        (MY_TOPIC[0], 42),
        (MY_TOPIC[1], 0),
    ]
    behind = {(MY_TOPIC[0], 1): 10456}
    rows = [(p, broker, replica_status(p, broker, CLUSTER, {0, 1}, behind)) for p, broker in asked]
    assert status_table(rows).splitlines() == [
        "Topic     Partition  Broker  Status",
        "-" * 64,
        "my_topic  0          0       In sync",
        "my_topic  0          1       Behind: 10456 messages behind",
        "asdf      0          1       Unknown topic",
        "my_topic  42         1       Unknown partition",
        "my_topic  0          42      Unknown broker",
        "my_topic  1          0       Broker does not host this partition",
    ]


def test_a_replica_of_which_nothing_is_known_is_behind_all_the_same() -> None:
    assert replica_status(MY_TOPIC[0], 1, CLUSTER, {0, 1}, {}) == "Behind: an unknown number of messages behind"


def test_a_replica_on_a_broker_that_just_died_is_not_in_sync() -> None:
    dead = View(frozenset({1}), CLUSTER.partitions)
    assert replica_status(MY_TOPIC[0], 0, dead, {0, 1}, {}).startswith("Behind")


def test_no_rows_are_a_table_too() -> None:
    assert status_table([]) == "Topic  Partition  Broker  Status\n--------------------------------"


def test_a_partition_that_does_not_exist_needs_no_broker_to_be_reported() -> None:
    asdf = TopicPartition("asdf", 0)
    rows = [(asdf, None, replica_status(asdf, None, CLUSTER, {0, 1}, {}))]
    assert status_table(rows).splitlines()[2] == "asdf   0          -       Unknown topic"
