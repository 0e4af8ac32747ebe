"""Validate only (KIP-179): everything but the submit, and exactly what would be done."""

import json
from datetime import timedelta

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError
from kafka_reassignment.steps.approval import approval
from kafka_reassignment.steps.validate_only import WOULD_DO

pytestmark = pytest.mark.quick

MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


def test_it_says_exactly_what_would_be_done_and_then_just_that_is_done(reassignment, cluster):
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


def test_people_are_reported_in_words(reassignment, cluster):
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
