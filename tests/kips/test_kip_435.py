"""KIP-435 on real brokers: few at once, and the limits change while it runs. The algorithm itself: tests/unit/planning/test_steps.py."""

import pytest
from tests.kips.moving_lab import MovingLab
from tests.steps_lab import StillWaiting, move

from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import Reassignment
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.recorded_batch import whole_batch

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
