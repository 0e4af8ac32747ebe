"""One batch on a fake cluster: killed anywhere, rerun in any order, with others about."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import OWN_STEPS, StillWaiting, move

from kafka_reassignment.advice import Correct, Rerun, StartBrokers, advice_as_data
from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.errors import (
    BatchIncompleteError,
    CatchUpTimeoutError,
    ClusterUnavailableError,
    NotSubmittedError,
    PolicyViolationError,
    ReassignmentInProgressError,
    ThrottleInUseError,
    ThrottleMissingError,
    UnsafeDropError,
    VerificationError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Refusal, TopicPartition
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.request import Job
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.cancel_scope import CancelScope
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


class ProcessDiedError(BaseException):
    """What a SIGKILL looks like from inside a test."""


def test_a_batch_ends_at_its_target_with_the_throttle_gone(reassignment):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all()
    assert run.replicas() == {"orders-0": (1, 3), "orders-1": (4, 3), "orders-2": (3, 1), "orders-3": (1, 2)}
    assert run.configs("orders") == before
    assert run.record.finished_batches() == {1}
    assert run.record.audit.verify() == len(OWN_STEPS)


def test_data_moves_under_the_throttle_only(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    configs = run.configs("orders")
    receiver = configs[ConfigResource.broker(3)]
    assert receiver["follower.replication.throttled.rate"].value == str(round(10_000_000 / 0.77))
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


class RacedCluster(FakeCluster):
    """Another client moves a partition between our look and our drop."""

    raced = dies = False

    def alter_reassignments(self, targets, *, allow_replication_factor_change=False):
        if not self.raced and targets.get(ORDERS_0) == (1, 3):
            self.raced = True
            super().alter_reassignments({ORDERS_0: (1, 2, 3, 5)}, allow_replication_factor_change=True)
            if self.dies:
                self.fail("alter_reassignments", ProcessDiedError(), applied=None)
        return super().alter_reassignments(targets, allow_replication_factor_change=allow_replication_factor_change)


def test_a_drop_that_would_hang_because_of_a_race_is_cancelled_at_once_and_submitted_again(reassignment, cluster):
    cluster.__class__ = RacedCluster
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    with pytest.raises(
        StillWaiting, match=r"RACED_BY_ANOTHER_CLIENT: .* \(adding 5, removing 2,5\), expected 1,3; ours was"
    ):
        run.do("drop_old_replicas")
    assert not cluster.list_reassignments()
    assert run.replicas()["orders-0"] == (1, 3, 2), "nothing is lost"
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_drop_that_hangs_because_the_process_died_in_a_race_is_freed_by_the_next_look(reassignment, cluster):
    cluster.__class__ = RacedCluster
    cluster.dies = True
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    with pytest.raises(ProcessDiedError):
        run.do("drop_old_replicas")
    assert never_completes(cluster.list_reassignments()[ORDERS_0])
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)
    assert not cluster.list_reassignments()


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


def test_a_large_batch_is_submitted_and_dropped_in_slices(reassignment, cluster):
    """Each submission stalls the producers of its partitions for a moment: never all of them at once."""
    cluster.create_topic("large", [(1, 2)] * 250)
    run = reassignment([move("large", n, (1, 2), (1, 3), 0) for n in range(250)])
    run.do_all()
    assert [len(targets) for targets in cluster.altered] == [100, 100, 50] * 2
    assert {replicas for p, replicas in run.replicas().items() if p.startswith("large")} == {(1, 3)}


class PolicedCluster(FakeCluster):
    """Its policy refuses some partitions, as KIP-179 foresees."""

    refused: frozenset[TopicPartition] = frozenset()

    def alter_reassignments(self, targets, *, allow_replication_factor_change=False):
        refusals = {p: Refusal("POLICY_VIOLATION", "not on a Friday") for p in targets if p in self.refused}
        allowed = {p: t for p, t in targets.items() if p not in refusals}
        replies = super().alter_reassignments(allowed, allow_replication_factor_change=allow_replication_factor_change)
        return replies | refusals


@pytest.fixture
def policed(cluster):
    cluster.__class__ = PolicedCluster
    return cluster


def test_a_partition_the_controller_refuses_is_left_out_and_reported(reassignment, policed):
    run = reassignment(MOVES)
    policed.refused = frozenset({ORDERS_1})
    run.do_all()
    assert run.record.finished(1).left_out == {"orders-1": "POLICY_VIOLATION: not on a Friday"}
    assert run.replicas()["orders-0"] == (1, 3)
    with pytest.raises(
        VerificationError,
        match=r"orders-1, but replica set is 2,3 rather than 4,3 \(left out: POLICY_VIOLATION: not on a Friday\)",
    ):
        run.finish()


def test_a_new_replica_of_a_tiered_topic_is_not_made_leader_before_it_has_something_to_serve(reassignment, cluster):
    cluster.create_topic("tiered", [(1, 2)], size_bytes=9_000_000, configs={"remote.storage.enable": "true"})
    cluster.catch_up_all()
    tiered = TopicPartition("tiered", 0)
    run = reassignment([move("tiered", 0, (1, 2), (3, 1)), move("orders", 0, (1, 2), (3, 1))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.copy(tiered, 3, 500_000)
    run.do_all("drop_old_replicas", "clear_throttle")
    elect_leaders(run.context)
    assert cluster.describe_partitions(["tiered"])[tiered].leader == 1
    assert cluster.describe_partitions(["orders"])[ORDERS_0].leader == 3
    summary = list(run.record.audit)[-1].summary
    assert "tiered-0 (broker 3 has 500.0 kB of it locally, its leader 1 9.0 MB)" in summary
    cluster.copy(tiered, 3, 5_000_000)
    elect_leaders(run.context)
    assert cluster.describe_partitions(["tiered"])[tiered].leader == 3


def test_a_broker_that_was_emptied_and_got_new_partitions_is_not_called_empty(reassignment, cluster):
    moves = [move("orders", 1, (2, 3), (2, 4)), move("orders", 2, (3, 1), (4, 1))]
    run = reassignment(moves, job=Job.DECOMMISSION, brokers=(3,), topics=("o*",))
    run.do_all()
    verify(run.context)
    cluster.create_topic("audit", [(3, 4)])
    verify(run.context)
    cluster.create_topic("orphans", [(3, 4), (4, 5)])
    with pytest.raises(
        VerificationError, match=r"broker 3 still hosts 1 partitions .*\(orphans-0\): do not shut it down"
    ):
        run.finish()


def test_a_batch_that_is_refused_whole_fails(reassignment, policed):
    run = reassignment(MOVES)
    policed.refused = frozenset({ORDERS_0, ORDERS_1})
    with pytest.raises(
        PolicyViolationError,
        match=r"refused every one of the 2 partitions of batch 1 \(orders-0, orders-1\) \(POLICY_VIOLATION: not on a Friday\)"
        r"\. Fix what the controller names: nothing of this batch was started, then rerun submit_batch of batch 1",
    ):
        run.do("submit_batch")


def test_a_stale_partition_is_left_out_and_the_rest_goes_on(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_1: (5, 6)})
    cluster.catch_up_all()
    run.do_all()
    assert run.replicas()["orders-0"] == (1, 3)
    assert run.replicas()["orders-1"] == (5, 6)
    assert "stale plan" in run.record.finished(1).left_out["orders-1"]


def test_what_somebody_moved_after_the_drop_is_left_out_and_the_batch_ends(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    cluster.alter_reassignments({ORDERS_1: (5, 6)})
    cluster.catch_up_all()
    run.do("clear_throttle")
    assert run.replicas()["orders-1"] == (5, 6)
    assert "stale plan" in run.record.finished(1).left_out["orders-1"]


def test_a_foreign_move_makes_the_batch_wait_and_says_so(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_1: (5, 6)})
    with pytest.raises(StillWaiting, match="batch 1 waits: another client is reassigning orders-1"):
        run.do("admit")


def test_a_full_disk_makes_the_batch_wait_and_says_so(reassignment, cluster):
    cluster.disk_bytes = 2_500_000
    run = reassignment(MOVES)
    with pytest.raises(
        StillWaiting, match=r"log dir /data of broker 3 has room for 250.* with 10% kept free, the batch brings 1"
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


def test_sensing_and_dropping_refuse_before_anything_was_submitted(reassignment):
    run = reassignment(MOVES)
    with pytest.raises(NotSubmittedError, match="orders-0, orders-1 of 2 partitions were never submitted") as sensed:
        run.do("sense_isr_catch_up")
    with pytest.raises(NotSubmittedError, match="was never submitted") as dropped:
        run.do("drop_old_replicas")
    assert sensed.value.advice == dropped.value.advice == (Rerun("submit_batch", batch=1),)
    assert run.cluster.altered == []


def test_what_another_client_cancels_or_moves_is_left_out_and_the_rest_goes_on_without_a_person(reassignment, cluster):
    run = reassignment([*MOVES, move("orders", 2, (3, 1), (3, 4))])
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None, ORDERS_1: (5, 6)}, allow_replication_factor_change=True)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 2)
    assert run.replicas()["orders-1"] == (5, 6)
    assert run.replicas()["orders-2"] == (3, 4)
    left_out = run.record.finished(1).left_out
    assert left_out["orders-0"] == "another client cancelled its reassignment: at 1,2"
    assert left_out["orders-1"].startswith("another client changed it: in flight to 5,6")
    assert next(e for e in run.record.audit if e.step == "leave_out").facts == {"left_out": left_out}
    assert run.configs("orders") == before
    assert next_batch(run.context, 1) is None


def test_what_another_client_cancelled_stays_left_out_when_the_batch_is_submitted_again(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    run.do("submit_batch")
    assert ORDERS_0 not in cluster.list_reassignments()
    assert run.record.submitted(1).left_out["orders-0"].startswith("another client cancelled")


def test_what_our_own_stop_cancelled_is_not_taken_for_another_clients_doing(reassignment, cluster):
    """After a resume a person reruns the sensor alone: it asks for the submission."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_done(lambda: run.settle(CancelScope()))
    resume(run.context, by="bob")
    with pytest.raises(NotSubmittedError, match="Rerun submit_batch of batch 1"):
        run.do("sense_isr_catch_up")
    run.do_all()
    assert run.record.finished(1).left_out == {}


def test_metadata_that_lags_is_not_mistaken_for_a_cancel(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle")
    with cluster.stale_metadata():
        run.do("submit_batch")
        cluster.catch_up(ORDERS_0, 3)
        run.clock.on_sleep.append(lambda: setattr(cluster, "_frozen", None))
        run.do("sense_isr_catch_up")


def test_old_replicas_are_kept_while_a_new_one_is_out_of_sync_and_dropped_when_it_is_back(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.fall_behind(ORDERS_0, 3)
    with pytest.raises(
        StillWaiting,
        match=r"1 of 2 partitions are at their target; .* orders-0 \(broker 3 of the target 1,3 is not in sync\)",
    ):
        run.do("drop_old_replicas")
    assert set(run.replicas()["orders-0"]) == {1, 2, 3}
    assert run.replicas()["orders-1"] == (4, 3)
    assert [e.facts["submitted"] for e in run.record.audit if e.step == "drop_old_replicas"] == [{"orders-1": [4, 3]}]
    cluster.catch_up_all()
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_replica_that_stays_out_of_sync_ends_the_wait_of_the_drop(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.kill(3)
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(
        UnsafeDropError, match="Waited 1 min for batch 1: 0 of 2 partitions are at their target"
    ) as late:
        run.wait("drop_old_replicas", started_at=started)
    assert late.value.advice == (StartBrokers((3,)), Rerun("sense_isr_catch_up", batch=1))
    cluster.restart(3)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.finished_batches() == {1}


def test_a_min_insync_above_the_target_is_to_be_lowered_before_the_drop_is_rerun(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (3,))], catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    least = ConfigResource.topic("orders"), "min.insync.replicas"
    cluster.alter_configs([ConfigChange(*least, ConfigOperation.SET, "2")])
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(UnsafeDropError) as late:
        run.wait("drop_old_replicas", started_at=started)
    correct, rerun = late.value.advice
    assert correct.what.startswith("lower min.insync.replicas (topic orders from 2 to 1)")
    assert rerun == Rerun("sense_isr_catch_up", batch=1)
    cluster.alter_configs([ConfigChange(*least, ConfigOperation.SET, "1")])
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (3,)


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


@pytest.mark.parametrize(
    ("key", "broker", "is_in_the_way"),
    [
        ("follower.replication.throttled.rate", 3, True),
        ("leader.replication.throttled.rate", 1, True),
        ("leader.replication.throttled.rate", 3, False),
    ],
)
def test_a_rate_of_another_client_under_which_replicas_did_not_catch_up_is_to_be_raised(
    reassignment, cluster, key, broker, is_in_the_way
):
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    by_hand = ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.SET, "123")
    assert not any(cluster.alter_configs([by_hand]).values())
    run.do_all("admit", "set_throttle", "submit_batch")
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=started)
    raised = Correct(
        f"raise or remove the rates that another client has set lower than ours ({key} of broker {broker})"
    )
    assert error.value.advice == (*([raised] if is_in_the_way else []), Rerun("sense_isr_catch_up", batch=1))


def test_replicas_that_never_catch_up_end_the_wait(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch")
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError, match=r"2 of 2 partitions did not catch up within 1 min"):
        run.wait("sense_isr_catch_up", started_at=started)


def test_a_deleted_topic_counts_as_done(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.delete_topic("orders")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.finished_batches() == {1}
    assert run.record.journal().is_settled


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
    run.store.acquire("fake-cluster", ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob"))
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
