"""Raising a partition count on a fake cluster: killed anywhere, with others about."""

import pytest
from tests.partition_count_lab import STEPS
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    ReassignmentInProgressError,
    StalePlanError,
    VerificationError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.longer

BEFORE = {0: (1, 2), 1: (2, 3)}
PLANNED = {2: (4, 5), 3: (6, 1)}
AFTER = BEFORE | PLANNED


class ProcessDiedError(BaseException):
    """What a SIGKILL looks like from inside a test."""


def test_a_topic_gets_the_partitions_it_was_promised(growing):
    run = growing()
    message = run.do_all()
    assert run.replicas("orders") == AFTER
    assert (
        message
        == "topic orders has 4 partitions; those that were added (2) are where they were planned, led and in sync"
    )
    assert run.summaries() == [
        "preflight_partition_count succeeded: topic orders has 2 partitions, 4 are wanted",
        "plan_placement succeeded: orders grows from 2 to 4 partitions: 2 new, with 2 replicas each",
        "create_partitions succeeded: 2 partitions added: orders has 4 now",
        f"verify_partition_count succeeded: {message}",
    ]
    assert run.record.audit.verify() == 4


def test_the_audit_trail_says_what_was_added(growing):
    run = growing()
    run.do_all()
    created = next(e for e in run.record.audit if e.step == "create_partitions")
    assert created.facts["created"] == {"2": [4, 5], "3": [6, 1]}
    assert (created.actor.requested_by, created.actor.try_number) == ("ann", 3)


def test_every_step_may_run_again_and_adds_nothing(growing, small_cluster):
    run = growing()
    run.do_all()
    run.do_all()
    assert run.replicas("orders") == AFTER
    assert small_cluster.calls.count("create_partitions") == 2, "one to validate, one to add"
    assert run.summaries()[6].startswith(
        "create_partitions succeeded: the partitions of orders were added at 2026-01-01"
    )


def test_that_keys_move_is_reported_when_planning_and_when_adding(growing, caplog):
    run = growing()
    text = run.do_all("preflight", "plan_placement")
    note = (
        "Keys map to other partitions of orders once it has 4 instead of 2: a key's earlier and later messages lie in "
        "different partitions, their order is lost, and consumers that keep state by partition see keys move."
    )
    assert f"* {note}" in text
    run.do("create_partitions")
    assert ("tests", 30, note) in caplog.record_tuples


def test_a_compacted_topic_is_reported_apart(growing, small_cluster):
    small_cluster.create_topic("state", [(1, 2)], configs={"cleanup.policy": "compact,delete"})
    text = growing(topic="state", partitions=2).do_all("preflight", "plan_placement")
    assert "* state is compacted: the last value of a key that moves stays in its old partition too, for ever." in text


def test_validating_only_says_exactly_what_would_be_added_and_adds_nothing(growing, small_cluster):
    run = growing(validate_only=True)
    text = run.do_all("preflight", "plan_placement")
    assert text.startswith(
        "Validated only; this would be done: orders grows from 2 to 4 partitions: 2 new, with 2 replicas each\n\n"
        "| new partition | replicas, the preferred leader first |\n|-|-|\n| orders-2 | 4,5 |\n| orders-3 | 6,1 |\n"
    )
    assert "| 4 | a | 0 bytes | 0 | 1 | 0 | 1 |" in text
    assert run.do("create_partitions") is False
    assert run.replicas("orders") == BEFORE
    assert run.summaries()[-1] == "create_partitions skipped: validated only; nothing was changed in the cluster"


# ------------------------------------------------------------------ killed


@pytest.mark.parametrize(
    "error", [ProcessDiedError(), ClusterUnavailableError("no answer")], ids=["killed", "no answer"]
)
@pytest.mark.parametrize("applied", [0, None], ids=["before it took effect", "after"])
def test_a_rerun_after_dying_at_the_call_adds_what_is_missing_and_no_more(growing, small_cluster, error, applied):
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.fail("create_partitions", error, applied=applied)
    with pytest.raises(type(error)):
        run.do("create_partitions")
    run.do_all("create_partitions", "verify")
    assert run.replicas("orders") == AFTER
    message = (
        "2 partitions added: orders has 4 now"
        if applied == 0
        else "nothing left to add, an earlier try or another client has done it: orders has at least 4 now"
    )
    assert f"create_partitions succeeded: {message}" in run.summaries()


@pytest.mark.parametrize("name", STEPS)
def test_dying_after_any_step_and_starting_all_over_ends_the_same(growing, name):
    run = growing()
    run.do_all(*STEPS[: STEPS.index(name) + 1])
    run.do_all()
    assert run.replicas("orders") == AFTER


def test_dying_while_planning_leaves_nothing_and_the_rerun_plans(growing, small_cluster):
    run = growing()
    run.do("preflight")
    small_cluster.fail("create_partitions", ProcessDiedError())
    with pytest.raises(ProcessDiedError):
        run.do("plan_placement")
    assert run.kept.planned() is None
    run.do_all("plan_placement", "create_partitions", "verify")
    assert run.replicas("orders") == AFTER


def test_a_retry_adds_what_was_planned_though_loads_have_changed(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.produce(TopicPartition("orders", 0), messages=1, size_bytes=10**9)
    small_cluster.add_broker(7, "a")
    run.do_all("plan_placement", "create_partitions")
    assert run.replicas("orders") == AFTER


def test_a_replication_factor_that_was_changed_since_is_no_reason_for_red(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement", "create_partitions")
    more = {
        p: (*s.replicas, 3 if 3 not in s.replicas else 1)
        for p, s in small_cluster.describe_partitions(["orders"]).items()
    }
    last, *others = sorted(more, reverse=True)
    assert not any(small_cluster.alter_reassignments({last: more[last]}, allow_replication_factor_change=True).values())
    small_cluster.catch_up_all()
    with pytest.raises(VerificationError, match=f"{last} is on"):
        run.do("verify")
    rest = {p: more[p] for p in others}
    assert not any(small_cluster.alter_reassignments(rest, allow_replication_factor_change=True).values())
    small_cluster.catch_up_all()
    run.do("verify")


def test_metadata_that_lags_behind_a_crash_does_not_lead_to_a_second_growth(growing, small_cluster):
    """Right after the controller has added them, a broker may still show the topic as it was."""
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.fail("create_partitions", ProcessDiedError(), applied=None)
    lag = small_cluster.stale_metadata()
    lag.__enter__()
    with pytest.raises(ProcessDiedError):
        run.do("create_partitions")
    run.clock.on_sleep.append(lambda: lag.__exit__(None, None, None))
    run.do("create_partitions")
    assert run.replicas("orders") == AFTER
    assert (
        run.summaries()[-1]
        == "create_partitions succeeded: nothing left to add, an earlier try or another client has done it: orders has at least 4 now"
    )


# ------------------------------------------------------------------ with others about


def test_a_topic_grown_meanwhile_by_another_client_is_reported_and_left_alone(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.add_partitions("orders", [(1, 2)])
    with pytest.raises(StalePlanError, match=r"expected 2 as when it was planned: another client has added some"):
        run.do("create_partitions")
    assert len(run.replicas("orders")) == 3


@pytest.mark.parametrize("others", [[(1, 2), (3, 4)], [(1, 2), (3, 4), (5, 6)]], ids=["4", "5"])
def test_a_topic_that_another_client_has_grown_to_the_wanted_count_is_done(growing, small_cluster, others):
    """Its advice was to ask for that count again, and that was refused: there is nothing to do."""
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.add_partitions("orders", others)
    run.do("create_partitions")
    assert len(run.replicas("orders")) == 2 + len(others)
    assert "moved since: orders-2 is on 1,2 rather than" in run.do("verify")


def test_a_rerun_days_after_dying_at_the_call_goes_on_though_a_new_partition_was_moved_since(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement")
    small_cluster.fail("create_partitions", ProcessDiedError(), applied=True)
    with pytest.raises(ProcessDiedError):
        run.do("create_partitions")
    small_cluster.alter_reassignments({TopicPartition("orders", 2): (6, 5)})
    small_cluster.catch_up_all()
    run.do("create_partitions")
    assert run.do("verify").endswith("are led and in sync; moved since: orders-2 is on 6,5 rather than 4,5")


def test_a_topic_grown_between_our_look_and_our_request_is_left_alone(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement")
    with small_cluster.stale_metadata():
        small_cluster.add_partitions("orders", [(1, 2)])
        with pytest.raises(InvalidRequestError) as refused:
            run.do("create_partitions")
    assert str(refused.value) == (
        "The cluster refused adding partitions 2, 3 to topic orders (INVALID_REPLICA_ASSIGNMENT: Attempted to add 1 additional "
        "partition(s), but only 2 assignment(s) were specified.). Trigger kafka_partition_count with topic orders, "
        "partitions 4"
    )
    assert len(run.replicas("orders")) == 3


def test_more_that_somebody_adds_behind_ours_is_reported(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement", "create_partitions")
    small_cluster.add_partitions("orders", [(1, 2)])
    assert run.do("verify").endswith("led and in sync; another client has added 1 more")


@pytest.mark.parametrize("name", STEPS[:3])
def test_a_topic_in_flight_is_refused_at_every_step_and_goes_on_when_it_has_landed(growing, small_cluster, name):
    run, moving = growing(), TopicPartition("orders", 0)
    for earlier in STEPS[: STEPS.index(name)]:
        run.do(earlier)
    small_cluster.hold_back(moving, 6)
    assert small_cluster.alter_reassignments({moving: (1, 6)}) == {moving: None}
    with pytest.raises(
        ReassignmentInProgressError, match=r"1 of 2 partitions of topic orders are .*\(orders-0\)"
    ) as refused:
        run.do(name)
    assert refused.value.advice[-1] == Rerun(name)
    assert len(run.replicas("orders")) == 2
    small_cluster.catch_up(moving)
    run.do_all()
    assert len(run.replicas("orders")) == 4


@pytest.fixture
def half_way(small_cluster, tmp_path):
    """A reassignment right before a drop: nothing is in flight, and both of the topic's partitions have three replicas."""
    moves = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (2, 4))]
    run = Run(small_cluster, UPath(tmp_path), [moves])
    run.when_waiting = small_cluster.catch_up_all
    return run


EXPANDED = {0: (1, 2, 3), 1: (2, 3, 4)}
REFUSED_HALF_WAY = r"2 of 2 partitions of topic orders are being reassigned \(orders-0, orders-1\)"


def expand(run):
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    assert run.cluster.list_reassignments() == {}


@pytest.mark.parametrize("name", STEPS[:3])
def test_a_topic_between_expansion_and_drop_is_refused_at_every_step_and_gets_its_own_factor_then(
    growing, half_way, name
):
    """Else the replicas that are about to be dropped would count into the replication factor of the new partitions."""
    run = growing()
    for earlier in STEPS[: STEPS.index(name)]:
        run.do(earlier)
    expand(half_way)
    assert run.replicas("orders") == EXPANDED
    with pytest.raises(ReassignmentInProgressError, match=REFUSED_HALF_WAY) as refused:
        run.do(name)
    assert refused.value.advice[-1] == Rerun(name)
    half_way.do_all("drop_old_replicas", "clear_throttle")
    run.do_all()
    assert {number: len(replicas) for number, replicas in run.replicas("orders").items()} == dict.fromkeys(range(4), 2)


def test_a_drop_while_the_brokers_are_looked_at_does_not_leave_its_old_replicas_in_the_factor(
    growing, half_way, small_cluster, monkeypatch
):
    run = growing()
    run.do("preflight")
    expand(half_way)
    look = small_cluster.describe_log_dirs

    def drop_meanwhile(*args, **kwargs):
        monkeypatch.undo()
        half_way.do_all("drop_old_replicas", "clear_throttle")
        return look(*args, **kwargs)

    monkeypatch.setattr(small_cluster, "describe_log_dirs", drop_meanwhile)
    run.do_all("plan_placement", "create_partitions")
    assert {len(replicas) for replicas in run.replicas("orders").values()} == {2}


def test_what_a_stop_has_not_settled_yet_is_waited_for(growing, half_way):
    expand(half_way)
    cancel.stop(half_way.context, CancelScope(), by="bob")
    with pytest.raises(ReassignmentInProgressError, match=REFUSED_HALF_WAY):
        growing().do("preflight")
    half_way.until_settled(CancelScope())
    growing().do("preflight")


def test_what_was_superseded_and_is_not_settled_yet_is_waited_for(growing, half_way, small_cluster):
    expand(half_way)
    second = half_way.context_of(half_way.store.record(half_way.cluster_id, "second"))
    preflight(second, {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True}, "bob")
    with pytest.raises(ReassignmentInProgressError, match=REFUSED_HALF_WAY):
        growing().do("preflight")


def test_a_reassignment_of_another_topic_keeps_no_topic_from_growing(growing, half_way, small_cluster):
    small_cluster.create_topic("state", [(1, 2)])
    expand(half_way)
    growing(topic="state", partitions=2).do_all()


def test_a_replication_factor_raised_meanwhile_makes_the_plan_stale(growing, small_cluster):
    run = growing()
    run.do_all("preflight", "plan_placement")
    targets = {TopicPartition("orders", 0): (1, 2, 3), TopicPartition("orders", 1): (2, 3, 1)}
    small_cluster.alter_reassignments(targets, allow_replication_factor_change=True)
    with pytest.raises(StalePlanError, match=r"has 3 replicas of a partition, expected 2 as when it was planned"):
        run.do("create_partitions")


def decommission(run, broker):
    lock = ClusterLock(reassignment_id="decommission", since=run.clock.now, requested_by="bob")
    asked = {"job": "decommission", "brokers": [broker], "throttle_mb_per_second": 10}
    run.store.acquire(run.cluster_id, lock)
    run.store.record(run.cluster_id, "decommission").write_request(
        RecordedRequest(
            cluster_id=run.cluster_id,
            reassignment_id="decommission",
            started_at=run.clock.now,
            requested_by="bob",
            request=ReassignmentRequest.model_validate(asked),
        )
    )
    return lock


def test_a_broker_that_a_reassignment_is_emptying_gets_nothing(growing):
    run = growing()
    lock = decommission(run, 4)
    text = run.do_all("preflight", "plan_placement")
    assert "* Broker 4 gets none: reassignment decommission is emptying it." in text
    run.do_all("create_partitions", "verify")
    assert all(4 not in replicas for replicas in run.replicas("orders").values())
    assert run.store.lock_owner(run.cluster_id) == lock, "the lock is the other's"


def test_a_sweep_that_has_the_lock_keeps_no_placement_waiting(growing):
    run = growing()
    lock = ClusterLock(reassignment_id="kafka_throttle_sweep__1", since=run.clock.now, requested_by="the schedule")
    run.store.acquire(run.cluster_id, lock)
    run.do_all("preflight", "plan_placement", "create_partitions", "verify")


def test_a_plan_on_a_broker_that_is_being_emptied_by_now_is_stale(growing):
    run = growing()
    run.do_all("preflight", "plan_placement")
    decommission(run, 4)
    with pytest.raises(
        StalePlanError, match=r"may not take replicas now \(4: reassignment decommission is emptying it\)"
    ):
        run.do("create_partitions")
