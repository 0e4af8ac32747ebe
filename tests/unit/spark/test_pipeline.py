"""The whole planner on clusters small enough to check by eye."""

from __future__ import annotations

import json

import pytest

from kafka_reassignment.errors import InfeasiblePlanError, UnknownBrokerError, UnknownTopicOrPartitionError
from kafka_reassignment.request import Job, Limits, ReassignmentRequest
from kafka_reassignment.spark.pipeline import plan
from kafka_reassignment.spark.plan_io import plan_hash, read_batch, read_target

pytestmark = pytest.mark.spark


def asked(job: Job, **fields) -> ReassignmentRequest:
    return ReassignmentRequest(job=job, unthrottled=True, **fields)


@pytest.fixture
def six_brokers(cluster):
    """Brokers 1 to 6 on racks a, b, c; 12 partitions of 100 bytes, three replicas each."""
    cluster.racks(a=(1, 4), b=(2, 5), c=(3, 6))
    return cluster.topic("orders", *[[1, 2, 3], [4, 5, 6], [2, 3, 4], [5, 6, 1], [3, 1, 5], [6, 4, 2]] * 2)


def targets(plan_dir: str) -> dict[str, tuple[int, ...]]:
    return {str(r.partition): r.target for r in read_target(plan_dir)}


def test_a_decommission_moves_each_replica_of_the_broker_once_to_its_rack(spark, six_brokers, tmp_path):
    summary = plan(spark, six_brokers.write(tmp_path / "s"), asked(Job.DECOMMISSION, brokers=(6,)), str(tmp_path / "p"))

    assert summary.bytes_to_copy == summary.lower_bound_bytes == 600
    assert {p: [b for b in t if b == 6] for p, t in targets(str(tmp_path / "p")).items()} == {
        f"orders-{n}": [] for n in (1, 3, 5, 7, 9, 11)
    }
    assert all(3 in t for t in targets(str(tmp_path / "p")).values())


def test_the_leader_stays_where_its_replica_stays(spark, six_brokers, tmp_path):
    plan(spark, six_brokers.write(tmp_path / "s"), asked(Job.DECOMMISSION, brokers=(6,)), str(tmp_path / "p"))

    for change in read_target(str(tmp_path / "p")):
        if change.current[0] != 6:
            assert change.target[0] == change.current[0]


def test_added_brokers_are_filled_and_nobody_else_is(spark, six_brokers, tmp_path):
    six_brokers.broker(7, "a").broker(8, "b").broker(9, "c")
    summary = plan(
        spark, six_brokers.write(tmp_path / "s"), asked(Job.ADD_BROKERS, brokers=(7, 8, 9)), str(tmp_path / "p")
    )

    after = {b.broker: b.bytes_after for b in summary.brokers}
    assert all(after[b] > 0 for b in (7, 8, 9))
    assert all(set(r.adding) <= {7, 8, 9} for r in read_target(str(tmp_path / "p")))


def test_a_balanced_cluster_is_left_alone(spark, six_brokers, tmp_path):
    summary = plan(spark, six_brokers.write(tmp_path / "s"), asked(Job.REBALANCE), str(tmp_path / "p"))

    assert summary.is_empty
    assert list(read_target(str(tmp_path / "p"))) == []


def test_the_same_snapshot_gives_the_same_plan(spark, six_brokers, tmp_path):
    snapshot = six_brokers.write(tmp_path / "s")
    request = asked(Job.DECOMMISSION, brokers=(6,), limits=Limits(partition_movements=2))
    first = plan(spark, snapshot, request, str(tmp_path / "p"))
    second = plan(spark, snapshot, request, str(tmp_path / "q"))

    assert first == second
    assert plan_hash(str(tmp_path / "p")) == plan_hash(str(tmp_path / "q")) == first.plan_hash


def test_batches_hold_every_step_once_and_stay_within_the_limit(spark, six_brokers, tmp_path):
    out = str(tmp_path / "p")
    request = asked(Job.DECOMMISSION, brokers=(6,), limits=Limits(partition_movements=2))
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
    request = asked(Job.APPLY_JSON, reassignment_json=json.dumps(given))
    plan(spark, six_brokers.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert targets(str(tmp_path / "p")) == {"orders-0": (1, 2, 6)}


def test_a_dead_broker_a_silent_one_and_missing_racks_are_assumed_about_not_stumbled_over(spark, cluster, tmp_path):
    cluster.broker(1).broker(2).broker(3).broker(4, alive=False).topic("orders", [4, 1], [1, 2], [])
    cluster.silent_broker(2)
    request = asked(Job.DECOMMISSION, brokers=(4,))
    summary = plan(spark, cluster.write(tmp_path / "s"), request, str(tmp_path / "p"))

    assert {p: sorted(t) for p, t in targets(str(tmp_path / "p")).items()} == {"orders-0": [1, 3]}
    told = " ".join(summary.assumptions)
    assert "Broker 4 is not alive" in told
    assert "Broker 2 did not tell its log dirs (timed out)" in told
    assert "No broker names a rack" in told


def test_unknown_brokers_topics_and_partitions_are_refused_by_name(spark, six_brokers, tmp_path):
    snapshot, out = six_brokers.write(tmp_path / "s"), str(tmp_path / "p")
    with pytest.raises(UnknownBrokerError, match=r"Broker 9 is not part of the cluster"):
        plan(spark, snapshot, asked(Job.DECOMMISSION, brokers=(9,)), out)
    with pytest.raises(UnknownTopicOrPartitionError, match=r"'ordres' in 'topics' matches no topic"):
        plan(spark, snapshot, asked(Job.REBALANCE, topics=("ordres",)), out)
    given = '{"version":1,"partitions":[{"topic":"orders","partition":99,"replicas":[1]}]}'
    with pytest.raises(UnknownTopicOrPartitionError, match=r"orders-99"):
        plan(spark, snapshot, asked(Job.APPLY_JSON, reassignment_json=given), out)
    with pytest.raises(InfeasiblePlanError, match=r"rack 'c' would have no live broker left"):
        plan(spark, snapshot, asked(Job.DECOMMISSION, brokers=(3, 6)), out)
    assert not (tmp_path / "p").exists()
