"""A batch on a controller that takes one batch at a time, as below Kafka 2.4."""

from dataclasses import replace

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, StillWaiting, move
from tests.unit.steps.throttle_lab import ORDERS_0, ORDERS_1, rate
from upath import UPath

from kafka_reassignment.errors import ControllerBusyError, StoppedError, is_worth_a_retry
from kafka_reassignment.model import Refusal, TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope

pytestmark = pytest.mark.quick

BUSY = Refusal("REASSIGNMENT_IN_PROGRESS", "payments-0 is there. Submit again when it is done.")
MOVES = [move("orders", n, (1, 2), (3, 2)) for n in range(150)]


class OneAtATime(FakeCluster):
    """Busy with what is in flight, and for some asks with another client's batch; knows of each submission its partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.busy_for = 0
        self.taken: list[int] = []

    def describe_cluster(self):
        return replace(super().describe_cluster(), has_reassignment_api=False)

    def alter_reassignments(self, targets, **options):
        if self.busy_for:
            self.busy_for -= 1
            return dict.fromkeys(targets, BUSY)
        if self.list_reassignments():
            return dict.fromkeys(targets, BUSY)
        self.taken.append(len(targets))
        return super().alter_reassignments(targets, **options)


@pytest.fixture
def cluster():
    fake = OneAtATime()
    fake.create_topic("orders", [(1, 2)] * 150, size_bytes=1_000)
    return fake


@pytest.fixture
def run(cluster, tmp_path):
    return Run(cluster, UPath(tmp_path), [MOVES], throttle_mb_per_second=None, unthrottled=True)


def test_expansions_go_together_and_drops_in_slices(run, cluster):
    run.do_all()
    assert cluster.taken == [150, 100, 50]


@pytest.mark.parametrize("name", ["submit_batch", "drop_old_replicas"])
def test_a_submission_waits_for_the_batch_before_it(run, cluster, name):
    run.do_all("submit_batch", "sense_isr_catch_up") if name == "drop_old_replicas" else None
    cluster.busy_for = 20
    run.do_all(name)
    assert sum(cluster.taken) == (150 if name == "submit_batch" else 300)


def test_a_batch_that_stays_is_reported_after_a_minute_and_nothing_is_left_out(run, cluster):
    cluster.busy_for = 1_000
    began = run.clock.now
    with pytest.raises(ControllerBusyError) as refused:
        run.do("submit_batch")
    assert is_worth_a_retry(refused.value)
    assert str(refused.value) == (
        "Batch 1 was not submitted: payments-0 is there. Submit again when it is done. Wait until the controller has "
        "finished what it has, then rerun submit_batch of batch 1 and what follows"
    )
    assert 60 <= (run.clock.now - began).total_seconds() < 65
    assert run.record.submitted(1) is None
    cluster.busy_for = 0
    run.do_all()
    assert run.replicas()["orders-149"] == (3, 2)


def test_a_drop_that_finds_another_batch_says_so_asks_for_no_more_and_goes_on_when_it_is_done(run, cluster):
    run.do_all("submit_batch", "sense_isr_catch_up")
    cluster.busy_for = 1_000
    with pytest.raises(StillWaiting, match=r"REASSIGNMENT_IN_PROGRESS: payments-0 is there"):
        run.do("drop_old_replicas")
    [_, event] = [e for e in run.record.audit if e.step == "drop_old_replicas"]
    assert len(event.facts["refused"]) == 100
    cluster.busy_for = 0
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-149"] == (3, 2)


def test_a_stop_ends_the_waiting(run, cluster):
    cluster.busy_for = 1_000
    run.clock.on_sleep.append(lambda: cancel.stop(run.context, CancelScope(), by="bob"))
    with pytest.raises(StoppedError):
        run.do("submit_batch")
    assert cluster.taken == []
    assert TopicPartition("orders", 0) not in cluster.list_reassignments()


def test_a_batch_with_a_dead_old_replica_copies_at_the_rate_that_was_asked_for(cluster, tmp_path):
    """The target itself is submitted then: it is in flight from the beginning."""
    run = Run(cluster, UPath(tmp_path), [MOVES[:1]], throttle_mb_per_second=10)
    before = run.configs("orders")
    cluster.copy_over_time()
    cluster.kill(1)
    run.do_all("admit", "set_throttle", "submit_batch")
    assert cluster.list_reassignments()[ORDERS_0].adding == (3,)
    assert rate(run, 2, "leader.replication.throttled.rate") == 10_000_000
    assert rate(run, 3, "follower.replication.throttled.rate") == 10_000_000
    run.when_waiting = cluster.catch_up_all
    run.do_all("sense_isr_catch_up", "drop_old_replicas")
    cluster.restart(1)
    run.do("clear_throttle")
    assert run.replicas()["orders-0"] == (3, 2)
    assert run.configs("orders") == before


def test_a_batch_of_which_some_old_replicas_are_out_of_sync_is_one_request(cluster, tmp_path):
    """Their target is submitted itself, with as many replicas as before; of the others the expansion is."""
    run = Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (1, 3)), MOVES[1]]])
    cluster.copy_over_time()
    cluster.fall_behind(ORDERS_0, 2)
    run.do_all("admit", "set_throttle", "submit_batch")
    assert cluster.altered == [{ORDERS_0: (1, 3), ORDERS_1: (1, 2, 3)}]
    run.when_waiting = cluster.catch_up_all
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert [run.replicas()[f"orders-{n}"] for n in (0, 1)] == [(1, 3), (3, 2)]
