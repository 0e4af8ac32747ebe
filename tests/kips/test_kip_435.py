"""KIP-435 on real brokers: few at once, and the limits change while it runs. The algorithm itself: tests/unit/decisions/test_partition_steps.py."""

from collections import Counter

import pytest
from tests.contract.lab import eventually
from tests.kips.moving_lab import MovingLab
from tests.steps_lab import Run, StillWaiting, move

from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import ConfigResource, Reassignment, Step, TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.limits import change_limits

pytestmark = pytest.mark.kafka

RATE = 200


def test_more_than_r_replicas_move_in_steps_and_never_more_are_held_than_the_bound(moving: MovingLab):
    """Three of three replicas, two at a time: never more than 3 + 2, the preferred leader first, the target in its order."""
    (partition,) = moving.filled_topic((1, 2, 3))
    steps = steps_for(Reassignment(partition, (1, 2, 3), (4, 5, 6), 8_000_000), replica_movements=2)
    assert len(steps) >= 2
    assert steps[0].reassignment.target[0] == 4
    run = moving.run(*([s] for s in steps), throttle_mb_per_second=RATE)
    held = 0
    alter = moving.cluster.alter_reassignments

    def counting(targets, **flags):
        nonlocal held
        held = max(held, *(len(t) for t in targets.values() if t))
        return alter(targets, **flags)

    moving.cluster.alter_reassignments = counting
    run.run_batches()
    run.finish()
    assert moving.replicas(partition) == (4, 5, 6)
    assert held <= 3 + 2


def test_other_limits_count_from_the_next_batch_on(moving: MovingLab):
    partitions = moving.filled_topic((1, 2), (2, 3), (3, 1), (1, 2))
    targets = [(4, 2), (5, 3), (6, 1), (4, 2)]
    steps = [
        move(p.topic, p.partition, c, t, 8_000_000)
        for p, c, t in zip(partitions, [(1, 2), (2, 3), (3, 1), (1, 2)], targets, strict=True)
    ]
    run = moving.run(*([s] for s in steps), throttle_mb_per_second=RATE)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_limits(run.context, {"partition_movements": 3, "replica_movements": 2}, by="bob")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches < 4
    assert len(whole_batch(RecordView(run.record), 1).steps) == 1
    for number in range(2, run.record.plan_in_force().batches + 1):
        run.do_all(batch=number)
        next_batch(run.context, number)
    run.finish()
    assert [moving.replicas(p) for p in partitions] == targets


CROSSING = {(1, 2, 3): (4, 5, 6), (4, 5, 6): (1, 2, 3)}
"""Two partitions that change all three replicas: each broker receives one."""


def crossing(partitions: list[TopicPartition], replica_movements: int) -> list[list[Step]]:
    """The steps of both; the n-th of each are in the n-th batch."""
    steps = [
        steps_for(Reassignment(p, current, target, 8_000_000), replica_movements=replica_movements)
        for p, (current, target) in zip(partitions, CROSSING.items(), strict=True)
    ]
    return [list(batch) for batch in zip(*steps, strict=True)]


def new_replicas_by_broker(run: Run, batch: int) -> Counter[int]:
    """How many replicas each broker receives in a batch."""
    return Counter(b for step in whole_batch(RecordView(run.record), batch).steps for b in step.reassignment.adding)


def test_a_higher_r_lets_more_brokers_receive_from_the_next_batch_on(moving: MovingLab):
    """R = 1 makes three batches, in each of which two brokers receive. With R = 2 what is left is one batch of four."""
    partitions = moving.filled_topic(*CROSSING)
    run = moving.run(*crossing(partitions, 1), throttle_mb_per_second=RATE, replica_movements=1)
    assert run.record.plan_in_force().batches == 3
    assert [new_replicas_by_broker(run, n) for n in (1, 2, 3)] == [{4: 1, 1: 1}, {5: 1, 2: 1}, {6: 1, 3: 1}]
    run.do_all("admit", "set_throttle", "submit_batch")
    change_limits(run.context, {"replica_movements": 2}, by="bob")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 2
    assert new_replicas_by_broker(run, 2) == {5: 1, 6: 1, 2: 1, 3: 1}
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    assert added_at_once(moving, partitions) == [2, 2]
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert next_batch(run.context, 2) is None
    run.finish()
    assert [moving.replicas(p) for p in partitions] == list(CROSSING.values())


def test_a_lower_r_lets_fewer_brokers_receive_from_the_next_batch_on(moving: MovingLab):
    """R = 3 moves all replicas in one batch: all six brokers receive. With R = 1 it becomes three, two brokers in each."""
    first, *partitions = moving.filled_topic((1, 2, 3), *CROSSING)
    first_step = move(first.topic, first.partition, (1, 2, 3), (1, 2, 4), 8_000_000)
    run = moving.run([first_step], *crossing(partitions, 3), throttle_mb_per_second=RATE, replica_movements=3)
    assert new_replicas_by_broker(run, 2) == dict.fromkeys(range(1, 7), 1)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_limits(run.context, {"replica_movements": 1}, by="bob")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 4
    for number in (2, 3, 4):
        assert list(new_replicas_by_broker(run, number).values()) == [1, 1]
        run.do_all("admit", "set_throttle", "submit_batch", batch=number)
        assert added_at_once(moving, partitions) == [1, 1]
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=number)
        next_batch(run.context, number)
    run.finish()
    assert [moving.replicas(p) for p in partitions] == list(CROSSING.values())


def added_at_once(moving: MovingLab, partitions: list[TopicPartition]) -> list[int]:
    """How many replicas of each partition the controller adds at this moment, or has just added."""
    flights = moving.cluster.list_reassignments(partitions)
    shown = moving.cluster.describe_partitions([partitions[0].topic])
    return [len(flights[p].adding) if p in flights else len(shown[p].replicas) - 3 for p in partitions]


def test_limits_out_of_bounds_are_refused(moving: MovingLab):
    (partition,) = moving.create_topic([(1, 2)])
    run = moving.run([move(partition.topic, 0, (1, 2), (1, 3))], [move(partition.topic, 0, (1, 3), (1, 4))])
    with pytest.raises(InvalidRequestError, match="'replica_movements': Input should be greater than or equal to 1"):
        change_limits(run.context, {"replica_movements": 0}, by="bob")


def test_a_step_whose_target_broker_is_down_waits_and_the_rest_goes_on(breaking: MovingLab):
    record_wait, goes = breaking.filled_topic((1, 2), (2, 3))
    steps = [move(record_wait.topic, 0, (1, 2), (1, 6)), move(goes.topic, 1, (2, 3), (2, 4))]
    run = breaking.run(steps, throttle_mb_per_second=RATE)
    breaking.kill(6)
    run.do_all()
    assert breaking.replicas(goes) == (2, 4)
    assert breaking.replicas(record_wait) == (1, 2)
    assert next_batch(run.context, 1) == 2
    with pytest.raises(StillWaiting, match=f"{record_wait}: broker 6 of the target 1,6 is down"):
        run.do("admit", 2)
    breaking.restart(6)
    run.do_all(batch=2)
    run.finish()
    assert breaking.replicas(record_wait) == (1, 6)


def test_a_step_whose_partition_is_offline_waits_and_the_rest_goes_on(breaking: MovingLab):
    (offline,), (goes,) = breaking.filled_topic((6,)), breaking.filled_topic((2, 3))
    steps = [move(offline.topic, 0, (6,), (5,)), move(goes.topic, 0, (2, 3), (2, 4))]
    run = breaking.run(steps, throttle_mb_per_second=RATE)
    breaking.kill(6)
    run.do_all()
    assert breaking.replicas(goes) == (2, 4)
    assert next_batch(run.context, 1) == 2
    with pytest.raises(StillWaiting, match="the partition is offline"):
        run.do("admit", 2)
    breaking.restart(6)
    run.do_all(batch=2)
    assert breaking.replicas(offline) == (5,)


def test_a_broker_that_dies_in_the_middle_of_a_batch_holds_up_only_what_needs_it(breaking: MovingLab):
    """The rest of its batch and the batch after it end while it is dead; all of it when the broker is back."""
    held, goes, later = breaking.filled_topic((1, 2), (2, 3), (3, 1))
    breaking.write(held, messages=160, size_bytes=16_000_000)  # copies for longer than it takes to raise the rate
    topic = ConfigResource.topic(held.topic)
    first = [move(held.topic, 0, (1, 2), (1, 6), 24_000_000), move(goes.topic, 1, (2, 3), (2, 4), 8_000_000)]
    second = [move(later.topic, 2, (3, 1), (3, 5), 8_000_000)]
    run = breaking.run(first, second, throttle_mb_per_second=1, wait_for_broker_minutes=1)
    before = run.configs(held.topic)
    run.do_all("admit", "set_throttle", "submit_batch")
    breaking.kill(6)
    assert held in breaking.cluster.list_reassignments(), "it died in the middle of the copy"
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert breaking.replicas(goes) == (2, 4)
    assert run.record.submitted(1).left_open.keys() == {str(held)}
    listed = run.configs(held.topic)[topic]
    assert listed["follower.replication.throttled.replicas"].value == "0:6"
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert breaking.replicas(later) == (3, 5)
    assert set(breaking.cluster.list_reassignments()) == {held}, "neither cancelled nor dropped"
    assert next_batch(run.context, 2) == 3
    breaking.restart(6)
    # Airflow would retry until it answers.
    eventually(lambda: run.configs(held.topic), lambda seen: ConfigResource.broker(6) in seen, seconds=60)
    run.do_all(batch=3)
    assert next_batch(run.context, 3) is None
    run.finish()
    assert breaking.replicas(held) == (1, 6)
    assert run.configs(held.topic) == before


# What the KIP says of leaders and of replicas out of sync, while it runs


def wide(partition: TopicPartition) -> list[list[Step]]:
    """All three replicas change, one at a time: (4,2,3), (4,5,3), (4,5,6)."""
    return [[s] for s in steps_for(Reassignment(partition, (1, 2, 3), (4, 5, 6), 8_000_000), replica_movements=1)]


def targets(run: Run) -> list[tuple[int, ...]]:
    batches = run.record.plan_in_force().batches
    return [whole_batch(RecordView(run.record), n).steps[0].reassignment.target for n in range(1, batches + 1)]


def test_the_new_preferred_leader_leads_after_the_first_step(moving: MovingLab):
    (partition,) = moving.filled_topic((1, 2, 3))
    run = moving.run(*wide(partition), throttle_mb_per_second=RATE)
    run.do_all()
    assert moving.replicas(partition) == (4, 2, 3)
    assert moving.cluster.describe_partitions([partition.topic])[partition].leader == 4


def test_the_new_preferred_leader_is_elected_though_the_old_leader_stays(moving: MovingLab):
    """Kafka elects another leader by itself only where the old one goes."""
    (partition,) = moving.filled_topic((1, 2, 3))
    steps = steps_for(Reassignment(partition, (1, 2, 3), (4, 1, 5), 8_000_000), replica_movements=1)
    assert [step.reassignment.target for step in steps] == [(4, 1, 3), (4, 1, 5)]
    run = moving.run(*([step] for step in steps), throttle_mb_per_second=RATE)
    run.do_all()
    assert moving.replicas(partition) == (4, 1, 3)
    assert moving.cluster.describe_partitions([partition.topic])[partition].leader == 4
    dropped = next(e for e in reversed(list(run.record.audit)) if e.step == "drop_old_replicas")
    assert dropped.facts["elected"] == [str(partition)]


def test_a_replica_that_falls_out_of_sync_between_two_steps_is_dropped_first(breaking: MovingLab):
    (partition,) = breaking.filled_topic((1, 2, 3))
    run = breaking.run(*wide(partition), throttle_mb_per_second=RATE)
    run.do_all()
    breaking.kill(3)
    assert next_batch(run.context, 1) == 2
    assert targets(run) == [(4, 2, 3), (4, 5, 2), (4, 5, 6)]
    run.do_all(batch=2)
    assert breaking.replicas(partition) == (4, 5, 2)
    assert next_batch(run.context, 2) == 3
    run.do_all(batch=3)
    assert breaking.replicas(partition) == (4, 5, 6)


def test_r_is_exceeded_where_min_insync_takes_it(breaking: MovingLab):
    """R is 1, but with two of three replicas down producers wait until two more are in sync: both are added at once."""
    (partition,) = breaking.filled_topic((1, 2, 3), min_insync_replicas="3")
    run = breaking.run(*wide(partition), throttle_mb_per_second=RATE)
    breaking.kill(2)
    breaking.kill(3)
    eventually(lambda: breaking.cluster.describe_partitions([partition.topic])[partition].isr, lambda isr: isr == {1})
    assert run.start() == 1
    assert targets(run)[0] == (4, 5, 1)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    breaking.write(partition, messages=1, size_bytes=1_000)
    run.do_all("drop_old_replicas", "clear_throttle")
    assert breaking.replicas(partition) == (4, 5, 1)
    number = next_batch(run.context, 1)
    while number is not None:
        run.do_all(batch=number)
        number = next_batch(run.context, number)
    assert breaking.replicas(partition) == (4, 5, 6)
