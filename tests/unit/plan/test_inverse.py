"""The plan that undoes batches: its steps have an order of their own, whatever batchings they come from."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.steps_lab import move, write_plan

from kafka_reassignment.decisions.batching import BatchRates
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.plan.inverse import BegunBatch, invert
from kafka_reassignment.plan.store import PlanRef, read_batch, read_summary, read_target
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.quick

REQUEST = ReassignmentRequest(job=Job.ROLL_BACK, roll_back_of="r", unthrottled=True)
CLUSTER = {"partitions_in_cluster": 9, "min_insync_replicas": {"orders": 1}}
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
    summary = invert(begun, REQUEST, out, live_brokers=range(10), rates=BatchRates(), **CLUSTER)
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


RACKS = {1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}


def limited_to(**limits):
    return ReassignmentRequest.model_validate(REQUEST.as_fields() | limits)


def begun_batches(tmp_path, *batches):
    place = f"{tmp_path}/begun"
    plan = PlanRef(place, write_plan(place, batches, frozen_at=datetime(2026, 1, 1, tzinfo=UTC)).plan_hash)
    return [BegunBatch(n, plan, ()) for n in range(len(batches), 0, -1)]


def test_max_batches_bounds_what_one_batch_is_undone_by_not_all_of_them(tmp_path):
    """Other limits, and what was retried, may have made more batches than one request allows: they all go back."""
    begun = begun_batches(tmp_path, *([move("orders", n, (1, 2), (1, 3))] for n in range(3)))
    limited = limited_to(max_batches=2)
    assert (
        len(invert(begun, limited, f"{tmp_path}/back", live_brokers=range(10), rates=BatchRates(), **CLUSTER).batches)
        == 3
    )
    one = begun_batches(tmp_path, [move("orders", n, (1, 2), (1, 3)) for n in range(3)])
    limited = limited_to(max_batches=2, partition_movements=1)
    with pytest.raises(InfeasiblePlanError, match=r"3 batches: expected at most 2 \('max_batches'\)"):
        invert(one, limited, f"{tmp_path}/back", live_brokers=range(10), rates=BatchRates(), **CLUSTER)


def test_what_is_half_way_is_undone_by_one_step_and_the_racks_are_kept_for_later_cuts(tmp_path):
    (begun,) = begun_batches(tmp_path, [move("orders", 0, (1, 2), (3, 4)), move("orders", 1, (1, 2), (3, 4))])
    out = f"{tmp_path}/back"
    request = limited_to(replica_movements=1)
    begun = replace(begun, half_way={"orders-0"})
    summary = invert([begun], request, out, live_brokers=range(10), rates=BatchRates(), **CLUSTER, rack_of=RACKS)
    steps = [s for b in summary.batches for s in read_batch(PlanRef(out, summary.plan_hash), b.number).steps]
    assert sorted((str(s.partition), s.step, s.steps) for s in steps) == [
        ("orders-0", 1, 1),
        ("orders-1", 1, 2),
        ("orders-1", 2, 2),
    ]
    assert read_summary(PlanRef(out, summary.plan_hash)).rack_of == RACKS


def test_what_leaves_a_broker_that_has_died_since_does_so_with_the_first_step(tmp_path):
    """A step whose target has a dead broker cannot be carried out."""
    begun = begun_batches(tmp_path, [move("orders", 0, (1, 2, 3), (4, 5, 6))])
    out = f"{tmp_path}/back"
    summary = invert(
        begun, limited_to(replica_movements=1), out, live_brokers={1, 2, 3, 4}, rates=BatchRates(), **CLUSTER
    )
    steps = [s for b in summary.batches for s in read_batch(PlanRef(out, summary.plan_hash), b.number).steps]
    assert [s.reassignment.target for s in steps] == [(1, 2, 4), (1, 2, 3)]
