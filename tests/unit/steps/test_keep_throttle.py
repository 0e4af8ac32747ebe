"""What a superseded reassignment has in flight is throttled at every look, also before the first batch of the next one."""

import pytest
from tests.steps_lab import move

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE
from kafka_reassignment.errors import ThrottleInUseError, VerificationError
from kafka_reassignment.model import Batch, ConfigChange, ConfigOperation, ConfigResource
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.waiting import LONGEST_WAIT, Done, Waiting
from kafka_reassignment.steps.clear import clear_throttle
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.throttle import keep_throttle, keep_throttled
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.quick

REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True}
BROKER = ConfigResource.broker(3)


def of(run, reassignment_id):
    return run.context_of(run.store.record(run.cluster_id, reassignment_id))


@pytest.fixture
def superseded(reassignment):
    """A reassignment whose copy to broker 3 is in flight, and another one that has taken its place and has no plan yet."""

    def supersede(**request):
        first = reassignment([move("orders", 0, (1, 2), (1, 3))])
        first.do_all("admit", "set_throttle", "submit_batch")
        preflight(of(first, "second"), REQUEST | request, "bob")
        return first

    return supersede


def rate(run):
    values = run.configs("orders")[BROKER]
    return values[FOLLOWER_RATE].value if FOLLOWER_RATE in values else None


def delete_rate(run):
    run.cluster.alter_configs([ConfigChange(BROKER, FOLLOWER_RATE, ConfigOperation.DELETE)])


def test_a_rate_that_another_tool_deletes_is_back_after_the_next_look(superseded):
    run = superseded()
    before = rate(run)
    delete_rate(run)
    seen = keep_throttle(of(run, "second"))
    assert isinstance(seen, Waiting)
    assert seen.until == run.clock.now + LONGEST_WAIT
    assert rate(run) == before
    assert [e.step for e in of(run, "second").record.audit][-1] == "reinstate_throttle"


def test_the_rate_is_that_of_the_request_which_supersedes_where_that_is_lower(superseded):
    run = superseded(throttle_mb_per_second=2)
    before = rate(run)
    keep_throttle(of(run, "second"))
    assert int(rate(run)) < int(before)


def test_a_throttle_that_cannot_be_put_in_place_is_named_and_does_not_end_the_look(superseded):
    run = superseded()
    delete_rate(run)
    run.cluster.kill(3, fenced=False)
    seen = keep_throttle(of(run, "second"))
    assert isinstance(seen, Waiting)
    assert "The replication throttle of orders-0 is not in place: broker 3 did not answer" in seen.reason


def test_where_nothing_was_taken_over_the_cluster_is_not_asked(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    context, calls = run.context, len(cluster.calls)
    assert keep_throttle(context) == Done("no earlier reassignment has left anything to throttle", is_skipped=True)
    assert len(cluster.calls) == calls


def test_it_ends_where_a_third_reassignment_takes_over(superseded):
    run = superseded()
    preflight(of(run, "third"), REQUEST, "carol")
    assert isinstance(keep_throttle(of(run, "second")), Done)
    assert isinstance(keep_throttle(of(run, "third")), Waiting)


@pytest.mark.parametrize(
    "asked", [{"throttle_mb_per_second": 100}, {"throttle_mb_per_second": None, "unthrottled": True}]
)
def test_what_is_taken_over_keeps_its_own_rate_where_the_request_has_a_higher_one_or_none(superseded, asked):
    run = superseded(**asked)
    before = run.configs("orders")
    delete_rate(run)
    assert isinstance(keep_throttle(of(run, "second")), Waiting)
    assert run.configs("orders") == before


def test_a_batch_of_an_unthrottled_request_gets_no_throttle_of_what_was_superseded(superseded):
    run = superseded(throttle_mb_per_second=None, unthrottled=True)
    delete_rate(run)
    second = of(run, "second")
    again = Batch(1, (move("orders", 0, (1, 2), (1, 3)),))
    assert keep_throttled(second, RecordView(second.record), again) == ""
    assert rate(run) is None


def test_an_unthrottled_request_that_takes_nothing_over_has_no_throttle_to_keep(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))], throttle_mb_per_second=None, unthrottled=True)
    left = "the request asks for no throttle, and no earlier reassignment has left anything to throttle"
    assert keep_throttle(run.context) == Done(left, is_skipped=True)


def test_steps_that_find_what_copies_still_keep_its_throttle_whoever_marked_the_tasks_that_watch(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle", "submit_batch")
    before = rate(run)
    delete_rate(run)
    with pytest.raises(ThrottleInUseError, match="1 of 1 partitions of batch 1 are still reassigning"):
        clear_throttle(run.context, 1)
    assert rate(run) == before
    delete_rate(run)
    with pytest.raises(VerificationError, match="orders-0 is still being reassigned"):
        verify(run.context)
    assert rate(run) == before
    owner = run.store.lock_owner(run.cluster_id)
    assert owner is not None, "a move of this reassignment is in flight: the cluster is not given back"
    assert owner.reassignment_id == "r"
