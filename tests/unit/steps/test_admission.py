"""The gates before a reassignment and before each batch: they say why, then wait or refuse."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.steps_lab import OWN_STEPS, StillWaiting, move

from kafka_reassignment.advice import Correct, Rerun, StartBrokers, Trigger
from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.errors import (
    DeadlinePassedError,
    InfeasiblePlanError,
    InvalidRequestError,
    ReassignmentInProgressError,
    UnhealthyClusterError,
    WindowClosedError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import parse_request
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.admission import why_held
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.cancel_scope import CancelScope
from kafka_reassignment.steps.estimates import end_in_words
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.waiting import SizeSamples

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1, ORDERS_3 = (TopicPartition("orders", n) for n in (0, 1, 3))
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
    message = r"1 partitions are unhealthy, expected at most 0 \('allowed_unhealthy_partitions'\): 1 under-replicated \(orders-3\); moving"
    with pytest.raises(UnhealthyClusterError, match=message) as error:
        run_preflight(run)
    assert "bring their brokers back first" in str(error.value.advice[0])
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


def test_a_batch_that_was_admitted_in_a_window_is_not_submitted_after_it(reassignment):
    run = reassignment(MOVES, windows=["daily 22:00-23:00"])
    run.clock.now = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)
    run.do("admit")
    run.do("set_throttle")
    run.clock.now = datetime(2026, 1, 1, 23, 0, tzinfo=UTC)
    with pytest.raises(WindowClosedError, match="it opens next Fri 22:00") as raised:
        run.do("submit_batch")
    assert raised.value.advice == (Rerun("admit", batch=1),)
    assert not run.cluster.list_reassignments()
    assert run.record.submitted(1) is None
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do_all()


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


def test_a_deadline_that_is_past_is_told_with_what_leads_on(reassignment):
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
    with pytest.raises(StillWaiting, match=r"3 h 20 min, the longest .* is 1 h 40 min, by the pace of the latest"):
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
    cluster.fall_behind(ORDERS_3, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert run.record.journal().rate_changes[-1].asked_bytes_per_second == 1_000_000
    go_on(run)
    cluster.catch_up_all()
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_one_broker_slowed_by_hand_holds_only_the_batches_it_is_in(copying):
    run = copying(30, 70)
    change_rate(run.context, asked_bytes_per_second=1_000_000, brokers=[6])
    go_on(run)
    run.clock.now = datetime(2026, 1, 2, 22, 0, tzinfo=UTC)
    run.do("admit", 2)


def test_the_end_with_the_windows_is_told_while_batches_wait_and_run(copying):
    """40 min at 10 MB/s, 47 min at the pace of the first batch: too late for this night, the second one runs in the next."""
    run = copying(24, 70, "daily 22:00-22:55")
    assert "all is expected to be over 22:4" in run.record.progress().text
    go_on(run)
    run.clock.now = datetime(2026, 1, 1, 22, 20, tzinfo=UTC)
    with pytest.raises(StillWaiting, match="all is expected to be over Fri 22:47 UTC"):
        run.do("admit", 2)


def test_the_end_with_the_windows_is_in_the_approval_and_in_the_log(reassignment):
    run = reassignment(MOVES, windows=["sat 22:00-04:00"], time_zone="Europe/Madrid")
    assert "Approved now, with the maintenance windows, all is expected to be over Sat 22:00" in make_plan(
        run.context, master="not needed"
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


def test_a_rate_that_producers_outrun_is_waited_for_and_reported(reassignment, cluster):
    """F1: at 1 MB/s a partition that gets 3 MB/s never catches up."""
    run = reassignment(MOVES, throttle_mb_per_second=1)
    seconds = [0.0]

    def pass_time(wait: float) -> None:
        seconds[0] += wait
        cluster.produce(ORDERS_0, messages=10, size_bytes=round(3_000_000 * wait))

    context = replace(run.context, sleep=pass_time)
    message = why_held(
        context, RecordView(context.record), context.batch(1), SizeSamples(clock=lambda: seconds[0])
    ).reasons
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


def test_dead_brokers_that_any_job_moves_away_from_are_no_reason_to_wait(reassignment, cluster):
    """B1: that is what people reassign for; below min ISR as well, when producers are blocked already."""
    cluster.create_topic("critical", [(1, 2)], configs={"min.insync.replicas": "2"})
    cluster.kill(2)
    moves = [
        move("orders", 0, (1, 2), (1, 3)),
        move("orders", 1, (2, 3), (4, 3)),
        move("orders", 3, (1, 2), (1, 4)),
        move("critical", 0, (1, 2), (1, 4)),
    ]
    run = reassignment(moves, pause_while_unhealthy=True)
    run.do_all()
    assert run.replicas()["critical-0"] == (1, 4)
    assert run.record.finished(1).left_out == {}


def test_a_plan_of_ones_own_that_empties_a_dead_broker_is_let_pass(reassignment, cluster):
    cluster.kill(2)
    targets = {"orders-0": [1, 3], "orders-1": [4, 3], "orders-3": [1, 4]}
    entries = [{"topic": "orders", "partition": int(p[-1]), "replicas": r} for p, r in targets.items()]
    plan = json.dumps({"version": 1, "partitions": entries})
    run_preflight(reassignment(MOVES), job="apply_json", reassignment_json=plan)


def test_a_batch_that_cannot_start_at_all_is_left_for_the_end_and_waited_for_there(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))], [move("orders", 1, (2, 3), (5, 3))])
    cluster.kill(4)
    run.do_all(batch=1)
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert run.replicas()["orders-1"] == (5, 3)
    assert next_batch(run.context, 2) == 3
    began = run.clock.now
    with pytest.raises(StillWaiting, match=r"batch 3 waits: none .*: orders-0: broker 4 of the target 1,4 is down"):
        run.wait("admit", 3, started_at=began)
    cluster.restart(4)
    run.do_all(batch=3)
    assert run.replicas()["orders-0"] == (1, 4)
    assert next_batch(run.context, 3) is None


def test_what_cannot_start_within_the_time_of_a_batch_is_given_up_and_the_chain_ends(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4)), move("orders", 1, (2, 3), (5, 3))])
    cluster.kill(4)
    run.do_all(batch=1)
    assert next_batch(run.context, 1) == 2
    began = run.clock.now
    run.clock.sleep(24 * 3600)
    run.wait("admit", 2, started_at=began)
    run.do_all(*OWN_STEPS[1:], batch=2)
    assert next_batch(run.context, 2) is None
    assert run.record.finished(2).left_out == {"orders-0": "broker 4 of the target 1,4 is down"}


def test_what_is_blocked_between_the_admission_and_the_submission_has_its_wait_all_the_same(reassignment, cluster):
    """The first batch went behind the second one, whose broker died a moment later: neither has waited."""
    run = reassignment([move("orders", 0, (1, 2), (1, 4))], [move("orders", 1, (2, 3), (5, 3))])
    cluster.kill(4)
    run.do("admit", 1)
    cluster.kill(5)
    run.do_all(*OWN_STEPS[1:], batch=1)
    assert run.record.submitted(1).given_up == ()
    assert next_batch(run.context, 1) == 2
    began = run.clock.now
    with pytest.raises(StillWaiting, match=r"batch 2 waits: none .*: orders-1: broker 5 of the target 5,3 is down"):
        run.wait("admit", 2, started_at=began)
    cluster.restart(4)
    cluster.restart(5)
    run.do_all(batch=2)
    assert next_batch(run.context, 2) == 3
    run.do_all(batch=3)
    assert (run.replicas()["orders-0"], run.replicas()["orders-1"]) == ((1, 4), (5, 3))


def test_what_is_blocked_after_each_admission_is_given_up_at_the_third_one(reassignment, cluster):
    """A broker that comes and goes does not keep the reassignment from ending."""
    run, number = reassignment([move("orders", 0, (1, 2), (1, 4))]), 1
    for _ in range(3):
        run.do("admit", number)
        cluster.kill(4)
        run.do_all(*OWN_STEPS[1:], batch=number)
        cluster.restart(4)
        number = next_batch(run.context, number)
    assert number is None
    assert [bool(run.record.submitted(n).given_up) for n in (1, 2, 3)] == [False, False, True]


def test_trouble_elsewhere_keeps_nobody_waiting_otherwise(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.fall_behind(ORDERS_3, 2)
    run.do("admit")


# Moves of other clients


def hang(cluster, partition):
    """Another client's two targets, one over the other: broker 5 is both added and removed (F34)."""
    cluster.alter_reassignments({partition: (1, 2, 5)}, allow_replication_factor_change=True)
    cluster.alter_reassignments({partition: (1, 2)}, allow_replication_factor_change=True)
    assert never_completes(cluster.list_reassignments()[partition])


def test_another_clients_move_that_never_completes_is_waited_for_as_long_as_the_request_allows(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    hang(cluster, ORDERS_3)
    began = run.clock.now
    run.clock.sleep(29 * 60)
    with pytest.raises(StillWaiting, match=r"another client is reassigning orders-3.*never completes"):
        run.wait("admit", started_at=began)
    run.clock.sleep(60)
    with pytest.raises(ReassignmentInProgressError, match="orders-3 .*broker 5 is both added and removed") as error:
        run.wait("admit", started_at=began)
    cancel_it, again = error.value.advice
    assert cancel_it == Trigger("kafka_reassignment_cancel", {"partitions": ["orders-3"], "foreign": True})
    assert again == Rerun("admit", batch=1)
    cancelling = run.context_of(run.store.record(run.cluster_id, "nobody"))
    scope = CancelScope(tuple(cancel_it.params["partitions"]), foreign=True)
    cancel.stop(cancelling, scope, by="bob")
    run.until_settled(scope)
    run.do_all()
    assert run.record.finished_batches() == {1}


def test_another_clients_healthy_move_is_waited_for_however_long_it_takes(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    cluster.alter_reassignments({ORDERS_3: (1, 5)})
    began = run.clock.now
    run.clock.sleep(5 * 24 * 3600)
    with pytest.raises(StillWaiting, match="another client is reassigning orders-3: let it finish"):
        run.wait("admit", started_at=began)


def test_another_clients_move_to_a_dead_broker_names_that_broker_in_the_end(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    cluster.alter_reassignments({ORDERS_3: (1, 5)})
    cluster.kill(5)
    began = run.clock.now
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError, match="orders-3 .*waits for broker 5, which is down") as error:
        run.wait("admit", started_at=began)
    assert error.value.advice == (StartBrokers((5,)), Rerun("admit", batch=1))
