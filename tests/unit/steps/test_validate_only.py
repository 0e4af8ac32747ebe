"""Validate only (KIP-179): everything but the submit, and exactly what would be done."""

import json

import pytest
from tests.steps_lab import move

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
