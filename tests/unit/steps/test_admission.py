"""The gates before a reassignment and before each batch: they say why, then wait or refuse."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.steps_lab import StillWaiting, move

from kafka_reassignment.errors import (
    DeadlinePassedError,
    InfeasiblePlanError,
    InvalidRequestError,
    UnhealthyClusterError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.request import parse_request
from kafka_reassignment.steps.admission import reasons_to_wait
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.waiting import SizeSamples

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_3 = TopicPartition("orders", 0), TopicPartition("orders", 3)
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10}


def run_preflight(run, **request):
    step = run.context_of(run.store.record(run.cluster_id, "second"))
    run.store.release(run.cluster_id, "r")
    preflight(step, REQUEST | request, "bob")


# Preflight


def test_an_unhealthy_cluster_is_refused_and_the_lock_is_released(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.fall_behind(ORDERS_3, 2)
    message = r"1 partitions are unhealthy, expected at most 0 \('allowed_unhealthy_partitions'\): 1 under-replicated \(orders-3\)\. Moving"
    with pytest.raises(UnhealthyClusterError, match=message):
        run_preflight(run)
    assert run.store.lock_owner(run.cluster_id) is None


def test_as_many_unhealthy_partitions_as_the_request_tolerates_are_let_pass(reassignment, cluster):
    cluster.fall_behind(ORDERS_3, 2)
    run_preflight(reassignment(MOVES), allowed_unhealthy_partitions=1)


def test_what_the_request_empties_may_be_unhealthy(reassignment, cluster):
    """Emptying a dead broker is what mends its partitions."""
    cluster.kill(2)
    run_preflight(reassignment(MOVES), job="decommission", brokers=[2])


def test_windows_that_never_open_again_are_refused_at_once(reassignment):
    with pytest.raises(DeadlinePassedError, match="The reassignment must end by Wed 2020-01-01 04:00 UTC"):
        run_preflight(reassignment(MOVES), must_end_by="2020-01-01 04:00")
    with pytest.raises(InvalidRequestError, match=r"time zone.*Europe/Madrit.*Europe/Madrid"):
        run_preflight(reassignment(MOVES), time_zone="Europe/Madrit")


def test_windows_are_fields_of_the_form_beside_the_others():
    request = parse_request(REQUEST | {"windows": ["sat 22:00-04:00"], "time_zone": "Europe/Madrid", "batch_bytes": 5})
    assert request.maintenance.windows == ("sat 22:00-04:00",)
    assert request.limits.batch_bytes == 5


# Before each batch


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


def test_a_batch_longer_than_any_window_fails_and_says_what_would_help(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3), 90_000_000_000)], windows=["daily 22:00-23:00"])
    with pytest.raises(InfeasiblePlanError, match="Batch 1 can never start: .*Make a window longer, raise the rate"):
        run.do("admit")


def test_measured_speed_counts_where_brokers_are_slower_than_the_rate(reassignment, monkeypatch):
    """The first batch took ten times what the rate promises; so will the second one."""
    first = move("orders", 1, (2, 3), (4, 3), 600_000_000)  # 1 min at 10 MB/s
    second = move("orders", 0, (1, 2), (1, 3), 6_000_000_000)  # 10 min at 10 MB/s
    run = reassignment([first], [second], windows=["daily 22:00-23:40"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do_all("admit", "set_throttle", "submit_batch")
    run.clock.now += timedelta(minutes=10)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    with pytest.raises(
        StillWaiting, match="the batch needs about 1 h 35 min, the maintenance window closes in 1 h 29 min"
    ):
        run.do("admit", 2)


def test_what_moves_already_is_brought_to_its_end_whatever_the_clock_says(reassignment):
    run = reassignment(MOVES, windows=["daily 11:00-13:00"])
    run.do_all("admit", "set_throttle", "submit_batch")
    run.clock.now = datetime(2026, 1, 1, 15, 0, tzinfo=UTC)
    run.do("admit")


def test_a_rate_that_producers_outrun_is_waited_for_and_reported(reassignment, cluster):
    """F1: at 1 MB/s a partition that gets 3 MB/s never catches up."""
    run = reassignment(MOVES, throttle_mb_per_second=1)
    seconds = [0.0]

    def pass_time(wait: float) -> None:
        seconds[0] += wait
        cluster.produce(ORDERS_0, messages=10, size_bytes=round(3_000_000 * wait))

    context = replace(run.context, sleep=pass_time)
    message = reasons_to_wait(context, context.batch(1), SizeSamples(clock=lambda: seconds[0]))
    assert len(message) == 2
    assert "can never finish: broker 3 would have to receive 3.0 MB/s of new writes alone" in message[0]
    assert "can never finish: broker 1 would have to send 3.0 MB/s of new writes alone" in message[1]


def test_trouble_elsewhere_pauses_the_chain_when_that_is_asked(reassignment, cluster):
    run = reassignment(MOVES, pause_while_unhealthy=True)
    cluster.fall_behind(ORDERS_3, 2)
    with pytest.raises(StillWaiting, match=r"batch 1 waits: 1 partitions are under-replicated \(orders-3\)"):
        run.do("admit")
    cluster.catch_up_all()
    run.do("admit")


def test_trouble_elsewhere_keeps_nobody_waiting_otherwise(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.fall_behind(ORDERS_3, 2)
    run.do("admit")
