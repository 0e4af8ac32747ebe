"""The gates before a reassignment and before each batch: they say why, then wait or refuse."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.steps_lab import OWN_STEPS, StillWaiting, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1, entries
from tests.unit.steps.verify_lab import set_min_insync

from kafka_reassignment.advice import Rerun, StartBrokers, Trigger, WaitUntil
from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.decisions.throttle import RateChange, Side
from kafka_reassignment.errors import (
    CatchUpTimeoutError,
    DeadlinePassedError,
    InvalidRequestError,
    InvalidThrottleError,
    ReassignmentInProgressError,
    UnhealthyClusterError,
    is_worth_a_retry,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import parse_request
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.admission import why_held
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.inbound import note_sizes
from kafka_reassignment.steps.base.waiting import Done, Failed, SizeSamples, Waiting
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate

pytestmark = pytest.mark.longer

ORDERS_3 = TopicPartition("orders", 3)
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
    assert is_worth_a_retry(error.value), "B3: a follower may have left the ISR for a second"
    cluster.catch_up_all()
    run_preflight(run)
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "second"


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


@pytest.mark.parametrize(("between", "slept"), [(0, 2.0), (1.5, 0.5), (5, 0.0), (31, 2.0)])
def test_sizes_that_were_noted_before_the_run_save_the_wait_for_a_second_sample(reassignment, cluster, between, slept):
    run = reassignment(MOVES, throttle_mb_per_second=1)
    note_sizes(run.context, 1)
    run.clock.sleep(between)
    cluster.produce(ORDERS_0, messages=10, size_bytes=round(3_000_000 * between))
    began = run.clock.now
    run.clock.on_sleep.append(lambda: cluster.produce(ORDERS_0, messages=10, size_bytes=round(3_000_000 * slept)))
    result = run.look("admit", samples=SizeSamples.by_clock_of(run.context))
    assert "can never finish" in result.reason
    assert (run.clock.now - began).total_seconds() == pytest.approx(slept)


def test_the_rate_is_judged_for_what_does_not_move_yet(reassignment, cluster):
    """Another client moves orders-1 to the very target of the plan."""
    run = reassignment(MOVES, throttle_mb_per_second=1)
    cluster.alter_reassignments({ORDERS_1: (4, 3)})
    run.clock.on_sleep.append(lambda: cluster.produce(ORDERS_0, messages=10, size_bytes=6_000_000))
    reason = run.look("admit", samples=SizeSamples.by_clock_of(run.context)).reason
    assert "can never finish: broker 3 would have to receive 3.0 MB/s" in reason


def test_writes_are_measured_again_after_a_pause_between_looks(reassignment, cluster):
    """With looks two minutes apart no sample of an earlier one is fresh."""
    run = reassignment(MOVES, throttle_mb_per_second=1)
    samples = SizeSamples.by_clock_of(run.context)
    run.clock.on_sleep.append(lambda: cluster.produce(ORDERS_0, messages=10, size_bytes=6_000_000))
    for _ in range(3):
        assert "can never finish" in run.look("admit", samples=samples).reason
        run.clock.now += timedelta(seconds=120)


def test_producers_that_outrun_the_rate_for_the_time_a_batch_may_take_fail_it_with_a_rate_that_is_enough(
    reassignment, cluster
):
    """The wait for a window before that does not count, nor does the wait of an earlier try."""
    run = reassignment(
        MOVES, throttle_mb_per_second=1, catch_up_timeout_minutes=60, windows=["sat 22:00-sun 22:00"], time_zone="UTC"
    )
    began, samples = run.clock.now, SizeSamples.by_clock_of(run.context)
    run.clock.on_sleep.append(lambda: cluster.produce(ORDERS_0, messages=10, size_bytes=6_000_000))

    def look(started_at=began):
        run.clock.now += timedelta(seconds=15)
        cluster.produce(ORDERS_0, messages=10, size_bytes=15 * 3_000_000)
        return run.look("admit", samples=samples, started_at=started_at)

    assert "the maintenance window" in look().reason
    run.clock.now = datetime(2026, 8, 1, 22, 0, tzinfo=UTC)
    assert [type(look()) for _ in range(60 * 4)] == [Waiting] * 240
    failed = look()
    assert isinstance(failed.error, InvalidThrottleError)
    assert "Batch 1 waited 60 min in vain: at 1.0 MB/s the batch can never finish" in str(failed.error)
    raised, rerun = failed.error.advice
    assert (raised.params["throttle_mb_per_second"], rerun.task, rerun.batch) == (6, "admit", 1)
    assert isinstance(look(started_at=run.clock.now), Waiting)


def outpaced_until_it_fails(run, cluster, broker_rates):
    """Let producers write 3 MB/s to orders-0 while rates are set by hand, until the wait is over; return its last look."""
    for broker, rate in broker_rates.items():
        change_rate(run.context, asked_bytes_per_second=rate, brokers=[broker])
    began, samples = run.clock.now, SizeSamples.by_clock_of(run.context)
    run.clock.on_sleep.append(lambda: cluster.produce(ORDERS_0, messages=10, size_bytes=6_000_000))
    for _ in range(10 * 4 + 2):
        run.clock.now += timedelta(seconds=15)
        cluster.produce(ORDERS_0, messages=10, size_bytes=15 * 3_000_000)
        result = run.look("admit", samples=samples, started_at=began)
        if not isinstance(result, Waiting):
            break
    return result


def test_a_broker_slowed_by_hand_does_not_hold_a_batch_that_it_takes_no_part_in(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=10)
    assert isinstance(outpaced_until_it_fails(run, cluster, {6: 1_000_000}), Done)


def test_a_broker_slowed_by_hand_that_producers_outrun_is_raised_alone(reassignment, cluster):
    """The advice named one rate of all brokers: it would have slowed all that had more."""
    run = reassignment(MOVES, catch_up_timeout_minutes=10)
    failed = outpaced_until_it_fails(run, cluster, {3: 1_000_000, 6: 1_000_000})
    assert "broker 3 would have to receive 3.0 MB/s" in str(failed.error)
    assert failed.error.advice == (
        Trigger(
            "kafka_throttle",
            {"reassignment_id": "r", "throttle_mb_per_second": 6, "brokers": [3], "side": "follower"},
        ),
        Rerun("admit", batch=1),
    )
    change_rate(run.context, asked_bytes_per_second=6_000_000, brokers=[3], sides=[Side.FOLLOWER])
    assert isinstance(run.look("admit", samples=SizeSamples.by_clock_of(run.context)), Done)


def test_the_disk_has_to_have_room_for_what_supersedes_a_move_of_another_client(reassignment, cluster):
    cluster.disk_bytes = 20 * 10**9
    run = reassignment([move("orders", 0, (1, 2), (1, 3), 50 * 10**9)], supersede=True)
    cluster.another_client().alter_reassignments({ORDERS_0: (1, 4)})
    assert "of broker 3 has room for" in run.look("admit").reason


def test_the_disk_has_to_have_room_for_what_is_there_now_not_for_what_was_planned(reassignment, cluster):
    cluster.disk_bytes = 100 * 10**9
    run = reassignment([move("orders", 0, (1, 2), (1, 3), 10**9)])
    cluster.produce(ORDERS_0, messages=1, size_bytes=94 * 10**9)
    cluster.catch_up_all()
    assert "log dir" in run.look("admit").reason
    assert "the batch may bring 94.0 GB" in run.look("admit").reason


def test_sizes_of_another_batch_and_a_cluster_that_is_away_are_no_obstacle(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))], [move("orders", 1, (2, 3), (5, 3))])
    note_sizes(run.context, 2)
    for broker in range(1, 7):
        cluster.kill(broker, fenced=False)
    note_sizes(run.context, 1)
    for broker in range(1, 7):
        cluster.restart(broker)
    assert run.record.sizes().batch == 2
    run.do("admit")


def test_the_drop_of_a_batch_notes_the_sizes_of_the_next_one_whose_admission_need_not_wait(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))], [move("orders", 1, (2, 3), (5, 3))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    noted = run.record.sizes()
    assert (noted.batch, set(noted.sizes)) == (2, {"orders-1"})
    run.clock.sleep(3)
    run.do_all("clear_throttle", "next_batch")
    assert run.record.sizes() == noted, "a second note would be too young for a growth to be seen"
    began = run.clock.now
    run.do("admit", 2)
    assert run.clock.now == began


def test_a_note_without_a_leader_of_the_batch_is_no_sample(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))], throttle_mb_per_second=1)
    note_sizes(run.context, 1)
    cluster.kill(1)
    cluster.restart(1)
    cluster.catch_up_all()
    assert cluster.describe_partitions()[ORDERS_0].leader == 2
    run.clock.sleep(5)
    began = run.clock.now
    run.look("admit", samples=SizeSamples.by_clock_of(run.context))
    assert (run.clock.now - began).total_seconds() == pytest.approx(2.0), (
        "what is written to the new leader is not known"
    )


def test_trouble_elsewhere_pauses_the_chain_when_that_is_asked(reassignment, cluster):
    run = reassignment(MOVES, pause_while_unhealthy=True)
    cluster.fall_behind(ORDERS_3, 2)
    with pytest.raises(StillWaiting, match=r"batch 1 waits: 1 partitions are under-replicated \(orders-3\)"):
        run.do("admit")
    cluster.catch_up_all()
    run.do("admit")


def test_as_many_unhealthy_partitions_as_the_request_allows_pause_nothing(reassignment, cluster):
    """B1: one unhealthy partition that the request allows held the whole chain."""
    run = reassignment(MOVES, pause_while_unhealthy=True, allowed_unhealthy_partitions=1)
    cluster.create_topic("elsewhere", [(3, 4)])
    cluster.fall_behind(ORDERS_3, 2)
    run.do("admit")
    cluster.fall_behind(TopicPartition("elsewhere", 0), 4)
    with pytest.raises(
        StillWaiting, match=r"batch 1 waits: 2 partitions are under-replicated \(elsewhere-0, orders-3\)"
    ):
        run.do("admit")


def waits_in_vain(run, reason):
    """Let a batch wait for as long as its request allows; return the error that ends the wait."""
    began = run.clock.now
    for seconds in (29 * 60, 60):
        with pytest.raises(StillWaiting, match=reason):
            run.wait("admit", started_at=began)
        run.clock.sleep(seconds)
    with pytest.raises(CatchUpTimeoutError, match=f"Batch 1 waited 30 min in vain: {reason}") as error:
        run.wait("admit", started_at=began)
    return error.value


def test_trouble_elsewhere_is_waited_for_as_long_as_the_request_allows(reassignment, cluster):
    run = reassignment(MOVES, pause_while_unhealthy=True, catch_up_timeout_minutes=30)
    cluster.create_topic("elsewhere", [(5, 6)])
    cluster.kill(6)
    error = waits_in_vain(run, r"1 partitions are under-replicated \(elsewhere-0\)")
    assert not is_worth_a_retry(error)
    assert error.advice == (
        StartBrokers((6,)),
        WaitUntil("all replicas of elsewhere-0 are in sync"),
        Rerun("admit", batch=1),
    )
    cluster.restart(6)
    cluster.catch_up_all()
    run.do_all()
    assert run.record.finished_batches() == {1}


def test_a_full_disk_is_waited_for_as_long_as_the_request_allows(reassignment, cluster):
    cluster.disk_bytes = 2_500_000
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    error = waits_in_vain(run, "log dir /data of broker 3 has room for")
    room, again = error.advice
    assert "free space there, or lower the limits" in str(room)
    assert again == Rerun("admit", batch=1)
    cluster.disk_bytes = 500_000_000
    run.do_all()
    assert run.record.finished_batches() == {1}


@pytest.mark.parametrize("beside", ["another client moves a partition", "the window is closed"])
def test_only_time_in_which_nothing_passes_by_itself_counts(reassignment, cluster, beside):
    asked = {"windows": ["mon-sun 13:00-18:00"]} if beside == "the window is closed" else {}
    run = reassignment(MOVES, pause_while_unhealthy=True, catch_up_timeout_minutes=30, **asked)
    began = run.clock.now
    cluster.fall_behind(ORDERS_3, 2)
    if not asked:
        cluster.alter_reassignments({TopicPartition("orders", 2): (3, 5)})
    for _ in range(6):
        with pytest.raises(StillWaiting, match="under-replicated"):
            run.wait("admit", started_at=began)
        run.clock.sleep(10 * 60 - 1)
    if not asked:
        cluster.advance(60)
        assert not cluster.list_reassignments()
    run.clock.sleep(60)
    waits_in_vain(run, r"1 partitions are under-replicated \(orders-3\)")


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
    run.clock.sleep(5 * 24 * 3600)  # it waited for something else until now
    with pytest.raises(StillWaiting, match=r"batch 2 waits: none of its 1 partitions can be moved now"):
        run.wait("admit", 2, started_at=began)
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


def test_that_a_partition_went_behind_others_is_no_try(reassignment, cluster):
    """As while brokers are restarted one after the other: each time another partition is the one that cannot move."""
    run = reassignment(
        [move("orders", 0, (1, 2), (1, 4))], [move("orders", 1, (2, 3), (2, 4))], [move("orders", 2, (3, 1), (3, 5))]
    )

    def do(number, *, down, after_admission=None):
        for broker in (4, 5):
            cluster.restart(broker) if broker != down else cluster.kill(broker)
        run.do("admit", number)
        if after_admission:
            cluster.kill(after_admission)
        run.do_all(*OWN_STEPS[1:], batch=number)
        return next_batch(run.context, number)

    for number, down in enumerate((4, None, 5, 4, None), 1):
        assert do(number, down=down) == number + 1
    assert run.replicas()["orders-2"] == (3, 5)
    assert do(6, down=None, after_admission=4) == 7, "orders-0 went behind twice, and has never waited"
    assert do(7, down=None) is None
    assert run.replicas()["orders-0"] == (1, 4)


def test_what_is_blocked_after_each_admission_is_left_out_for_good_at_the_third_one(reassignment, cluster):
    """A broker that comes and goes does not keep the reassignment from ending."""
    run, number = reassignment([move("orders", 0, (1, 2), (1, 4))]), 1
    for _ in range(3):
        run.do("admit", number)
        cluster.kill(4)
        run.do_all(*OWN_STEPS[1:], batch=number)
        cluster.restart(4)
        number = next_batch(run.context, number)
    assert number is None
    assert [bool(run.record.submitted(n).retried_later) for n in (1, 2, 3)] == [True, True, False]
    assert run.record.submitted(3).given_up == (), "what is behind it has a wait of its own"


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


@pytest.mark.parametrize("partition", [ORDERS_0, ORDERS_3], ids=["planned", "not planned"])
def test_a_hung_partition_of_the_plan_is_said_to_keep_its_part_when_it_is_freed(reassignment, cluster, partition):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    hang(cluster, partition)
    began = run.clock.now
    with pytest.raises(StillWaiting):
        run.wait("admit", started_at=began)
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError) as error:
        run.wait("admit", started_at=began)
    told = f"A cancel with 'foreign' ends that move alone: this reassignment still moves {partition} after it"
    assert (told in str(error.value)) is any(move.partition == partition for move in MOVES)


def test_another_clients_move_that_never_completes_is_waited_for_as_long_as_the_request_allows(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    began = run.clock.now
    run.clock.sleep(5 * 24 * 3600)  # it waited for something else until now
    hang(cluster, ORDERS_3)
    for seconds in (29 * 60, 60):
        with pytest.raises(StillWaiting, match=r"another client is reassigning orders-3.*never completes"):
            run.wait("admit", started_at=began)
        run.clock.sleep(seconds)
    with pytest.raises(ReassignmentInProgressError, match="orders-3 .*broker 5 is both added and removed") as error:
        run.wait("admit", started_at=began)
    cancel_it, again = error.value.advice
    assert cancel_it == Trigger(
        "kafka_reassignment_cancel", {"reassignment_id": "running", "partitions": ["orders-3"], "foreign": True}
    )
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


def taken_over(run, cluster):
    """Another client gives orders-0 a target of its own while broker 3 copies it for batch 1; batch 2 is next."""
    run.do_all("set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: (1, 5, 3)}, allow_replication_factor_change=True)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert "orders-0" in run.record.submitted(1).changed_by_others
    cluster.produce(ORDERS_0, messages=1, size_bytes=50_000_000)
    cluster.advance(0.001)
    assert (ORDERS_0, 3) in {(c.partition, c.broker) for c in cluster.copying()}


def test_what_another_client_moves_on_under_our_throttle_is_waited_for_as_long_as_the_request_allows(
    reassignment, cluster
):
    """Its leader's rate may be used up by replicas that are in sync: then it never ends."""
    run = reassignment(MOVES[:1], MOVES[1:], catch_up_timeout_minutes=30)
    taken_over(run, cluster)
    began = run.clock.now
    for seconds in (29 * 60, 60):
        with pytest.raises(StillWaiting, match="the throttle of this reassignment is on orders-0"):
            run.wait("admit", 2, started_at=began)
        run.clock.sleep(seconds)
    with pytest.raises(ReassignmentInProgressError, match="orders-0 .it copies under the throttle of this") as error:
        run.wait("admit", 2, started_at=began)
    raised = {"reassignment_id": run.record.reassignment_id, "throttle_mb_per_second": 20}
    assert error.value.advice == (Trigger("kafka_throttle", raised), Rerun("admit", batch=2))


def test_what_another_client_has_taken_over_before_it_was_copied_is_not_under_our_throttle(reassignment, cluster):
    """Its leader has the low rate with which copies begin, and nobody would raise it; producers may write faster."""
    run = reassignment(MOVES)
    before = run.configs()
    run.do_all("set_throttle", "submit_batch")
    for partition in (ORDERS_0, ORDERS_1):
        cluster.alter_reassignments({partition: None})
    cluster.alter_reassignments({ORDERS_0: (5, 1)})
    with pytest.raises(StillWaiting, match="another client is reassigning orders-0: let it finish"):
        run.wait("admit")
    assert run.configs() == before
    assert run.record.journal().is_settled
    assert not any(copy.throttled for copy in cluster.copying())


def slowed_down(run):
    """The cluster's health has lowered the rate during the batch before; while a batch waits, nobody raises it again."""
    slow = RateChange(asked_bytes_per_second=2_000_000, rate_before_slowdown_bytes_per_second=10_000_000)
    run.record.update_journal(lambda j: (j.model_copy(update={"rate_changes": (slow,)}), None))


def test_the_rate_that_is_advised_while_a_batch_waits_is_no_lower_than_before_a_slow_down(reassignment, cluster):
    """It takes the place of the slow-down, and stays when the cluster is healthy."""
    run = reassignment(MOVES[:1], MOVES[1:], catch_up_timeout_minutes=30)
    taken_over(run, cluster)
    slowed_down(run)
    began = run.clock.now
    with pytest.raises(StillWaiting):
        run.wait("admit", 2, started_at=began)
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError) as error:
        run.wait("admit", 2, started_at=began)
    assert error.value.advice[0].params["throttle_mb_per_second"] == 20


def test_the_rate_that_is_enough_for_producers_is_no_lower_than_before_a_slow_down(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=1)
    slowed_down(run)
    began, samples = run.clock.now, SizeSamples.by_clock_of(run.context)
    for _ in range(6):
        run.clock.now += timedelta(seconds=15)
        cluster.produce(ORDERS_0, messages=10, size_bytes=15 * 3_000_000)
        seen = run.look("admit", samples=samples, started_at=began)
    assert isinstance(seen, Failed)
    assert seen.error.advice[0].params["throttle_mb_per_second"] == 10


def test_what_another_client_copies_to_a_broker_of_a_later_batch_gets_no_throttle_of_ours(reassignment, cluster):
    run = reassignment(MOVES[:1], MOVES[1:])
    run.do_all()
    cluster.alter_reassignments({ORDERS_1: (2, 3, 4)}, allow_replication_factor_change=True)
    before = run.configs()
    run.look("admit", 2)
    assert run.configs() == before
    assert "1:4" not in entries(run, "follower.replication.throttled.replicas")


@pytest.mark.parametrize("in_a_later_batch", [False, True])
@pytest.mark.parametrize("supersede", [False, True])
def test_what_supersedes_a_move_of_another_client_can_move_though_the_rest_of_the_batch_is_blocked(
    reassignment, cluster, in_a_later_batch, supersede
):
    to_3, blocked = move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (2, 4))
    run = reassignment(*([[blocked], [to_3]] if in_a_later_batch else [[to_3, blocked]]), supersede=supersede)
    cluster.another_client().alter_reassignments({ORDERS_0: (1, 5)})
    cluster.kill(4)
    seen = run.look("admit")
    assert isinstance(seen, Done if supersede else Waiting)
    assert supersede or "none of its 1 partitions can be moved now: orders-1: broker 4 of the target" in seen.reason


def test_another_clients_move_to_a_dead_broker_names_that_broker_in_the_end(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    cluster.alter_reassignments({ORDERS_3: (1, 5)})
    cluster.kill(5)
    began = run.clock.now
    with pytest.raises(StillWaiting):
        run.wait("admit", started_at=began)
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError, match="orders-3 .*waits for broker 5, which is down") as error:
        run.wait("admit", started_at=began)
    assert error.value.advice == (StartBrokers((5,)), Rerun("admit", batch=1))


def test_another_clients_move_without_a_replica_to_copy_from_names_the_brokers_in_the_end(reassignment, cluster):
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    leaving = run.replicas()["orders-3"]
    cluster.alter_reassignments({ORDERS_3: (4, 5)})
    for broker in leaving:
        cluster.kill(broker)
    began = run.clock.now
    with pytest.raises(StillWaiting):
        run.wait("admit", started_at=began)
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError, match="orders-3 .*which is down") as error:
        run.wait("admit", started_at=began)
    assert error.value.advice == (StartBrokers(tuple(sorted(leaving))), Rerun("admit", batch=1))


def test_another_clients_move_of_a_partition_that_gets_no_leader_is_for_a_person_in_the_end(reassignment, cluster):
    """F19: its only broker was killed, and min.insync.replicas was changed meanwhile. Nothing can be copied then."""
    lone = TopicPartition("lone", 0)
    cluster.create_topic("lone", [(5,)])
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    cluster.kill(5)
    set_min_insync(cluster, "lone", "2")
    set_min_insync(cluster, "lone", "1")
    cluster.restart(5)
    cluster.alter_reassignments({lone: (5, 2)}, allow_replication_factor_change=True)
    began = run.clock.now
    with pytest.raises(StillWaiting, match="lone-0 .it has no leader, and gets none by itself"):
        run.wait("admit", started_at=began)
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError, match="lone-0 .it has no leader") as error:
        run.wait("admit", started_at=began)
    correct, rerun = error.value.advice
    assert correct.what.startswith("give lone-0 a leader")
    assert rerun == Rerun("admit", batch=1)


def test_another_clients_move_of_which_no_live_replica_has_anything_waits_for_the_dead_ones(reassignment, cluster):
    """Seed 13204234: of its two brokers that stay one was up, but had copied nothing yet. The batch waited for weeks."""
    lone = TopicPartition("lone", 0)
    cluster.create_topic("lone", [(5,)])
    run = reassignment(MOVES, catch_up_timeout_minutes=30)
    cluster.kill(5)
    for replicas in ((5, 2), (5, 3)):
        cluster.alter_reassignments({lone: replicas}, allow_replication_factor_change=True)
    began = run.clock.now
    with pytest.raises(StillWaiting, match="lone-0 .it waits for broker 5, which is down"):
        run.wait("admit", started_at=began)
    run.clock.sleep(30 * 60)
    with pytest.raises(ReassignmentInProgressError, match="lone-0 .it waits for broker 5") as error:
        run.wait("admit", started_at=began)
    assert error.value.advice == (StartBrokers((5,)), Rerun("admit", batch=1))
    cluster.restart(5)
    cluster.catch_up_all()
    run.do_all()
    assert run.record.finished_batches() == {1}
