"""Batches cut anew while a reassignment runs: other limits, and partitions that had to wait."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, StillWaiting, move
from upath import UPath

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.recorded_batch import whole_batch

pytestmark = pytest.mark.quick

MOVES = [
    move("orders", 0, (1, 2), (3, 2)),
    move("orders", 1, (2, 3), (2, 4)),
    move("orders", 2, (3, 1), (3, 2)),
    move("orders", 3, (1, 2), (1, 3)),
]
TARGET = {"orders-0": (3, 2), "orders-1": (2, 4), "orders-2": (3, 2), "orders-3": (1, 3)}


def partitions(run, number: int) -> set[str]:
    return {str(p) for p in whole_batch(run.record, number).partitions}


def test_other_limits_count_from_the_next_batch_on(reassignment):
    run = reassignment(*([m] for m in MOVES))
    run.do_all("admit", "set_throttle", "submit_batch")
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    assert run.record.plan_in_force().batches == 4
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 2
    assert partitions(run, 1) == {"orders-0"}
    assert partitions(run, 2) == {"orders-1", "orders-2", "orders-3"}
    run.do_all(batch=2)
    assert next_batch(run.context, 2) is None
    assert run.replicas() == TARGET
    run.finish()
    run.record.audit.verify()


def test_fewer_at_once_make_more_batches(reassignment):
    run = reassignment([MOVES[0]], MOVES[1:])
    change_limits(run.context, {"partition_movements": 1}, by="bob")
    run.run_batches()
    assert len(run.record.finished_batches()) == 4
    assert run.replicas() == TARGET


def test_another_number_of_new_replicas_re_batches_the_steps(reassignment, cluster):
    """R = 2 instead of 1: what were two steps in two batches is one."""
    steps = [move("orders", 0, (1, 2), (3, 2)), move("orders", 0, (3, 2), (3, 4))]
    run = reassignment([MOVES[1]], [steps[0]], [steps[1]])
    change_limits(run.context, {"replica_movements": 2}, by="bob")
    run.run_batches()
    assert run.record.plan_in_force().batches == 2
    assert run.replicas()["orders-0"] == (3, 4)


def test_the_revision_is_in_the_audit_trail(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]], [MOVES[2]])
    change_limits(run.context, {"partition_movements": 2}, by="bob")
    run.run_batches()
    events = {
        e.step: e for e in run.record.audit if e.step in {"change_limits", "start_next_batch"} and e.batch in {None, 1}
    }
    assert events["change_limits"].summary.startswith("limits from the next batch on: P 2, R 1, L 50; before: P 50")
    revision = events["start_next_batch"].facts["revision"]
    assert revision["batches_before"] == 3
    assert revision["batches"] == 2
    assert revision["plan_hash"] != revision["plan_hash_before"]
    assert events["start_next_batch"].plan_hash == revision["plan_hash"]


def test_re_batching_happens_once_however_often_the_step_is_rerun(reassignment):
    run = reassignment(*([m] for m in MOVES))
    run.do_all()
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    assert [next_batch(run.context, 1) for _ in range(3)] == [2, 2, 2]
    assert len(run.record.revisions.all()) == 1


def test_a_crash_while_re_batching_leaves_the_batches_as_they_were(reassignment, monkeypatch):
    run = reassignment(*([m] for m in MOVES))
    run.do_all()
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    with monkeypatch.context() as patched:
        patched.setattr(type(run.record.revisions), "append_after", _die)
        with pytest.raises(SystemExit):
            next_batch(run.context, 1)
    assert run.record.plan_in_force().batches == 4
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 2


def test_a_batch_that_has_begun_is_not_re_batched(reassignment):
    run = reassignment(*([m] for m in MOVES))
    run.do_all()
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    assert next_batch(run.context, 1) == 2
    assert run.record.revisions.all() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition_movements": 0}, "'partition_movements': Input should be greater than or equal to 1"),
        ({"partition_movement": 5}, "'partition_movement' is not a known field"),
        ({}, "which they are already"),
        ({"replica_movements": "many"}, "'replica_movements': Input should be a valid integer"),
    ],
)
def test_limits_that_make_no_sense_are_refused(reassignment, changes, message):
    with pytest.raises(InvalidRequestError, match=message):
        change_limits(reassignment([MOVES[0]], [MOVES[1]]).context, changes, by="bob")


def test_limits_after_the_last_batch_has_begun_are_refused(reassignment):
    run = reassignment([MOVES[0]])
    run.do_all("submit_batch")
    with pytest.raises(
        InvalidRequestError, match=r"Batch 1 of 1 .* is the last one: other limits would change nothing"
    ):
        change_limits(run.context, {"partition_movements": 3}, by="bob")


def test_more_at_once_than_an_old_controller_takes_is_refused(tmp_path):
    cluster = FakeCluster(has_reassignment_api=False)
    cluster.create_topic("orders", [(1, 2), (2, 3)])
    run = Run(cluster, UPath(tmp_path), [[MOVES[0]], [MOVES[1]]])
    with pytest.raises(InvalidRequestError, match="'partition_movements' is 501, expected at most 500"):
        change_limits(run.context, {"partition_movements": 501}, by="bob")


# Steps that cannot go now


def test_a_step_whose_target_is_down_waits_and_the_rest_goes_on(reassignment, cluster):
    run = reassignment([MOVES[0], MOVES[1]], [MOVES[2]])
    cluster.kill(4)
    run.do_all()
    assert run.replicas()["orders-0"] == (3, 2)
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 3
    run.do_all(batch=2)
    assert next_batch(run.context, 2) == 3
    with pytest.raises(StillWaiting, match="none of its 1 partitions can be moved now: orders-1: broker 4 .* is down"):
        run.do("admit", 3)
    cluster.restart(4)
    run.do_all(batch=3)
    assert next_batch(run.context, 3) is None
    assert run.replicas() == TARGET | {"orders-3": (1, 2)}
    run.finish()


def test_later_steps_of_a_partition_that_waits_come_with_it(reassignment, cluster):
    steps = [move("orders", 0, (1, 2), (4, 2)), move("orders", 0, (4, 2), (4, 3))]
    run = reassignment([steps[0], MOVES[1]], [steps[1], MOVES[2]])
    cluster.kill(4)
    cluster.create_topic("other", [(1, 2)])
    run.until_done(lambda: None)
    run.do_all("set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert partitions(run, 2) == {"orders-2"}
    assert "orders-0" in partitions(run, 3)
    cluster.restart(4)
    for number in range(2, run.record.plan_in_force().batches + 1):
        run.do_all(batch=number)
        next_batch(run.context, number)
    assert run.replicas()["orders-0"] == (4, 3)


def test_what_comes_again_and_other_limits_go_together(reassignment, cluster):
    run = reassignment([MOVES[0], MOVES[1]], [MOVES[2]], [MOVES[3]])
    cluster.kill(4)
    run.do_all()
    change_limits(run.context, {"partition_movements": 2}, by="bob")
    assert next_batch(run.context, 1) == 2
    assert partitions(run, 2) == {"orders-2", "orders-3"}
    assert partitions(run, 3) == {"orders-1"}


def _die(*_: object) -> bool:
    raise SystemExit
