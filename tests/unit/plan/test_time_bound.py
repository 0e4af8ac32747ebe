"""What bounds the time of a plan, in words."""

import pytest
from tests.unit.plan.test_report import batch, broker, summary

from kafka_reassignment.plan.time_bound import time_bound
from kafka_reassignment.request import Job

pytestmark = pytest.mark.quick

GB = 1_000_000_000
RATE = 50_000_000


def bound_of(*brokers, rate=RATE, job=Job.DECOMMISSION, mode="balanced", **changes):
    """The sentences for brokers given as (received, sent) in GB, whose one batch takes as long as the busiest."""
    found = tuple(
        broker(number, "a", 0, 0).model_copy(update={"bytes_received": got * GB, "bytes_sent": sent * GB, **changes})
        for number, (got, sent) in enumerate(brokers, 1)
    )
    busiest = max(max(b.bytes_received, b.bytes_sent) for b in found)
    return time_bound(summary(brokers=found, batches=(batch(1, busiest),), job=job, mode=mode), rate)


def test_a_receiver_that_must_get_its_bytes_is_named_with_its_time_and_the_next_busiest():
    # 5 GB is the fair share (tests.unit.plan.test_report), 4.5 GB the least inside the tolerance of 10 %.
    what, why, shorter = bound_of((4.5, 0), (0, 3), (1.5, 0))
    assert what == (
        "The time is bound by what broker 1 receives: 4.500 GB, 0:01:30 at 50 MB/s. The mean of the 2 brokers that "
        "receive is 3.000 GB."
    )
    assert why == (
        "The job asks for it: broker 1 has to get 4.500 GB to come inside the tolerance of 10%. No other plan of this "
        "job is over earlier."
    )
    assert shorter == (
        "A higher rate of 75 MB/s for broker 1 alone shortens it to 0:01:00; then broker 2 sends longest."
    )


def test_a_receiver_that_gets_more_than_it_needs_gets_it_for_evenness():
    _, why, _ = bound_of((9, 0), (1, 3))
    assert why.startswith("Emptier brokers get more, up to twice the mean")


def test_a_job_that_does_not_balance_asks_for_no_bytes_to_come_inside_the_tolerance():
    _, why, _ = bound_of((4.5, 0), (0, 3), mode="fewest_bytes")
    assert why.startswith("Emptier brokers get more, up to twice the mean")
    _, why, _ = bound_of((4.5, 0), (0, 3), job=Job.APPLY_JSON)
    assert why == "The reassignment JSON puts these replicas there."


def test_a_sender_that_alone_has_the_bytes_is_forced():
    what, why, _ = bound_of((1, 8), (2, 0), bytes_sent_alone=6 * GB)
    assert what.startswith("The time is bound by what broker 1 sends: 8.000 GB")
    assert why.startswith("6.000 GB of it no other replica can send")


def test_a_sender_whose_partitions_others_could_send_leads_them():
    _, why, _ = bound_of((1, 8), (2, 0))
    assert why.startswith("It leads these partitions.")


def test_where_several_are_as_busy_one_higher_rate_is_no_help():
    _, _, shorter = bound_of((9, 0), (9, 0), (1, 9))
    assert shorter == "3 brokers are about as busy: only a higher rate for all of them shortens it."


def test_without_a_rate_no_time_is_named():
    what, _, shorter = bound_of((9, 0), (0, 4), rate=None)
    assert what.startswith("The time is bound by what broker 1 receives: 9.000 GB. The mean")
    assert shorter == "A higher rate for broker 1 alone shortens it; then broker 2 sends longest."


def test_batches_that_take_longer_than_the_busiest_broker_are_named():
    brokers = (broker(1, "a", 0, 2 * GB), broker(2, "a", 1 * GB, 0))
    plan = summary(brokers=brokers, batches=(batch(1, 2 * GB), batch(2, GB)))
    assert time_bound(plan, RATE)[-1].startswith("Its batches together take 1.50 times as long")


def test_a_plan_that_copies_nothing_is_bound_by_nothing():
    assert time_bound(summary(brokers=(broker(1, "a", 1, 1),)), RATE) == ()
    assert time_bound(summary(brokers=()), RATE) == ()
