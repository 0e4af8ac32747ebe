"""Rates of other clients are theirs: a lower one wins, a higher one comes back."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run
from tests.unit.steps.throttle_lab import (
    MOVES,
    ORDERS_0,
    OURS,
    at_full_speed,
    delete_every_throttle,
    look,
    rate,
    set_by_hand,
)
from upath import UPath

from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
)
from kafka_reassignment.errors import ThrottleMissingError
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate

pytestmark = pytest.mark.longer


# Rates of other clients (A4)


def test_a_lower_rate_from_before_the_run_stays_before_during_and_after_it(reassignment, cluster):
    set_by_hand(cluster, 3, 5_000_000)
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    assert rate(run, 3, FOLLOWER_RATE) == 5_000_000
    text = f"another client set {FOLLOWER_RATE} of broker 3 to 5000000 bytes per second, which is lower than ours and stays"
    assert text in look(run).reason
    assert text in [e for e in run.record.audit if e.step == "set_throttle"][-1].facts["lower_rates_of_others"]
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.configs("orders") == before


def test_a_lower_default_of_all_brokers_is_followed_also_when_it_changes_while_data_moves(reassignment, cluster):
    set_by_hand(cluster, "", 5_000_000)
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.hold_back(ORDERS_0, 3)
    assert rate(run, 3, FOLLOWER_RATE) == 5_000_000
    set_by_hand(cluster, "", None)
    assert "another client" not in look(run).reason
    assert rate(run, 3, FOLLOWER_RATE) == OURS
    set_by_hand(cluster, "", 2_000_000)
    assert "of broker 3 to 2000000 bytes per second" in look(run).reason
    assert rate(run, 3, FOLLOWER_RATE) == 2_000_000


def test_a_default_of_all_brokers_is_followed_each_time_that_it_is_lowered(submitted, cluster):
    before = rate(submitted, 3, FOLLOWER_RATE)
    cluster.hold_back(ORDERS_0, 3)
    for default, followed in ((5, 5), (2, 2), (1, 1), (4, 4), (None, 10), (3, 3), (20, 10)):
        set_by_hand(cluster, "", default and default * 1_000_000)
        look(submitted)
        look(submitted)
        assert rate(submitted, 3, FOLLOWER_RATE) == followed * 1_000_000, f"default {default} MB/s"
    assert rate(submitted, 3, FOLLOWER_RATE) == before == OURS


def test_a_rate_in_server_properties_limits_nothing_so_ours_is_set(tmp_path):
    slow = FakeCluster(auto_catch_up=False, static_configs={3: {FOLLOWER_RATE: "4000000"}})
    slow.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    slow.catch_up_all()
    run = Run(slow, UPath(tmp_path), [MOVES])
    run.do_all("admit", "set_throttle", "submit_batch")
    assert rate(run, 3, FOLLOWER_RATE) == OURS
    assert not at_full_speed(slow)


def test_a_rate_that_an_operator_lowers_by_hand_in_flight_stays_and_is_reported_once(submitted, cluster, caplog):
    set_by_hand(cluster, 3, 2_000_000)
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
    set_by_hand(cluster, 3, 2_000_000)
    look(submitted)
    set_by_hand(cluster, 3, None)
    assert "another client" not in look(submitted).reason
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) is None


def test_a_higher_rate_in_flight_is_lowered_to_ours_and_restored(submitted, cluster):
    set_by_hand(cluster, 3, 90_000_000)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == 90_000_000


def test_an_operator_may_lower_a_rate_to_one_that_was_ours_before(submitted, cluster):
    change_rate(submitted.context, asked_bytes_per_second=25_000_000)
    set_by_hand(cluster, 3, OURS)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS


def test_an_operator_may_raise_a_rate_to_one_that_was_ours_before(submitted, cluster):
    """It was lowered, and then removed at the end: a value that we had set once was taken for ours for ever."""
    change_rate(submitted.context, asked_bytes_per_second=5_000_000)
    set_by_hand(cluster, 3, OURS)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == 5_000_000
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    assert submitted.record.journal().is_settled


def test_a_rate_that_was_ours_before_is_ours_as_long_as_its_request_may_come(submitted, cluster):
    alter = cluster.alter_configs
    cluster.alter_configs = lambda changes: (_ for _ in ()).throw(ConnectionResetError("the task was killed"))
    with pytest.raises(ConnectionResetError):
        change_rate(submitted.context, asked_bytes_per_second=10_900_000)
    cluster.alter_configs = alter
    change_rate(submitted.context, asked_bytes_per_second=5_000_000)
    set_by_hand(cluster, 3, 10_900_000)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == 5_000_000
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) is None


def test_also_where_only_a_later_look_has_seen_the_rate_that_was_set_last(submitted, cluster):
    cluster.lag(0.001, "describe_configs")
    with pytest.raises(ThrottleMissingError):
        change_rate(submitted.context, asked_bytes_per_second=10_900_000)
    cluster.advance(0.002)
    look(submitted)
    set_by_hand(cluster, 3, OURS)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS


def test_a_raise_that_died_before_it_was_set_is_completed(submitted, cluster):
    cluster.fail("alter_configs", ConnectionResetError("the task was killed"))
    with pytest.raises(ConnectionResetError):
        change_rate(submitted.context, asked_bytes_per_second=25_000_000)
    look(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == 25_000_000


def test_a_rate_changed_by_the_dag_keeps_to_another_clients_lower_one_and_says_so(submitted, cluster):
    set_by_hand(cluster, 3, 20_000_000)
    look(submitted)
    change_rate(submitted.context, asked_bytes_per_second=4_000_000)
    assert rate(submitted, 3, FOLLOWER_RATE) == 4_000_000
    said = change_rate(submitted.context, asked_bytes_per_second=50_000_000)
    assert "another client set follower.replication.throttled.rate of broker 3 to 20000000 bytes per second" in said
    assert rate(submitted, 3, FOLLOWER_RATE) == 20_000_000
    assert rate(submitted, 4, FOLLOWER_RATE) == 50_000_000
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) == 20_000_000


def test_a_rate_lowered_by_the_dag_goes_below_another_clients_lower_one_at_once(reassignment, cluster):
    set_by_hand(cluster, 3, 5_000_000)
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_rate(run.context, asked_bytes_per_second=1_000_000)
    assert rate(run, 3, FOLLOWER_RATE) == 1_000_000
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(run, 3, FOLLOWER_RATE) == 5_000_000


def test_a_lower_rate_of_an_earlier_reassignment_is_no_other_clients(reassignment):
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
    set_by_hand(cluster, 3, OURS)
    then.look("admit")
    assert rate(then, 3, FOLLOWER_RATE) == OURS
    assert not at_full_speed(cluster)
    then.do("set_throttle")
    assert rate(then, 3, FOLLOWER_RATE) == OURS
    cluster.alter_reassignments(dict.fromkeys(cluster.list_reassignments()))
    then.do("submit_batch")
    assert rate(then, 3, FOLLOWER_RATE) == 30_000_000
