"""KIP-435 on real brokers: few at once, and the limits change while it runs. The algorithm itself: tests/unit/planning/test_steps.py."""

import pytest
from tests.execution_lab import move
from tests.kips.moving_lab import MovingLab

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.execution import batch_steps
from kafka_reassignment.execution.batches import whole_batch
from kafka_reassignment.execution.context import StillWaiting
from kafka_reassignment.execution.schedule import order_limits
from kafka_reassignment.model import Reassignment
from kafka_reassignment.planning.steps import steps_for

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
    order_limits(run.step, {"partition_movements": 3, "replica_movements": 2}, by="bob")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert batch_steps.next_batch(run.step, 1) == 2
    assert run.record.plan_in_force().batches < 4
    assert len(whole_batch(run.record, 1).steps) == 1
    for number in range(2, run.record.plan_in_force().batches + 1):
        run.do_all(batch=number)
        batch_steps.next_batch(run.step, number)
    run.finish()
    assert [moving.replicas(p) for p in partitions] == targets


def test_limits_out_of_bounds_are_refused(moving: MovingLab):
    (partition,) = moving.create_topic([(1, 2)])
    run = moving.run([move(partition.topic, 0, (1, 2), (1, 3))], [move(partition.topic, 0, (1, 3), (1, 4))])
    with pytest.raises(InvalidRequestError, match="'replica_movements': Input should be greater than or equal to 1"):
        order_limits(run.step, {"replica_movements": 0}, by="bob")


def test_a_step_whose_target_broker_is_down_waits_and_the_rest_goes_on(breaking: MovingLab):
    waits, goes = breaking.filled_topic((1, 2), (2, 3))
    steps = [move(waits.topic, 0, (1, 2), (1, 6)), move(goes.topic, 1, (2, 3), (2, 4))]
    run = breaking.run(steps, throttle_mb_per_second=RATE)
    breaking.kill(6)
    run.do_all()
    assert breaking.replicas(goes) == (2, 4)
    assert breaking.replicas(waits) == (1, 2)
    assert batch_steps.next_batch(run.step, 1) == 2
    with pytest.raises(StillWaiting, match=f"{waits}: broker 6 of the target 1,6 is down"):
        run.do("admit", 2)
    breaking.restart(6)
    run.do_all(batch=2)
    run.finish()
    assert breaking.replicas(waits) == (1, 6)


def test_a_step_whose_partition_is_offline_waits_and_the_rest_goes_on(breaking: MovingLab):
    (offline,), (goes,) = breaking.filled_topic((6,)), breaking.filled_topic((2, 3))
    steps = [move(offline.topic, 0, (6,), (5,)), move(goes.topic, 0, (2, 3), (2, 4))]
    run = breaking.run(steps, throttle_mb_per_second=RATE)
    breaking.kill(6)
    run.do_all()
    assert breaking.replicas(goes) == (2, 4)
    assert batch_steps.next_batch(run.step, 1) == 2
    with pytest.raises(StillWaiting, match="the partition is offline"):
        run.do("admit", 2)
    breaking.restart(6)
    run.do_all(batch=2)
    assert breaking.replicas(offline) == (5,)
