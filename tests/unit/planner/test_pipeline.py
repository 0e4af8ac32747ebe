"""The planner from snapshot to batches, on clusters small enough to check by eye."""

from __future__ import annotations

import json

import pytest

from kafka_reassignment.errors import (
    InfeasiblePlanError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.hash import plan_hash
from kafka_reassignment.plan.score_card import score_card
from kafka_reassignment.plan.store import read_batch, read_batches, read_target
from kafka_reassignment.planner import shards
from kafka_reassignment.planner.pipeline import plan
from kafka_reassignment.request import Job, Limits, ReassignmentRequest

pytestmark = pytest.mark.spark


def request_for(job: Job, **fields) -> ReassignmentRequest:
    return ReassignmentRequest(job=job, unthrottled=True, **fields)


@pytest.fixture
def six_brokers(cluster):
    """Brokers 1 to 6 on racks a, b, c; 12 partitions of 100 bytes, three replicas each."""
    cluster.racks(a=(1, 4), b=(2, 5), c=(3, 6))
    return cluster.topic("orders", *[[1, 2, 3], [4, 5, 6], [2, 3, 4], [5, 6, 1], [3, 1, 5], [6, 4, 2]] * 2)


def targets(plan_dir: str) -> dict[str, tuple[int, ...]]:
    return {str(r.partition): r.target for r in read_target(plan_dir)}


def test_a_decommission_moves_each_replica_of_the_broker_once_to_its_rack(spark, six_brokers, tmp_path):
    summary = plan(
        spark, six_brokers.write(tmp_path / "s"), request_for(Job.DECOMMISSION, brokers=(6,)), str(tmp_path / "p")
    )

    assert summary.bytes_to_copy == summary.lower_bound_bytes == 600
    assert {p: [b for b in t if b == 6] for p, t in targets(str(tmp_path / "p")).items()} == {
        f"orders-{n}": [] for n in (1, 3, 5, 7, 9, 11)
    }
    assert all(3 in t for t in targets(str(tmp_path / "p")).values())


def test_the_leader_stays_where_its_replica_stays(spark, six_brokers, tmp_path):
    plan(spark, six_brokers.write(tmp_path / "s"), request_for(Job.DECOMMISSION, brokers=(6,)), str(tmp_path / "p"))

    for change in read_target(str(tmp_path / "p")):
        if change.current[0] != 6:
            assert change.target[0] == change.current[0]


def test_added_brokers_are_filled_and_no_others(spark, six_brokers, tmp_path):
    six_brokers.broker(7, "a").broker(8, "b").broker(9, "c")
    summary = plan(
        spark, six_brokers.write(tmp_path / "s"), request_for(Job.ADD_BROKERS, brokers=(7, 8, 9)), str(tmp_path / "p")
    )

    after = {b.broker: b.bytes_after for b in summary.brokers}
    assert [after[b] for b in (7, 8, 9)] == [400, 400, 400]
    assert all(set(r.adding) <= {7, 8, 9} for r in read_target(str(tmp_path / "p")))


def test_a_balanced_cluster_needs_no_change(spark, six_brokers, tmp_path):
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request_for(Job.REBALANCE), str(tmp_path / "p"))

    assert summary.is_empty
    assert list(read_target(str(tmp_path / "p"))) == []


def test_the_same_snapshot_gives_the_same_plan(spark, six_brokers, tmp_path):
    snapshot = six_brokers.write(tmp_path / "s")
    request = request_for(Job.DECOMMISSION, brokers=(6,), limits=Limits(partition_movements=2))
    first = plan(spark, snapshot, request, str(tmp_path / "p"))
    second = plan(spark, snapshot, request, str(tmp_path / "q"))

    assert first == second
    assert plan_hash(b.steps_hash for b in first.batches) == first.plan_hash
    for written in ("p", "q"):
        read_batches(str(tmp_path / written), 1, len(first.batches))  # compares the files with each batch's hash


@pytest.mark.parametrize("job", [Job.DECOMMISSION, Job.APPLY_JSON])
def test_a_plan_is_the_same_on_the_driver_and_in_sparks_workers(spark, six_brokers, tmp_path, job):
    snapshot = six_brokers.write(tmp_path / "s")
    moves = {"partitions": [{"topic": "orders", "partition": 3, "replicas": [5, 3, 1]}], "version": 1}
    what = {"brokers": (6,)} if job is Job.DECOMMISSION else {"reassignment_json": json.dumps(moves)}
    request = request_for(job, limits=Limits(partition_movements=2), **what)

    on_driver = plan(spark, snapshot, request, str(tmp_path / "p"))
    in_workers = plan(spark, snapshot, request, str(tmp_path / "q"), driver_partitions=0)

    assert not on_driver.is_empty
    assert on_driver == in_workers
    for name in ("target", "steps"):
        assert [f.read_bytes() for f in sorted((tmp_path / "p" / name).iterdir())] == [
            f.read_bytes() for f in sorted((tmp_path / "q" / name).iterdir())
        ]


def test_batches_hold_every_step_once_and_stay_within_the_limit(spark, six_brokers, tmp_path):
    out = str(tmp_path / "p")
    request = request_for(Job.DECOMMISSION, brokers=(6,), limits=Limits(partition_movements=2))
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, out)

    batches = [read_batch(out, n) for n in range(1, len(summary.batches) + 1)]
    assert [len(b.steps) for b in batches] == [2, 2, 2]
    assert {s.reassignment for b in batches for s in b.steps} == set(read_target(out))


def test_a_json_is_taken_as_given_and_only_what_changes_is_planned(spark, six_brokers, tmp_path):
    given = {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [1, 2, 6]},
            {"topic": "orders", "partition": 1, "replicas": [4, 5, 6]},
        ],
    }
    request = request_for(Job.APPLY_JSON, reassignment_json=json.dumps(given))
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert targets(str(tmp_path / "p")) == {"orders-0": (1, 2, 6)}
    assert summary.lower_bound_bytes == summary.bytes_to_copy == 100
    assert summary.factor_changes == ()


@pytest.mark.parametrize(("replicas", "told"), [([1, 2], "3 to 2 (fewer)"), ([1, 2, 3, 4], "3 to 4")])
def test_a_plan_of_a_json_says_how_it_changes_the_number_of_replicas(spark, six_brokers, tmp_path, replicas, told):
    """G10: nothing said that a partition drops from three replicas to two."""
    given = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": replicas}]}
    request = request_for(Job.APPLY_JSON, reassignment_json=json.dumps(given))
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))
    [change] = summary.factor_changes
    assert told in change
    assert f"* Replication factor: {change}" in score_card(summary, request)


def test_a_dead_broker_a_silent_one_and_missing_racks_lead_to_assumptions(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).broker(4, alive=False).topic("orders", [4, 1], [1, 2], [])
    cluster.silent_broker(2)
    request = request_for(Job.DECOMMISSION, brokers=(4,), exclude_brokers=(17,))
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert {p: sorted(t) for p, t in targets(str(tmp_path / "p")).items()} == {"orders-0": [1, 3]}
    assumed = " ".join(summary.assumptions)
    assert "Broker 4 is not alive" in assumed
    assert "Broker 2 did not report its log dirs (timed out)" in assumed
    assert "No broker names a rack" in assumed
    assert "'exclude_brokers' names broker 17, which is not alive and hosts nothing" in assumed


def test_added_brokers_in_balanced_mode_leave_no_broker_outside_the_tolerance(spark, six_brokers, tmp_path):
    six_brokers.broker(7, "a").broker(8, "b").broker(9, "c")
    request = request_for(Job.ADD_BROKERS, brokers=(7, 8, 9), mode="balanced")
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert [b.bytes_after for b in summary.brokers] == [400] * 9
    assert summary.outside_after == 0


def test_a_higher_replication_factor_adds_copies_in_new_racks_and_changes_no_leader(spark, six_brokers, tmp_path):
    six_brokers.topic("two", [1, 2], [3, 4], size=50)
    request = request_for(Job.REPLICATION_FACTOR, topics=("two",), replication_factor=3)
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert summary.bytes_to_copy == summary.lower_bound_bytes == 100
    assert summary.leader_changes == 0
    assert {p: sorted("abcabc"[b - 1] for b in t) for p, t in targets(str(tmp_path / "p")).items()} == {
        "two-0": ["a", "b", "c"],
        "two-1": ["a", "b", "c"],
    }


def test_a_lower_replication_factor_copies_nothing(spark, six_brokers, tmp_path):
    request = request_for(Job.REPLICATION_FACTOR, topics=("ord*",), replication_factor=2)
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert summary.bytes_to_copy == 0
    assert summary.leader_changes == 0
    assert all(300 <= b.bytes_after <= 500 for b in summary.brokers)


def test_a_partition_with_a_replica_too_many_gives_that_of_the_leaving_broker_up_and_copies_nothing(
    spark, six_brokers, tmp_path
):
    six_brokers.topic("late", [1, 2, 4])
    six_brokers.factors[TopicPartition("late", 0)] = 2
    request = request_for(Job.DECOMMISSION, brokers=(1,), topics=("late",))
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert {p: set(target) for p, target in targets(str(tmp_path / "p")).items()} == {"late-0": {2, 4}}
    assert summary.bytes_to_copy == 0


def test_a_lower_replication_factor_needs_no_broker_that_takes_replicas_and_a_higher_one_does(
    spark, six_brokers, tmp_path
):
    snapshot, excluded = six_brokers.write(tmp_path / "s"), {"topics": ("orders",), "exclude_brokers": (1, 2, 3, 4, 5)}
    lower = request_for(Job.REPLICATION_FACTOR, replication_factor=2, **excluded)
    assert plan(spark, snapshot, lower, str(tmp_path / "p")).bytes_to_copy == 0
    assert {len(t) for t in targets(str(tmp_path / "p")).values()} == {2}
    higher = request_for(Job.REPLICATION_FACTOR, replication_factor=5, **excluded)
    with pytest.raises(InfeasiblePlanError, match=r"orders-0: 5 replicas are wanted, and every one of the 1 brokers"):
        plan(spark, snapshot, higher, str(tmp_path / "q"))


def test_a_rack_is_given_up_where_enough_others_are_left(spark, six_brokers, tmp_path):
    six_brokers.topic("pairs", [3, 1], [6, 4], [2, 3])
    snapshot = six_brokers.write(tmp_path / "s")
    plan(spark, snapshot, request_for(Job.DECOMMISSION, brokers=(3, 6), topics=("pairs",)), str(tmp_path / "p"))
    assert [sorted(b % 3 for b in t) for t in targets(str(tmp_path / "p")).values()] == [[1, 2]] * 3


def test_moved_topics_are_on_the_named_brokers_only_and_others_stay(spark, six_brokers, tmp_path):
    six_brokers.topic("logs", [1, 2, 3], [4, 5, 6])
    request = request_for(Job.MOVE_TOPICS, topics=("logs",), brokers=(4, 5, 6))
    plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert {p: sorted(t) for p, t in targets(str(tmp_path / "p")).items()} == {"logs-0": [4, 5, 6]}


def test_no_step_between_has_fewer_racks_than_the_replicas_had(spark, cluster, tmp_path):
    cluster.racks(a=(1, 4), b=(2, 5), c=(3, 6)).topic("orders", [1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2])
    request = request_for(Job.MOVE_TOPICS, topics=("orders",), brokers=(4, 5, 6), limits=Limits(replica_movements=1))
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))
    steps = read_batches(str(tmp_path / "p"), 1, len(summary.batches))[0]["target"].to_pylist()
    assert len(steps) == 12
    assert [len({b % 3 for b in replicas}) for replicas in steps] == [3] * 12


def test_restored_racks_move_one_copy_of_each_partition_that_shares_one(spark, six_brokers, tmp_path):
    six_brokers.topic("shared", [1, 4, 2], [1, 2, 3])
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request_for(Job.RESTORE_RACKS), str(tmp_path / "p"))

    (target,) = targets(str(tmp_path / "p")).values()
    assert target[0] == 1
    assert {"abcabc"[b - 1] for b in target} == {"a", "b", "c"}
    assert summary.bytes_to_copy == summary.lower_bound_bytes == 100


def test_leaders_are_balanced_without_a_byte(spark, cluster, tmp_path):
    cluster.racks(a=(1,), b=(2,), c=(3,)).topic("orders", *[[1, 2, 3]] * 9)
    summary = plan(spark, cluster.write(tmp_path / "s"), request_for(Job.LEADERS), str(tmp_path / "p"))

    assert summary.bytes_to_copy == 0
    assert [b.leaders_after for b in summary.brokers] == [3, 3, 3]
    assert summary.leader_changes == 6


def test_excluded_topics_and_brokers_take_no_part(spark, six_brokers, tmp_path):
    six_brokers.topic("audit", [6, 1, 2])
    request = request_for(Job.DECOMMISSION, brokers=(6,), exclude_topics=("audit",))
    plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))
    assert "audit-0" not in targets(str(tmp_path / "p"))

    with pytest.raises(InfeasiblePlanError) as refused:
        plan(
            spark,
            six_brokers.write(tmp_path / "t"),
            request_for(Job.DECOMMISSION, brokers=(6,), exclude_brokers=(3,)),
            str(tmp_path / "q"),
        )
    assert (
        "7 of the partitions (audit-0: every broker that may take a replica is in a rack that has one ('a', 'b')"
        in (str(refused.value))
    )


def test_a_full_disk_is_not_filled_further(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).topic("orders", *[[1]] * 4, size=100)
    cluster.log_dir(2, total_bytes=1000, usable_bytes=150).log_dir(3, total_bytes=1000, usable_bytes=900)
    request = request_for(Job.DECOMMISSION, brokers=(1,), keep_free_share=0.05)
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))

    # Broker 2 keeps 5 % of 1000 free: one copy of 100 fits, a second one does not.
    assert sorted(t for t in targets(str(tmp_path / "p")).values()) == [(2,), (3,), (3,), (3,)]
    assert [(d.broker, d.bytes_to_take, d.free_at_peak) for d in summary.log_dirs] == [(2, 100, 50), (3, 300, 600)]


def test_the_fullest_log_dir_of_a_broker_decides_what_it_takes(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).topic("orders", *[[1]] * 4, size=100)
    # Kafka may put a copy into either log dir of broker 2, and one of them has no space for it.
    cluster.log_dir(2, "/d1", total_bytes=1000, usable_bytes=900).log_dir(2, "/d2", total_bytes=1000, usable_bytes=150)
    cluster.log_dir(3, "/d1", total_bytes=1000, usable_bytes=900).log_dir(3, "/d2", error="offline")
    plan(spark, cluster.write(tmp_path / "s"), request_for(Job.DECOMMISSION, brokers=(1,)), str(tmp_path / "p"))

    assert set(targets(str(tmp_path / "p")).values()) == {(3,)}


def test_a_cordoned_broker_gets_nothing_and_a_cordoned_log_dir_does_not_count(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).topic("orders", *[[1]] * 4, size=100)
    cluster.log_dir(2, "/d1", cordoned=True).log_dir(2, "/d2", cordoned=True)
    cluster.log_dir(3, "/d1", total_bytes=1000, usable_bytes=900)
    cluster.log_dir(3, "/d2", total_bytes=1000, usable_bytes=0, cordoned=True)
    snapshot = cluster.write(tmp_path / "s")
    summary = plan(spark, snapshot, request_for(Job.DECOMMISSION, brokers=(1,)), str(tmp_path / "p"))

    assert set(targets(str(tmp_path / "p")).values()) == {(3,)}
    assert "3 log dirs are cordoned (/d1 of broker 2, /d2 of broker 2, /d2 of broker 3)" in " ".join(
        summary.assumptions
    )
    with pytest.raises(InfeasiblePlanError, match=r"Broker 2 takes no replicas: each of its log dirs is cordoned"):
        plan(spark, snapshot, request_for(Job.ADD_BROKERS, brokers=(2,)), str(tmp_path / "q"))


def test_a_cordoned_broker_is_not_filled_by_a_rebalance(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).topic("orders", *[[1, 2], [2, 3], [3, 1]] * 3, size=100)
    cluster.broker(4).log_dir(4, "/d1", cordoned=True)
    summary = plan(spark, cluster.write(tmp_path / "s"), request_for(Job.REBALANCE), str(tmp_path / "p"))

    assert [target for target in targets(str(tmp_path / "p")).values() if 4 in target] == []
    assert {b.broker: b.bytes_received for b in summary.brokers}[4] == 0


def test_what_a_broker_that_takes_no_part_holds_is_not_in_the_lower_bound(spark, six_brokers, tmp_path):
    request = request_for(Job.REBALANCE, exclude_brokers=(6,))
    summary = plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert summary.outside_after == 0
    assert summary.lower_bound_bytes <= summary.bytes_to_copy


def test_when_no_disk_has_space_the_message_says_which_partition_and_what_would_help(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).topic("orders", [1], size=100).log_dir(2, total_bytes=1000, usable_bytes=190)
    with pytest.raises(InfeasiblePlanError) as refused:
        plan(spark, cluster.write(tmp_path / "s"), request_for(Job.DECOMMISSION, brokers=(1,)), str(tmp_path / "p"))

    assert "orders-0: no broker that may take a replica has space for its 100 bytes in each of its log dirs" in str(
        refused.value
    )
    assert "Add a broker or disk space there" in str(refused.value)
    assert not (tmp_path / "p").exists()


def test_a_json_that_goes_below_min_isr_or_to_a_dead_broker_is_refused(spark, six_brokers, tmp_path):
    six_brokers.topic("safe", [1, 2, 3], min_insync_replicas=2).broker(9, "a", alive=False)
    snapshot = six_brokers.write(tmp_path / "s")

    def refused(*replicas: int) -> ReassignmentRequest:
        entry = {"topic": "safe", "partition": 0, "replicas": list(replicas)}
        return request_for(Job.APPLY_JSON, reassignment_json=json.dumps({"version": 1, "partitions": [entry]}))

    with pytest.raises(InvalidReplicationFactorError, match=r"gives safe-0 1 replicas, expected at least 2"):
        plan(spark, snapshot, refused(1), str(tmp_path / "p"))
    with pytest.raises(UnknownBrokerError, match=r"puts safe-0 on broker 9, expected brokers that are alive"):
        plan(spark, snapshot, refused(1, 2, 9), str(tmp_path / "p"))
    with pytest.raises(UnknownBrokerError, match=r"puts safe-0 on broker 42, expected brokers that are alive"):
        plan(spark, snapshot, refused(1, 2, 42), str(tmp_path / "p"))


def test_a_json_that_fills_a_disk_is_refused(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).topic("orders", [1], [1], size=100)
    cluster.log_dir(2, total_bytes=1000, usable_bytes=280).log_dir(3, total_bytes=1000, usable_bytes=400)
    snapshot = cluster.write(tmp_path / "s")

    def to(broker: int) -> ReassignmentRequest:
        entries = [{"topic": "orders", "partition": n, "replicas": [broker]} for n in (0, 1)]
        return request_for(Job.APPLY_JSON, reassignment_json=json.dumps({"version": 1, "partitions": entries}))

    with pytest.raises(
        InfeasiblePlanError, match=r"broker 2 gets 200 bytes, .* has room for 180 bytes, in each .* with 10% of"
    ):
        plan(spark, snapshot, to(2), str(tmp_path / "p"))
    assert not (tmp_path / "p").exists()
    assert plan(spark, snapshot, to(3), str(tmp_path / "p")).partitions == 2


def test_a_json_keeps_to_what_the_same_request_leaves_out_and_to_cordons(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).topic("orders", [1]).log_dir(3, cordoned=True)
    snapshot = cluster.write(tmp_path / "s")

    def to(broker: int, **fields) -> ReassignmentRequest:
        entry = {"topic": "orders", "partition": 0, "replicas": [broker]}
        document = json.dumps({"version": 1, "partitions": [entry]})
        return request_for(Job.APPLY_JSON, reassignment_json=document, **fields)

    with pytest.raises(InvalidRequestError, match=r"names orders-0, which 'topics' and 'exclude_topics' of the same"):
        plan(spark, snapshot, to(2, exclude_topics=("orders",)), str(tmp_path / "p"))
    with pytest.raises(InvalidRequestError, match=r"puts orders-0 on broker 2, which 'exclude_brokers' of the same"):
        plan(spark, snapshot, to(2, exclude_brokers=(2,)), str(tmp_path / "p"))
    with pytest.raises(InfeasiblePlanError, match=r"puts orders-0 on broker 3, which takes no replicas"):
        plan(spark, snapshot, to(3), str(tmp_path / "p"))
    assert plan(spark, snapshot, to(2), str(tmp_path / "p")).partitions == 1


def test_unknown_brokers_topics_and_partitions_are_refused_by_name(spark, six_brokers, tmp_path):
    snapshot, out = six_brokers.write(tmp_path / "s"), str(tmp_path / "p")
    with pytest.raises(UnknownBrokerError, match=r"'brokers' names broker 9, expected some of 1, 2, 3, 4, 5, 6"):
        plan(spark, snapshot, request_for(Job.DECOMMISSION, brokers=(9,)), out)
    with pytest.raises(UnknownTopicOrPartitionError, match=r"'ordres' in 'topics' matches no topic"):
        plan(spark, snapshot, request_for(Job.REBALANCE, topics=("ordres",)), out)
    given = '{"version":1,"partitions":[{"topic":"orders","partition":99,"replicas":[1]}]}'
    with pytest.raises(UnknownTopicOrPartitionError, match=r"orders-99"):
        plan(spark, snapshot, request_for(Job.APPLY_JSON, reassignment_json=given), out)
    with pytest.raises(InvalidReplicationFactorError, match=r"Replication factor 7 is above the 6 brokers"):
        plan(spark, snapshot, request_for(Job.REPLICATION_FACTOR, topics=("orders",), replication_factor=7), out)
    with pytest.raises(InfeasiblePlanError, match=r"rack 'c' would have no live broker left"):
        plan(spark, snapshot, request_for(Job.DECOMMISSION, brokers=(3, 6)), out)
    assert not (tmp_path / "p").exists()


def test_leaders_that_no_reorder_can_spread_are_in_the_summary(spark, cluster, tmp_path):
    # Broker 3 has one replica, so it can lead one partition at most.
    cluster.broker(1, "a").broker(2, "b").broker(3, "c").topic("orders", *[[1, 2]] * 11, [1, 3])
    summary = plan(spark, cluster.write(tmp_path / "s"), request_for(Job.LEADERS), str(tmp_path / "p"))

    assert sum(b.leaders_after for b in summary.brokers) == 12
    assert (
        "2 brokers still lead more than 1.10 times the mean (broker 1 leads 6, broker 2 leads 5)"
        in summary.left_unbalanced[-1]
    )


def test_leaders_that_only_other_topics_could_spread_are_said_to_be_theirs(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).topic("x", *[[1, 2]] * 10).topic("y", [1, 2], [1, 2])
    request = request_for(Job.LEADERS, topics=("y",))
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))
    assert "no reorder of current replicas of the topics that the request is about helps" in summary.left_unbalanced[-1]


def test_replicas_that_go_without_a_copy_are_not_in_the_lower_bound(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).topic("orders", *[[1, 2], [2, 1]] * 3)
    request = request_for(Job.REPLICATION_FACTOR, topics=("orders",), replication_factor=1, mode="balanced")
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))
    assert summary.outside_after == 0
    assert summary.lower_bound_bytes == summary.bytes_to_copy == 0


def test_topics_with_fewer_replicas_than_min_insync_replicas_are_in_the_summary(spark, cluster, tmp_path):
    cluster.broker(1, "a").broker(2, "b").topic("few", [1], [2], min_insync_replicas=2).topic("one", [1])
    request = request_for(Job.REPLICATION_FACTOR, topics=("*",), replication_factor=2)
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))
    assert (summary.producers_wait, summary.below_min_insync) == (("few (2 partitions with 1 of 2)",), ())


def test_what_a_shard_has_no_part_of_the_space_for_is_placed_after_all_shards(spark, cluster, tmp_path, monkeypatch):
    """Large clusters are placed in shards, of which each may have the inflow, and so the space, of few brokers."""
    monkeypatch.setattr(shards, "SHARD_PARTITIONS", 4)
    cluster.racks(a=(1, 4), b=(2, 5), c=(3, 6)).topic("small", *[[1, 2, 3]] * 12, size=1)
    cluster.topic("moved", [1, 2, 3], [2, 3, 1], [3, 1, 2], size=100)
    for broker in range(1, 7):
        cluster.log_dir(broker, total_bytes=10_000, usable_bytes=8_000)
    asked = request_for(Job.MOVE_TOPICS, topics=("moved",), brokers=(4, 5, 6))
    plan(spark, cluster.write(tmp_path / "s"), asked, str(tmp_path / "p"), driver_partitions=0)
    assert {p: sorted(t) for p, t in targets(str(tmp_path / "p")).items()} == {
        f"moved-{n}": [4, 5, 6] for n in range(3)
    }
