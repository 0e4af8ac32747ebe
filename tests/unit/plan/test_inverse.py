"""The plan that undoes batches: its steps have an order of their own, whatever batchings they come from."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.steps_lab import move, write_plan

from kafka_reassignment.decisions.batching import BatchRates
from kafka_reassignment.plan.inverse import BegunBatch, invert
from kafka_reassignment.plan.store import PlanRef, read_batch, read_target
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.quick

REQUEST = ReassignmentRequest(job=Job.ROLL_BACK, roll_back_of="r", unthrottled=True)
A, B, C, D = (1, 2, 3), (4, 2, 3), (4, 5, 3), (4, 5, 6)


def step(current, target, number, of):
    return replace(move("orders", 0, current, target), step=number, steps=of)


def test_steps_of_two_batchings_are_numbered_in_the_order_of_their_batches(tmp_path):
    """A to B was the first of two steps; then R was lowered, and B to D became two of three."""
    other = move("orders", 1, (1, 2), (1, 3))
    places = f"{tmp_path}/first", f"{tmp_path}/second"
    plans = [[step(A, B, 1, 2), other]], [[step(B, C, 2, 3)], [step(C, D, 3, 3)]]
    first, second = (
        PlanRef(place, write_plan(place, plan, frozen_at=datetime(2026, 1, 1, tzinfo=UTC)).plan_hash)
        for place, plan in zip(places, plans, strict=True)
    )
    begun = [BegunBatch(2, second, ()), BegunBatch(1, second, ()), BegunBatch(1, first, ())]
    out = f"{tmp_path}/back"
    summary = invert(begun, REQUEST, out, live_brokers=range(10), rates=BatchRates())
    batches = [read_batch(PlanRef(out, summary.plan_hash), n).steps for n in (1, 2, 3)]
    found = [
        [(str(s.partition), s.reassignment.current, s.reassignment.target, s.step, s.steps) for s in b] for b in batches
    ]
    assert found == [
        [("orders-0", D, C, 1, 3)],
        [("orders-0", C, B, 2, 3)],
        [("orders-0", B, A, 3, 3), ("orders-1", (1, 3), (1, 2), 1, 1)],
    ]
    assert [(str(m.partition), m.current, m.target) for m in read_target(out)] == [
        ("orders-0", D, A),
        ("orders-1", (1, 3), (1, 2)),
    ]
