"""Whether a reassignment is complete, on a fake cluster: by its record, and by a plan that anybody carries out."""

import json

import pytest
from tests.steps_lab import move

from kafka_reassignment.errors import InvalidRequestError, RecordError
from kafka_reassignment.model import DEFAULT_OF_BROKERS, ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.record.operator_commands import WithdrawCommand
from kafka_reassignment.views.verification import verify_reassignment, verify_targets

pytestmark = pytest.mark.quick

ORDERS = [TopicPartition("orders", n) for n in range(4)]
FIRST = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
SECOND = [move("orders", 2, (3, 1), (5, 1))]


def verified(run, reassignment_id=None):
    found = verify_reassignment(run.cluster, run.store, reassignment_id, sleep=run.clock.sleep)
    assert found.as_json() == json.loads(json.dumps(found.as_json()))
    return found


def test_it_is_complete_only_at_the_very_end_and_looking_changes_nothing(reassignment):
    run = reassignment(FIRST, SECOND)
    before = verified(run)
    assert (before.is_complete, before.at_target, len(before.wrong)) == (False, 0, 3)
    assert "replica set is 1,2 rather than 1,3" in before.wrong["orders-0"]
    run.do_all("admit", "set_throttle", "submit_batch")
    configs, events = run.configs("orders"), run.record.audit.last_number()
    moving = verified(run)
    assert moving.wrong["orders-0"] == "orders-0 is still being reassigned"
    assert any("leader.replication.throttled.rate" in text for text in moving.throttles)
    assert (run.configs("orders"), run.record.audit.last_number()) == (configs, events)
    run.do_all("sense_isr_catch_up", "drop_old_replicas")
    half = verified(run)
    assert (half.at_target, list(half.wrong)) == (2, ["orders-2"])
    run.do_all("clear_throttle")
    run.do_all(batch=2)
    done = verified(run)
    assert (done.is_complete, done.at_target, done.throttles) == (True, 3, [])
    assert next(iter(done.lines())) == (
        "Reassignment r of cluster fake-cluster is complete: 3 of 3 partitions are at their target and in sync"
    )


def test_what_a_broker_that_is_down_has_of_the_throttle_is_told_and_it_is_complete_all_the_same(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    cluster.kill(2)
    run.do("clear_throttle")
    found = verified(run)
    assert (found.is_complete, found.throttles) == (True, [])
    assert any(text.startswith("Throttle left: broker 2 is down and still has our leader") for text in found.lines())


def test_a_replica_out_of_sync_is_not_complete(reassignment, cluster):
    run = reassignment(FIRST)
    run.do_all()
    cluster.kill(4)
    assert verified(run).wrong == {"orders-1": "orders-1 is under-replicated: 4 out of sync"}


def test_a_partition_without_a_leader_is_not_complete_and_not_led_by_another_broker(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (2,))])
    run.do_all()
    cluster.kill(2)
    found = verified(run)
    assert found.wrong == {"orders-0": "orders-0 has no leader: 2 out of sync"}
    assert found.led_by_others == []


def test_a_decommission_is_complete_only_when_its_brokers_are_empty(reassignment, cluster):
    """As the task verify says: what was withdrawn, and what was made since, is on broker 2 all the same."""
    run = reassignment(
        [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))], job="decommission", brokers=[2]
    )
    run.record.withdraw_commands.append(WithdrawCommand(at=run.clock.now, by="ann", partitions=("orders-0",)))
    run.do_all()
    cluster.create_topic("late", [(2, 5)], size_bytes=1)
    found = verified(run)
    assert (found.is_complete, found.wrong, found.withdrawn) == (False, {}, ["orders-0"])
    assert found.still_hosted == ["late-0", "orders-0", "orders-3"]
    assert "The brokers to be emptied still host 3 partitions: late-0, orders-0, orders-3" in found.lines()
    cluster.another_client().alter_reassignments(
        {ORDERS[0]: (1, 3), ORDERS[3]: (1, 3), TopicPartition("late", 0): (4, 5)}
    )
    cluster.catch_up_all()
    assert verified(run).is_complete


def test_a_topic_that_was_deleted_since_is_no_fault(reassignment, cluster):
    run = reassignment(FIRST)
    cluster.delete_topic("orders")
    done = verified(run)
    assert (done.is_complete, done.gone) == (True, ["orders-0", "orders-1"])


def test_there_has_to_be_such_a_reassignment(reassignment):
    run = reassignment(FIRST)
    with pytest.raises(RecordError, match="There is no record of reassignment mistyped"):
        verified(run, "mistyped")
    run.store.release(run.cluster_id, "r")
    with pytest.raises(RecordError, match="No reassignment has locked cluster fake-cluster"):
        verified(run)


def test_a_plan_of_anybody_is_compared_with_the_cluster_and_its_throttles(cluster):
    targets = {ORDERS[0]: (1, 3), TopicPartition("nosuch", 0): (1, 2)}
    cluster.alter_reassignments({ORDERS[0]: (1, 3)})
    rate = ConfigChange(ConfigResource.broker(1), "leader.replication.throttled.rate", ConfigOperation.SET, "1000000")
    listed = ConfigChange(
        ConfigResource.topic("orders"), "follower.replication.throttled.replicas", ConfigOperation.SET, "0:3,1:4"
    )
    cluster.alter_configs([rate, listed])
    moving = verify_targets(cluster, targets)
    assert moving.wrong == {"orders-0": "orders-0 is still being reassigned", "nosuch-0": "nosuch-0 does not exist"}
    of_topic = "topic orders: follower.replication.throttled.replicas has 0:3"
    assert moving.throttles == [of_topic]
    cluster.catch_up_all()
    there = verify_targets(cluster, {ORDERS[0]: (1, 3)})
    assert there.wrong == {}
    assert there.throttles == [of_topic, "broker 1: leader.replication.throttled.rate is 1000000"]
    assert not there.is_complete
    assert verify_targets(cluster, {ORDERS[3]: (1, 2)}).throttles == there.throttles[1:]


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_broker_that_does_not_tell_its_rates_may_have_one(cluster, is_fenced):
    """It has them again when it is back; broker 6 has no replica of the plan."""
    rate = ConfigChange(ConfigResource.broker(6), "leader.replication.throttled.rate", ConfigOperation.SET, "1000000")
    cluster.alter_configs([rate])
    cluster.kill(6, fenced=is_fenced)
    found = verify_targets(cluster, {ORDERS[3]: (1, 2)})
    assert (found.is_complete, found.throttles, found.silent) == (False, [], {6: "it did not answer"})
    assert "Broker 6 does not tell whether it has a rate: it did not answer" in found.lines()
    cluster.restart(6)
    left = verify_targets(cluster, {ORDERS[3]: (1, 2)})
    assert (left.throttles, left.silent) == (["broker 6: leader.replication.throttled.rate is 1000000"], {})


def test_a_rate_that_is_the_default_of_all_brokers_is_left_too(cluster):
    rate = ConfigChange(DEFAULT_OF_BROKERS, "follower.replication.throttled.rate", ConfigOperation.SET, "1000000")
    cluster.alter_configs([rate])
    found = verify_targets(cluster, {ORDERS[3]: (1, 2)})
    assert found.throttles == ["broker (default of all): follower.replication.throttled.rate is 1000000"]


def test_the_order_of_replicas_counts(cluster):
    assert (
        "is 1,2 rather than 2,1" in verify_targets(cluster, {ORDERS[0]: (2, 1)}, sleep=lambda _: None).wrong["orders-0"]
    )


def test_a_plan_of_another_cluster_is_refused(cluster):
    with pytest.raises(InvalidRequestError, match="None of the partitions exists in cluster fake-cluster"):
        verify_targets(cluster, {TopicPartition("nosuch", 0): (1, 2)})
