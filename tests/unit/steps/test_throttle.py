"""What copies because of a reassignment is under its throttle at every look, and other clients' rates are theirs."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, StillWaiting, move
from upath import UPath

from kafka_reassignment.advice import Correct, Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    THROTTLE_KEYS,
    changes_to_throttle,
    throttle_for,
)
from kafka_reassignment.errors import (
    BatchIncompleteError,
    InvalidRequestError,
    InvalidThrottleError,
    ReassignmentError,
    StoppedError,
    ThrottleInUseError,
    ThrottleMissingError,
)
from kafka_reassignment.model import Batch, ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.cancel import settle_moves
from kafka_reassignment.steps.cancel_scope import CancelScope
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.restore import adopt_debts
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.waiting import Failed, Waiting

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1, ORDERS_2 = (TopicPartition("orders", n) for n in range(3))
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
ORDERS = ConfigResource.topic("orders")
OURS = round(10_000_000 / 0.77)
"""What is set for the 10 MB/s that the requests ask for."""


@pytest.fixture
def submitted(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


def at_full_speed(cluster) -> list[str]:
    """The replicas that copy though a throttle is missing on one side or the other."""
    return [
        f"{c.partition}:{c.broker}" for c in cluster.copying() if len(cluster.throttle_of(c.partition, c.broker)) < 2
    ]


def fall_behind(cluster, partition: TopicPartition, broker: int) -> None:
    """A follower restarts: it is out of the ISR, fetches again, and has much to copy."""
    cluster.flap(partition, broker, 0.001)
    cluster.produce(partition, messages=1, size_bytes=50_000_000)
    cluster.advance(0.001)
    assert (partition, broker) in {(c.partition, c.broker) for c in cluster.copying()}


def set_by_hand(cluster, broker: int, key: str, value: int | None) -> None:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = ConfigChange(ConfigResource.broker(broker), key, operation, None if value is None else str(value))
    assert not any(cluster.alter_configs([change]).values())


def delete_every_throttle(cluster) -> None:
    """As Kafka's tool does with --verify or --cancel (F5)."""
    brokers = [ConfigResource.broker(b) for b in cluster.describe_cluster().live_brokers]
    for resource, keys in [*((b, THROTTLE_KEYS[:2]) for b in brokers), (ORDERS, THROTTLE_KEYS[2:])]:
        cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.DELETE) for key in keys])


def rate(run, broker: int, key: str) -> int | None:
    value = run.configs()[ConfigResource.broker(broker)].get(key)
    return int(value.value) if value is not None and value.value else None


def entries(run, key: str) -> set[str]:
    return {e for e in (run.configs("orders")[ORDERS][key].value or "").split(",") if e}


def look(run, name: str = "sense_isr_catch_up") -> Waiting:
    seen = run.look(name)
    assert isinstance(seen, Waiting), seen
    return seen


# Clearing keeps what is needed (A1, A3)


def test_a_superseded_batch_that_is_cleared_leaves_its_successors_throttle(reassignment, cluster):
    """The successor's entries may be those of its predecessor, which only the predecessor's journal has."""
    first = reassignment(MOVES)
    first.do_all("admit", "set_throttle")
    first.store.release(first.cluster_id, "r")
    then = reassignment(MOVES, reassignment_id="second")
    then.do_all("admit", "set_throttle")
    configs = then.configs("orders")
    with pytest.raises(BatchIncompleteError):
        first.do("clear_throttle")
    assert then.configs("orders") == configs, "the owner of the lock may be about to submit"
    then.do_all("submit_batch")
    with pytest.raises(ReassignmentError):
        first.do("clear_throttle")
    assert cluster.copying()
    assert not at_full_speed(cluster)
    cluster.catch_up_all()
    then.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")


def test_a_copy_that_an_earlier_batch_left_keeps_its_throttle_and_the_rates_of_its_brokers(reassignment, cluster):
    run = reassignment([MOVES[0]], [move("orders", 2, (3, 1), (5, 1))])
    run.do_all(batch=1)
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cluster.alter_reassignments({ORDERS_2: None})
    cluster.alter_reassignments({ORDERS_2: (3, 1, 5)}, allow_replication_factor_change=True)
    owing = run.context_of(run.store.record(run.cluster_id, "sweep"))
    run.store.release(run.cluster_id, "r")
    assert sweep(owing, by="cron").summaries["r"].endswith("the throttle of orders-2 stays while they copy")
    assert not at_full_speed(cluster)
    assert entries(run, FOLLOWER_REPLICAS) == {"2:5"}
    assert (rate(run, 5, FOLLOWER_RATE), rate(run, 3, LEADER_RATE), rate(run, 1, LEADER_RATE)) == (OURS,) * 3
    cluster.catch_up_all()
    assert sweep(owing, by="cron").left == ()
    assert entries(run, FOLLOWER_REPLICAS) == set()


def test_a_new_replica_that_leaves_the_isr_before_the_drop_keeps_its_throttle(submitted, cluster):
    cluster.catch_up_all()
    submitted.do_all("sense_isr_catch_up")
    fall_behind(cluster, ORDERS_0, 3)
    cluster.catch_up(ORDERS_1)
    with pytest.raises(StillWaiting):
        submitted.do("drop_old_replicas")
    with pytest.raises(ThrottleInUseError, match=r"1 of 2 partitions of batch 1 are still reassigning \(orders-0\)"):
        submitted.do("clear_throttle")
    assert not cluster.list_reassignments()
    assert entries(submitted, FOLLOWER_REPLICAS) >= {"0:3"}
    assert not at_full_speed(cluster)
    cluster.catch_up_all()
    submitted.do_all("drop_old_replicas", "clear_throttle")
    assert submitted.record.journal().is_settled


def test_a_replica_that_falls_behind_right_after_the_drop_is_looked_after_until_the_end(submitted, cluster):
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas")
    fall_behind(cluster, ORDERS_0, 3)
    submitted.do_all("clear_throttle")
    assert entries(submitted, FOLLOWER_REPLICAS) == {"0:3"}
    cluster.catch_up_all()
    submitted.finish()
    assert submitted.record.journal().is_settled
    assert entries(submitted, FOLLOWER_REPLICAS) == entries(submitted, LEADER_REPLICAS) == set()


def test_a_stopped_reassignments_clear_does_not_wait_for_another_clients_move(submitted, cluster):
    cancel.stop(submitted.context, CancelScope(), by="bob")
    cancel.cancel_moves(submitted.context, CancelScope())
    cluster.alter_reassignments({ORDERS_0: (5, 6)})
    submitted.settle(CancelScope())
    cancel.clear_after_stop(submitted.context, CancelScope())
    assert submitted.record.journal().is_settled


def test_what_begins_to_copy_while_a_throttle_is_cleared_gets_it_back(reassignment, cluster, monkeypatch):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    alter, raced = cluster.alter_configs, []

    def submitted_meanwhile(changes):
        replies = alter(changes)
        if not raced:
            raced.append(cluster.alter_reassignments({ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True))
        return replies

    monkeypatch.setattr(cluster, "alter_configs", submitted_meanwhile)
    run.store.release(run.cluster_id, "r")
    sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert raced
    assert [str(c.partition) for c in cluster.copying()] == ["orders-0"]
    assert not at_full_speed(cluster)


# Every look makes sure of it (A2, G3)


def test_a_deleted_throttle_is_back_after_the_next_look_whatever_else_the_look_finds(submitted, cluster):
    delete_every_throttle(cluster)
    cluster.alter_reassignments({ORDERS_1: None})
    assert at_full_speed(cluster) == ["orders-0:3"]
    submitted.look("sense_isr_catch_up")
    assert not at_full_speed(cluster)


def test_a_stop_is_noticed_after_the_throttle_was_looked_at(submitted, cluster):
    cancel.stop(submitted.context, CancelScope(), by="bob")
    delete_every_throttle(cluster)
    failed = submitted.look("sense_isr_catch_up")
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StoppedError)
    assert not at_full_speed(cluster)


def test_admission_looks_after_what_an_earlier_batch_left_copying(reassignment, cluster):
    run = reassignment([MOVES[0]], [MOVES[1]])
    run.do_all("admit", "set_throttle", "submit_batch")
    delete_every_throttle(cluster)
    failed = run.look("admit", 2)
    assert isinstance(failed, Failed)
    assert not at_full_speed(cluster)


def test_a_drop_that_waits_looks_after_the_throttle(submitted, cluster):
    cluster.catch_up_all()
    submitted.do_all("sense_isr_catch_up")
    fall_behind(cluster, ORDERS_0, 3)
    fall_behind(cluster, ORDERS_1, 4)
    delete_every_throttle(cluster)
    assert at_full_speed(cluster) == ["orders-0:3", "orders-1:4"]
    look(submitted, "drop_old_replicas")
    assert not at_full_speed(cluster)


def test_settling_after_a_stop_looks_after_the_throttle_of_what_is_carried_on(submitted, cluster):
    cluster.kill(2)
    cluster.catch_up(ORDERS_0, 3)
    cancel.stop(submitted.context, CancelScope(), by="bob")
    delete_every_throttle(cluster)
    assert isinstance(settle_moves(submitted.context, CancelScope(), submitted.clock.now), Waiting)
    assert not at_full_speed(cluster)


def test_settling_goes_on_though_a_throttle_cannot_be_put_in_place(submitted, cluster):
    cancel.stop(submitted.context, CancelScope(), by="bob")
    delete_every_throttle(cluster)
    cluster.kill(3, fenced=False)
    settle_moves(submitted.context, CancelScope(), submitted.clock.now)
    assert not cluster.list_reassignments()


def test_a_broker_that_was_down_at_the_submission_gets_its_rate_when_it_is_back(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 3, (1, 2), (2, 4))])
    cluster.kill(2)
    run.do_all("submit_batch")
    assert rate(run, 1, LEADER_RATE) == OURS
    cluster.restart(2)
    assert rate(run, 2, LEADER_RATE) is None
    look(run)
    assert rate(run, 2, LEADER_RATE) == OURS


def test_only_what_copies_is_looked_after(submitted, cluster):
    cluster.catch_up(ORDERS_0)
    delete_every_throttle(cluster)
    look(submitted)
    assert entries(submitted, FOLLOWER_REPLICAS) == {"1:4"}
    assert rate(submitted, 3, FOLLOWER_RATE) is None
    assert not at_full_speed(cluster)


def test_entries_of_another_client_that_we_rely_on_are_put_back_when_it_takes_them_away(reassignment, cluster):
    theirs = ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, "0:3,1:4")
    cluster.alter_configs([theirs])
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.DELETE)])
    look(run)
    assert not at_full_speed(cluster)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert entries(run, FOLLOWER_REPLICAS) == set()


def test_a_look_sets_all_it_can_before_it_says_what_it_could_not(submitted, cluster):
    delete_every_throttle(cluster)
    cluster.kill(3, fenced=False)
    waiting = look(submitted)
    assert "broker 3 did not answer" in waiting.reason
    assert rate(submitted, 4, FOLLOWER_RATE) == OURS
    assert entries(submitted, FOLLOWER_REPLICAS) == {"0:3", "1:4"}


def test_while_another_reassignment_has_the_cluster_its_rate_is_not_touched(submitted, reassignment, cluster):
    submitted.store.release(submitted.cluster_id, "r")
    then = reassignment(MOVES, reassignment_id="second", throttle_mb_per_second=30)
    set_by_hand(cluster, 3, FOLLOWER_RATE, 30_000_000)
    submitted.look("sense_isr_catch_up")
    assert rate(then, 3, FOLLOWER_RATE) == 30_000_000


# Rates of other clients (A4)


def test_a_lower_rate_from_before_the_run_stays_before_during_and_after_it(reassignment, cluster):
    set_by_hand(cluster, 3, FOLLOWER_RATE, 5_000_000)
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    assert rate(run, 3, FOLLOWER_RATE) == 5_000_000
    text = f"another client set {FOLLOWER_RATE} of broker 3 to 5000000 bytes per second, which is lower than ours and stays"
    assert text in look(run).reason
    assert text in [e for e in run.record.audit if e.step == "set_throttle"][-1].facts["lower_rates_of_others"]
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.configs("orders") == before


def test_a_rate_in_server_properties_limits_nothing_so_ours_is_set(tmp_path):
    slow = FakeCluster(auto_catch_up=False, static_configs={3: {FOLLOWER_RATE: "4000000"}})
    slow.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    slow.catch_up_all()
    run = Run(slow, UPath(tmp_path), [MOVES])
    run.do_all("admit", "set_throttle", "submit_batch")
    assert rate(run, 3, FOLLOWER_RATE) == OURS
    assert not at_full_speed(slow)


def test_a_rate_that_an_operator_lowers_by_hand_in_flight_stays_and_is_reported_once(submitted, cluster, caplog):
    set_by_hand(cluster, 3, FOLLOWER_RATE, 2_000_000)
    assert "of broker 3 to 2000000 bytes per second" in look(submitted).reason
    assert [e.step for e in submitted.record.audit][-1] == "reinstate_throttle"
    events = len(list(submitted.record.audit))
    look(submitted)
    assert len(list(submitted.record.audit)) == events
    assert "Left alone: another client set" in caplog.text
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == 2_000_000
    assert submitted.record.journal().is_settled


def test_when_an_operators_lower_rate_is_gone_ours_is_back(submitted, cluster):
    set_by_hand(cluster, 3, FOLLOWER_RATE, 2_000_000)
    look(submitted)
    set_by_hand(cluster, 3, FOLLOWER_RATE, None)
    assert "another client" not in look(submitted).reason
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) is None


def test_a_higher_rate_in_flight_is_lowered_to_ours_and_restored(submitted, cluster):
    set_by_hand(cluster, 3, FOLLOWER_RATE, 90_000_000)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == 90_000_000


def test_an_operator_may_lower_a_rate_to_one_that_was_ours_before(submitted, cluster):
    change_rate(submitted.context, asked_bytes_per_second=25_000_000)
    set_by_hand(cluster, 3, FOLLOWER_RATE, OURS)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS


def test_a_raise_that_died_before_it_was_set_is_completed(submitted, cluster):
    cluster.fail("alter_configs", ConnectionResetError("the task was killed"))
    with pytest.raises(ConnectionResetError):
        change_rate(submitted.context, asked_bytes_per_second=25_000_000)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == round(25_000_000 / 0.77)


def test_a_rate_changed_by_the_dag_keeps_to_another_clients_lower_one_and_says_so(submitted, cluster):
    set_by_hand(cluster, 3, FOLLOWER_RATE, 20_000_000)
    look(submitted)
    change_rate(submitted.context, asked_bytes_per_second=4_000_000)
    assert rate(submitted, 3, FOLLOWER_RATE) == round(4_000_000 / 0.77)
    said = change_rate(submitted.context, asked_bytes_per_second=50_000_000)
    assert "another client set follower.replication.throttled.rate of broker 3 to 20000000 bytes per second" in said
    assert rate(submitted, 3, FOLLOWER_RATE) == 20_000_000
    assert rate(submitted, 4, FOLLOWER_RATE) == round(50_000_000 / 0.77)
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == 20_000_000


def test_a_rate_lowered_by_the_dag_goes_below_another_clients_lower_one_at_once(reassignment, cluster):
    set_by_hand(cluster, 3, FOLLOWER_RATE, 5_000_000)
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_rate(run.context, asked_bytes_per_second=1_000_000)
    assert rate(run, 3, FOLLOWER_RATE) == round(1_000_000 / 0.77)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(run, 3, FOLLOWER_RATE) == 5_000_000


def test_a_lower_rate_of_an_earlier_reassignment_is_no_other_clients(reassignment, cluster):
    """Its owner is gone, so it is taken over with its debt instead of respected for ever."""
    first = reassignment(MOVES, throttle_mb_per_second=2)
    first.do_all("admit", "set_throttle")
    first.store.release(first.cluster_id, "r")
    then = reassignment(MOVES, reassignment_id="second")
    then.do_all("admit", "set_throttle", "submit_batch")
    assert rate(then, 3, FOLLOWER_RATE) == OURS
    then.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(then, 3, FOLLOWER_RATE) is None
    assert first.record.journal().is_settled


def test_a_look_raises_no_rate_of_what_was_taken_over_and_still_copies(submitted, reassignment, cluster):
    """Its copies keep to the rate that was asked for them; the next batch has its own."""
    preflight(
        submitted.context_of(submitted.store.record(submitted.cluster_id, "second")),
        {"job": "rebalance", "throttle_mb_per_second": 30, "supersede": True},
        "bob",
    )
    then = reassignment(MOVES, reassignment_id="second", throttle_mb_per_second=30, supersede=True)
    delete_every_throttle(cluster)
    set_by_hand(cluster, 3, FOLLOWER_RATE, OURS)
    then.look("admit")
    assert rate(then, 3, FOLLOWER_RATE) == OURS
    assert not at_full_speed(cluster)
    then.do("set_throttle")
    assert rate(then, 3, FOLLOWER_RATE) == OURS
    cluster.alter_reassignments(dict.fromkeys(cluster.list_reassignments()))
    then.do("submit_batch")
    assert rate(then, 3, FOLLOWER_RATE) == round(30_000_000 / 0.77)


# Taking debts over (A5)


def test_what_a_late_task_journals_while_its_debts_are_taken_over_is_not_lost(reassignment, monkeypatch):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    run.store.release(run.cluster_id, "r")
    heir = run.context_of(run.store.record(run.cluster_id, "heir"))
    update, late = Record.update_journal, []

    def with_a_late_task(record, change):
        result = update(record, change)
        if record.reassignment_id == "heir" and not late:
            late.append(True)
            for_broker_5 = throttle_for(
                Batch(2, (move("orders", 2, (3, 1), (5, 1)),)), asked_bytes_per_second=10_000_000
            )
            _, changes = update(
                run.record,
                lambda journal: (
                    (found := changes_to_throttle(for_broker_5, journal, run.configs("orders")))[0],
                    found,
                ),
            )
            run.cluster.alter_configs(changes)
        return result

    monkeypatch.setattr(Record, "update_journal", with_a_late_task)
    assert adopt_debts(heir) == ("r",)
    monkeypatch.undo()
    assert late
    assert rate(run, 5, FOLLOWER_RATE) == OURS
    assert run.record.journal().is_settled
    assert {r.broker for r in heir.record.journal().rates} == {1, 2, 3, 4, 5}
    sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert run.configs("orders") == before


# Submissions that became something else (F36)


class RacedCluster(FakeCluster):
    """Another client moves orders-0 between our look and our submission."""

    raced_to: tuple[int, ...] | None = None

    def alter_reassignments(self, targets, *, allow_replication_factor_change=False):
        if self.raced_to and targets.get(ORDERS_0):
            theirs, self.raced_to = self.raced_to, None
            self.another_client().alter_reassignments({ORDERS_0: theirs}, allow_replication_factor_change=True)
        return super().alter_reassignments(targets, allow_replication_factor_change=allow_replication_factor_change)


def test_an_expansion_that_would_drop_replicas_is_cancelled_before_anything_is_lost(reassignment, cluster):
    cluster.__class__ = RacedCluster
    cluster.raced_to = (3, 4)
    run = reassignment([move("orders", 0, (1, 2), (3, 4)), MOVES[1]])
    run.do_all("admit", "set_throttle", "submit_batch")
    assert ORDERS_0 not in cluster.list_reassignments()
    assert run.replicas()["orders-0"] == (1, 2), "Kafka would have dropped 1 and 2, though the expansion keeps them"
    left_out = run.record.submitted(1).left_out["orders-0"]
    assert "another client moved it at the same moment: in flight to 3,4 (adding 3,4, removing 1,2)" in left_out
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-1"] == (4, 3)


def test_a_move_that_another_client_submits_over_ours_is_left_alone(reassignment, cluster, monkeypatch):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    alter = cluster.alter_reassignments

    def overtaken(targets, **kwargs):
        replies = alter(targets, **kwargs)
        if targets.get(ORDERS_0) == (1, 2, 3):
            cluster.another_client().alter_reassignments({ORDERS_0: (5, 6, 4)}, allow_replication_factor_change=True)
        return replies

    monkeypatch.setattr(cluster, "alter_reassignments", overtaken)
    run.do("submit_batch")
    assert set(cluster.list_reassignments()[ORDERS_0].target) == {4, 5, 6}
    assert "left alone" in run.record.submitted(1).left_out["orders-0"]


# Lists that are too long (A7)


def test_a_batch_whose_list_kafka_would_not_take_is_refused_before_anything_is_set(reassignment, cluster):
    brokers = (4, 5, 6)
    cluster.create_topic("wide", [(1, 2, 3)] * 2_500)
    run = reassignment([move("wide", n, (1, 2, 3), brokers, 0) for n in range(2_500)], brokers=[5])
    before = run.configs("orders", "wide")
    for step in ("set_throttle", "submit_batch"):
        with pytest.raises(
            InvalidThrottleError, match="topic wide would have 49169 bytes, expected at most 32767"
        ) as error:
            run.do(step)
        stop, again = error.value.advice
        assert stop == Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"})
        assert again.dag_id == "kafka_reassignment"
        assert again.params["brokers"] == [5]
        assert again.params["partition_movements"] == 1_499
    assert run.configs("orders", "wide") == before
    assert run.record.journal().is_settled
    assert cluster.altered == []


def test_what_others_have_in_a_list_counts(reassignment, cluster):
    theirs = ",".join(f"{n}:9" for n in range(5_000, 10_450))
    cluster.alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, theirs)])
    run = reassignment(MOVES)
    with pytest.raises(InvalidThrottleError, match=f"{len(theirs)} of them are there already") as error:
        run.do("set_throttle")
    assert error.value.advice == (
        Correct(f"remove what is not needed any more from {FOLLOWER_REPLICAS} of topic orders"),
        Rerun("set_throttle", batch=1),
    )
    assert run.configs("orders")[ORDERS][FOLLOWER_REPLICAS].value == theirs


# What the errors advise (G7, G8)


def test_a_rate_is_changed_only_while_the_reassignment_runs(submitted):
    missing = submitted.context_of(submitted.store.record(submitted.cluster_id, "manual__1"))
    with pytest.raises(
        InvalidRequestError, match="manual__1 is not running: .* is locked by r: there is no rate"
    ) as busy:
        change_rate(missing, asked_bytes_per_second=5_000_000)
    assert busy.value.advice == (Trigger("kafka_throttle", {"reassignment_id": "r"}),)
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    submitted.finish()
    with pytest.raises(InvalidRequestError, match="Reassignment r of cluster fake-cluster has ended: there is no rate"):
        change_rate(submitted.context, asked_bytes_per_second=5_000_000)
    with pytest.raises(
        InvalidRequestError, match="No reassignment is running on cluster fake-cluster: there is no rate"
    ):
        change_rate(missing, asked_bytes_per_second=5_000_000)
    assert not missing.record.exists
    assert not list(missing.record.audit)


def test_what_a_clear_advises_leads_on_whatever_the_state(submitted, cluster):
    def advice():
        with pytest.raises((ThrottleInUseError, BatchIncompleteError)) as error:
            submitted.do("clear_throttle")
        return error.value.advice

    assert advice() == (Rerun("submit_batch", batch=1),)
    cancel.stop(submitted.context, CancelScope(), by="bob")
    stopped = (Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"}),)
    assert advice() == stopped, "the submission would be refused"
    cancel.cancel_moves(submitted.context, CancelScope())
    assert advice() == stopped
    preflight(
        submitted.context_of(submitted.store.record(submitted.cluster_id, "second")),
        {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True},
        "bob",
    )
    assert advice() == (WaitUntil("reassignment second, which has the cluster now, has ended"),)


def test_a_throttle_that_cannot_be_set_says_what_is_waited_for_and_what_then(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.kill(3, fenced=False)
    with pytest.raises(ThrottleMissingError) as error:
        run.do("set_throttle")
    assert error.value.advice == (
        WaitUntil("the brokers that are named and the controller take configs again"),
        Rerun("set_throttle", batch=1),
    )
