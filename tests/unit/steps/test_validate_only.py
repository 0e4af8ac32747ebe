"""Validate only (KIP-179): everything but the submit, and exactly what would be done."""

import json
from datetime import timedelta

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import CANCEL_DAG_ID, Correct, Rerun, Trigger
from kafka_reassignment.errors import ClusterUnavailableError, InvalidRequestError, NotAuthorizedError, StoppedError
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import approval
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.validate_only import WOULD_DO

pytestmark = pytest.mark.quick

MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


def test_it_says_exactly_what_would_be_done_and_then_just_that_is_done(reassignment):
    asked = reassignment(MOVES, [move("orders", 2, (3, 1), (1, 3))], validate_only=True)
    assert approval(asked.context) == "stop"
    would = [json.loads(line) for line in asked.record.read_file(WOULD_DO).decode().splitlines()]
    assert would[0]["expand"] == {"orders-0": [1, 2, 3], "orders-1": [2, 3, 4]}
    assert would[0]["target"] == {"orders-0": [1, 3], "orders-1": [4, 3]}
    assert (would[1]["expand"], would[1]["target"]) == ({}, {"orders-2": [1, 3]})

    asked.store.release(asked.cluster_id, "r")
    real = reassignment(MOVES, reassignment_id="real")
    real.do_all()
    events = {e.step: e.facts for e in real.record.audit}
    changes = {*events["set_throttle"]["throttle"]["changes"], *events["submit_batch"]["raised"]["changes"]}
    assert changes >= set(would[0]["throttle"]), "leaders' rates begin lower, and are raised to this"
    assert events["submit_batch"]["submitted"] == would[0]["expand"]
    assert events["drop_old_replicas"]["submitted"] == would[0]["target"]


def test_nothing_is_changed_and_the_cluster_is_given_back(reassignment, cluster):
    run = reassignment(MOVES, validate_only=True)
    approval(run.context)
    assert not {"alter_configs", "alter_reassignments"} & set(cluster.calls)
    assert run.record.journal().is_settled
    assert run.store.lock_owner(run.cluster_id) is None


def test_people_are_reported_in_words(reassignment):
    run = reassignment(MOVES, validate_only=True)
    approval(run.context)
    message = next(e for e in run.record.audit if e.step == "approve").facts["would_do"]
    assert "1 batches would be run" in message
    assert "Batch 1 would start at once" in message
    assert "broker 1: set leader.replication.throttled.rate 10000000" in message
    assert "then submit orders-0 to 1,2,3, orders-1 to 2,3,4" in message
    assert "and, with all of it in sync, orders-0 to 1,3, orders-1 to 4,3" in message


def test_what_would_keep_the_first_batch_waiting_is_reported(reassignment, cluster):
    run = reassignment(MOVES, validate_only=True)
    cluster.kill(3)
    approval(run.context)
    message = next(e for e in run.record.audit if e.step == "approve").facts["would_do"]
    assert "Batch 1 would wait now: none of its 2 partitions can be moved now" in message


LARGE = [move("orders", 0, (1, 2), (1, 3), 100_000_000_000)]
"""At 10 MB/s it takes 2.8 hours."""


@pytest.mark.parametrize(
    ("hours_later", "why"),
    [
        (0, "Batch 1 can never start: the batch needs about 2 h 47 min, the longest it may run in one go before"),
        (2, "Batch 1 can never start: The reassignment must end by"),
    ],
    ids=["too long", "too late"],
)
def test_that_the_first_batch_can_never_start_is_an_answer_and_the_cluster_is_given_back(
    reassignment, hours_later, why
):
    """Advice about it would name a batch run and a rate that a validation has not."""
    run = reassignment(LARGE, validate_only=True, must_end_by="2026-01-01 13:00")
    run.clock.now += timedelta(hours=hours_later)
    assert approval(run.context) == "stop"
    event = next(e for e in run.record.audit if e.step == "approve")
    assert why in event.facts["would_do"]
    assert (event.outcome, event.facts.get("advice")) == ("skipped", None)
    assert run.store.lock_owner(run.cluster_id) is None


@pytest.mark.parametrize(
    ("error", "is_given_back"),
    [(NotAuthorizedError("no ALTER"), True), (ClusterUnavailableError("no answer"), False)],
    ids=["final", "passing"],
)
def test_an_error_that_no_retry_helps_gives_the_cluster_back_and_another_look_needs_no_lock(
    reassignment, cluster, monkeypatch, error, is_given_back
):
    run = reassignment(MOVES, validate_only=True)
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "describe_configs", lambda *_: (_ for _ in ()).throw(error))
        with pytest.raises(type(error)) as raised:
            approval(run.context)
    assert raised.value.advice == (Rerun("approve"),)
    assert (run.store.lock_owner(run.cluster_id) is None) is is_given_back
    assert approval(run.context) == "stop"
    assert run.store.lock_owner(run.cluster_id) is None


@pytest.mark.parametrize("step", ["admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas"])
def test_no_step_of_a_batch_acts_though_nothing_stands_before_it(reassignment, cluster, step):
    """A DAG of one's own need not have the task that ends a validation, and a batch may be triggered by hand."""
    run = reassignment(MOVES, validate_only=True)
    with pytest.raises(InvalidRequestError, match="asks for a validation only") as refused:
        run.do(step)
    assert refused.value.advice == (
        Trigger(CANCEL_DAG_ID, {"reassignment_id": "r"}),
        Correct("trigger a new run without validate_only"),
    )
    assert not {"alter_configs", "alter_reassignments"} & set(cluster.calls)


def test_what_a_refused_batch_is_advised_frees_the_cluster(reassignment):
    run = reassignment(MOVES, validate_only=True)
    cancel.stop(run.context, CancelScope(), by="ann")
    cancel.clear_after_stop(run.context, CancelScope())
    report_stop(run.context, CancelScope())
    assert run.store.lock_owner(run.cluster_id) is None
    with pytest.raises(StoppedError):
        run.do("admit")
