"""What is kept of a look for people: bounded, and what holds a batch up comes first."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import move

from kafka_reassignment.decisions.progress import progress
from kafka_reassignment.decisions.progress_shown import MOST_BROKERS, MOST_POINTS, MOST_REPLICAS, progress_shown
from kafka_reassignment.decisions.samples import Sample
from kafka_reassignment.model import Batch, TopicPartition
from kafka_reassignment.steps.base.view import observe

pytestmark = pytest.mark.quick

AT = datetime(2026, 1, 1, tzinfo=UTC)


def looked_at(partitions, *, down=(), copied=6_000_000, seconds=30):
    """Each partition moves from brokers 1,2 to 1,3: 100 MB, of which ``copied`` bytes arrived within ``seconds``."""
    cluster = FakeCluster(auto_catch_up=False)
    cluster.create_topic("t", [(1, 2)] * partitions, size_bytes=100_000_000)
    steps = tuple(move("t", n, (1, 2), (1, 3), 100_000_000) for n in range(partitions))
    cluster.catch_up_all()
    assert not any(
        cluster.alter_reassignments(
            {s.partition: (1, 2, 3) for s in steps}, allow_replication_factor_change=True
        ).values()
    )
    for broker in down:
        cluster.kill(broker)
    samples = [
        Sample(float(at), {s.partition: {1: 100_000_000, 3: have} for s in steps})
        for at, have in ((0, 0), (seconds, copied))
    ]
    view = observe(cluster, tuple(s.partition for s in steps))
    return progress(Batch(1, steps), view, samples), view


def test_what_a_broker_sends_and_receives_is_the_sum_of_its_replicas():
    seen, view = looked_at(3)
    flows = {f.broker: (f.sent, f.received) for f in progress_shown(seen, view, AT).brokers}
    assert flows == {1: (600_000.0, None), 3: (None, 600_000.0)}


def test_a_flow_that_was_not_measured_is_none_and_not_zero():
    seen, view = looked_at(2, seconds=5)
    assert {(f.sent, f.received) for f in progress_shown(seen, view, AT).brokers} == {(None, None)}


def test_of_many_replicas_those_that_hold_the_batch_up_are_kept_and_all_are_counted():
    seen, view = looked_at(50, down=(3,))
    shown = progress_shown(seen, view, AT)
    assert shown.replicas_by_motion == {"stuck": 50}
    assert len(shown.replicas) == MOST_REPLICAS
    assert shown.replicas[0].reason == "broker 3 is down"
    assert (shown.replicas[0].leader, shown.replicas[0].broker, shown.replicas[0].replicas) == (1, 3, (1, 2, 3))


def test_of_many_brokers_the_busiest_are_kept():
    cluster = FakeCluster(dict.fromkeys(range(1, 202)), auto_catch_up=False)
    cluster.create_topic("t", [(1,)] * 200, size_bytes=100_000_000)
    steps = tuple(move("t", n, (1,), (2 + n,), 100_000_000) for n in range(200))
    cluster.alter_reassignments(
        {s.partition: (1, 2 + n) for n, s in enumerate(steps)}, allow_replication_factor_change=True
    )
    have = {s.partition: {1: 100_000_000, 2 + n: n * 100_000} for n, s in enumerate(steps)}
    before = {s.partition: {1: 100_000_000} for s in steps}
    view = observe(cluster, tuple(s.partition for s in steps))
    seen = progress(Batch(1, steps), view, [Sample(0.0, before), Sample(30.0, have)])
    kept = [f.broker for f in progress_shown(seen, view, AT).brokers]
    assert len(kept) == MOST_BROKERS
    assert kept == [1, *range(201 - MOST_BROKERS + 2, 202)]


def test_the_speed_over_time_is_thinned_so_that_it_goes_back_to_the_begin_of_the_batch():
    seen, view = looked_at(1)
    history = ()
    for look in range(1_000):
        history = progress_shown(seen, view, AT + timedelta(seconds=10 * look), history).history
        assert len(history) <= MOST_POINTS
    assert history[0].at == AT
    assert history[-1].at == AT + timedelta(seconds=9_990)
    assert [p.at for p in history] == sorted(p.at for p in history)


def test_a_partition_that_is_gone_has_no_leader():
    seen, view = looked_at(1)
    view.partitions.pop(TopicPartition("t", 0))
    (replica,) = progress_shown(seen, view, AT).replicas
    assert (replica.leader, replica.replicas, replica.isr) == (None, (), ())
