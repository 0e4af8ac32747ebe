"""What cannot be submitted or throttled, and what the errors advise."""

from dataclasses import replace

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from tests.unit.steps.throttle_lab import (
    MOVES,
    ORDERS,
    ORDERS_0,
)

from kafka_reassignment.advice import Correct, Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.throttle import (
    FOLLOWER_REPLICAS,
    THROTTLE_KEYS,
    Side,
)
from kafka_reassignment.errors import (
    BatchIncompleteError,
    InvalidRequestError,
    InvalidThrottleError,
    NotApprovedError,
    ThrottleInUseError,
    ThrottleMissingError,
    is_worth_a_retry,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Refusal, ResourceKind
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import answered, approval
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.waiting import Waiting
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate

pytestmark = pytest.mark.longer


# Submissions that became something else (F36)


class RacedCluster(FakeCluster):
    """Another client moves orders-0 between our look and our submission."""

    raced_to: tuple[int, ...] | None = None

    def alter_reassignments(self, targets, **options):
        if self.raced_to and targets.get(ORDERS_0):
            theirs, self.raced_to = self.raced_to, None
            self.another_client().alter_reassignments({ORDERS_0: theirs}, allow_replication_factor_change=True)
        return super().alter_reassignments(targets, **options)


def test_an_expansion_that_would_drop_replicas_is_cancelled_before_anything_is_lost(reassignment, cluster):
    cluster.__class__ = RacedCluster
    cluster.raced_to = (3, 4)
    run = reassignment([move("orders", 0, (1, 2), (3, 4)), MOVES[1]])
    run.do_all("admit", "set_throttle", "submit_batch")
    assert ORDERS_0 not in cluster.list_reassignments()
    assert run.replicas()["orders-0"] == (1, 2), "Kafka would have dropped 1 and 2, though the expansion keeps them"
    left_out = run.record.submitted(1).left_out["orders-0"]
    assert "another client moved it at the same moment: in flight to 3,4 (adding 3,4, removing 1,2)" in left_out
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-1"] == (4, 3)


def test_a_move_that_another_client_submits_over_ours_is_left_alone(reassignment, cluster, monkeypatch):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    alter = cluster.alter_reassignments

    def overtaken(targets, **kwargs):
        replies = alter(targets, **kwargs)
        if targets.get(ORDERS_0) == (1, 2, 3):
            cluster.another_client().alter_reassignments({ORDERS_0: (5, 6, 4)}, allow_replication_factor_change=True)
        return replies

    monkeypatch.setattr(cluster, "alter_reassignments", overtaken)
    run.do("submit_batch")
    assert set(cluster.list_reassignments()[ORDERS_0].target) == {4, 5, 6}
    assert "left alone" in run.record.submitted(1).left_out["orders-0"]


# Lists that are too long (A7)


def test_a_batch_whose_list_kafka_would_not_take_is_refused_before_anything_is_set(reassignment, cluster):
    brokers = (4, 5, 6)
    cluster.create_topic("wide", [(1, 2, 3)] * 2_500)
    run = reassignment([move("wide", n, (1, 2, 3), brokers, 0) for n in range(2_500)], brokers=[5])
    before = run.configs("orders", "wide")
    for step in ("set_throttle", "submit_batch"):
        with pytest.raises(
            InvalidThrottleError, match="topic wide would have 49169 bytes, expected at most 32767"
        ) as error:
            run.do(step)
        stop, again = error.value.advice
        assert stop == Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"})
        assert again.dag_id == "kafka_reassignment"
        assert again.params["brokers"] == [5]
        assert again.params["partition_movements"] == 1_499
    assert run.configs("orders", "wide") == before
    assert run.record.journal().is_settled
    assert cluster.altered == []


def test_what_others_have_in_a_list_counts(reassignment, cluster):
    theirs = ",".join(f"{n}:9" for n in range(5_000, 10_450))
    cluster.alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, theirs)])
    run = reassignment(MOVES)
    with pytest.raises(InvalidThrottleError, match=f"{len(theirs)} of them are there already") as error:
        run.do("set_throttle")
    assert error.value.advice == (
        Correct(f"remove what is not needed any more from {FOLLOWER_REPLICAS} of topic orders"),
        Rerun("set_throttle", batch=1),
    )
    assert run.configs("orders")[ORDERS][FOLLOWER_REPLICAS].value == theirs


# What brokers refuse for good


class RefusingCluster(FakeCluster):
    """Brokers that refuse every change of topics' configs."""

    refusal: Refusal | None = None

    def alter_configs(self, changes):
        topics = {c.resource for c in changes if c.resource.kind is ResourceKind.TOPIC} if self.refusal else set()
        replies = super().alter_configs([c for c in changes if c.resource not in topics])
        return {**replies, **dict.fromkeys(topics, self.refusal)}


@pytest.fixture
def refusing(cluster):
    cluster.__class__ = RefusingCluster
    cluster.refusal = Refusal("POLICY_VIOLATION", "the platform team's only")
    return cluster


@pytest.mark.parametrize(
    ("code", "do"),
    [
        (
            "POLICY_VIOLATION",
            "let the brokers' policy (alter.config.policy.class.name) take throttle configs of topic orders",
        ),
        ("INVALID_CONFIG", "correct the configs that brokers do not take of topic orders"),
        ("TOPIC_AUTHORIZATION_FAILED", "give the connection's principal the right AlterConfigs on topic orders"),
    ],
)
@pytest.mark.parametrize("step", ["set_throttle", "submit_batch"])
def test_a_lasting_refusal_is_final_and_says_what_to_correct_and_of_what(reassignment, refusing, code, do, step):
    refusing.refusal = Refusal(code, "never")
    run = reassignment(MOVES)
    with pytest.raises(ThrottleMissingError, match=f"not in place: topic orders: {code}: never, ") as error:
        run.do(step)
    assert error.value.advice == (Correct(do), Rerun("set_throttle", batch=1))
    assert not is_worth_a_retry(error.value)
    assert refusing.altered == []
    refusing.refusal = None
    run.do_all("set_throttle", "submit_batch")


def test_a_throttle_that_is_refused_for_good_leaves_no_part_of_it(reassignment, refusing):
    """Leaders would stay at the low rate with which copies begin; no teardown runs where the setup has failed."""
    brokers = [ConfigResource.broker(b) for b in range(1, 7)]
    before = refusing.describe_configs(brokers, THROTTLE_KEYS)
    run = reassignment(MOVES)
    with pytest.raises(ThrottleMissingError, match="the platform team's only"):
        run.do("set_throttle")
    assert refusing.describe_configs(brokers, THROTTLE_KEYS) == before
    assert run.record.journal().is_settled
    refusing.refusal = None
    run.do_all()
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_refusal_that_passes_is_waited_for_beside_the_resource_that_it_is_of(reassignment, refusing):
    refusing.refusal = Refusal("UNKNOWN_SERVER_ERROR", "oops")
    with pytest.raises(ThrottleMissingError, match="topic orders: UNKNOWN_SERVER_ERROR: oops") as error:
        reassignment(MOVES[:1]).do("set_throttle")
    assert is_worth_a_retry(error.value)


def test_what_copies_is_looked_after_though_a_part_of_its_throttle_is_refused_for_good(submitted, refusing):
    """The step would end otherwise, and with it the looks that mend the rest."""
    theirs = refusing.another_client()
    refusing.refusal = None
    theirs.alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.DELETE)])
    refusing.refusal = Refusal("POLICY_VIOLATION", "never")
    waits = submitted.look("sense_isr_catch_up")
    assert isinstance(waits, Waiting)
    assert "they copy without what is missing" in waits.reason
    assert (
        "Let the brokers' policy (alter.config.policy.class.name) take throttle configs of topic orders" in waits.reason
    )


# What the errors advise (G7, G8)


def test_a_rate_is_changed_only_while_the_reassignment_runs(submitted):
    missing = submitted.context_of(submitted.store.record(submitted.cluster_id, "manual__1"))
    not_named = replace(missing, actor=missing.actor.model_copy(update={"run_id": "manual__1"}))
    for asks, advice in (
        (not_named, Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 5})),
        (missing, Correct("correct the id: there is no reassignment manual__1")),
    ):
        with pytest.raises(
            InvalidRequestError, match="manual__1 is not running: .* is locked by r: there is no rate"
        ) as busy:
            change_rate(asks, asked_bytes_per_second=5_000_000)
        assert busy.value.advice == (advice,)
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    submitted.finish()
    with pytest.raises(InvalidRequestError, match="Reassignment r of cluster fake-cluster has ended: there is no rate"):
        change_rate(submitted.context, asked_bytes_per_second=5_000_000)
    with pytest.raises(
        InvalidRequestError, match="No reassignment is running on cluster fake-cluster: there is no rate"
    ):
        change_rate(missing, asked_bytes_per_second=5_000_000)
    assert not missing.record.exists
    assert not list(missing.record.audit)


def test_what_has_lost_the_lock_is_told_to_take_it_first_and_never_to_change_the_rate_of_another(submitted):
    """Its advice, carried out as data, raised another one to ten times what was asked for it; without another, it said that it had ended."""
    store, named = submitted.store, {"reassignment_id": "r"}
    changes = {"asked_bytes_per_second": 20_000_000, "brokers": [3], "sides": [Side.FOLLOWER]}
    again = Trigger("kafka_throttle", named | {"throttle_mb_per_second": 20, "brokers": [3], "side": "follower"})
    store.release(submitted.cluster_id, "r")
    with pytest.raises(InvalidRequestError, match="has lost the lock of the cluster: its rate cannot be") as lost:
        change_rate(submitted.context, **changes)
    assert lost.value.advice == (Rerun("start_batches", reassignment_id="r"), again)
    other = Run(submitted.cluster, submitted.folder, [[move("orders", 2, (3, 1), (3, 4))]], reassignment_id="other")
    with pytest.raises(InvalidRequestError, match="has lost the lock of the cluster, and other has it") as locked:
        change_rate(submitted.context, **changes)
    assert locked.value.advice == (
        WaitUntil("other has ended, or was stopped with kafka_reassignment_cancel"),
        *lost.value.advice,
    )
    assert other.record.journal().rate_changes == ()
    cancel.stop(submitted.context, CancelScope(), by="ann")
    with pytest.raises(InvalidRequestError, match="was stopped, and other has it") as stopped:
        change_rate(submitted.context, **changes)
    assert stopped.value.advice[1:] == (Trigger("kafka_reassignment_resume", named),)


def test_a_plan_without_the_lock_that_waits_for_its_approval_gets_its_rate_once_that_is_given(reassignment):
    """It was to rerun start_batches, which is refused, and was said to have ended then."""
    run = reassignment([move("orders", 0, (1, 2), (1, 4))], require_approval=True)
    approval(run.context)
    run.store.release(run.cluster_id, "r")
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="waits for an approval of its plan: its rate cannot be") as asked:
            change_rate(run.context, asked_bytes_per_second=20_000_000)
        assert asked.value.advice == (
            WaitUntil("its plan is approved and its first batch has begun"),
            Trigger("kafka_throttle", {"reassignment_id": "r", "throttle_mb_per_second": 20}),
        )
        with pytest.raises(NotApprovedError):
            first_batch(run.context)
    answered(run.context, approved=True, by="ann")
    assert first_batch(run.context) == 1
    change_rate(run.context, asked_bytes_per_second=20_000_000)


def test_what_a_clear_advises_leads_on_whatever_the_state(submitted):
    def advice():
        with pytest.raises((ThrottleInUseError, BatchIncompleteError)) as error:
            submitted.do("clear_throttle")
        return error.value.advice

    assert advice() == (Rerun("submit_batch", batch=1),)
    store, other = submitted.store, ClusterLock(reassignment_id="other", since=submitted.clock.now, requested_by="bob")
    store.release(submitted.cluster_id, "r", instance="")
    store.acquire(submitted.cluster_id, other)
    wait = WaitUntil("reassignment other, which has the cluster now, has ended")
    assert advice() == (wait, Rerun("start_batches")), "that takes the lock again"
    store.release(submitted.cluster_id, "other", instance="")
    assert first_batch(submitted.context) == 1
    cancel.stop(submitted.context, CancelScope(), by="bob")
    stopped = (Trigger("kafka_reassignment_cancel", {"reassignment_id": "r"}),)
    assert advice() == stopped, "the submission would be refused"
    cancel.cancel_moves(submitted.context, CancelScope())
    assert advice() == stopped
    preflight(
        submitted.context_of(submitted.store.record(submitted.cluster_id, "second")),
        {"job": "rebalance", "throttle_mb_per_second": 10, "supersede": True},
        "bob",
    )
    assert advice() == (WaitUntil("reassignment second, which has the cluster now, has ended"),)


def test_a_list_that_brokers_cannot_read_is_to_be_written_again_before_data_moves(reassignment, cluster):
    run = reassignment(MOVES)
    run.do("set_throttle")
    whole = run.configs("orders")[ORDERS][FOLLOWER_REPLICAS].value
    spoilt = ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, f",{whole}")
    assert cluster.another_client().alter_configs([spoilt]) == {ORDERS: None}
    with pytest.raises(ThrottleMissingError, match="has an empty part") as error:
        run.do("set_throttle")
    assert error.value.advice == (
        Correct("write the list that is named again, without empty parts and without blanks"),
        Rerun("set_throttle", batch=1),
    )
    cluster.another_client().alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, whole)])
    run.do("set_throttle")


def test_a_throttle_that_cannot_be_set_says_what_is_waited_for_and_what_then(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.kill(3, fenced=False)
    with pytest.raises(ThrottleMissingError) as error:
        run.do("set_throttle")
    assert error.value.advice == (
        WaitUntil("the brokers that are named and the controller take configs again"),
        Rerun("set_throttle", batch=1),
    )
