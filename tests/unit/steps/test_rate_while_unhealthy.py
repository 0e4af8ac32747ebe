"""A lower rate while the cluster is not well, and the earlier one afterwards."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.steps_lab import StillWaiting, move
from tests.unit.steps.throttle_lab import look

from kafka_reassignment.advice import Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.admission import Health
from kafka_reassignment.decisions.rate import RateDue, change_rates, later_order, rate_due, rate_in_force
from kafka_reassignment.decisions.throttle import Journal, RateChange, Side
from kafka_reassignment.errors import CatchUpTimeoutError, InvalidThrottleError
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.request import parse_request
from kafka_reassignment.steps.rate import change_rate

pytestmark = pytest.mark.quick

MOVES = [move("orders", 0, (1, 2), (1, 3))]
ELSEWHERE = TopicPartition("orders", 3)
REQUEST = parse_request({"job": "rebalance", "throttle_mb_per_second": 10, "mb_per_second_while_unhealthy": 2})
UNHEALTHY = Health(under_replicated=(ELSEWHERE,))
SLOWED = Journal(
    rate_changes=(RateChange(asked_bytes_per_second=2_000_000, rate_before_slowdown_bytes_per_second=10_000_000),)
)


OF_BROKER_3 = RateChange(asked_bytes_per_second=1_000_000, brokers=(3,))


@pytest.mark.parametrize(
    ("journal", "found", "due"),
    [
        (Journal(), Health(), None),
        (Journal(), UNHEALTHY, (2_000_000, 10_000_000)),
        (SLOWED, UNHEALTHY, None),
        (SLOWED, Health(), (None, None)),
        (Journal(rate_changes=(RateChange(asked_bytes_per_second=1_000_000),)), UNHEALTHY, None),
        (Journal(rate_changes=(RateChange(asked_bytes_per_second=1_000_000),)), Health(), None),
        (Journal(rate_changes=(OF_BROKER_3,)), UNHEALTHY, (2_000_000, 10_000_000)),
        (Journal(rate_changes=(OF_BROKER_3, *SLOWED.rate_changes)), UNHEALTHY, None),
    ],
    ids=[
        "well",
        "lower it",
        "is lowered",
        "raise it",
        "lower already",
        "an operator's rate stays",
        "one broker is lower already, and the others are not",
        "all of them are lowered",
    ],
)
def test_the_rate_follows_health_and_nothing_else(journal, found, due):
    decided = rate_due(REQUEST, journal, found)
    assert (decided and (decided.bytes_per_second, decided.rate_before_slowdown_bytes_per_second)) == due
    assert isinstance(decided, RateDue | None)


def test_without_the_wish_nothing_changes():
    request = parse_request({"job": "rebalance", "throttle_mb_per_second": 10})
    assert rate_due(request, Journal(), UNHEALTHY) is None
    tolerant = parse_request({**REQUEST.model_dump(exclude_none=True), "allowed_unhealthy_partitions": 1})
    assert rate_due(tolerant, Journal(), UNHEALTHY) is None
    unthrottled = parse_request({"job": "rebalance", "unthrottled": True})
    assert rate_due(unthrottled, Journal(), UNHEALTHY) is None


def rates(run):
    """Every rate that is set on a broker."""
    keys = {side.rate_key for side in Side}
    found = (c for r, c in run.configs("orders").items() if r != ConfigResource.topic("orders"))
    return {int(value.value) for configs in found for key, value in configs.items() if key in keys and value.value}


def test_the_rate_goes_down_during_a_batch_and_up_again(reassignment, cluster):
    run = reassignment(MOVES, mb_per_second_while_unhealthy=2)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    high = rates(run)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    cluster.fall_behind(ELSEWHERE, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert rate_in_force(run.context.request, run.record.journal()) == 2_000_000
    assert max(rates(run)) < min(high)
    message = next(e for e in run.record.audit if e.step == "change_rate")
    assert "1 partitions are unhealthy (orders-3): rate of all brokers" in message.summary
    cluster.catch_up(ELSEWHERE, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert rates(run) == high
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.configs("orders") == before


def test_a_replica_out_of_sync_of_a_partition_that_is_moved_lowers_no_rate(reassignment, cluster):
    """It copies under the throttle of the batch: a lower rate would hold it back, or keep it out for ever."""
    run = reassignment(MOVES, mb_per_second_while_unhealthy=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    high = rates(run)
    cluster.fall_behind(TopicPartition("orders", 0), 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert rates(run) == high


def test_what_later_batches_repair_lowers_no_rate(reassignment, cluster):
    """Broker 2 is dead, and the plan replaces its replicas: a lower rate would only put that off."""
    cluster.kill(2)
    run = reassignment(
        [move("orders", 0, (1, 2), (1, 4))],
        [move("orders", 1, (2, 3), (4, 3)), move("orders", 3, (1, 2), (1, 4))],
        mb_per_second_while_unhealthy=2,
    )
    run.do_all("admit", "set_throttle", "submit_batch")
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert rate_in_force(run.context.request, run.record.journal()) == 10_000_000


def test_an_operator_may_change_the_rate_meanwhile(reassignment, cluster):
    run = reassignment(MOVES, mb_per_second_while_unhealthy=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fall_behind(ELSEWHERE, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    change_rate(run.context, asked_bytes_per_second=1_000_000)
    cluster.catch_up(ELSEWHERE, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert rate_in_force(run.context.request, run.record.journal()) == 1_000_000, (
        "the operator's rate is not raised by health"
    )


def slowed_down(reassignment, cluster, **request):
    run = reassignment(MOVES, mb_per_second_while_unhealthy=2, catch_up_timeout_minutes=5, **request)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fall_behind(ELSEWHERE, 2)
    look(run)
    assert rates(run) == {2_000_000}
    return run


def late(run):
    """The advice of a batch that did not catch up in time."""
    began = run.clock.now
    run.clock.sleep(301)
    with pytest.raises(CatchUpTimeoutError) as error:
        run.wait("sense_isr_catch_up", started_at=began)
    return error.value.advice


def test_a_late_batch_waits_for_the_end_of_a_slow_down_and_asks_for_no_rate_that_it_lowers_again(reassignment, cluster):
    """Twice the lowered rate was lowered at the next look, for ever, and replaced the higher one afterwards."""
    run = slowed_down(reassignment, cluster)
    wait, again = late(run)
    assert again == Rerun("sense_isr_catch_up", batch=1)
    assert isinstance(wait, WaitUntil)
    assert str(wait) == (
        "wait until other partitions of the cluster are healthy again (1 partitions are unhealthy (orders-3)): with more than 0 unhealthy "
        "ones brokers copy at 2 MB/s at most, as 'mb_per_second_while_unhealthy' of the request asks"
    )
    cluster.catch_up(ELSEWHERE, 2)
    look(run)
    assert rate_in_force(run.context.request, run.record.journal()) == 10_000_000
    assert late(run)[0] == Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 20.0})


def test_a_slow_down_that_does_not_limit_what_is_waited_for_is_not_waited_for(reassignment, cluster):
    run = slowed_down(reassignment, cluster)
    change_rate(run.context, asked_bytes_per_second=1_000_000, brokers=[1, 3])
    assert isinstance(late(run)[0], Trigger)


def test_what_a_person_asks_for_meanwhile_says_that_the_slow_down_holds(reassignment, cluster):
    run = slowed_down(reassignment, cluster)
    said = change_rate(run.context, asked_bytes_per_second=20_000_000)
    assert "the next look of a batch lowers it again until other partitions of the cluster are healthy again" in said
    assert "at 2 MB/s at most" in said
    look(run)
    assert rates(run) == {2_000_000}
    assert "lowers it again" not in change_rate(run.context, asked_bytes_per_second=1_500_000)


@pytest.mark.parametrize("rate", [10, 20, 0.5])
def test_a_rate_that_is_not_lower_is_refused(rate):
    with pytest.raises(InvalidThrottleError, match="mb_per_second_while_unhealthy is"):
        parse_request({"job": "rebalance", "throttle_mb_per_second": 10, "mb_per_second_while_unhealthy": rate})


def test_a_slow_down_ends_though_the_rate_of_single_brokers_was_set_meanwhile():
    of_all = RateChange(asked_bytes_per_second=1_000_000)
    slowed = SLOWED.rate_changes
    assert rate_due(REQUEST, Journal(rate_changes=(*slowed, OF_BROKER_3)), Health()) == RateDue(
        None, "the cluster is healthy again"
    )
    by_hand, _ = change_rates(SLOWED, {}, asked_bytes_per_second=1_000_000)
    assert by_hand.rate_changes == (of_all,)


def rate_of(run, broker, side=Side.FOLLOWER):
    """What is asked for one broker, by its config: it is set a little lower than asked for."""
    value = int(run.configs("orders")[ConfigResource.broker(broker)][side.rate_key].value)
    return next(mb for mb in (1, 2, 10) if 0.9 * mb <= value / 1e6 <= mb)


def test_a_slow_down_lowers_all_other_brokers_and_raises_none(reassignment, cluster):
    run = reassignment([*MOVES, move("orders", 1, (2, 3), (4, 3))], mb_per_second_while_unhealthy=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    change_rate(run.context, asked_bytes_per_second=1_000_000, brokers=[3])
    cluster.fall_behind(ELSEWHERE, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert (rate_of(run, 3), rate_of(run, 4)) == (1, 2)
    cluster.catch_up(ELSEWHERE, 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert (rate_of(run, 3), rate_of(run, 4)) == (1, 10)
    healthy = [e for e in run.record.audit if e.step == "change_rate"][-1]
    assert healthy.summary.startswith(
        "the cluster is healthy again: rate of all brokers (leader and follower side): as before"
    )


def test_a_change_that_nobody_asked_for_does_not_forget_what_a_person_asked_for():
    """A retry of an earlier order gives way to the later one also where the cluster's health has lowered the rate since."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    asked = RateChange(asked_bytes_per_second=4_000_000, at=at)
    lowered, _ = change_rates(Journal(rate_changes=(asked,)), {}, asked_bytes_per_second=2_000_000, because="unhealthy")
    assert [c.asked_bytes_per_second for c in lowered.rate_changes] == [4_000_000, 2_000_000]
    assert later_order(lowered, at - timedelta(minutes=1), None, tuple(Side)) == asked
    by_hand, _ = change_rates(lowered, {}, asked_bytes_per_second=9_000_000)
    assert [c.asked_bytes_per_second for c in by_hand.rate_changes] == [9_000_000]
