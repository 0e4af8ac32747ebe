"""What happens between a look at the throttle and the request that was decided on it, or before the request shows."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from tests.steps_lab import ProcessDiedError, move
from tests.unit.steps.test_two_tries import FROM_THROTTLE
from tests.unit.steps.throttle_lab import (
    MOVES,
    ORDERS_0,
    OURS,
    at_full_speed,
    delete_every_throttle,
    fall_behind,
    rate,
    set_by_hand,
)

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE
from kafka_reassignment.errors import ThrottleMissingError
from kafka_reassignment.model import ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps import preflight as preflight_module
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.throttle_in_flight import throttle_in_flight
from kafka_reassignment.steps.throttling.throttle_configs import DECIDED_AGAIN

pytestmark = pytest.mark.longer

BROKER = ConfigResource.broker(3)
LATER = [move("orders", 2, (3, 1), (3, 4)), move("orders", 3, (1, 2), (1, 3))]


@pytest.fixture
def run(reassignment):
    made = reassignment(MOVES)
    made.before = made.configs("orders")
    return made


def swept(run, hours=0.0):
    run.clock.now += timedelta(hours=hours)
    run.store.release(run.cluster_id, "r")
    return sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")


def test_what_was_set_and_is_not_seen_yet_is_not_forgotten_by_a_stop(run, cluster):
    slept = [run.clock.now]

    def by_the_same_clock():
        cluster.advance((run.clock.now - slept.pop()).total_seconds())
        slept.append(run.clock.now)

    run.clock.on_sleep.append(by_the_same_clock)
    run.do("admit")
    cluster.lag(6, "describe_configs")
    with pytest.raises(ThrottleMissingError):
        run.do("set_throttle")
    run.stop_all()
    assert run.record.journal().is_settled
    cluster.advance(60)
    for _ in range(3):
        swept(run, hours=1)
    assert run.configs("orders") == run.before
    assert run.record.journal().is_over


def put_back(cluster, *, before=lambda: None, right_before=lambda: None):
    """What begins to copy in the middle of a clear is put back.

    Something else is done before that is decided, or right before it is asked for.
    """
    alter, requests = cluster.alter_configs, []

    def altered(changes):
        requests.append(changes)
        if len(requests) == 1:
            replies = alter(changes)
            cluster.alter_reassignments({ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True)
            before()
            return replies
        if len(requests) == 2:
            assert all(c.operation in {ConfigOperation.SET, ConfigOperation.APPEND} for c in changes), "put back"
            cluster.alter_configs = alter
            right_before()
        return alter(changes)

    cluster.alter_configs = altered


def test_what_a_clear_puts_back_late_does_not_stay_when_another_try_has_cleared_all(run, cluster):
    run.do_all("admit", "set_throttle")
    run.store.release(run.cluster_id, "r")

    def another_try():
        cluster.catch_up_all()
        cluster.alter_reassignments({ORDERS_0: (1, 2)}, allow_replication_factor_change=True)
        swept(run)
        assert run.configs("orders") == run.before
        assert run.record.journal().is_settled

    put_back(cluster, right_before=another_try)
    sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    for _ in range(3):
        swept(run, hours=1)
    assert run.configs("orders") == run.before
    assert run.record.journal().is_over


@pytest.mark.parametrize("theirs", [2_000_000, 90_000_000])
def test_what_a_clear_puts_back_replaces_no_rate_that_another_client_has_set_since(run, cluster, theirs):
    run.do_all("admit", "set_throttle")
    run.store.release(run.cluster_id, "r")
    put_back(cluster, before=lambda: set_by_hand(cluster, 3, theirs))
    sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")
    assert not at_full_speed(cluster)
    assert rate(run, 3, FOLLOWER_RATE) == min(theirs, OURS)
    cluster.catch_up_all()
    swept(run, hours=1)
    assert run.record.journal().is_settled
    assert rate(run, 3, FOLLOWER_RATE) == theirs


def test_what_arrived_late_on_a_broker_that_is_down_for_longer_than_an_hour_is_restored_when_it_is_back(
    run, held, cluster
):
    run.do("admit")
    held("alter_configs", lambda: run.do_all(*FROM_THROTTLE), dies=True)
    with pytest.raises(ProcessDiedError):
        run.do("set_throttle")
    assert rate(run, 3, FOLLOWER_RATE) == OURS
    cluster.kill(3)
    for _ in range(2):
        swept(run, hours=1)
    (left,) = run.record.journal().underway
    assert {str(r) for r in left.resources} == {"broker 3"}, "the others were seen"
    cluster.restart(3)
    cluster.catch_up_all()
    for _ in range(2):
        swept(run, hours=1)
    assert run.configs("orders") == run.before
    assert run.record.journal().is_over


def test_a_person_may_set_a_rate_that_was_ours_before_the_one_whose_try_has_died(submitted, cluster):
    alter = cluster.alter_configs

    def killed(changes):
        raise ProcessDiedError

    cluster.alter_configs = killed
    with pytest.raises(ProcessDiedError):
        change_rate(submitted.context, asked_bytes_per_second=5_000_000)
    cluster.alter_configs = alter
    cluster.catch_up_all()
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(submitted, 3, FOLLOWER_RATE) is None
    set_by_hand(cluster, 3, OURS)
    swept(submitted)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS


def superseded_by_second(run, reassignment, **request):
    """Let another reassignment take the place of one, and return it with the same plan."""
    preflight(
        run.context_of(run.store.record(run.cluster_id, "second")),
        {"job": "rebalance", "supersede": True, **request},
        "bob",
    )
    return reassignment(MOVES, reassignment_id="second", supersede=True, **request)


def test_a_late_rate_of_what_was_superseded_is_no_other_clients(submitted, reassignment, cluster, held):
    successors = []

    def taken_over():
        successors.append(superseded_by_second(submitted, reassignment, throttle_mb_per_second=5))
        successors[0].look("admit")  # lowers what was taken over to its own rate
        successors[0].look("admit")  # has seen it in place
        assert rate(submitted, 3, FOLLOWER_RATE) == 5_000_000

    held("alter_configs", taken_over, dies=True)
    with suppress(ProcessDiedError):
        change_rate(submitted.context, asked_bytes_per_second=10_900_000)
    then = successors[0]
    then.look("admit")
    assert rate(then, 3, FOLLOWER_RATE) == 5_000_000
    cluster.kill(3)
    then.stop_all()
    assert "broker 3: follower.replication.throttled.rate" in str(then.record.journal().owed_texts())
    then.clock.now += timedelta(hours=2)
    sweep(then.context_of(then.store.record(then.cluster_id, "sweep")), by="cron")
    cluster.restart(3)
    cluster.catch_up_all()
    for _ in range(3):
        then.clock.now += timedelta(hours=1)
        sweep(then.context_of(then.store.record(then.cluster_id, "sweep")), by="cron")
    assert rate(then, 3, FOLLOWER_RATE) is None


def test_what_arrives_late_of_a_reassignment_that_is_over_is_no_other_clients(run, reassignment, held):
    run.do("admit")
    held("alter_configs", lambda: run.do_all(*FROM_THROTTLE), dies=True)
    with pytest.raises(ProcessDiedError):
        run.do("set_throttle")
    assert run.record.journal().is_settled
    run.store.release(run.cluster_id, "r")
    then = reassignment(LATER, reassignment_id="second", throttle_mb_per_second=30)
    then.do_all("admit", "set_throttle")
    assert run.record.journal().is_over, "it is taken over"
    then.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert then.configs("orders") == run.before


@pytest.fixture
def written(monkeypatch):
    """Let something else happen each time after the journal is written, until there is nothing left to happen."""
    update = Record.update_journal

    def after(*happening):
        left = list(happening)

        def updated(record, change):
            result = update(record, change)
            if left:
                left.pop(0)()
            return result

        monkeypatch.setattr(Record, "update_journal", updated)
        return left

    return after


@pytest.mark.parametrize("theirs", [2_000_000, 70_000_000, None])
def test_what_another_client_sets_while_the_journal_is_written_is_what_is_put_back(run, cluster, written, theirs):
    set_by_hand(cluster, 3, 90_000_000)
    run.do("admit")
    written(lambda: set_by_hand(cluster, 3, theirs))
    run.do_all("set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rate(run, 3, FOLLOWER_RATE) == theirs


def test_a_client_that_sets_another_rate_at_every_look_is_not_waited_for(run, cluster, written):
    run.do("admit")
    left = written(*(partial(set_by_hand, cluster, 3, 90_000_000 + n) for n in range(1 + DECIDED_AGAIN)))
    run.do("set_throttle")
    assert not left
    assert rate(run, 3, FOLLOWER_RATE) == OURS


def test_a_part_of_a_raise_that_waits_for_its_second_replaces_no_rate_that_another_client_has_set_meanwhile(
    submitted, cluster, monkeypatch
):
    slow, describe, done = iter([0.4, 0.4, 0.4]), cluster.describe_configs, []

    def described(*args):
        submitted.clock.now += timedelta(seconds=next(slow, 0))
        return describe(*args)

    def between_journal_and_request():
        shown = describe([BROKER], [FOLLOWER_RATE])[BROKER][FOLLOWER_RATE].value
        parts = {r.set_values[-1] for u in submitted.record.journal().underway for r in u.rates if r.broker == 3}
        if not done and parts - {shown}:
            done.append(set_by_hand(cluster, 3, 2_000_000))

    monkeypatch.setattr(cluster, "describe_configs", described)
    submitted.clock.on_sleep.append(between_journal_and_request)
    change_rate(submitted.context, asked_bytes_per_second=32_000_000)
    assert done
    assert rate(submitted, 3, FOLLOWER_RATE) == 2_000_000


def test_a_throttle_of_moves_of_others_looks_after_what_it_has_taken_over_of_a_reassignment(submitted, cluster):
    cluster.catch_up_all()
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas")
    fall_behind(cluster, ORDERS_0, 3)
    submitted.do("clear_throttle")
    assert submitted.store.release(submitted.cluster_id, "r")
    cluster.another_client().alter_reassignments({TopicPartition("orders", 2): (3, 5)})
    throttle_in_flight(
        submitted.context_of(submitted.store.record(submitted.cluster_id, "in_flight")),
        CancelScope(("orders-2",)),
        kafka_conn_id="kafka_eu",
        asked_bytes_per_second=50_000_000,
        allow_low=False,
        by="ann",
    )
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS, "what copies because of us keeps its rate"
    delete_every_throttle(cluster)
    swept(submitted)
    assert not at_full_speed(cluster)
    assert rate(submitted, 3, FOLLOWER_RATE) == OURS


def test_what_was_superseded_is_looked_after_where_the_preflight_of_its_successor_has_died(
    submitted, reassignment, cluster, monkeypatch
):
    def killed(run):
        raise ProcessDiedError

    monkeypatch.setattr(preflight_module, "adopt_debts", killed)
    with pytest.raises(ProcessDiedError):
        superseded_by_second(submitted, reassignment, throttle_mb_per_second=5)
    delete_every_throttle(cluster)
    second = submitted.store.record(submitted.cluster_id, "second")
    swept = sweep(submitted.context_of(submitted.store.record(submitted.cluster_id, "sweep")), by="cron")
    assert set(swept.summaries) == {"r", "second"}
    assert not at_full_speed(cluster)
    assert rate(submitted, 3, FOLLOWER_RATE) == 5_000_000
    assert submitted.record.journal().is_over
    assert second.journal().lists
