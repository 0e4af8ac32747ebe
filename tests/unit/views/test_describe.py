"""Describing moves on a fake cluster: ours and other clients', selected in every way, with speeds from two samples."""

import json

import pytest
from tests.steps_lab import move

from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import DuplicatePartitionError, InvalidRequestError, RecordError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.views import selection
from kafka_reassignment.views.describe import describe
from kafka_reassignment.views.selection import DescribeQuery

pytestmark = pytest.mark.quick

ORDERS = [TopicPartition("orders", n) for n in range(4)]
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


@pytest.fixture
def submitted(reassignment):
    run = reassignment(MOVES, [move("orders", 2, (3, 1), (5, 1))])
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


def described(run, *, store=True, watch_seconds=20, **asked):
    return describe(
        run.cluster,
        run.store if store else None,
        DescribeQuery.of(**asked),
        watch_seconds=watch_seconds,
        now=lambda: run.clock.now,
        sleep=run.clock.sleep,
    )


def by_partition(found):
    return {f"{p['topic']}-{p['partition']}": p for p in found.as_json()["partitions"]}


def statuses(found):
    return [(f"{r['topic']}-{r['partition']}", r["broker"], r["status"]) for r in found.as_json()["statuses"]]


def test_the_current_batch_of_the_lock_owner_is_described_with_speeds_from_two_samples(submitted, cluster):
    cluster.produce(ORDERS[0], messages=100, size_bytes=0)
    cluster.copy(ORDERS[0], 3, 100_000)
    submitted.clock.on_sleep.append(lambda: cluster.copy(ORDERS[0], 3, 300_000))
    found = described(submitted)
    assert json.loads(json.dumps(found.as_json())) == found.as_json()
    assert (found.reassignment_id, found.batch, found.batches) == ("r", 1, 2)
    first = by_partition(found)["orders-0"]
    set_rate = 10_000_000
    assert first == {
        "reassignment_id": "r",
        "topic": "orders",
        "partition": 0,
        "started_at_seconds": 1767268800.0,
        "elapsed_seconds": 32.0,
        "state": "in flight",
        "reason": "in flight to 1,2,3, waiting for 3",
        "current_leader": 1,
        "leader_throttle": set_rate,
        "current": [1, 2],
        "target": [1, 3],
        "adding": [3],
        "removing": [2],
        "throttles": {"1": "unlimited", "3": set_rate},
        "replicas": [
            {
                "broker": 3,
                "state": "slow",
                "reason": "it copies 10.0 kB/s of its share of 10.0 MB/s",
                "log_end_offset": 30,
                "messages_behind": 70,
                "bytes_left": 700_000,
                "bytes_per_second": 10_000.0,
                "seconds_left": 70.0,
            }
        ],
    }


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        ([], 10_000_000),
        ([{"asked_bytes_per_second": 1_000_000}], 1_000_000),
        ([{"asked_bytes_per_second": 4_000_000, "brokers": [3]}], 4_000_000),
        ([{"asked_bytes_per_second": 4_000_000, "brokers": [3]}, {"asked_bytes_per_second": 20_000_000}], 20_000_000),
        ([{"asked_bytes_per_second": 20_000_000, "sides": [Side.LEADER]}], 10_000_000),
    ],
    ids=["as asked", "lowered", "for one broker", "then for all", "one side"],
)
def test_a_replica_is_judged_by_the_rate_in_force(submitted, changes, rate):
    for change in changes:
        change_rate(submitted.context, **change)
    assert rate_in_force(submitted.context.request, submitted.record.journal()) == rate


def test_an_unthrottled_reassignment_has_no_rate(reassignment):
    run = reassignment(MOVES, throttle_mb_per_second=None, unthrottled=True)
    assert rate_in_force(run.context.request, run.record.journal()) is None


def test_an_answer_at_once_has_no_speeds_and_does_not_wait(submitted):
    before = submitted.clock.now
    found = described(submitted, watch_seconds=0)
    assert submitted.clock.now == before
    replica = by_partition(found)["orders-1"]["replicas"][0]
    assert (replica["bytes_left"], replica["bytes_per_second"], replica["seconds_left"]) == (1_000_000, None, None)


def test_a_replica_that_copied_nothing_while_it_was_watched_is_stuck_with_the_reason(submitted):
    found = by_partition(described(submitted, watch_seconds=30))["orders-0"]
    assert found["state"] == "stuck"
    assert "broker 3: nothing was copied for 30 s; look at the broker's log" in found["reason"]


@pytest.mark.parametrize("seconds", [1, 19.9, 61, -1])
def test_a_time_in_which_no_speed_can_be_measured_is_refused(submitted, seconds):
    with pytest.raises(InvalidRequestError, match=r"expected 20 to 60.*Give 0 for an answer at once"):
        described(submitted, watch_seconds=seconds)


def test_the_table_has_a_row_for_each_broker_of_each_target(submitted):
    assert described(submitted).table.splitlines()[2:] == [
        "orders  0          1       In sync",
        "orders  0          3       Behind: 0 messages behind",
        "orders  1          4       Behind: 0 messages behind",
        "orders  1          3       In sync",
    ]


def test_named_partitions_are_described_whichever_client_moves_them(submitted, cluster):
    cluster.alter_reassignments({ORDERS[3]: (6, 2)})
    found = described(submitted, partitions=["orders-3", "orders-1", "orders-2"])
    partitions = by_partition(found)
    assert list(partitions) == ["orders-3", "orders-1"]
    foreign = partitions["orders-3"]
    assert (foreign["reassignment_id"], foreign["started_at_seconds"], foreign["elapsed_seconds"]) == (None, None, None)
    assert (foreign["current"], foreign["target"], foreign["adding"]) == ([2, 1], [6, 2], [6])
    assert foreign["throttles"] == {"6": "unlimited", "2": "unlimited"}
    assert partitions["orders-1"]["reassignment_id"] == "r"
    assert [row[:2] for row in statuses(found)] == [
        ("orders-3", 6), ("orders-3", 2), ("orders-1", 4), ("orders-1", 3), ("orders-2", 3), ("orders-2", 1),
    ]  # fmt: skip


def test_topics_select_among_what_is_being_reassigned(submitted, cluster):
    cluster.create_topic("payments", [(1, 2), (1, 2)], size_bytes=10)
    cluster.alter_reassignments({TopicPartition("payments", 1): (1, 5)})
    found = described(submitted, topics=["pay*", "orders", "nothing*"])
    assert list(by_partition(found)) == ["payments-1", "orders-0", "orders-1"]
    assert found.notes == ("No partition of topic 'nothing*' is being reassigned",)


def test_a_plan_gets_every_status_of_kip_179(submitted):
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [1, 3, 5, 99]},
            {"topic": "orders", "partition": 77, "replicas": [1]},
            {"topic": "nowhere", "partition": 0, "replicas": [2]},
        ],
    }
    submitted.cluster.produce(ORDERS[0], messages=50, size_bytes=0)
    found = described(submitted, reassignment_json=json.dumps(plan))
    assert statuses(found) == [
        ("orders-0", 1, "In sync"),
        ("orders-0", 3, "Behind: 50 messages behind"),
        ("orders-0", 5, "Broker does not host this partition"),
        ("orders-0", 99, "Unknown broker"),
        ("orders-77", 1, "Unknown partition"),
        ("nowhere-0", 2, "Unknown topic"),
    ]


def test_partitions_that_do_not_exist_have_a_row_without_a_broker(submitted):
    found = described(submitted, partitions=["nowhere-0", "orders-77"])
    assert statuses(found) == [("nowhere-0", None, "Unknown topic"), ("orders-77", None, "Unknown partition")]
    assert found.partitions == ()


def test_a_dead_broker_is_known_and_its_replicas_are_behind(submitted, cluster):
    cluster.kill(2)
    assert ("orders-1", 2, "Behind: an unknown number of messages behind") in statuses(
        described(
            submitted, reassignment_json='{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2]}]}'
        )
    )


def test_without_records_or_names_everything_in_flight_is_described(submitted):
    found = described(submitted, store=False)
    assert {p["reassignment_id"] for p in by_partition(found).values()} == {None}
    assert list(by_partition(found)) == ["orders-0", "orders-1"]
    assert by_partition(found)["orders-0"]["target"] == [1, 2, 3]


def test_nothing_in_flight_and_no_lock_is_a_note(submitted, cluster):
    cluster.catch_up_all()
    found = described(submitted, store=False)
    assert found.notes == ("Nothing is in flight in cluster fake-cluster, and no reassignment has locked it",)
    assert (found.partitions, found.rows) == ((), ())


def test_a_finished_reassignment_has_nothing_left_to_describe(submitted):
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    submitted.do_all(batch=2)
    assert described(submitted).notes == (
        "All 2 batches of reassignment r are finished: nothing of it is left to describe",
    )


def test_a_named_reassignment_needs_records_and_a_record(submitted):
    with pytest.raises(InvalidRequestError, match="Reassignment r is asked for, expected a record to find it in"):
        described(submitted, store=False, reassignment_id="r")
    with pytest.raises(RecordError, match="There is no record of reassignment nowhere"):
        described(submitted, reassignment_id="nowhere")


def test_the_query_is_checked(submitted):
    with pytest.raises(
        InvalidRequestError, match="'partitions': 'orders' is not a partition, expected the form 'topic-0'"
    ):
        described(submitted, partitions=["orders"])
    twice = {"topic": "orders", "partition": 0, "replicas": [1]}
    with pytest.raises(DuplicatePartitionError):
        described(submitted, reassignment_json=json.dumps({"version": 1, "partitions": [twice, twice]}))


def test_no_more_partitions_are_described_than_people_read(submitted, monkeypatch):
    monkeypatch.setattr(selection, "MAX_DESCRIBED", 1)
    found = described(submitted)
    assert list(by_partition(found)) == ["orders-0"]
    assert found.notes == ("The first 1 of 2 partitions are described; name partitions or topics to see others",)


def test_a_move_of_ours_that_another_client_cancelled_says_so(submitted, cluster):
    cluster.alter_reassignments({ORDERS[0]: None})
    found = by_partition(described(submitted))["orders-0"]
    assert found["state"] == "cancelled by another client"
    assert found["replicas"][0]["state"] == "not started"


def test_the_number_of_calls_does_not_grow_with_the_partitions(submitted, cluster):
    def calls(**asked):
        cluster.calls.clear()
        described(submitted, **asked)
        return len(cluster.calls)

    cluster.create_topic("many", [(1, 2)] * 200)
    cluster.alter_reassignments({TopicPartition("many", n): (1, 3) for n in range(200)})
    assert calls(topics=["many"]) == calls(partitions=["many-7"])


def test_describing_changes_nothing(submitted, cluster):
    configs, altered = submitted.configs("orders"), list(cluster.altered)
    events = len(list(submitted.record.audit))
    described(submitted)
    assert (submitted.configs("orders"), cluster.altered, len(list(submitted.record.audit))) == (
        configs,
        altered,
        events,
    )
