"""KIP-179 on real brokers: the throttle comes with the reassignment, changes while it runs, and is gone at its end."""

import json

import pytest
from tests.contract.lab import eventually
from tests.kips.moving_lab import MovingLab, speed_up
from tests.steps_lab import move

from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, LEADER_RATE, Side
from kafka_reassignment.errors import (
    DuplicatePartitionError,
    InvalidAssignmentError,
    InvalidReplicationFactorError,
    InvalidThrottleError,
    ReassignmentInProgressError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
)
from kafka_reassignment.model import ConfigResource
from kafka_reassignment.steps.approval import approval
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.validate_only import WOULD_DO

pytestmark = pytest.mark.kafka


def rate_of(run, broker: int, key: str) -> float | None:
    value = run.configs()[ConfigResource.broker(broker)].get(key)
    return None if value is None or value.value is None else round(int(value.value) / 1e6, 2)


def test_the_throttle_is_journalled_before_it_is_set_and_removed_by_the_journal(moving: MovingLab):
    (partition,) = moving.filled_topic((1, 2))
    run = moving.run([move(partition.topic, 0, (1, 2), (1, 3), 8_000_000)], throttle_mb_per_second=50)
    before = run.configs(partition.topic)
    seen = []
    alter = KafkaCluster.alter_configs

    class Killed(BaseException):
        pass

    def killed_before_setting(changes):
        seen.append(run.record.journal())
        raise Killed

    moving.cluster.alter_configs = killed_before_setting
    with pytest.raises(Killed):
        run.do("set_throttle")
    del moving.cluster.alter_configs
    assert {r.broker for r in seen[0].rates} == {1, 2, 3}
    assert run.configs(partition.topic) == before

    def killed_after_setting(changes):
        alter(moving.cluster, changes[: len(changes) // 2])
        raise Killed

    moving.cluster.alter_configs = killed_after_setting
    with pytest.raises(Killed):
        run.do("set_throttle")
    del moving.cluster.alter_configs
    assert run.configs(partition.topic) != before
    run.do_all()
    assert run.configs(partition.topic) == before


def test_the_rate_is_changed_while_a_move_runs_for_chosen_brokers_and_sides(moving: MovingLab):
    (partition,) = moving.filled_topic((1, 2))
    run = moving.run([move(partition.topic, 0, (1, 2), (1, 3), 8_000_000)])
    before = run.configs(partition.topic)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_rate(run.context, asked_bytes_per_second=3_000_000, brokers=[3])
    assert (rate_of(run, 3, FOLLOWER_RATE), rate_of(run, 1, LEADER_RATE)) == (3, 0.02)
    change_rate(run.context, asked_bytes_per_second=4_000_000, sides=[Side.LEADER])
    assert (rate_of(run, 3, FOLLOWER_RATE), rate_of(run, 1, LEADER_RATE)) == (3, 4)
    speed_up(run)
    assert (rate_of(run, 3, FOLLOWER_RATE), rate_of(run, 1, LEADER_RATE)) == (500, 500)
    eventually(
        lambda: moving.cluster.describe_partitions([partition.topic])[partition].isr, {1, 2, 3}.issubset, seconds=60
    )
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert moving.replicas(partition) == (1, 3)
    assert run.configs(partition.topic) == before
    message = [e.summary for e in run.record.audit if e.step == "change_rate"]
    assert message[0].startswith("rate of broker 3 (leader and follower side): 3 MB/s")


def test_a_rate_under_a_megabyte_is_refused_unless_forced(moving: MovingLab):
    step = moving.without_reassignment()
    request = {"job": "rebalance", "throttle_mb_per_second": 0.5}
    with pytest.raises(InvalidThrottleError, match="throttle_mb_per_second is 0.5, expected at least 1"):
        preflight(step, request, "ann")
    preflight(step, request | {"allow_low_throttle": True}, "ann")
    step.store.release(step.record.cluster_id, step.record.reassignment_id)


def test_validate_only_says_what_would_be_done_and_changes_nothing(moving: MovingLab):
    (partition,) = moving.filled_topic((1, 2))
    run = moving.run(
        [move(partition.topic, 0, (1, 2), (1, 3), 8_000_000)], throttle_mb_per_second=50, validate_only=True
    )
    before = run.configs(partition.topic)
    assert approval(run.context) == "stop"
    (would,) = [json.loads(line) for line in run.record.read_file(WOULD_DO).decode().splitlines()]
    assert would["expand"] == {str(partition): [1, 2, 3]}
    assert would["target"] == {str(partition): [1, 3]}
    assert f"broker 3: set {FOLLOWER_RATE} 50000000" in would["throttle"]
    assert run.configs(partition.topic) == before
    assert moving.replicas(partition) == (1, 2)


@pytest.mark.parametrize(("current", "target"), [((1,), (1, 2, 3)), ((1, 2, 3), (3,))], ids=["raised", "lowered"])
def test_the_replication_factor_is_changed(moving: MovingLab, current, target):
    (partition,) = moving.filled_topic(current)
    run = moving.run([move(partition.topic, 0, current, target, 8_000_000)], throttle_mb_per_second=200)
    run.run_batches()
    run.finish()
    assert moving.replicas(partition) == target


# Its error cases, each with its own class; that the others of the KIP have theirs is in tests/unit/test_errors.py


def plan(topic: str, *entries: tuple[int, list[int]]) -> str:
    partitions = [{"topic": topic, "partition": number, "replicas": replicas} for number, replicas in entries]
    return json.dumps({"version": 1, "partitions": partitions})


@pytest.mark.parametrize(
    ("request_of", "error", "message"),
    [
        (lambda t: {"job": "decommission", "brokers": [77]}, UnknownBrokerError, "'brokers' names broker 77"),
        (lambda t: {"job": "decommission", "brokers": [1, 1]}, DuplicatePartitionError, "1 is named twice"),
        (
            lambda t: {"job": "replication_factor", "topics": [t], "replication_factor": 9},
            InvalidReplicationFactorError,
            "replication_factor is 9, expected at most 6",
        ),
        (
            lambda t: {"job": "move_topics", "topics": ["no-such-topic"], "brokers": [1]},
            UnknownTopicOrPartitionError,
            "'topics' names 'no-such-topic'",
        ),
        (
            lambda t: {"job": "apply_json", "reassignment_json": plan(t, (7, [1, 2]))},
            UnknownTopicOrPartitionError,
            "-7, which the cluster does not have",
        ),
        (
            lambda t: {"job": "apply_json", "reassignment_json": plan(t, (0, [1, 1]))},
            InvalidAssignmentError,
            "none negative and each named once",
        ),
        (
            lambda t: {"job": "apply_json", "reassignment_json": plan(t, (0, [1, 2]), (0, [1, 3]))},
            DuplicatePartitionError,
            "is named twice",
        ),
        (
            lambda t: {"job": "apply_json", "reassignment_json": plan(t, (0, [1, 88]))},
            UnknownBrokerError,
            "on broker 88, expected brokers that are alive",
        ),
        (lambda t: {"job": "rebalance", "throttle_mb_per_second": -1}, InvalidThrottleError, "throttle_mb_per_second"),
    ],
)
def test_each_error_has_its_own_class_and_says_what_to_do(moving: MovingLab, request_of, error, message):
    topic = moving.create_topic([(1, 2)])[0].topic
    with pytest.raises(error, match=message) as raised:
        preflight(moving.without_reassignment(), {"throttle_mb_per_second": 5} | request_of(topic), "ann")
    assert type(raised.value) is error


def test_a_reassignment_in_progress_is_reported(moving: MovingLab):
    (partition,) = moving.create_held_topic([(1, 2)])
    moving.move_elsewhere(partition, (1, 2, 3))
    with pytest.raises(ReassignmentInProgressError, match=f"are being reassigned already .{partition}"):
        preflight(moving.without_reassignment(), {"job": "rebalance", "throttle_mb_per_second": 5}, "ann")
