"""One batch on a fake cluster: killed anywhere, rerun in any order, with others about."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import OWN_STEPS, ProcessDiedError, StillWaiting, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0

from kafka_reassignment.advice import Rerun, advice_as_data
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.errors import (
    BatchIncompleteError,
    ClusterUnavailableError,
    ReassignmentInProgressError,
    ThrottleInUseError,
    ThrottleMissingError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer


def test_a_batch_ends_at_its_target_with_the_throttle_gone(reassignment):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all()
    assert run.replicas() == {"orders-0": (1, 3), "orders-1": (4, 3), "orders-2": (3, 1), "orders-3": (1, 2)}
    assert run.configs("orders") == before
    assert run.record.finished_batches() == {1}
    assert run.record.audit.verify() == len(OWN_STEPS) + 1  # a drop is announced before it is done


def test_data_moves_under_the_throttle_only(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    configs = run.configs("orders")
    receiver = configs[ConfigResource.broker(3)]
    assert receiver["follower.replication.throttled.rate"].value == "10000000"
    orders = configs[ConfigResource.topic("orders")]
    assert set(orders["follower.replication.throttled.replicas"].value.split(",")) == {"0:3", "1:4"}
    assert set(orders["leader.replication.throttled.replicas"].value.split(",")) == {"0:1", "0:2", "1:2", "1:3"}


def test_submitting_alone_puts_the_throttle_back_first(reassignment):
    """Airflow's "clear only failed" reruns submit_batch without its setup."""
    run = reassignment(MOVES)
    run.do_all("admit", "submit_batch")
    calls = run.cluster.calls
    assert calls.index("alter_configs") < calls.index("alter_reassignments")


def test_nothing_is_submitted_when_the_throttle_cannot_be_put_in_place(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.kill(3, fenced=False)
    with pytest.raises(
        ThrottleMissingError, match=r"throttle of batch 1 is not in place: .*no data is moved without it"
    ):
        run.do("submit_batch")
    assert cluster.altered == []


def test_an_unthrottled_request_sets_nothing(reassignment):
    run = reassignment(MOVES, throttle_mb_per_second=None, unthrottled=True)
    run.do_all()
    assert "alter_configs" not in run.cluster.calls
    assert run.record.finished_batches() == {1}


def test_the_throttle_stays_while_moves_are_in_flight(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    during = run.configs("orders")
    with pytest.raises(
        ThrottleInUseError, match=r"2 of 2 partitions of batch 1 are still reassigning \(orders-0, orders-1\)"
    ):
        run.do("clear_throttle")
    assert run.configs("orders") == during


def test_clearing_before_anything_was_submitted_clears_and_fails_so_that_it_is_rerun(reassignment):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    with pytest.raises(BatchIncompleteError, match="The throttle is cleared, but batch 1 is not done"):
        run.do("clear_throttle")
    assert run.configs("orders") == before


def test_values_that_were_there_before_are_found_again_exactly(reassignment, cluster):
    def by_hand(resource, key, value):
        assert not any(cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)]).values())

    by_hand(ConfigResource.broker(3), "follower.replication.throttled.rate", "123")
    by_hand(ConfigResource.topic("orders"), "leader.replication.throttled.replicas", "3:1,0:1")
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all()
    assert run.configs("orders") == before


def test_what_another_adds_meanwhile_is_left_alone(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    orders, key = ConfigResource.topic("orders"), "follower.replication.throttled.replicas"
    cluster.alter_configs([ConfigChange(orders, key, ConfigOperation.APPEND, "3:6")])
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.configs("orders")[orders][key].value == "3:6"


class WatchedCluster(FakeCluster):
    """Keeps the names of the configs that were written."""

    written: frozenset[str] = frozenset()

    def alter_configs(self, changes):
        self.written |= {c.key for c in changes}
        return super().alter_configs(changes)


def test_a_batch_writes_no_config_but_the_throttles(reassignment, cluster):
    """Above all not min.insync.replicas: a change of it clears the eligible leader replicas (KIP-966)."""
    cluster.__class__ = WatchedCluster
    run = reassignment(MOVES)
    run.do_all()
    run.finish()
    assert cluster.written == set(THROTTLE_KEYS)


def test_a_full_disk_makes_the_batch_wait_and_says_so(reassignment, cluster):
    cluster.disk_bytes = 2_500_000
    run = reassignment(MOVES)
    with pytest.raises(
        StillWaiting, match=r"log dir /data of broker 3 has room for 250.* with 10% kept free, the batch may bring 1"
    ):
        run.do("admit")


def test_a_dead_target_makes_the_batch_wait_and_says_so(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.kill(3)
    with pytest.raises(StillWaiting, match="broker 3 of the target 1,3 is down"):
        run.do("admit")
    cluster.restart(3)
    run.do_all()
    assert run.record.finished_batches() == {1}


def test_a_step_that_the_cluster_does_not_answer_leaves_the_advice_to_rerun_it(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit")
    cluster.cut_off()
    with pytest.raises(ClusterUnavailableError) as error:
        run.do("set_throttle")
    cluster.reconnect()
    rerun = Rerun("set_throttle", batch=1)
    assert error.value.advice == (rerun,)
    assert [e.facts["advice"] for e in run.record.audit if e.outcome == "failed"] == [advice_as_data([rerun])]


def test_a_later_batch_waits_for_the_earlier_one(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]])
    with pytest.raises(BatchIncompleteError, match="Batch 2 must wait for batch 1, which is not finished"):
        run.do("admit", 2)
    with pytest.raises(BatchIncompleteError, match="Batch 1 is not finished, so batch 2 must not start"):
        run.do("next_batch")


def test_the_chain_starts_at_the_first_unfinished_batch_and_ends_after_the_last(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]])
    assert run.start() == 1
    run.do_all(batch=1)
    assert run.do("next_batch") == 2
    assert run.start() == 2
    run.do_all(batch=2)
    assert run.do("next_batch", 2) is None
    assert run.start() is None
    run.finish()
    assert run.store.lock_owner("fake-cluster") is None


def test_a_step_refuses_when_another_reassignment_has_the_cluster_by_now(reassignment):
    run = reassignment(MOVES)
    run.store.release("fake-cluster", "r")
    other = ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob")
    run.store.record("fake-cluster", "other").write_request(run.record.recorded_request())
    run.store.acquire("fake-cluster", other)
    for name in ("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas"):
        with pytest.raises(ReassignmentInProgressError, match="locked by reassignment other, asked for by bob"):
            run.do(name)
    assert run.cluster.altered == []


@pytest.mark.parametrize("applied", [0, 1, None], ids=["before", "half-way", "after"])
@pytest.mark.parametrize("call", ["alter_configs", "alter_reassignments"])
@pytest.mark.parametrize("number", [1, 2], ids=["first call", "second call"])
@pytest.mark.parametrize(
    "death", [ProcessDiedError(), ClusterUnavailableError("no answer")], ids=["killed", "timed out"]
)
def test_dying_in_the_middle_of_any_write_and_rerunning_the_step_ends_the_same(
    reassignment, cluster, applied, call, number, death
):
    run = reassignment(MOVES)
    before = run.configs("orders")
    calls = 0
    for name in OWN_STEPS:
        if calls < number and name in {"set_throttle", "submit_batch", "drop_old_replicas", "clear_throttle"}:
            changes = {
                "alter_configs": {"set_throttle", "clear_throttle"},
                "alter_reassignments": {"submit_batch", "drop_old_replicas"},
            }
            if name in changes[call]:
                calls += 1
                if calls == number:
                    cluster.fail(call, death, applied=applied)
                    is_waited_for = name == "drop_old_replicas" and isinstance(death, ClusterUnavailableError)
                    with pytest.raises(StillWaiting if is_waited_for else type(death)):
                        run.do(name)
        run.do_all(name)
    assert calls == number
    run.finish()
    assert run.replicas() == {"orders-0": (1, 3), "orders-1": (4, 3), "orders-2": (3, 1), "orders-3": (1, 2)}
    assert run.configs("orders") == before
    assert run.record.audit.verify() > 0


def test_an_audit_event_tells_who_what_and_the_values_before(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    submitted = [e for e in run.record.audit if e.step == "submit_batch"][-1]
    assert submitted.actor.requested_by == "ann"
    assert submitted.plan_hash == run.record.frozen_plan().plan_hash
    assert submitted.facts["submitted"] == {"orders-0": [1, 2, 3], "orders-1": [2, 3, 4]}
    assert submitted.facts["replicas_before"] == {"orders-0": [1, 2], "orders-1": [2, 3]}
    throttle = [e for e in run.record.audit if e.step == "set_throttle"][-1].facts["throttle"]
    assert throttle["asked_bytes_per_second"] == 10_000_000
    assert any("follower.replication.throttled.rate" in change for change in throttle["changes"])


# What a finished batch says of itself


def test_what_was_deleted_counts_neither_as_a_partition_nor_as_copied(reassignment, cluster):
    cluster.create_topic("gone", [(1, 2)])
    run = reassignment([*MOVES, move("gone", 0, (1, 2), (1, 3), 500_000_000_000)])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.delete_topic("gone")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    done = run.record.finished(1)
    assert (done.partitions, done.bytes_copied) == (2, 2_000_000)
    elect_leaders(run.context)
    verify(run.context)
    assert "steps of partitions: 2, copied: 0.002 GB" in write_report(run.context)


def test_what_was_at_its_target_before_the_batch_began_is_not_copied_also_where_it_is_submitted_again(
    reassignment, cluster
):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_0: (1, 3)})
    cluster.catch_up_all()
    run.do_all("admit", "set_throttle", "submit_batch")
    assert run.record.submitted(1).done_before == ("orders-0",)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "submit_batch")
    assert run.record.submitted(1).done_before == ("orders-0",), "orders-1 is at its target too, and was copied"
    run.do("clear_throttle")
    done = run.record.finished(1)
    assert (done.partitions, done.bytes_copied) == (2, 1_000_000)


def test_what_is_moved_away_and_submitted_again_is_copied_after_all(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_0: (1, 3)})
    cluster.catch_up_all()
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: (1, 2)})
    cluster.catch_up_all()
    run.do("submit_batch")
    assert run.record.submitted(1).done_before == ()
