"""A broker that dies after a batch was submitted, and what goes on without it."""

from __future__ import annotations

from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move

from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.steps.batch import next_batch

ORDERS_0 = TopicPartition("orders", 0)
TO_4 = move("orders", 0, (1, 2), (1, 4))
TO_5 = move("orders", 1, (2, 3), (5, 3))
LATER = move("orders", 2, (3, 1), (3, 6))
FOLLOWERS = "follower.replication.throttled.replicas"


def pass_minutes(run: Run, cluster: FakeCluster) -> Run:
    """Let a minute pass at each look, and live replicas catch up."""
    looks = 0

    def minute() -> None:
        nonlocal looks
        looks += 1
        assert looks < 100, "it does not end"
        run.clock.sleep(60)
        cluster.catch_up_all()

    run.when_waiting = minute
    return run


def submitted_then_dead(run: Run, cluster: FakeCluster, broker: int = 4) -> None:
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(broker)
    run.when_waiting()


def leave_open(run: Run, cluster: FakeCluster) -> None:
    """Submit the first batch, kill broker 4, and let the batch end without the partitions that need it."""
    submitted_then_dead(run, cluster)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).left_open


def to_the_end(run: Run, number: int) -> None:
    following: int | None = number
    while (following := next_batch(run.context, following)) is not None:
        run.do_all(batch=following)
    run.finish()


def followers(run: Run) -> str:
    """The throttled followers of topic orders."""
    return run.configs("orders")[ConfigResource.topic("orders")][FOLLOWERS].value
