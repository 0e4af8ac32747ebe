"""Whole reassignments on clusters of ZooKeeper's time: real 2.3.1 (before KIP-455) and real 3.9.2."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.contract.lab import eventually
from tests.kips.zookeeper_lab import DiesAfter, Era, PlannedRun, era, set_values
from tests.steps_lab import ProcessDiedError, Run, StillWaiting, move
from upath import UPath

from kafka_lab.ledger import Ledger
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.zookeeper.state import REASSIGN
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    ReassignmentInProgressError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Step, TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.stopped.cancel_report import report_stop

pytestmark = pytest.mark.kafka

RATE = "leader.replication.throttled.rate"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Era]:
    with (
        ZooKeeperCluster(brokers=4, version="2.3.1", static_configs={2: {RATE: "300000000"}}) as kafka,
        era(kafka, UPath(tmp_path_factory.mktemp("old"))) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Era]:
    with (
        ZooKeeperCluster(brokers=4, version="3.9.2", static_configs={2: {RATE: "300000000"}}) as kafka,
        era(kafka, UPath(tmp_path_factory.mktemp("new"))) as opened,
    ):
        yield opened


@pytest.fixture(params=["2.3.1", "3.9.2"])
def either(request: pytest.FixtureRequest) -> Era:
    return request.getfixturevalue("old" if request.param == "2.3.1" else "new")


# ------------------------------------------------------------------ from preflight to verify


@pytest.mark.spark
def test_below_2_4_a_throttled_reassignment_in_several_batches_goes_from_preflight_to_its_report(old: Era) -> None:
    topic = old.topic((4, 1), (4, 2), (1, 2), (2, 4), megabytes=12, **{"leader.replication.throttled.replicas": "2:1"})
    step = old.step("empty-broker-4")
    request = {
        "job": "decommission",
        "brokers": [4],
        "topics": [topic],
        "throttle_mb_per_second": 4,
        "partition_movements": 1,
        "keep_free_share": 0,
    }
    preflight(step, request, "ann")
    make_plan(step, master="local[2]")
    run = PlannedRun(step, old.folder / step.record.reassignment_id)
    assert run.last == 3, "one partition at a time"
    batches_before = old.batches_in_zookeeper
    ends_at_its_target_with_configs_and_messages_intact(old, run, topic)
    assert all(4 not in replicas for replicas in old.replicas(topic))
    assert old.batches_in_zookeeper == batches_before + 6, "each batch is written twice: to expand, and to drop"


def test_from_2_4_on_the_same_goes_by_the_api_and_never_by_the_znode(new: Era) -> None:
    assert isinstance(new.cluster, KafkaCluster)
    topic = new.topic((4, 1), (4, 2), (1, 2), (2, 4), megabytes=12, **{"leader.replication.throttled.replicas": "2:1"})
    run = new.run(
        [move(topic, 0, (4, 1), (3, 1), 3_000_000), move(topic, 1, (4, 2), (3, 2), 3_000_000)],
        [move(topic, 3, (2, 4), (2, 1), 3_000_000)],
        throttle_mb_per_second=4,
    )
    batches_before = new.batches_in_zookeeper
    ends_at_its_target_with_configs_and_messages_intact(new, run, topic)
    assert new.replicas(topic) == [(3, 1), (3, 2), (1, 2), (2, 1)]
    assert new.batches_in_zookeeper == batches_before


def ends_at_its_target_with_configs_and_messages_intact(era: Era, run: Run, topic: str) -> None:
    """Carry out all batches while a producer writes, beside a rate and a throttled replica of another client."""
    one, rate = ConfigResource.broker(1), "200000000"
    era.cluster.alter_configs([ConfigChange(one, RATE, ConfigOperation.SET, rate)])
    eventually(
        lambda: era.cluster.describe_configs([one], [RATE])[one].get(RATE), lambda v: v is not None and v.value == rate
    )
    before = set_values(run.configs(topic))
    during = []

    def look() -> None:
        if any(flight.adding for flight in era.cluster.list_reassignments().values()):
            during.append(set_values(run.configs(topic)))
        time.sleep(0.5)

    run.when_waiting = look
    run.clock.on_sleep.append(look)
    with Ledger(era.kafka.bootstrap_servers, [topic], messages_per_second=50) as ledger:
        assert run.start() == 1
        for batch in range(1, run.last + 1):
            run.do_all(batch=batch)
        run.finish()
    assert set_values(run.configs(topic)) == before
    assert during, "moves were seen in flight"
    rates = [[int(seen[k].value) for k in seen if k.endswith("follower.replication.throttled.rate")] for seen in during]
    assert all(min(each) <= 4_000_000 for each in rates)
    for seen in during:
        assert seen[f"topic {topic} follower.replication.throttled.replicas"].value
    verdict = ledger.verify()
    assert (verdict.lost, verdict.displaced, verdict.failed) == (0, 0, 0)
    assert verdict.acknowledged > 100
    era.cluster.alter_configs([ConfigChange(one, RATE, ConfigOperation.DELETE)])


def test_a_batch_larger_than_a_slice_is_one_znode_and_its_drops_wait_for_each_other(old: Era) -> None:
    topic = old.topic(*[(1, 2)] * 110)
    run = old.run([move(topic, n, (1, 2), (3, 2), 0) for n in range(110)])
    before = old.batches_in_zookeeper
    run.do_all()
    run.finish()
    assert set(old.replicas(topic)) == {(3, 2)}
    assert old.batches_in_zookeeper == before + 3, "110 expansions at once; 100 drops, then 10"


def test_a_batch_that_cannot_be_one_znode_is_refused_before_anything_is_done(old: Era) -> None:
    request = {"job": "decommission", "brokers": [4], "unthrottled": True, "partition_movements": 501}
    with pytest.raises(
        InvalidRequestError, match=r"'partition_movements' is 501, expected at most 500: .*below Kafka 2.4"
    ):
        preflight(old.step("too-much"), request, "ann")


def test_a_dead_broker_is_emptied(old: Era) -> None:
    """The controller finishes no expansion that keeps a dead replica, and takes no drop meanwhile."""
    topic, wide = old.topic((4, 1), megabytes=1), old.topic((1, 4, 2), megabytes=1)
    run = old.run([move(topic, 0, (4, 1), (3, 1)), move(wide, 0, (1, 4, 2), (1, 2))])
    old.kafka.kill(4)
    try:
        old.kafka.wait_until_live({1, 2, 3})
        run.do_all("set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
        old.wait_for(topic, (3, 1))
        old.wait_for(wide, (1, 2))
    finally:
        old.kafka.heal()
    run.do_all("clear_throttle")
    run.finish()


def test_an_old_replica_that_dies_meanwhile_holds_the_drop_up_and_is_named(old: Era) -> None:
    topic = old.held_topic((4, 1))
    run = old.unthrottled([move(topic, 0, (4, 1), (3, 1))])
    try:
        with old.held(1, 2, 3):
            run.do("submit_batch")
            old.kafka.kill(4)
            old.kafka.wait_until_live({1, 2, 3})
        old.wait_for_isr(topic, {1, 3})
        held_up = f"in sync, but the controller has not finished {topic}-0 .*broker 4 is out of sync"
        with pytest.raises(StillWaiting, match=held_up):
            run.do("sense_isr_catch_up")
    finally:
        old.kafka.heal()
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert old.replicas(topic) == [(3, 1)]


# ------------------------------------------------------------------ killed, and run again


@pytest.mark.parametrize(("submission", "dies_in"), [(1, "submit_batch"), (2, "drop_old_replicas")])
def test_killed_between_the_znode_and_the_record_a_rerun_goes_on_from_there(
    old: Era, submission: int, dies_in: str
) -> None:
    topic = old.topic((1, 2), (2, 3), megabytes=2)
    run = old.run([move(topic, 0, (1, 2), (1, 4)), move(topic, 1, (2, 3), (4, 3))])
    before, configs = old.batches_in_zookeeper, set_values(run.configs(topic))
    run.cluster = DiesAfter(old.cluster, submission)
    with pytest.raises(ProcessDiedError):
        run.do_all()
    assert list(run.record.audit)[-1].step == dies_in
    assert (run.record.submitted(1) is None) == (dies_in == "submit_batch"), "the record does not know of it"
    run.cluster = old.cluster
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert old.replicas(topic) == [(1, 4), (4, 3)]
    assert set_values(run.configs(topic)) == configs
    assert old.batches_in_zookeeper == before + 2, "nothing was written twice"


# ------------------------------------------------------------------ another client's znode


def test_a_znode_of_another_client_is_waited_for_and_named(either: Era) -> None:
    theirs, ours = either.held_topic((1, 2)), either.topic((1, 2))
    run = either.unthrottled([move(ours, 0, (1, 2), (1, 4))])
    with either.held():
        either.somebody_submits(theirs, (1, 3))
        eventually(either.cluster.list_reassignments, lambda listed: listed.keys() == {TopicPartition(theirs, 0)})
        with pytest.raises(StillWaiting, match=f"another client is reassigning {theirs}-0"):
            run.do("admit")
        refused = either.step("another")
        with pytest.raises(ReassignmentInProgressError, match=f"{theirs}-0.*not by this reassignment"):
            preflight(refused, {"job": "rebalance", "unthrottled": True}, "ann")
    run.do_all()
    run.finish()
    assert either.replicas(ours) == [(1, 4)]
    either.wait_for(theirs, (1, 3))


def test_a_znode_that_comes_between_admit_and_submit_keeps_the_batch_out_and_a_rerun_submits_it(old: Era) -> None:
    theirs, ours = old.held_topic((1, 2)), old.topic((1, 2))
    run = old.unthrottled([move(ours, 0, (1, 2), (1, 4))])
    run.clock.on_sleep.clear()  # a minute of waiting for them passes at once
    run.do_all("admit", "set_throttle")
    with old.held():
        old.somebody_submits(theirs, (1, 3))
        with pytest.raises(ReassignmentInProgressError) as refused:
            run.do("submit_batch")
        text = str(refused.value)
        assert text.startswith("Batch 1 was not submitted: Kafka below 2.4 takes one batch at a time, and")
        assert f"{REASSIGN} holds a batch of {theirs}-0, there since 20" in text
        assert (
            "UTC: it waits for broker 3 to be in sync. Submit again when it is done. Wait until the controller has finished"
            in text
        )
        assert old.replicas(ours) == [(1, 2)]
        assert run.record.submitted(1) is None
    old.wait_for(theirs, (1, 3))
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert old.replicas(ours) == [(1, 4)]


def test_a_znode_that_is_no_batch_is_reported_before_anything_is_done_and_left_alone(old: Era) -> None:
    old.zookeeper.create(REASSIGN, b"{}")
    try:
        with pytest.raises(ReassignmentInProgressError) as text:
            preflight(old.step("no-batch"), {"job": "rebalance", "unthrottled": True}, "ann")
        assert f"{REASSIGN} holds something that is no batch, there since 20" in str(text.value)
        assert "Find out who wrote it; delete it and restart the controller's broker" in str(text.value)
        assert old.znode() == b"{}"
    finally:
        old.zookeeper.delete(REASSIGN)
        old.fail_over()  # the present controller hears of nothing any more


def test_a_batch_of_a_deleted_topic_that_stays_for_ever_is_reported_with_what_clears_it(old: Era) -> None:
    theirs, ours = old.held_topic((1, 2)), old.topic((1, 2))
    run = old.unthrottled([move(ours, 0, (1, 2), (1, 4))])
    with old.held():
        old.somebody_submits(theirs, (1, 3))
        eventually(lambda: old.replicas(theirs), lambda r: r == [(1, 3, 2)])
        old.delete(theirs)
        with pytest.raises(ReassignmentInProgressError) as text:
            run.do("admit")
    assert f"holds a batch of {theirs}-0" in str(text.value)
    assert f"{theirs}-0 was deleted meanwhile, and the controller never finishes that. Restart the" in str(text.value)
    old.fail_over()
    run.do_all()
    assert old.replicas(ours) == [(1, 4)]


# ------------------------------------------------------------------ a controller that does not listen


def test_a_deaf_controller_is_reported_as_such_by_each_step_and_its_successor_carries_on(old: Era) -> None:
    topic = old.topic((1, 2))
    run = old.unthrottled([move(topic, 0, (1, 2), (1, 4))])
    old.make_controller_deaf()
    for name in ("submit_batch", "sense_isr_catch_up"):
        assert_reported_deaf(old, run, name, topic)
    old.kafka.restart(old.controller)
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert old.replicas(topic) == [(1, 4)]


def test_a_controller_deaf_to_a_drop_is_reported_too(old: Era) -> None:
    """A drop shows nothing by which one could tell afterwards that the controller has begun."""
    topic = old.topic((1, 2))
    run = old.unthrottled([move(topic, 0, (1, 2), (1, 4))])
    run.do_all("submit_batch", "sense_isr_catch_up")
    old.make_controller_deaf()
    assert_reported_deaf(old, run, "drop_old_replicas", topic)
    old.fail_over()
    run.do_all("drop_old_replicas", "clear_throttle")
    assert old.replicas(topic) == [(1, 4)]


def assert_reported_deaf(era: Era, run: Run, name: str, topic: str) -> None:
    controller = era.controller
    with pytest.raises((ClusterUnavailableError, StillWaiting)) as deaf:
        run.do(name)
    text = str(deaf.value)
    assert f"The controller, broker {controller}, has taken no notice of a batch of {topic}-0, there since 20" in text
    assert f"Do not delete this one. Restart broker {controller}: the next controller takes the batch up" in text


# ------------------------------------------------------------------ cancel


def test_a_cancel_says_that_it_cannot_and_takes_everything_back_when_the_batch_is_done(old: Era) -> None:
    topic = old.held_topic((1, 2), (2, 1))
    run = old.unthrottled([move(topic, 0, (1, 2), (1, 4)), move(topic, 1, (2, 1), (2, 3))])
    scope = CancelScope()
    with old.held():
        run.do("submit_batch")
        cancel.stop(run.context, scope, by="bob")
        outcome = cancel.cancel_moves(run.context, scope)
        assert outcome.cancelled == {}
        assert outcome.carried_on == {
            f"{topic}-0": "Kafka below 2.4 cannot cancel: it goes on to 1,2,4, and can be taken back then",
            f"{topic}-1": "Kafka below 2.4 cannot cancel: it goes on to 2,1,3, and can be taken back then",
        }
        assert old.cluster.list_reassignments().keys() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        with pytest.raises(StillWaiting, match="waiting: .*Kafka below 2.4 cannot cancel"):
            run.settle(scope)
        with pytest.raises(StillWaiting):
            run.settle(scope)
    run.until_done(lambda: run.settle(scope))
    cancel.clear_after_stop(run.context, scope)
    assert "trigger kafka_reassignment with the job roll_back" in report_stop(run.context, scope)
    assert old.replicas(topic) == [(1, 2), (2, 1)]


def test_a_cancel_asked_of_the_port_is_refused_and_offers_the_inverse_plan_which_works(old: Era) -> None:
    topic = old.held_topic((1, 2))
    there = move(topic, 0, (1, 2), (1, 4))
    run = old.unthrottled([there])
    with old.held():
        run.do("submit_batch")
        [refusal] = old.cluster.alter_reassignments({there.partition: None}).values()
        assert refusal is not None
        assert refusal.code == "UNSUPPORTED_VERSION"
        assert refusal.message == (
            f"Kafka below 2.4 cannot cancel a reassignment. Let {topic}-0 reach [1, 2, 4], then submit the inverse plan "
            "(the rollback file). Do not delete the znode: the move would go on, or stay half done."
        )
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert old.replicas(topic) == [(1, 4)]
    old.unthrottled([Step(there.reassignment.inverse())]).do_all()
    assert old.replicas(topic) == [(1, 2)]


def test_from_2_4_on_a_cancel_is_a_cancel_in_zookeeper_mode_too(new: Era) -> None:
    topic = new.held_topic((1, 2))
    run = new.unthrottled([move(topic, 0, (1, 2), (1, 4))])
    with new.held():
        run.do("submit_batch")
        assert new.cluster.alter_reassignments({TopicPartition(topic, 0): None}) == {TopicPartition(topic, 0): None}
        new.wait_for(topic, (1, 2))


# ------------------------------------------------------------------ completion


def test_that_the_znode_is_gone_proves_nothing_while_replicas_still_copy(old: Era) -> None:
    """Who deletes it stops nothing: the move goes on, and is waited for by its ISR."""
    topic = old.held_topic((1, 2))
    run = old.unthrottled([move(topic, 0, (1, 2), (1, 4))])
    with old.held():
        run.do("submit_batch")
        eventually(lambda: old.replicas(topic), lambda r: r == [(1, 2, 4)])
        old.zookeeper.delete(REASSIGN)
        for _ in range(2):
            with pytest.raises(StillWaiting, match="batch 1: 0 of 1 partitions in sync"):
                run.do("sense_isr_catch_up")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert old.replicas(topic) == [(1, 4)]


def test_that_the_znode_is_gone_proves_nothing_where_somebody_took_the_move_back(old: Era) -> None:
    """The folk cancel: delete the znode, fail the controller over, submit the replicas of before."""
    topic = old.held_topic((1, 2))
    run = old.unthrottled([move(topic, 0, (1, 2), (1, 4))])
    with old.held():
        run.do("submit_batch")
        old.zookeeper.delete(REASSIGN)
        old.fail_over()
        old.somebody_submits(topic, (1, 2))
        old.wait_for(topic, (1, 2))
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert old.replicas(topic) == [(1, 2)]
    assert "another client cancelled its reassignment" in run.record.finished(1).left_out[f"{topic}-0"]


# ------------------------------------------------------------------ what reaches the znode


def test_what_the_controller_would_choke_on_is_left_out_and_the_rest_goes_on(old: Era) -> None:
    topic, gone = old.topic((1, 2), (1, 2), (1, 2)), old.topic((1, 2))
    steps = [
        move(topic, 0, (1, 2), (1, 4)),
        move(topic, 1, (1, 2), (1, 99)),
        move(topic, 7, (1, 2), (1, 4)),
        move(gone, 0, (1, 2), (1, 4)),
    ]
    run = old.unthrottled(steps)
    old.delete(gone)
    run.do_all("set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert old.replicas(topic) == [(1, 4), (1, 2), (1, 2)]
    submitted = run.record.submitted(1)
    assert submitted is not None
    assert submitted.left_out == {f"{topic}-1": "broker 99 of the target 1,99 is down"}


def test_a_batch_with_nothing_sound_in_it_writes_no_znode(old: Era) -> None:
    topic = old.topic((1, 2))
    run = old.unthrottled([move(topic, 0, (1, 2), (1, 3, 3))])
    before = old.batches_in_zookeeper
    run.do("submit_batch")
    assert old.batches_in_zookeeper == before
    left_out = run.record.submitted(1).left_out
    assert "includes the broker 3 more than once" in left_out[f"{topic}-0"]
