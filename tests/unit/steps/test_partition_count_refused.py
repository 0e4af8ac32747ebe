"""Raising a partition count on a fake cluster: what is refused, and in which words."""

import pytest

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import (
    DuplicatePartitionError,
    InfeasiblePlanError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    RecordError,
    StalePlanError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    VerificationError,
)
from kafka_reassignment.model import TopicPartition

pytestmark = pytest.mark.quick

BEFORE = {0: (1, 2), 1: (2, 3)}


# ------------------------------------------------------------------ brokers


def test_dead_excluded_and_silent_brokers_get_nothing(growing, small_cluster):
    small_cluster.kill(4)
    small_cluster.kill(6, fenced=False)
    run = growing(exclude_brokers=[5])
    text = run.do_all("preflight", "plan_placement")
    assert "* Broker 4 gets none: it is down." in text
    assert "* Broker 5 gets none: the request excludes it." in text
    assert (
        "* Broker 6 gets none: its log dirs are not known (Broker 6 did not answer: it is not among the live brokers)."
        in text
    )
    run.do_all("create_partitions", "verify")
    assert {b for replicas in run.replicas("orders").values() for b in replicas} == {1, 2, 3}


@pytest.mark.parametrize("is_described", [True, False], ids=["described as dead", "not at all: Kafka 3.9"])
def test_a_planned_broker_that_died_makes_the_plan_stale(growing, small_cluster, is_described):
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.kill(4)
    if not is_described:
        small_cluster.describe_live_brokers_only()
    with pytest.raises(StalePlanError, match=r"may not take replicas now \(4: it is down\)\. Nothing was added now"):
        run.do("create_partitions")
    assert run.replicas("orders") == BEFORE


def test_too_few_brokers_for_the_replication_factor_are_refused(growing):
    run = growing(exclude_brokers=[2, 3, 4, 5, 6])
    run.do("preflight")
    with pytest.raises(
        InfeasiblePlanError, match=r"need 2 brokers; found 1 that may take new ones: 1 \(left out: 2: the"
    ):
        run.do("plan_placement")


def test_fewer_replicas_than_min_insync_replicas_are_refused(growing, small_cluster):
    small_cluster.create_topic("thin", [(1,)], configs={"min.insync.replicas": "2"})
    run = growing(topic="thin", partitions=2)
    run.do("preflight")
    with pytest.raises(InfeasiblePlanError, match=r"Topic thin has 1 replicas .* expected at least 2, its min\.insync"):
        run.do("plan_placement")


def test_a_new_partition_whose_broker_died_at_birth_is_reported(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement", "create_partitions")
    small_cluster.kill(4)
    with pytest.raises(VerificationError) as wrong:
        run.do("verify")
    assert str(wrong.value) == (
        "The new partitions of orders are not as planned: orders-2 has 4 out of sync. Start the brokers they are on, or find "
        "out who moved them, then rerun verify and what follows"
    )
    small_cluster.restart(4)
    run.do("verify")


def test_a_partition_that_has_lost_a_replica_since_is_reported(growing, small_cluster):
    run = growing()
    run.do_all()
    small_cluster.alter_reassignments({TopicPartition("orders", 2): (4,)}, allow_replication_factor_change=True)
    with pytest.raises(VerificationError, match="orders-2 is on 4 rather than 4,5"):
        run.do("verify")


# ------------------------------------------------------------------ requests that cannot be carried out


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (
            {"partitions": 2},
            InvalidPartitionsError,
            (
                "Topic orders has 2 partitions already, expected fewer than the 2 asked for: there is nothing to do. Ask for "
                "more if that is meant"
            ),
        ),
        (
            {"partitions": 10_003},
            InvalidPartitionsError,
            (
                "Topic orders has 2 partitions, asked for 10003: that is 10001 more, expected at most 10000 at once. Grow it in "
                "several runs"
            ),
        ),
        (
            {"partitions": "8"},
            InvalidPartitionsError,
            (
                "The request cannot be carried out: 'partitions': Input should be a valid integer (found '8'). Nothing was "
                "changed in the cluster. Correct the request"
            ),
        ),
        (
            {"topic": "nowhere"},
            UnknownTopicOrPartitionError,
            (
                "'topic' names 'nowhere', which the cluster does not have. Correct the name, or create the topic with the count "
                "that is wanted"
            ),
        ),
        (
            {"exclude_brokers": [99]},
            UnknownBrokerError,
            "'exclude_brokers' names broker 99, expected some of 1, 2, 3, 4, 5, 6. Correct the ids",
        ),
        (
            {"exclude_brokers": [3, 3]},
            DuplicatePartitionError,
            (
                "The request cannot be carried out: 'exclude_brokers': broker 3 is named twice; name each one once. Nothing was "
                "changed in the cluster. Correct the request"
            ),
        ),
        (
            {"replicas": 3},
            InvalidRequestError,
            (
                "The request cannot be carried out: 'replicas' is not a known field; check its spelling. Nothing was changed in "
                "the cluster. Correct the request"
            ),
        ),
    ],
    ids=["the same", "far too many", "text", "unknown topic", "unknown broker", "named twice", "unknown field"],
)
def test_a_request_that_does_not_fit_is_refused_at_preflight(growing, request_, error, message):
    run = growing(**request_)
    with pytest.raises(error) as refused:
        run.do("preflight")
    assert type(refused.value) is error
    assert str(refused.value) == message
    assert run.replicas("orders") == BEFORE


def test_a_lower_count_is_refused_because_kafka_cannot(growing, small_cluster):
    small_cluster.create_topic("wide", [(1, 2)] * 6)
    with pytest.raises(
        InvalidPartitionsError, match=r"Topic wide has 6 partitions, asked for 4: Kafka cannot lower the count"
    ):
        growing(topic="wide", partitions=4).do("preflight")


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"]
)
def test_kafkas_own_topics_are_refused(growing, small_cluster, topic):
    small_cluster.create_topic(topic, [(1, 2)])
    with pytest.raises(
        InvalidRequestError, match=rf"Topic {topic} is Kafka's own, expected one of yours: .* might not start any more"
    ):
        growing(topic=topic).do("preflight")


def test_a_run_keeps_its_request_for_life(growing):
    growing().do("preflight")
    with pytest.raises(RecordError, match="Run g was begun at 2026-01-01 12:00:00 UTC with another request"):
        growing(partitions=6).do("preflight")


@pytest.mark.parametrize("name", ["plan_placement", "create_partitions"])
def test_a_step_without_a_record_says_what_to_run_first(growing, name):
    with pytest.raises(RecordError, match="There is no record of a partition count at") as error:
        growing().do(name)
    assert error.value.advice == (Rerun("preflight"),)


def test_adding_without_a_placement_says_what_to_run_first(growing):
    run = growing()
    run.do("preflight")
    with pytest.raises(RecordError, match=r"Run g has no placement at .*, expected new-partitions.json") as error:
        run.do("create_partitions")
    assert error.value.advice == (Rerun("plan_placement"),)


def test_partitions_that_differ_in_replicas_where_the_controller_wants_another_number_are_refused(
    growing, small_cluster
):
    """The controller takes the number of one partition, here of the first; most have another."""
    small_cluster.create_topic("uneven", [(1,), (1, 2), (2, 3)])
    run = growing(topic="uneven", partitions=4)
    run.do("preflight")
    with pytest.raises(
        InvalidReplicationFactorError, match=r"differ in replicas; 2 were planned .* wants another number \("
    ):
        run.do("plan_placement")


def test_partitions_that_differ_in_replicas_are_reported_where_the_controller_agrees(growing, small_cluster):
    small_cluster.create_topic("uneven", [(1, 2), (2, 3), (3,)])
    run = growing(topic="uneven", partitions=4)
    text = run.do_all("preflight", "plan_placement")
    assert (
        "* The partitions of uneven differ in replicas: the new ones get 2, as 2 of 3 have; there are 1 with 1." in text
    )
