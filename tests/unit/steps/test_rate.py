"""The rate is changed while moves run: for all, for chosen brokers, for one side; journalled, and gone at the end."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.steps_lab import ProcessDiedError, move
from tests.unit.steps.throttle_lab import at_full_speed, look, set_by_hand

from kafka_reassignment.decisions.raising import Raise, partly_raised
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, LATEST_ARRIVAL, LEADER_RATE, Journal, Side
from kafka_reassignment.decisions.throttle.journal import Earlier, RateRecord
from kafka_reassignment.errors import (
    InvalidRequestError,
    InvalidThrottleError,
    OvertakenError,
    ThrottleMissingError,
    UnknownBrokerError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ConfigValue
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.throttling.restore import adopt_debts, restore_configs

pytestmark = pytest.mark.longer

MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


def rates(run, key: str) -> dict[int, int]:
    configs = run.configs()
    found = {b: configs.get(ConfigResource.broker(b), {}).get(key) for b in (1, 2, 3, 4)}
    return {b: round(int(v.value) / 1e6) for b, v in found.items() if v is not None and v.value}


@pytest.fixture
def moving(reassignment):
    run = reassignment(MOVES, [move("orders", 2, (3, 1), (3, 4))])
    run.do_all("admit", "set_throttle", "submit_batch")
    assert rates(run, FOLLOWER_RATE) == {3: 10, 4: 10}
    assert rates(run, LEADER_RATE) == {1: 10, 2: 10, 3: 10}
    return run


def test_the_rate_of_all_changes_at_once_and_for_later_batches(moving):
    before = {r: v for r, v in moving.configs("orders").items() if r.kind == "topic"}
    change_rate(moving.context, asked_bytes_per_second=25_000_000)
    assert rates(moving, FOLLOWER_RATE) == {3: 25, 4: 25}
    assert rates(moving, LEADER_RATE) == {1: 25, 2: 25, 3: 25}
    assert {r: v for r, v in moving.configs("orders").items() if r.kind == "topic"} == before
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rates(moving, FOLLOWER_RATE) == {}
    moving.do_all("admit", "set_throttle", "submit_batch", batch=2)
    assert rates(moving, FOLLOWER_RATE) == {4: 25}


def test_chosen_brokers_and_one_side_only(moving):
    change_rate(moving.context, asked_bytes_per_second=4_000_000, brokers=[3], sides=[Side.FOLLOWER])
    assert rates(moving, FOLLOWER_RATE) == {3: 4, 4: 10}
    assert rates(moving, LEADER_RATE) == {1: 10, 2: 10, 3: 10}


def test_the_change_is_journalled_before_it_is_set(moving):
    change_rate(moving.context, asked_bytes_per_second=25_000_000)
    calls = [c for c in moving.cluster.calls if c == "alter_configs"]
    moving.cluster.fail("alter_configs", ConnectionResetError("the task was killed"))
    with pytest.raises(ConnectionResetError):
        change_rate(moving.context, asked_bytes_per_second=27_000_000)
    assert len(calls) >= 2
    set_values = {v for r in moving.record.journal().rates for v in r.set_values}
    assert "27000000" in set_values, "whatever came of it, the journal knows the value to be ours"


def test_a_raise_is_done_in_parts_over_the_seconds_of_the_quota(moving):
    """At once brokers would make up for the eleven seconds in which they copied less: a burst."""
    seen = []
    moving.clock.on_sleep.append(lambda: seen.append(rates(moving, FOLLOWER_RATE)[3]))
    before = moving.clock.now
    change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert seen == [12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
    assert rates(moving, FOLLOWER_RATE) == {3: 32, 4: 32}
    assert (moving.clock.now - before).total_seconds() == 10


def test_a_raise_gives_way_to_what_is_asked_for_while_it_goes_on(moving):
    def asked_later():
        moving.clock.on_sleep.clear()
        change_rate(moving.context, asked_bytes_per_second=5_000_000)

    moving.clock.on_sleep.append(asked_later)
    said = change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert said.startswith("rate of all brokers (leader and follower side): 32 MB/s, until it was changed at ")
    assert said.endswith("UTC: by hand")
    assert rates(moving, FOLLOWER_RATE) == {3: 5, 4: 5}
    assert [c.asked_bytes_per_second for c in moving.record.journal().rate_changes] == [5_000_000]
    assert [e.outcome for e in moving.record.audit if e.step == "change_rate"] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("cut_off_by", ["another order", "an error", "the end of the reassignment"])
def test_a_raise_that_is_cut_off_is_not_under_way_any_more(moving, cluster, cut_off_by):
    """Else no rate is ever seen in place: nothing is corrected, and a lower rate of another client is overwritten."""

    def cut_off():
        moving.clock.on_sleep.clear()
        if cut_off_by == "an error":
            _cut_off()
        elif cut_off_by == "another order":
            change_rate(moving.context, asked_bytes_per_second=25_000_000)
        else:
            moving.store.release(moving.cluster_id, "r")

    moving.clock.on_sleep.append(cut_off)
    with suppress(ConnectionResetError):
        change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert moving.record.journal().underway == ()
    if cut_off_by != "the end of the reassignment":
        look(moving)
        assert all(r.was_in_place for r in moving.record.journal().rates)
        set_by_hand(cluster, 3, 12_000_000)
        look(moving)
        assert rates(moving, FOLLOWER_RATE)[3] == 12


def test_a_raise_that_loses_its_reassignment_says_how_far_it_came(moving):
    """It said that nothing was changed."""
    moving.clock.on_sleep.append(lambda: moving.clock.on_sleep.clear() or moving.store.release(moving.cluster_id, "r"))
    said = change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert said == (
        "rate of all brokers (leader and follower side): 32 MB/s, changed in part until reassignment r of cluster fake-cluster has lost "
        "the lock of the cluster. Rerun start_batches of reassignment r and what follows, then trigger kafka_throttle with "
        "reassignment_id r, throttle_mb_per_second 32"
    )
    assert rates(moving, FOLLOWER_RATE) == {3: 12, 4: 12}
    event = next(e for e in moving.record.audit if e.step == "change_rate")
    assert (event.outcome, event.summary) == ("succeeded", said)
    assert [item["do"] for item in event.facts["advice"]] == ["rerun", "trigger"]
    with pytest.raises(
        InvalidRequestError, match="its rate cannot be changed without the lock, and nothing was changed"
    ):
        change_rate(moving.context, asked_bytes_per_second=32_000_000)


def test_a_part_whose_request_was_not_answered_is_under_way_for_an_hour(moving, cluster):
    """It may still come: no rate is called another client's until then."""
    moving.clock.on_sleep.append(lambda: cluster.fail("alter_configs", ConnectionResetError("no answer")))
    with pytest.raises(ConnectionResetError):
        change_rate(moving.context, asked_bytes_per_second=32_000_000)
    moving.clock.on_sleep.clear()
    look(moving)
    assert not any(r.was_in_place for r in moving.record.journal().rates)
    moving.clock.now += LATEST_ARRIVAL + timedelta(seconds=1)
    look(moving)
    assert all(r.was_in_place for r in moving.record.journal().rates)


@pytest.mark.parametrize(
    ("later", "retried"),
    [({}, {}), ({"brokers": [3]}, {}), ({"sides": [Side.FOLLOWER]}, {"brokers": [3, 4]})],
)
def test_a_retry_does_not_replace_what_was_asked_for_later(moving, cluster, later, retried):
    first = moving.clock.now
    cluster.kill(4, fenced=False)
    with pytest.raises(ThrottleMissingError):
        change_rate(moving.context, asked_bytes_per_second=25_000_000, asked_at=first, **retried)
    cluster.restart(4)
    change_rate(moving.context, asked_bytes_per_second=4_000_000, **later)
    before = rates(moving, FOLLOWER_RATE)
    with pytest.raises(InvalidRequestError, match="Another rate was asked for later, at .* UTC: 4 MB/s. Nothing was"):
        change_rate(moving.context, asked_bytes_per_second=25_000_000, asked_at=first, **retried)
    assert rates(moving, FOLLOWER_RATE) == before


def test_a_run_of_a_dag_of_ones_own_goes_on_though_a_person_has_asked_for_another_rate_since_it_began(moving):
    """Its time never changes, so it would be red for good."""
    began = moving.clock.now
    moving.clock.sleep(60)
    change_rate(moving.context, asked_bytes_per_second=4_000_000)
    own = replace(moving.context, actor=Actor(dag_id="my_move", run_id="r", task_id="slow_down"))
    assert change_rate(own, asked_bytes_per_second=25_000_000, asked_at=began).endswith(": 4 MB/s. Nothing was changed")
    assert rates(moving, FOLLOWER_RATE) == {3: 4, 4: 4}
    event = list(moving.record.audit)[-1]
    assert (event.step, event.outcome) == ("change_rate", "skipped")


def test_a_run_of_a_dag_of_ones_own_that_is_finished_may_run_its_own_order_again(moving):
    """Else a cleared task of a green run would be red for good, and its report with it."""
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    moving.do_all(batch=2)
    moving.finish()
    own = replace(moving.context, actor=Actor(requested_by="ann", run_id="r"))
    assert "is finished" in change_rate(own, asked_bytes_per_second=5_000_000)
    assert rates(moving, FOLLOWER_RATE) == {}
    with pytest.raises(InvalidRequestError, match="has ended"):
        change_rate(moving.context, asked_bytes_per_second=5_000_000)


def test_what_was_asked_for_later_of_other_brokers_does_not_hold_a_retry_up(moving):
    first = moving.clock.now
    moving.clock.sleep(1)
    change_rate(moving.context, asked_bytes_per_second=4_000_000, brokers=[3])
    change_rate(moving.context, asked_bytes_per_second=5_000_000, brokers=[4], asked_at=first)
    assert rates(moving, FOLLOWER_RATE) == {3: 4, 4: 5}


@pytest.mark.parametrize("asked", [10_900_000, 5_000_000])
def test_a_small_raise_and_a_lower_rate_are_done_at_once(moving, asked):
    moving.clock.on_sleep.append(lambda: pytest.fail("nothing to wait for"))
    change_rate(moving.context, asked_bytes_per_second=asked)
    assert rates(moving, FOLLOWER_RATE)[3] == round(asked / 1e6)


def test_a_raise_that_was_cut_off_is_done_by_asking_again_and_nothing_of_it_stays(moving):
    moving.clock.on_sleep.append(_cut_off)
    with pytest.raises(ConnectionResetError):
        change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert rates(moving, FOLLOWER_RATE) == {3: 12, 4: 12}
    moving.clock.on_sleep.clear()
    change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert rates(moving, FOLLOWER_RATE) == {3: 32, 4: 32}
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rates(moving, FOLLOWER_RATE) == rates(moving, LEADER_RATE) == {}


def _cut_off():
    raise ConnectionResetError("the task was killed")


def test_a_rate_that_another_client_lowers_during_a_raise_stays(moving):
    three = ConfigResource.broker(3)
    lower = ConfigChange(three, FOLLOWER_RATE, ConfigOperation.SET, "1540000")

    def after_five_seconds():
        if rates(moving, FOLLOWER_RATE)[3] == 20:
            moving.cluster.another_client().alter_configs([lower])

    moving.clock.on_sleep.append(after_five_seconds)
    said = change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert moving.configs()[three][FOLLOWER_RATE].value == "1540000"
    assert rates(moving, FOLLOWER_RATE)[4] == 32
    assert "another client set" in said


def test_every_config_is_as_before_at_the_end(moving, cluster):
    change_rate(moving.context, asked_bytes_per_second=25_000_000)
    change_rate(moving.context, asked_bytes_per_second=2_000_000, brokers=[4])
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rates(moving, FOLLOWER_RATE) == rates(moving, LEADER_RATE) == {}
    assert moving.record.journal().is_settled


def test_between_two_batches_the_rate_is_kept_for_the_next(reassignment):
    run = reassignment(MOVES)
    assert "0 configs in force changed" in change_rate(run.context, asked_bytes_per_second=7_000_000)
    run.do_all("admit", "set_throttle")
    assert rates(run, FOLLOWER_RATE) == {3: 7, 4: 7}


def test_a_batch_that_sets_its_throttle_meanwhile_loses_nothing(reassignment, cluster):
    """Both write the journal: the second one decides again on what the first wrote."""
    run = reassignment(MOVES)
    describe = cluster.describe_configs
    done = []

    def while_the_batch_looks(*args):
        if not done:
            done.append(True)
            change_rate(run.context, asked_bytes_per_second=7_000_000)
        return describe(*args)

    cluster.describe_configs = while_the_batch_looks
    run.do_all("set_throttle")
    cluster.describe_configs = describe
    assert len(run.record.journal().rate_changes) == 1
    assert rates(run, FOLLOWER_RATE) == {3: 7, 4: 7}
    run.do_all()
    assert run.record.journal().is_settled


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"asked_bytes_per_second": 0},
            InvalidThrottleError,
            "The new rate is 0 bytes per second, expected at least 1000000",
        ),
        ({"asked_bytes_per_second": 500_000}, InvalidThrottleError, "expected at least 1000000"),
        (
            {"asked_bytes_per_second": 5_000_000, "brokers": [9]},
            UnknownBrokerError,
            "'brokers' names broker 9, expected some of 1",
        ),
    ],
)
def test_a_rate_that_makes_no_sense_is_refused(moving, change, error, message):
    with pytest.raises(error, match=message):
        change_rate(moving.context, **change)
    assert rates(moving, FOLLOWER_RATE) == {3: 10, 4: 10}


def test_less_than_a_megabyte_is_possible_when_asked_for(moving):
    change_rate(moving.context, asked_bytes_per_second=500_000, allow_low=True)
    assert moving.configs()[ConfigResource.broker(3)][FOLLOWER_RATE].value == "500000"


def test_an_unthrottled_reassignment_has_no_rate_to_change(reassignment):
    run = reassignment(MOVES, throttle_mb_per_second=None, unthrottled=True)
    with pytest.raises(InvalidThrottleError, match="runs unthrottled, as its request asks"):
        change_rate(run.context, asked_bytes_per_second=5_000_000)


def test_a_broker_that_does_not_take_it_is_reported(moving, cluster):
    cluster.kill(4, fenced=False)
    with pytest.raises(ThrottleMissingError, match="journalled, but not in force everywhere: broker 4"):
        change_rate(moving.context, asked_bytes_per_second=25_000_000)
    assert rates(moving, LEADER_RATE) == {1: 25, 2: 25, 3: 25}


def test_a_part_of_a_raise_keeps_the_whole_rate_that_a_batch_is_about_to_set():
    """A batch journals the whole rate; before it sets it, a raise journals a part. What the batch sets is still ours."""
    record = RateRecord(broker=1, side=Side.LEADER, earlier=Earlier(), set_values=("2000",))
    change = ConfigChange(record.resource, Side.LEADER.rate_key, ConfigOperation.SET, "2000")
    under_way = {(record.resource, change.key): Raise(1000, 2000, first_part=1)}
    journal, (part,) = partly_raised(Journal(rates=(record,)), [change], under_way, 6, {})
    assert part.value == "1545"
    assert journal.rates[0].is_ours(ConfigValue("2000", ConfigSource.DYNAMIC_BROKER))
    assert journal.rates[0].set_values[-1] == "1545"


def test_a_part_of_a_raise_that_a_clear_overtakes_is_taken_back(moving, cluster, monkeypatch):
    """The part is journalled, the batch is cleared, and only then the part reaches the brokers: nothing would owe it."""
    alter, before = cluster.alter_configs, moving.clock.now

    def overtaken(changes):
        if moving.clock.now > before and moving.record.journal().rates:
            monkeypatch.setattr(cluster, "alter_configs", alter)
            moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
        return alter(changes)

    monkeypatch.setattr(cluster, "alter_configs", overtaken)
    change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert (rates(moving, FOLLOWER_RATE), rates(moving, LEADER_RATE)) == ({}, {})


def take_over(run):
    """Another reassignment gets the lock, and with it what this one has in place."""
    run.store.release(run.cluster_id, run.reassignment_id)
    run.store.acquire(run.cluster_id, ClusterLock(reassignment_id="b", since=run.clock.now, requested_by="bob"))
    successor = run.context_of(run.store.record(run.cluster_id, "b"))
    assert adopt_debts(successor) == ("r",)
    return successor


@pytest.mark.parametrize("raised_by", ["kafka_throttle", "submit_batch"])
def test_a_part_of_a_raise_that_a_take_over_overtakes_leaves_the_successor_its_rates(
    reassignment, cluster, monkeypatch, raised_by
):
    """They were deleted: what this reassignment owed no longer was taken for what nobody needed."""
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    if raised_by == "kafka_throttle":
        run.do("submit_batch")
    alter, since, successors = cluster.alter_configs, run.clock.now, []

    def overtaken(changes):
        if run.clock.now > since and not successors:
            successors.append(take_over(run))
        return alter(changes)

    monkeypatch.setattr(cluster, "alter_configs", overtaken)
    if raised_by == "kafka_throttle":
        assert "changed in part until" in change_rate(run.context, asked_bytes_per_second=32_000_000)
    else:
        with pytest.raises(OvertakenError, match="another reassignment has taken the throttle over"):
            run.do("submit_batch")
    assert not at_full_speed(cluster)
    assert {r.broker for r in successors[0].record.journal().rates} == {1, 2, 3, 4}
    cluster.catch_up_all()
    for owner in (successors[0], run.context):
        with owner.audited("clear") as event:
            restore_configs(owner, event)
    assert run.configs("orders") == before


def test_a_part_of_a_raise_that_is_cleared_before_it_is_set_is_not_set(moving, cluster, monkeypatch):
    """Looks take a while, and then less: between the journal and the request is a moment in which the batch is cleared."""
    looks, alter, set_after = iter([0.4, 0.4, 0.4]), cluster.alter_configs, []
    describe, cleared = cluster.describe_configs, []

    def slow(*args):
        moving.clock.now += timedelta(seconds=next(looks, 0))
        return describe(*args)

    def clear_between():
        journal = moving.record.journal()
        set_now = {int(v.value) for v in describe([ConfigResource.broker(3)], [FOLLOWER_RATE]).popitem()[1].values()}
        if not cleared and any(int(r.set_values[-1]) not in set_now for u in journal.underway for r in u.rates):
            cleared.append(True)
            moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
            monkeypatch.setattr(cluster, "alter_configs", lambda changes: set_after.extend(changes) or alter(changes))

    monkeypatch.setattr(cluster, "describe_configs", slow)
    moving.clock.on_sleep.append(clear_between)
    change_rate(moving.context, asked_bytes_per_second=32_000_000)
    assert cleared
    assert set_after == []
    assert (rates(moving, FOLLOWER_RATE), rates(moving, LEADER_RATE)) == ({}, {})
    assert moving.record.journal().is_over


@pytest.mark.parametrize("until", ["set_throttle", "submit_batch"])
@pytest.mark.parametrize("dies", [False, True])
def test_a_part_of_a_raise_that_arrives_under_the_next_batch_is_no_rate_of_another_client(
    moving, cluster, monkeypatch, until, dies
):
    """It was taken for one that another client had set before us: kept to while the batch copied, and put back for ever."""
    alter, since = cluster.alter_configs, moving.clock.now

    def late(changes):
        if moving.clock.now > since + timedelta(seconds=2):
            monkeypatch.setattr(cluster, "alter_configs", alter)
            cluster.catch_up_all()
            moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
            moving.do_all("admit", "set_throttle", batch=2)
            if until == "submit_batch":
                moving.do("submit_batch", batch=2)
            replies = alter(changes)
            if dies:
                raise ProcessDiedError
            return replies
        return alter(changes)

    monkeypatch.setattr(cluster, "alter_configs", late)
    with suppress(ProcessDiedError):
        change_rate(moving.context, asked_bytes_per_second=32_000_000)
    if until == "set_throttle":
        moving.do("submit_batch", batch=2)
    moving.look("sense_isr_catch_up", 2)
    assert {r.earlier.value for r in moving.record.journal().rates} == {None}
    assert moving.record.journal().lower_rates == ()
    assert rates(moving, FOLLOWER_RATE)[4] == 32
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert (rates(moving, FOLLOWER_RATE), rates(moving, LEADER_RATE)) == ({}, {})


def test_what_a_raise_set_too_late_is_in_the_audit_trail(moving, cluster, monkeypatch):
    alter, before = cluster.alter_configs, moving.clock.now

    def overtaken(changes):
        if moving.clock.now > before:
            monkeypatch.setattr(cluster, "alter_configs", alter)
            moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
        return alter(changes)

    monkeypatch.setattr(cluster, "alter_configs", overtaken)
    change_rate(moving.context, asked_bytes_per_second=32_000_000)
    event = next(e for e in moving.record.audit if e.step == "change_rate")
    assert "broker 3: delete follower.replication.throttled.rate" in event.facts["taken_back"]["changes"]
    assert moving.record.journal().is_over


def test_a_change_of_the_rate_that_goes_on_while_the_batch_is_cleared_leaves_nothing_behind(reassignment, cluster):
    """Its next part comes right after the rate was restored, before that is looked at."""
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    alter, parts = cluster.alter_configs, []

    def altered(changes):
        replies = alter(changes)
        restored = {c.resource for c in changes if c.key == LEADER_RATE and c.operation is ConfigOperation.DELETE}
        if restored and not parts:
            rates = {(r.resource, r.side.rate_key): r.set_values[-1] for r in run.record.journal().rates}
            parts.extend(ConfigChange(r, LEADER_RATE, ConfigOperation.SET, rates[r, LEADER_RATE]) for r in restored)
            alter(parts)
        return replies

    cluster.alter_configs = altered
    run.do("clear_throttle")
    assert parts
    assert run.record.journal().is_settled
    assert run.configs("orders") == before
    event = next(e for e in reversed(list(run.record.audit)) if e.step == "clear_throttle")
    assert event.summary == "earlier throttle values restored"
