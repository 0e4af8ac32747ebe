"""What copies because of a reassignment is under its throttle at every look."""

import contextlib
from datetime import timedelta

import pytest
from tests.steps_lab import ProcessDiedError, StillWaiting, move
from tests.unit.steps.throttle_lab import (
    MOVES,
    ORDERS,
    ORDERS_0,
    ORDERS_1,
    ORDERS_2,
    OURS,
    at_full_speed,
    delete_every_throttle,
    entries,
    fall_behind,
    look,
    rate,
    set_by_hand,
)

from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONGEST_LIST_BYTES,
    Side,
    changes_to_throttle,
    throttle_for,
)
from kafka_reassignment.errors import (
    BatchIncompleteError,
    ReassignmentError,
    StoppedError,
    ThrottleInUseError,
)
from kafka_reassignment.model import Batch, ConfigChange, ConfigOperation
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.waiting import Failed, Waiting
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment.steps.cancel import settle_moves
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.throttling.restore import adopt_debts, restore_configs

pytestmark = pytest.mark.longer


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


def test_the_run_of_what_was_superseded_that_is_cleared_changes_nothing_while_its_successor_copies(
    reassignment, cluster
):
    """A1: all six tasks of the red batch run are cleared at once."""
    first = reassignment(MOVES)
    first.do_all("admit", "set_throttle", "submit_batch")
    asked = {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True}
    preflight(first.context_of(first.store.record(first.cluster_id, "second")), asked, "bob")
    assert first.record.journal().is_settled, "its debts are the successor's"
    then = reassignment([move("orders", 0, (1, 2), (1, 4))], reassignment_id="second", supersede=True)
    then.start()
    then.do_all("admit", "set_throttle", "submit_batch")
    configs, in_flight = then.configs("orders"), cluster.list_reassignments()
    assert in_flight
    for step in BATCH_STEPS[:-1]:  # the last one looks at runs
        with contextlib.suppress(ReassignmentError):
            first.do(step)
        assert (then.configs("orders"), cluster.list_reassignments()) == (configs, in_flight), step
    assert cluster.copying()
    assert not at_full_speed(cluster)
    cluster.catch_up_all()
    then.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert then.replicas()["orders-0"] == (1, 4)


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


def at_the_next_change(cluster, then) -> None:
    """Call ``then`` right before the configs are changed next."""
    alter = cluster.alter_configs

    def late(changes):
        del cluster.alter_configs
        then()
        return alter(changes)

    cluster.alter_configs = late


def test_what_another_client_adds_to_a_list_while_it_is_cleared_stays(submitted, cluster):
    cluster.catch_up_all()
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas")
    other = cluster.another_client()
    theirs = [
        ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.APPEND, "3:5"),
        ConfigChange(ORDERS, LEADER_REPLICAS, ConfigOperation.APPEND, "3:1,3:2"),
    ]
    at_the_next_change(cluster, lambda: other.alter_configs(theirs))
    submitted.do_all("clear_throttle")
    assert (entries(submitted, FOLLOWER_REPLICAS), entries(submitted, LEADER_REPLICAS)) == ({"3:5"}, {"3:1", "3:2"})
    assert submitted.record.journal().is_settled


def test_a_list_that_a_clear_has_emptied_before_it_died_is_deleted_by_the_next_one(reassignment, cluster):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    run.do_all("sense_isr_catch_up", "drop_old_replicas")

    def then_die():
        def die():
            raise ProcessDiedError

        at_the_next_change(cluster, die)

    at_the_next_change(cluster, then_die)
    with pytest.raises(ProcessDiedError):
        run.do("clear_throttle")
    assert run.configs("orders")[ORDERS][FOLLOWER_REPLICAS].value == ""
    assert not run.record.journal().is_settled
    run.do("clear_throttle")
    assert run.configs("orders") == before


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


def test_what_a_broker_that_is_behind_does_not_show_yet_stays_owed(reassignment, cluster, monkeypatch):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    describe, until = cluster.describe_configs, run.clock.now + timedelta(seconds=0.5)

    def behind(resources, keys):
        return {r: {} for r in resources} if run.clock.now < until else describe(resources, keys)

    monkeypatch.setattr(cluster, "describe_configs", behind)
    with run.context.audited("clear") as event:
        restore_configs(run.context, event)
    monkeypatch.undo()
    assert run.configs("orders") == before
    assert run.record.journal().is_settled


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


@pytest.mark.parametrize(("room", "held"), [(7, {"0:3"}), (11, {"0:3", "1:4"})])
def test_what_has_room_in_the_long_lists_of_another_client_is_put_there_and_the_rest_says_what_helps(
    submitted, cluster, room, held
):
    """A list that was too long as a whole was dropped: all that copied was wholly unthrottled, and was to wait for brokers."""
    others = ",".join(f"{n}:9" for n in range(1000, 5678))
    theirs = f"{others},{'7' * (LONGEST_LIST_BYTES - room - len(others) - 3)}:9"
    for key in (FOLLOWER_REPLICAS, LEADER_REPLICAS):
        assert cluster.another_client().alter_configs([ConfigChange(ORDERS, key, ConfigOperation.SET, theirs)]) == {
            ORDERS: None
        }
    reason = look(submitted).reason
    assert entries(submitted, FOLLOWER_REPLICAS) - {*theirs.split(",")} == held
    copies = {
        f"{c.partition.partition}:{c.broker}": cluster.throttle_of(c.partition, c.broker) for c in cluster.copying()
    }
    assert {e for e, rates in copies.items() if Side.FOLLOWER in rates} == held
    assert copies["1:4"], "the leaders' side has room for what the followers' has none for"
    assert f"{LEADER_REPLICAS} of topic orders would have " in reason
    assert (
        "Remove what is not needed any more from the list that is named, or cancel what copies, then rerun "
        "sense_isr_catch_up of batch 1"
    ) in reason
    for key in (FOLLOWER_REPLICAS, LEADER_REPLICAS):
        cluster.another_client().alter_configs([ConfigChange(ORDERS, key, ConfigOperation.SET, "9:9")])
    assert "not in place" not in look(submitted).reason
    assert not at_full_speed(cluster)
    cluster.catch_up_all()
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert entries(submitted, FOLLOWER_REPLICAS) == entries(submitted, LEADER_REPLICAS) == {"9:9"}


def test_while_another_reassignment_has_the_cluster_its_rate_is_not_touched(submitted, reassignment, cluster):
    submitted.store.release(submitted.cluster_id, "r")
    then = reassignment(MOVES, reassignment_id="second", throttle_mb_per_second=30)
    set_by_hand(cluster, 3, 30_000_000)
    submitted.look("sense_isr_catch_up")
    assert rate(then, 3, FOLLOWER_RATE) == 30_000_000


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
