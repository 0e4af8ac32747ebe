"""The catch-up and the drop of a batch on a fake cluster: what is not safe is waited for, and a race loses nothing."""

from dataclasses import replace

import pytest
from tests.fakes.cluster import FakeCluster
from tests.simulation.disk import SimDisk
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place
from tests.steps_lab import ProcessDiedError, Run, StillWaiting, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1

from kafka_reassignment.advice import Correct, Rerun, StartBrokers, Trigger, advice_as_data
from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import (
    CatchUpTimeoutError,
    ClusterUnavailableError,
    NotSubmittedError,
    UnsafeDropError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.plan import tables
from kafka_reassignment.record import objects
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.moves import cancel
from kafka_reassignment.steps.base.waiting import SizeSamples, Waiting
from kafka_reassignment.steps.cancel import stop
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.rate import change_rate

pytestmark = pytest.mark.longer


class RacedCluster(FakeCluster):
    """Another client moves a partition between our look and our drop."""

    raced = dies = False

    def alter_reassignments(self, targets, **options):
        if not self.raced and targets.get(ORDERS_0) == (1, 3):
            self.raced = True
            super().alter_reassignments({ORDERS_0: (1, 2, 3, 5)}, allow_replication_factor_change=True)
            if self.dies:
                self.fail("alter_reassignments", ProcessDiedError(), applied=None)
        return super().alter_reassignments(targets, **options)


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


@pytest.mark.parametrize(
    "death", [ProcessDiedError(), ClusterUnavailableError("no answer")], ids=["killed", "timed out"]
)
def test_an_expansion_that_hangs_because_its_try_died_in_a_race_is_freed_by_the_next_try(
    reassignment, cluster, monkeypatch, death
):
    """F34: another client moves the partition right before our expansion arrives, whose answer never does."""
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    alter = cluster.alter_reassignments

    def raced(*args, **options):
        monkeypatch.undo()
        alter({ORDERS_0: (2, 3, 5)}, allow_replication_factor_change=True)
        cluster.fail("alter_reassignments", death, applied=None)
        return alter(*args, **options)

    monkeypatch.setattr(cluster, "alter_reassignments", raced)
    with pytest.raises(type(death)):
        run.do("submit_batch")
    assert never_completes(cluster.list_reassignments()[ORDERS_0])
    run.do("submit_batch")
    assert not never_completes(cluster.list_reassignments()[ORDERS_0])
    assert "orders-0" in run.record.submitted(1).accepted
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)
    assert run.configs("orders") == before
    freed = [e.facts["freed"] for e in run.record.audit if "freed" in e.facts]
    assert freed == [{"orders-0": "replicas 1,2"}]


def test_a_timeout_advises_to_cancel_what_kafka_never_completes(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch")
    started = run.clock.now
    for target in ((2, 3, 5), (1, 2, 3)):  # another client's move, and our request once more, which arrives late
        cluster.alter_reassignments({ORDERS_0: target}, allow_replication_factor_change=True)
    assert never_completes(cluster.list_reassignments()[ORDERS_0])
    free = Trigger("kafka_reassignment_cancel", {"reassignment_id": "r", "partitions": ["orders-0"]})
    with pytest.raises(StillWaiting):
        run.wait("sense_isr_catch_up", started_at=started)
    assert advice_as_data([free])[0] in run.record.progress().advice
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError, match="never completes") as error:
        run.wait("sense_isr_catch_up", started_at=started)
    assert error.value.advice[-2:] == (free, Rerun("sense_isr_catch_up", batch=1))
    scope = CancelScope(partitions=tuple(free.params["partitions"]))
    stop(run.context, scope, by="ann")
    run.until_settled(scope)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 2)
    assert run.replicas()["orders-1"] == (4, 3)


def test_a_cancel_that_would_delete_the_only_copy_in_sync_is_not_asked_for(reassignment, cluster):
    """F15: KRaft would refuse it. A controller with ZooKeeper cancels, and the partition is lost."""
    run = reassignment([move("orders", 0, (1, 2), (3, 4))])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up(ORDERS_0, 3)
    cluster.kill(1)
    cluster.kill(2)
    assert cluster.describe_partitions(["orders"])[ORDERS_0].isr == {3}
    asked = len(cluster.altered)
    refused = cancel(run.context, [ORDERS_0])
    assert {str(p): str(r) for p, r in refused.items()} == {
        "orders-0": "NO_REPLICA_IN_SYNC: only broker 3 is in sync, and a cancel deletes its copy"
    }
    assert len(cluster.altered) == asked


def test_a_large_batch_is_submitted_and_dropped_in_slices(reassignment, cluster):
    """Each submission stalls the producers of its partitions for a moment: never all of them at once."""
    cluster.create_topic("large", [(1, 2)] * 250)
    run = reassignment([move("large", n, (1, 2), (1, 3), 0) for n in range(250)])
    run.do_all()
    assert [len(targets) for targets in cluster.altered] == [100, 100, 50] * 2
    assert {replicas for p, replicas in run.replicas().items() if p.startswith("large")} == {(1, 3)}


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


def test_sensing_and_dropping_refuse_before_anything_was_submitted(reassignment):
    run = reassignment(MOVES)
    with pytest.raises(NotSubmittedError, match="orders-0, orders-1 of 2 partitions were never submitted") as sensed:
        run.do("sense_isr_catch_up")
    with pytest.raises(NotSubmittedError, match="was never submitted") as dropped:
        run.do("drop_old_replicas")
    assert sensed.value.advice == dropped.value.advice == (Rerun("submit_batch", batch=1),)
    assert run.cluster.altered == []


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
    events = [e for e in run.record.audit if e.step == "drop_old_replicas"]
    assert [(e.outcome, e.facts.get("targets"), e.facts.get("submitted")) for e in events] == [
        ("begun", {"orders-1": [4, 3]}, None),
        ("succeeded", None, {"orders-1": [4, 3]}),
    ]
    cluster.catch_up_all()
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (1, 3)


class FallingBehindCluster(FakeCluster):
    """A new replica falls behind once the step has looked at the ISR, while it submits the first slice."""

    fallen = False

    def alter_reassignments(self, targets, **options):
        replies = super().alter_reassignments(targets, **options)
        if not self.fallen and targets.get(ORDERS_1) == (3, 2):
            self.fallen = True
            self.fall_behind(ORDERS_0, 3)
        return replies


def test_a_target_that_has_left_the_isr_since_the_look_keeps_the_old_replicas(reassignment, cluster):
    cluster.__class__ = FallingBehindCluster
    run = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (3, 2))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    with pytest.raises(
        StillWaiting,
        match=r"orders-0 \(it is refused now: TARGET_LEFT_ISR: broker 3 of its target has left the ISR; nothing was",
    ):
        run.do("drop_old_replicas")
    assert cluster.fallen
    assert set(run.replicas()["orders-0"]) == {1, 2, 3}
    assert not cluster.list_reassignments(), "nothing was submitted that Kafka would have to hold"
    cluster.catch_up_all()
    run.do_all("drop_old_replicas", "clear_throttle")
    seen = run.replicas()
    assert (seen["orders-0"], seen["orders-1"]) == ((1, 3), (3, 2))


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
    doubled = Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 20.0})
    assert error.value.advice == (raised if is_in_the_way else doubled, Rerun("sense_isr_catch_up", batch=1))


def test_a_rate_of_another_client_that_keeps_a_replica_that_stays_out_of_sync_is_to_be_raised(reassignment, cluster):
    """Out of sync it is fetched under the leader's rate, as a new one is."""
    run = reassignment([move("orders", 0, (1, 2), (3, 2))], catch_up_timeout_minutes=1)
    key = "leader.replication.throttled.rate"
    by_hand = ConfigChange(ConfigResource.broker(1), key, ConfigOperation.SET, "1100000")
    assert not any(cluster.alter_configs([by_hand]).values())
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up(ORDERS_0, 3)
    cluster.fall_behind(ORDERS_0, 2)
    cluster.hold_back(ORDERS_0, 2)
    raised, look, rerun = late(run).advice
    assert raised == Correct(
        f"raise or remove the rates that another client has set lower than ours ({key} of broker 1)"
    )
    assert look.what.startswith("look at the log of broker 2, whose replicas of orders-0 do not get into sync")
    assert rerun == Rerun("sense_isr_catch_up", batch=1)


@pytest.mark.parametrize(
    ("lowered", "advised"),
    [
        ({"brokers": [4]}, [(1, "leader", 20.0), (3, "follower", 20.0)]),
        ({"brokers": [3]}, [(3, "follower", 4.0)]),
        ({"brokers": [1, 3], "sides": [Side.LEADER]}, [(1, "leader", 4.0)]),
    ],
    ids=["a broker that is not waited for", "the receiver", "the sender"],
)
def test_what_is_advised_is_about_the_brokers_that_are_waited_for_and_lowers_none(
    reassignment, cluster, lowered, advised
):
    """It went by the slowest broker of all: twice of that was less than what the late ones had."""
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_rate(run.context, asked_bytes_per_second=2_000_000, **lowered)
    cluster.catch_up(MOVES[1].partition, 4)
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=started)
    found = [t.params for t in error.value.advice if isinstance(t, Trigger)]
    assert found == [
        {"reassignment_id": "r", "throttle_mb_per_second": mb, "brokers": [broker], "side": side}
        for broker, side, mb in advised
    ]


def test_the_advised_rate_is_one_that_is_accepted(reassignment):
    """Twice 0.4 MB/s is less than Kafka can hold accurately: kafka_throttle refused it."""
    run = reassignment(MOVES, catch_up_timeout_minutes=1, throttle_mb_per_second=0.4, allow_low_throttle=True)
    run.do_all("admit", "set_throttle", "submit_batch")
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=started)
    advised = error.value.advice[0].params["throttle_mb_per_second"]
    assert advised == 1
    change_rate(run.context, asked_bytes_per_second=round(advised * 1_000_000))


def late(run):
    """Look each 20 s until the time that the request allows is over; return the error."""
    started, samples = run.clock.now, SizeSamples.by_clock_of(run.context)
    while isinstance(result := run.look("sense_isr_catch_up", started_at=started, samples=samples), Waiting):
        run.clock.sleep(20)
    return result.error


REPAIR_4 = Correct(
    "repair the log dirs of broker 4 that have failed, /data (KAFKA_STORAGE_ERROR), and restart it; or trigger "
    "kafka_reassignment_cancel, and ask again for a plan without broker 4 (in exclude_brokers where it was to get replicas, by "
    "the job decommission where it has them)"
)


@pytest.mark.parametrize(
    "moved", [move("orders", 0, (1, 2), (1, 4)), move("more", 0, (1, 4), (5, 4))], ids=["new", "stays"]
)
def test_a_log_dir_that_has_failed_is_to_be_repaired_and_no_rate_is_raised(reassignment, cluster, moved):
    """The rate was to be doubled again and again, and nothing was copied at any."""
    cluster.create_topic("more", [(1, 4)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = reassignment([moved], catch_up_timeout_minutes=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fail_log_dir(4)
    cluster.catch_up_all()
    error = late(run)
    assert error.advice == (REPAIR_4, Rerun("sense_isr_catch_up", batch=1))
    assert run.record.progress().advice == tuple(advice_as_data((REPAIR_4,)))


def test_no_end_is_promised_while_a_replica_that_stays_holds_the_batch_up(reassignment, cluster):
    """It was "0 bytes left, about 0 s; blocked: ...; all is expected to be over 12:10 UTC", for hours."""
    run = reassignment([move("orders", 1, (2, 3), (4, 3))])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    cluster.fall_behind(MOVES[1].partition, 3)
    waiting = run.look("sense_isr_catch_up")
    note = run.record.progress()
    assert "0 bytes left, time left unknown; blocked: orders-1 (broker 3, which stays, is out of sync" in note.text
    assert "is expected to be over" not in note.text
    assert (note.ends_at, note.seconds_left, waiting.seconds_left) == (None, None, None)
    assert note.partitions_blocked == 1


def test_a_replica_that_copies_nothing_is_to_be_looked_at_and_the_rate_of_the_others_is_raised(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    began = run.clock.now
    run.clock.on_sleep.append(lambda: cluster.copy(ORDERS_0, 3, round(1000 * (run.clock.now - began).total_seconds())))
    assert late(run).advice == (
        Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 20}),
        Correct(
            "look at the log of broker 4, whose replicas of orders-1 do not get into sync: its log dir may be offline, or it "
            "needs a restart"
        ),
        Rerun("sense_isr_catch_up", batch=1),
    )


def test_a_broker_that_does_not_tell_what_it_copies_is_not_to_be_restarted_and_the_rate_is_raised(
    reassignment, cluster, monkeypatch
):
    """What its replicas copy is not known: a restart changes nothing, and a higher rate was not advised."""
    run = reassignment(MOVES[:1], catch_up_timeout_minutes=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    seen = cluster.describe_log_dirs

    def all_but_3(*asked):
        report = seen(*asked)
        return replace(
            report,
            replicas=tuple(r for r in report.replicas if r.broker != 3),
            log_dirs=tuple(d for d in report.log_dirs if d.broker != 3),
            unreachable={3: "Request timed out"},
        )

    monkeypatch.setattr(cluster, "describe_log_dirs", all_but_3)
    rate = Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 20})
    assert late(run).advice == (rate, Rerun("sense_isr_catch_up", batch=1))
    assert "broker 3 does not report its log dirs" in run.record.progress().text
    assert run.record.progress().advice == ()


def test_a_move_that_never_completes_is_to_be_cancelled_and_no_broker_restarted(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))], catch_up_timeout_minutes=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    other = cluster.another_client()
    for target in ((1, 4), (1, 3)):
        other.alter_reassignments({ORDERS_0: target}, allow_replication_factor_change=True)
    error = late(run)
    (advised,) = run.record.progress().advice
    assert advised["dag_id"] == "kafka_reassignment_cancel"
    assert [getattr(a, "dag_id", None) for a in error.advice] == ["kafka_reassignment_cancel", None]


def test_a_rate_at_which_a_replica_may_wait_for_its_turn_is_to_be_raised(reassignment):
    run = reassignment(
        MOVES[:1], catch_up_timeout_minutes=2, throttle_mb_per_second=0.01, allow_low_throttle=True, keep_free_share=0
    )
    run.do_all("set_throttle", "submit_batch")
    rate = Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 1})
    assert late(run).advice == (rate, Rerun("sense_isr_catch_up", batch=1))


def test_replicas_that_never_catch_up_end_the_wait(reassignment):
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch")
    started = run.clock.now
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError, match=r"2 of 2 partitions did not catch up within 1 min"):
        run.wait("sense_isr_catch_up", started_at=started)


def test_a_partition_that_kafka_gives_no_leader_any_more_is_for_a_person(reassignment, cluster):
    """F19: after a change of min.insync.replicas nobody leads it, also when all brokers are back."""
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch")
    started = run.clock.now
    cluster.kill(2)
    cluster.kill(1)
    topic = ConfigResource.topic(ORDERS_0.topic)
    changed = ConfigChange(topic, "min.insync.replicas", ConfigOperation.SET, "2")
    assert not any(cluster.alter_configs([changed]).values())
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=started)
    assert error.value.advice[0] == StartBrokers((1, 2))
    cluster.restart(1)
    cluster.restart(2)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=started)
    assert str(error.value.advice[0]).startswith("give orders-0 a leader")
    assert error.value.advice[-1] == Rerun("sense_isr_catch_up", batch=1)


def test_no_dead_broker_outside_the_isr_hides_that_a_live_one_gives_it_no_leader(reassignment, cluster):
    """The log dir of the last in sync has failed. The advice was to rerun alone, for ever, as an old replica was dead as well."""
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    run.do_all("admit", "set_throttle", "submit_batch")
    started, describe = run.clock.now, cluster.describe_partitions

    def without_leader(*topics):
        return {
            p: replace(s, isr=frozenset({1}), leader=None) if p == ORDERS_0 else s for p, s in describe(*topics).items()
        }

    cluster.describe_partitions = without_leader
    cluster.kill(2)
    run.clock.sleep(61)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=started)
    correct, *_, rerun = error.value.advice
    assert correct.what.startswith("give orders-0 a leader: all brokers of its ISR")
    assert "in sync last (orders-0 on broker 1)" in correct.what
    assert rerun == Rerun("sense_isr_catch_up", batch=1)


# ------------------------------------------------------------------ what is recorded before a drop


def test_nothing_is_dropped_while_the_store_takes_nothing(cluster):
    with in_place([objects, tables]):
        disk = SimDisk()
        run = Run(cluster, use(disk), [MOVES])
        run.when_waiting = cluster.catch_up_all
        run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
        disk.faults.full = True
        with pytest.raises(StillWaiting, match="No space left"):
            run.do("drop_old_replicas")
        assert set(run.replicas()["orders-0"]) == {1, 2, 3}
        disk.faults.full = False
        run.do_all("drop_old_replicas", "clear_throttle")
        assert run.replicas()["orders-0"] == (1, 3)


def test_the_audit_trail_names_what_a_try_has_dropped_that_was_killed_right_after_it(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.fail("alter_reassignments", ProcessDiedError(), applied=None)
    with pytest.raises(ProcessDiedError):
        run.do("drop_old_replicas")
    run.do_all("drop_old_replicas", "clear_throttle")
    announced, *_, ended = (e for e in run.record.audit if e.step == "drop_old_replicas")
    assert (announced.outcome, announced.facts["targets"]["orders-0"]) == ("begun", [1, 3])
    assert set(announced.facts["replicas_before"]["orders-0"]) == {1, 2, 3}
    assert "orders-0" not in ended.facts["submitted"]
