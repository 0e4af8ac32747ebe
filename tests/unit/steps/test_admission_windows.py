"""Maintenance windows at the admission of a batch, and the estimates of how long batches take."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.steps_lab import ProcessDiedError, StillWaiting, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1, at_full_speed, delete_every_throttle

from kafka_reassignment.advice import Correct, Rerun, Trigger
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import (
    DeadlinePassedError,
    InfeasiblePlanError,
    OvertakenError,
    WindowClosedError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import batch as batch_steps
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.estimates import end_in_words
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.resume import resume

pytestmark = pytest.mark.longer

GB = 1_000_000_000


def test_a_batch_waits_for_its_window_and_starts_when_it_opens(reassignment):
    run = reassignment(MOVES, windows=["thu 22:00-23:00"], time_zone="Europe/Madrid")
    run.clock.now = datetime(2026, 1, 1, 20, 30, tzinfo=UTC)
    with pytest.raises(
        StillWaiting,
        match=r"maintenance window is closed \(it is Thu 2026-01-01 21:30 Europe/Madrid\); it opens next 22:00",
    ):
        run.do("admit")
    assert run.record.journal().is_settled, "a reassignment that waits is un-throttled"
    run.clock.now = datetime(2026, 1, 1, 21, 0, 1, tzinfo=UTC)
    run.do("admit")


def test_a_batch_that_would_not_end_in_time_is_held_and_goes_on_in_the_next_window(reassignment):
    large = move("orders", 0, (1, 2), (1, 3), 30_000_000_000)  # 50 min at 10 MB/s
    run = reassignment([MOVES[1]], [large], windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all()
    run.clock.now = datetime(2026, 1, 1, 22, 20, tzinfo=UTC)
    with pytest.raises(StillWaiting, match="the batch needs about 50 min.*closes in 40 min"):
        run.do("admit", 2)
    assert run.record.journal().is_settled
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_a_batch_that_was_admitted_in_a_window_is_not_submitted_after_it(reassignment):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    before = run.configs("orders")
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do("admit")
    run.do("set_throttle")
    run.clock.now = datetime(2026, 1, 1, 23, 10, tzinfo=UTC)
    with pytest.raises(WindowClosedError, match="it opens next Fri 22:00") as raised:
        run.do("submit_batch")
    assert raised.value.advice == (Rerun("admit", batch=1),)
    assert not run.cluster.list_reassignments()
    assert run.record.journal().is_settled, "no throttle is left for the days until the next window"
    assert run.configs("orders") == before
    assert [e.step for e in run.record.audit][-2:] == ["clear_idle_throttle", "submit_batch"]
    assert run.record.submitted(1) is None
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do_all()


def test_a_batch_that_was_submitted_before_a_stop_leaves_no_throttle_either_while_it_waits(reassignment):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    resume(run.context, by="bob")
    run.start()
    run.do_all("admit", "set_throttle")
    assert run.configs("orders") != before
    run.clock.now = datetime(2026, 1, 1, 23, 10, tzinfo=UTC)
    with pytest.raises(StillWaiting, match="maintenance window is closed"):
        run.do("admit")
    assert run.configs("orders") == before


def test_a_request_of_a_dead_try_that_comes_after_its_throttle_was_cleared_is_throttled_again(reassignment):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do("admit")
    run.do("set_throttle")
    run.cluster.fail("alter_reassignments", ProcessDiedError(), applied=0)
    with pytest.raises(ProcessDiedError):
        run.do("submit_batch")
    run.clock.now = datetime(2026, 1, 1, 23, 10, tzinfo=UTC)
    with pytest.raises(WindowClosedError):
        run.do("submit_batch")
    before = run.configs("orders")
    late = {s.partition: s.reassignment.expanded for s in MOVES}
    assert not any(run.cluster.alter_reassignments(late, allow_replication_factor_change=True).values())
    run.do("admit")  # what is in flight goes on, whatever the clock says
    run.do("set_throttle")
    assert run.configs("orders") != before
    run.do_all("submit_batch")


def test_a_batch_that_was_admitted_in_a_window_is_not_submitted_when_it_would_end_long_after_it(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3), 30_000_000_000)], windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 5, tzinfo=UTC)
    run.do("admit")  # 50 minutes
    run.clock.now = datetime(2026, 1, 1, 22, 15, tzinfo=UTC)
    run.do("set_throttle")
    run.clock.now = datetime(2026, 1, 1, 22, 40, tzinfo=UTC)
    with pytest.raises(WindowClosedError, match="was admitted earlier and is not submitted now: .*closes in 20 min"):
        run.do("submit_batch")
    assert not run.cluster.list_reassignments()
    run.clock.now = datetime(2026, 1, 1, 22, 15, tzinfo=UTC)
    run.do("submit_batch")  # a little late


def test_a_batch_whose_tasks_died_after_the_throttle_was_set_waits_without_it(reassignment):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    before = run.configs("orders")
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all("admit", "set_throttle")
    run.clock.now = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
    for _ in range(2):
        with pytest.raises(StillWaiting, match="maintenance window is closed"):
            run.do("admit")
        assert run.record.journal().is_settled
        assert run.configs("orders") == before
    assert [e.step for e in run.record.audit].count("clear_idle_throttle") == 1
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do_all()


def test_a_try_that_goes_on_after_the_throttle_was_cleared_submits_nothing(reassignment, cluster, monkeypatch):
    """It stood still between its throttle and its first request, while another try found the window closed."""
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all("admit", "set_throttle")
    set_first = batch_steps.ensure_throttle

    def stands_still(*args):
        set_first(*args)
        run.clock.now = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
        with pytest.raises(StillWaiting):
            run.do("admit")

    monkeypatch.setattr(batch_steps, "ensure_throttle", stands_still)
    with pytest.raises(OvertakenError, match="throttle of batch 1 was cleared since it was set"):
        run.do("submit_batch")
    assert not cluster.list_reassignments()


@pytest.mark.parametrize(("minutes", "is_submitted"), [(1, True), (9, True), (11, False)], ids=str)
def test_a_window_that_has_just_closed_lets_in_what_was_admitted_in_it_and_ends_within_ten_minutes(
    reassignment, minutes, is_submitted
):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 59, tzinfo=UTC)
    run.do_all("admit", "set_throttle")
    run.clock.now = datetime(2026, 1, 1, 23, 0, tzinfo=UTC) + timedelta(minutes=minutes)
    if is_submitted:
        run.do("submit_batch")
    else:
        with pytest.raises(WindowClosedError):
            run.do("submit_batch")


@pytest.mark.parametrize("times", [{"windows": ["daily 22:00-23:00"]}, {"must_end_by": "2026-01-01T23:00:00+00:00"}])
def test_what_only_has_to_be_dropped_is_admitted_outside_the_windows(reassignment, times):
    run = reassignment(MOVES, **times)
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    run.clock.now = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
    run.do_all()
    assert run.record.finished(1) is not None


def test_what_has_begun_in_a_window_is_submitted_again_after_it(reassignment):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    for step in ("admit", "set_throttle", "submit_batch"):
        run.do(step)
    assert run.cluster.list_reassignments()
    run.clock.now = datetime(2026, 1, 1, 23, 0, tzinfo=UTC)
    run.do("submit_batch")


def test_a_batch_longer_than_any_window_fails_and_the_advice_leads_on(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3), 90_000_000_000)], windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    with pytest.raises(InfeasiblePlanError, match="Batch 1 can never start: .*about 2 h 30 min, the longest") as raised:
        run.do("admit")
    rate, rerun = raised.value.advice
    assert rate == Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 27})
    assert rerun == Rerun("admit", 1)
    change_rate(run.context, asked_bytes_per_second=27_000_000)
    run.do("admit")


def test_a_deadline_that_is_past_is_said_with_what_leads_on(reassignment):
    run = reassignment(MOVES, must_end_by="2026-01-02 06:00")
    run.clock.now = datetime(2026, 1, 2, 6, 0, tzinfo=UTC)
    with pytest.raises(DeadlinePassedError, match="must end by") as raised:
        run.do("admit")
    assert raised.value.advice[0] == Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"})
    assert isinstance(raised.value.advice[1], Correct)


# How long a batch takes, and when all of them end


FIRST = move("orders", 1, (2, 3), (4, 3), 600_000_000)  # 1 min at 10 MB/s


@pytest.fixture
def copying(reassignment, cluster):
    """Let the first batch copy evenly for so many seconds, with ten looks."""

    def make(second_gb: float, seconds: int, *windows: str, **request: object):
        second = move("orders", 0, (1, 2), (1, 3), round(second_gb * 1_000_000_000))
        run = reassignment([FIRST], [second], windows=list(windows) or ["daily 22:00-23:40"], **request)
        cluster.produce(ORDERS_1, messages=10, size_bytes=599_000_000)
        run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
        run.do_all("admit", "set_throttle", "submit_batch")
        for done in range(seconds // 10, seconds + 1, seconds // 10):
            with pytest.raises(StillWaiting):
                run.do("sense_isr_catch_up")
            run.clock.now += timedelta(seconds=seconds // 10)
            cluster.copy(ORDERS_1, 4, 600_000_000 * done // seconds)
        with pytest.raises(StillWaiting):
            run.do("sense_isr_catch_up")
        return run

    return make


def lower_by_auto_rate(run, cluster, canaries):
    """Let slow producers lower the rate to 2.5 MB/s."""
    cluster.slow_producers(canaries, 2)
    for _ in range(8):
        run.clock.now += timedelta(seconds=15)
        with pytest.raises(StillWaiting):
            run.do("sense_isr_catch_up")
    assert run.record.journal().rate_changes[0].asked_bytes_per_second == 2_500_000
    cluster.slow_producers(canaries, None)


def go_on(run):
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")


def test_measured_pace_counts_where_brokers_are_slower_than_the_rate(copying):
    """The first batch took ten times what the rate promises; so will the second one."""
    run = copying(5.6, 600)  # 9 min 20 s at 10 MB/s
    go_on(run)
    assert run.record.finished(1).copied.seconds == 600
    with pytest.raises(
        StillWaiting, match="the batch needs about 1 h 33 min, the maintenance window closes in 1 h 29 min"
    ):
        run.do("admit", 2)


def test_what_another_client_takes_out_of_a_batch_was_not_copied(reassignment, cluster):
    """All that it had left to copy counted as copied in an instant: the next batch was let into a window that it does not fit."""
    run = reassignment(
        [move("orders", 0, (1, 2), (1, 3), GB), move("orders", 1, (2, 3), (4, 3), 60 * GB)],
        throttle_mb_per_second=50,
    )
    cluster.produce(ORDERS_0, messages=1, size_bytes=GB)
    cluster.produce(ORDERS_1, messages=1, size_bytes=60 * GB)
    run.do_all("admit", "set_throttle", "submit_batch")
    for seconds in range(0, 90, 10):
        with pytest.raises(StillWaiting):
            run.do("sense_isr_catch_up")
        run.clock.now += timedelta(seconds=10)
        cluster.copy(ORDERS_0, 3, 5_000_000 * seconds)
        if seconds == 40:
            cluster.alter_reassignments({ORDERS_1: None})
    copied = run.record.progress().copied
    assert 0 < copied.busiest_bytes < GB
    assert copied.seconds_at_rates < copied.seconds


def test_days_in_which_a_batch_had_failed_are_no_time_of_copying(copying):
    run = copying(30, 70)  # 50 min at 10 MB/s
    run.clock.now += timedelta(days=2, hours=-1)
    go_on(run)
    assert run.record.finished(1).copied.seconds == 70
    run.clock.now = datetime(2026, 1, 3, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_a_slow_batch_makes_the_next_one_wait_and_never_fail(copying):
    run = copying(12, 600)  # 20 min at 10 MB/s, 200 min at the pace of the first batch
    go_on(run)
    with pytest.raises(
        StillWaiting, match=r"3 h 20 min, the longest .* is 1 h 40 min, by the measured speed of the latest"
    ):
        run.do("admit", 2)
    run.clock.now += timedelta(days=7)
    run.do("admit", 2)


def test_a_raised_rate_makes_a_batch_fit(copying):
    run = copying(12, 600)
    go_on(run)
    with pytest.raises(StillWaiting):
        run.do("admit", 2)
    change_rate(run.context, asked_bytes_per_second=40_000_000)
    run.do("admit", 2)


def test_a_rate_lowered_while_the_cluster_was_unhealthy_does_not_keep_the_next_batch_waiting(copying, cluster):
    run = copying(30, 70, mb_per_second_while_unhealthy=1)
    cluster.fall_behind(TopicPartition("orders", 3), 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert run.record.journal().rate_changes[-1].asked_bytes_per_second == 1_000_000
    go_on(run)
    cluster.catch_up_all()
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_a_rate_lowered_by_auto_rate_does_not_keep_the_next_batch_waiting(copying, cluster):
    canaries = cluster.create_topic("canary", [(1, 2)])
    cluster.catch_up_all()
    run = copying(30, 70, auto_rate=True, canary_topic="canary")
    lower_by_auto_rate(run, cluster, canaries)
    go_on(run)
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_a_lowered_rate_does_not_keep_a_batch_waiting_because_of_what_it_moves_itself(copying, cluster):
    run = copying(30, 70, mb_per_second_while_unhealthy=1)
    cluster.kill(1)
    go_on(run)
    assert run.record.journal().rate_changes[-1].asked_bytes_per_second == 1_000_000
    cluster.restart(1)
    cluster.catch_up_all()
    cluster.fall_behind(TopicPartition("orders", 0), 1)
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_one_broker_slowed_by_hand_holds_only_the_batches_it_is_in(copying):
    run = copying(30, 70)
    change_rate(run.context, asked_bytes_per_second=1_000_000, brokers=[6])
    go_on(run)
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_one_broker_slowed_by_hand_never_lets_a_batch_in_that_does_not_fit_at_its_rate(reassignment):
    """It was taken for a measurement that passes, and waited for without end."""
    run = reassignment(
        [move("orders", 0, (1, 2), (1, 3), 24 * GB), move("orders", 1, (2, 3), (2, 4), 5 * GB)],
        windows=["daily 22:00-23:00"],
    )
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    change_rate(run.context, asked_bytes_per_second=1_000_000, brokers=[3])
    with pytest.raises(
        InfeasiblePlanError, match=r"can never start.*; too slow: broker 3 \(follower side: 1.0 MB/s\)"
    ) as raised:
        run.do("admit")
    asked, rerun = raised.value.advice
    assert asked.params == {
        "reassignment_id": "r",
        "throttle_mb_per_second": 8,
        "brokers": [3],
        "side": "follower",
    }
    assert rerun == Rerun("admit", 1)
    change_rate(run.context, asked_bytes_per_second=8_000_000, brokers=[3], sides=[Side.FOLLOWER])
    run.do("admit")


def test_without_a_throttle_there_is_no_rate_to_raise(copying):
    run = copying(12, 600, unthrottled=True, throttle_mb_per_second=None)
    go_on(run)
    with pytest.raises(
        StillWaiting, match="by the measured speed of the latest batches. It waits until that measurement"
    ) as held:
        run.do("admit", 2)
    assert "kafka_throttle" not in str(held.value)


def test_a_slow_down_after_auto_rate_has_lowered_it_does_not_keep_the_next_batch_waiting(copying, cluster):
    """What auto rate had lowered was taken for the whole rate: the batch could never start."""
    canaries = cluster.create_topic("canary", [(1, 2)])
    cluster.catch_up_all()
    run = copying(30, 70, auto_rate=True, canary_topic="canary", mb_per_second_while_unhealthy=2)
    lower_by_auto_rate(run, cluster, canaries)
    cluster.fall_behind(TopicPartition("orders", 3), 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    cluster.catch_up(ORDERS_1, 4)
    for step in ("sense_isr_catch_up", "drop_old_replicas", "clear_throttle"):
        run.do(step)
    assert run.record.journal().rate_changes[-1].is_slowdown
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    with pytest.raises(
        StillWaiting, match="at the rate of an unhealthy cluster. It waits until the cluster is healthy"
    ):
        run.do("admit", 2)
    cluster.catch_up_all()
    run.do("admit", 2)


def test_the_rate_at_which_a_batch_fits_is_that_of_its_bytes_whatever_auto_rate_has_lowered(copying, cluster):
    canaries = cluster.create_topic("canary", [(1, 2)])
    cluster.catch_up_all()
    run = copying(90, 70, "daily 22:00-23:00", auto_rate=True, canary_topic="canary")
    lower_by_auto_rate(run, cluster, canaries)
    go_on(run)
    run.clock.now = datetime(2026, 1, 9, 22, 0, tzinfo=UTC)
    with pytest.raises(InfeasiblePlanError) as raised:
        run.do("admit", 2)
    assert raised.value.advice[0] == Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 27})
    change_rate(run.context, asked_bytes_per_second=27_000_000)
    run.do("admit", 2)


def test_a_batch_that_has_grown_since_it_was_planned_needs_as_long_as_it_is_large_now(reassignment, cluster):
    run = reassignment(
        [move("orders", 0, (1, 2), (1, 3), GB)], windows=["sat 22:00-23:00", "sun 01:00-05:00"], time_zone="UTC"
    )
    cluster.produce(ORDERS_0, messages=1, size_bytes=59 * GB)
    cluster.catch_up_all()
    run.clock.now = datetime(2026, 1, 10, 22, 0, tzinfo=UTC)
    with pytest.raises(StillWaiting, match="the batch needs about 1 h 38 min.* opens next Sun 01:00"):
        run.do("admit")
    run.do("set_throttle")
    with pytest.raises(WindowClosedError, match="was admitted earlier and is not submitted now"):
        run.do("submit_batch")
    run.clock.now = datetime(2026, 1, 11, 1, 0, tzinfo=UTC)
    run.do("admit")


def test_the_end_with_the_windows_is_said_while_batches_wait_and_run(copying):
    """40 min at 10 MB/s, 47 min at the pace of the first batch: too late for this night, the second one runs in the next."""
    run = copying(24, 70, "daily 22:00-22:55")
    assert "all is expected to be over 22:4" in run.record.progress().text
    go_on(run)
    run.clock.now = datetime(2026, 1, 1, 22, 20, tzinfo=UTC)
    with pytest.raises(StillWaiting, match="all is expected to be over Fri 22:47 UTC"):
        run.do("admit", 2)


def test_the_end_with_the_windows_is_in_the_approval_and_in_the_log(reassignment):
    run = reassignment(MOVES, windows=["sat 22:00-04:00"], time_zone="Europe/Madrid")
    assert (
        "Approved as soon as it was planned, with the maintenance windows, all is expected to be over Sat 22:00"
        in make_plan(run.context, master="not needed")
    )
    run.start()
    assert next(run.record.audit.latest(1)).summary.endswith("all is expected to be over Sat 22:00 Europe/Madrid")


def test_a_plan_that_fits_no_window_says_so_before_it_is_approved(reassignment):
    never = reassignment([move("orders", 0, (1, 2), (1, 3), 900_000_000_000)], windows=["sat 22:00-04:00"])
    assert "a batch fits into none of the maintenance windows, so it cannot end" in end_in_words(
        never.context, RecordView(never.record)
    )


def test_what_moves_already_is_brought_to_its_end_whatever_the_clock_says(reassignment):
    run = reassignment(MOVES, windows=["daily 11:00-13:00"])
    run.do_all("admit", "set_throttle", "submit_batch")
    run.clock.now = datetime(2026, 1, 1, 15, 0, tzinfo=UTC)
    run.do("admit")


TWO_LARGE = [
    move("orders", 0, (1, 2), (1, 3), 10 * GB),
    move("orders", 1, (2, 3), (4, 3), 10 * GB),
]  # 17 min at 10 MB/s


def test_what_another_client_began_does_not_let_the_rest_begin_outside_the_window(reassignment, cluster):
    run = reassignment(TWO_LARGE, windows=["daily 22:00-23:00"])
    with pytest.raises(StillWaiting, match="maintenance window is closed"):
        run.do("admit")
    cluster.alter_reassignments({ORDERS_0: (1, 3)})
    with pytest.raises(StillWaiting, match="maintenance window is closed"):
        run.do("admit")
    with pytest.raises(WindowClosedError):
        run.do("submit_batch")
    assert ORDERS_1 not in cluster.list_reassignments()
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all()
    assert run.record.finished(1).left_out == {}


def submit_in_part(run, cluster):
    """Let the submission die after its first partition, as the window opens."""
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all("admit", "set_throttle")
    cluster.fail("alter_reassignments", ProcessDiedError(), applied=1)
    with pytest.raises(ProcessDiedError):
        run.do("submit_batch")


def test_the_rest_of_a_batch_that_was_submitted_in_part_waits_for_the_next_window(reassignment, cluster):
    run = reassignment(TWO_LARGE, windows=["daily 22:00-23:00"])
    before = run.configs("orders")
    submit_in_part(run, cluster)
    run.clock.now = datetime(2026, 1, 1, 23, 0, tzinfo=UTC)
    with pytest.raises(WindowClosedError) as closed:
        run.do("submit_batch")
    assert closed.value.advice == (Rerun("admit", batch=1),)
    delete_every_throttle(cluster)
    with pytest.raises(StillWaiting, match="it opens next Fri 22:00"):
        run.do("admit")
    assert list(cluster.list_reassignments()) == [ORDERS_0]
    assert at_full_speed(cluster) == []
    cluster.catch_up_all()
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do_all()
    assert run.record.finished(1).left_out == {}
    assert run.configs("orders") == before


def test_only_what_is_not_copied_yet_has_to_fit_into_the_window(reassignment, cluster):
    """Both go to broker 3: 34 minutes together, 17 for each."""
    run = reassignment([TWO_LARGE[0], move("orders", 3, (1, 2), (1, 3), 10 * GB)], windows=["daily 22:00-23:00"])
    submit_in_part(run, cluster)
    run.clock.now = datetime(2026, 1, 1, 22, 40, tzinfo=UTC)
    run.do_all("admit", "submit_batch")
    assert len(cluster.list_reassignments()) == 2


def test_what_another_client_took_out_of_a_batch_does_not_keep_the_rest_waiting(reassignment, cluster):
    run = reassignment(TWO_LARGE, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    run.clock.now = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
    run.do_all()
    assert run.replicas()["orders-1"] == (4, 3)
    assert list(run.record.finished(1).left_out) == ["orders-0"]
