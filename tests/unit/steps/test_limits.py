"""Batches cut again while a reassignment runs: other limits, and partitions that had to wait."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import OWN_STEPS, Run, StillWaiting, move
from tests.unit.steps.left_open_lab import leave_open
from upath import UPath

from kafka_reassignment.advice import Correct, Rerun, StartBrokers
from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.errors import InfeasiblePlanError, InvalidRequestError, OvertakenError, VerificationError
from kafka_reassignment.model import Reassignment, Refusal, TopicPartition
from kafka_reassignment.plan.rebatch import rebatch
from kafka_reassignment.plan.store import read_summary, write_summary
from kafka_reassignment.plan.summary import BrokerSummary
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.base.waiting import Done
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.chain import first_batch, wait_for_batches
from kafka_reassignment.steps.limits import change_limits, revise
from kafka_reassignment.steps.resume import resume

pytestmark = pytest.mark.longer

MOVES = [
    move("orders", 0, (1, 2), (3, 2)),
    move("orders", 1, (2, 3), (2, 4)),
    move("orders", 2, (3, 1), (3, 2)),
    move("orders", 3, (1, 2), (1, 3)),
]
TARGET = {"orders-0": (3, 2), "orders-1": (2, 4), "orders-2": (3, 2), "orders-3": (1, 3)}


def partitions(run, number: int) -> set[str]:
    return {str(p) for p in whole_batch(RecordView(run.record), number).partitions}


def test_with_nothing_running_one_error_says_so_at_once_and_nothing_is_written(reassignment):
    run = reassignment(MOVES)
    nothing = run.context_of(run.store.record(run.cluster_id, "limits-1"))
    with pytest.raises(
        InvalidRequestError, match="No reassignment is running on cluster fake-cluster.*Give the limits in"
    ):
        change_limits(nothing, {"partition_movements": 3}, by="bob")
    assert not list(nothing.record.audit)


def test_limits_ordered_by_a_run_that_died_after_it_are_not_refused_when_it_runs_again(reassignment):
    run = reassignment(MOVES)
    context = replace(run.context, actor=Actor(run_id="limits_1"))
    first = change_limits(context, {"partition_movements": 3}, by="bob")
    assert change_limits(context, {"partition_movements": 3}, by="bob") == first
    assert len(run.record.limits_commands.all()) == 1
    with pytest.raises(InvalidRequestError, match="which they are already"):
        change_limits(replace(run.context, actor=Actor(run_id="limits_2")), {"partition_movements": 3}, by="ann")


def test_an_older_order_that_is_cleared_does_not_replace_a_newer_one(reassignment):
    run = reassignment(MOVES)
    older, newer = run.clock.now, run.clock.now + timedelta(minutes=5)
    first = replace(run.context, actor=Actor(run_id="limits_1"))
    change_limits(first, {"partition_movements": 3}, by="bob", asked_at=older)
    run.clock.sleep(600)
    change_limits(run.context, {"partition_movements": 2}, by="ann", asked_at=newer)
    with pytest.raises(
        InvalidRequestError,
        match=r"Other limits were asked for later, at .* UTC: P 2, .*Trigger kafka_reassignment_limits",
    ):
        change_limits(first, {"partition_movements": 3}, by="bob", asked_at=older)
    assert run.record.limits_requested().partition_movements == 2
    change_limits(run.context, {"partition_movements": 4}, by="ann", asked_at=newer + timedelta(seconds=1))
    assert run.record.limits_requested().partition_movements == 4


def test_a_run_of_a_dag_of_ones_own_goes_on_though_a_person_has_asked_for_other_limits_since_it_began(reassignment):
    run = reassignment(MOVES)
    began = run.clock.now
    run.clock.sleep(60)
    change_limits(run.context, {"partition_movements": 2}, by="ann")
    own = replace(run.context, actor=Actor(dag_id="my_move", run_id="r"))
    assert change_limits(own, {"partition_movements": 3}, by="cron", asked_at=began).partition_movements == 2
    assert run.record.limits_requested().partition_movements == 2
    assert list(run.record.audit)[-1].outcome == "skipped"


def test_a_run_that_has_ordered_limits_by_a_later_clock_is_not_refused_when_it_is_tried_again(reassignment):
    """As an earlier version wrote it: by the time of its task, not of its run."""
    run = reassignment(MOVES)
    own = replace(run.context, actor=Actor(run_id="limits_1"))
    change_limits(own, {"partition_movements": 3}, by="bob", asked_at=run.clock.now + timedelta(minutes=5))
    limits = change_limits(own, {"partition_movements": 3}, by="bob", asked_at=run.clock.now)
    assert limits.partition_movements == 3


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


def test_another_number_of_new_replicas_re_batches_the_steps(reassignment):
    """R = 2 instead of 1: what were two steps in two batches is one, and shares a batch with the other partition."""
    steps = [move("orders", 0, (1, 2), (3, 2)), move("orders", 0, (3, 2), (3, 4))]
    run = reassignment([MOVES[1]], [steps[0]], [steps[1]])
    change_limits(run.context, {"replica_movements": 2}, by="bob")
    run.run_batches()
    assert run.record.plan_in_force().batches == 1
    assert run.replicas()["orders-0"] == (3, 4)


def test_the_revision_is_in_the_audit_trail(reassignment):
    run = reassignment([MOVES[0]], [MOVES[1]], [MOVES[2]])
    change_limits(run.context, {"partition_movements": 2}, by="bob")
    number = run.start()
    assert number == 1
    events = {
        e.step: e for e in run.record.audit if e.step in {"change_limits", "start_batches"} and e.batch in {None, 1}
    }
    assert events["change_limits"].summary.startswith(
        "limits from the next batch on: P 2, R 1, L 500, 15 min; before: P 500"
    )
    revision = events["start_batches"].facts["revision"]
    assert revision["batches_before"] == 3
    assert revision["batches"] == 2
    assert revision["plan_hash"] != revision["plan_hash_before"]
    assert events["start_batches"].plan_hash == revision["plan_hash"]


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


def test_a_try_that_another_one_has_overtaken_does_not_say_that_its_plan_is_in_force(reassignment, monkeypatch):
    run = reassignment(*([m] for m in MOVES))
    run.do_all()
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    event = AuditDraft()

    def rebatch_late(*args, **kwargs):
        monkeypatch.undo()
        assert next_batch(run.context, 1) == 2
        return rebatch(*args, **kwargs)

    monkeypatch.setattr("kafka_reassignment.steps.limits.rebatch", rebatch_late)
    with pytest.raises(OvertakenError, match="it has re-batched what is left"):
        revise(run.context, 1, event, then=Rerun("start_next_batch", batch=1))
    assert "revision" not in event.facts
    assert len(run.record.revisions.all()) == 1
    assert next_batch(run.context, 1) == 2


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


@pytest.mark.parametrize(
    ("changes", "fewest"),
    [
        ({"partition_movements": 1}, 3),
        ({"leader_movements": 1, "max_batches": 1}, 2),
        ({"batch_bytes": 1_000_000}, 3),
        ({"batch_bytes": 1, "max_batches": 1}, 3),
    ],
)
def test_limits_that_need_more_batches_than_are_allowed_are_refused_at_once(reassignment, changes, fewest):
    """Not when the batch that runs ends, which may be in the night: the chain would end there."""
    wanting = [move("orders", 1, (2, 3), (4, 3)), MOVES[2], move("orders", 3, (1, 2), (3, 2))]
    run = reassignment([MOVES[0]], wanting, max_batches=2)
    run.do_all("submit_batch")
    most = changes.get("max_batches", 2)
    with pytest.raises(
        InfeasiblePlanError,
        match=rf"What is left after batch 1 of .* needs at least {fewest} batches by these limits: expected at most {most} "
        r"\('max_batches'\)\. Nothing was changed\. Allow more partition movements per batch",
    ):
        change_limits(run.context, changes, by="bob")
    assert run.record.limits_commands.all() == []


def test_limits_are_not_refused_for_batches_that_are_finished_nor_for_what_they_let_be_one_step(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment([MOVES[0]], *wide((1, 2, 3), (4, 5, 6)), max_batches=3)
    run.do_all()
    change_limits(run.context, {"replica_movements": 3, "max_batches": 1}, by="bob")
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 2


def to_allow_more(*steps):
    """What leads on where re-batching needs more batches than the limits allow."""
    more = "allow more partition movements per batch (now 500), more leader movements (now 500), or more batches"
    return (Correct(f"trigger kafka_reassignment_limits, and there {more}"), *steps)


def test_limits_that_turn_out_to_need_more_batches_are_to_be_changed_while_it_runs(reassignment, cluster):
    """The advice was that of a plan, and named nothing that can be done once it runs."""
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment([MOVES[0]], *wide((1, 2, 3), (4, 5, 6)), max_batches=4)
    run.start()
    run.do_all()
    change_limits(run.context, {"replica_movements": 3, "max_batches": 1}, by="bob")
    cluster.kill(6)
    cluster.kill(3)
    with pytest.raises(InfeasiblePlanError) as error:
        next_batch(run.context, 1)
    assert error.value.advice == to_allow_more(Rerun("start_next_batch", batch=1))
    with pytest.raises(InfeasiblePlanError) as error:
        first_batch(run.context)
    assert error.value.advice == to_allow_more(Rerun("start_batches"))
    order(run, max_batches=2)
    assert next_batch(run.context, 1) == 2


def test_limits_may_be_changed_for_what_the_last_batch_has_left_to_a_later_one(reassignment, cluster):
    """What it has left is planned after that: where it needs more batches than are allowed, only other limits lead on."""
    run = reassignment([MOVES[0], MOVES[3]])
    run.do_all("admit", "set_throttle")
    cluster.kill(3)
    run.do_all("submit_batch")
    cluster.restart(3)
    with pytest.raises(InvalidRequestError, match="is the last one"):
        order(run, partition_movements=1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).retried_later
    order(run, partition_movements=1)
    assert next_batch(run.context, 1) == 2
    assert run.record.plan_in_force().batches == 3


def test_more_at_once_than_an_old_controller_takes_is_refused(tmp_path):
    cluster = FakeCluster(has_reassignment_api=False)
    cluster.create_topic("orders", [(1, 2), (2, 3)])
    run = Run(cluster, UPath(tmp_path), [[MOVES[0]], [MOVES[1]]])
    with pytest.raises(InvalidRequestError, match="'partition_movements' is 501, expected at most 500"):
        change_limits(run.context, {"partition_movements": 501}, by="bob")


# Limits that change while the next batch is re-batched already


def order(run, **changes):
    """Ask for other limits, in a run of its own and after all that were asked for before."""
    run.clock.sleep(1)
    return change_limits(replace(run.context, actor=Actor(run_id=f"limits_{run.tries}")), changes, by="bob")


def batches(run) -> list[set[str]]:
    return [partitions(run, n) for n in range(1, run.record.plan_in_force().batches + 1)]


def test_limits_that_are_asked_for_again_before_the_next_batch_begins_count_for_it(reassignment):
    run = reassignment([MOVES[0]], MOVES[1:])
    run.do_all()
    order(run, partition_movements=2)
    assert next_batch(run.context, 1) == 2
    assert [len(batch) for batch in batches(run)] == [1, 2, 1]
    order(run, partition_movements=1)
    assert [run.start() for _ in range(3)] == [2, 2, 2]
    assert [len(batch) for batch in batches(run)] == [1, 1, 1, 1]
    assert [r.first_batch for r in run.record.revisions.all()] == [2, 2], "a rerun changes nothing"
    order(run, partition_movements=3)
    assert run.start() == 2
    assert [len(batch) for batch in batches(run)] == [1, 3]
    run.do_all(batch=2)
    assert next_batch(run.context, 2) is None
    assert run.replicas() == TARGET
    run.finish()


def test_what_is_retried_still_comes_last_where_limits_are_asked_for_after_it_was_planned(reassignment, cluster):
    run = reassignment([MOVES[0], MOVES[1]], [MOVES[2], MOVES[3]])
    cluster.kill(4)
    run.do_all()
    assert next_batch(run.context, 1) == 2
    assert batches(run)[1:] == [{"orders-2", "orders-3"}, {"orders-1"}]
    order(run, partition_movements=1)
    assert [run.start() for _ in range(2)] == [2, 2]
    assert sorted(map(sorted, batches(run)[1:3])) == [["orders-2"], ["orders-3"]]
    assert batches(run)[3] == {"orders-1"}
    assert run.record.revisions.last()[1].reason.startswith("new limits: P 1")
    cluster.restart(4)
    for number in (2, 3, 4):
        run.do_all(batch=number)
        next_batch(run.context, number)
    run.finish()
    assert run.replicas() == TARGET


def test_what_is_left_open_stays_as_it_is_where_limits_are_asked_for_after_it_was_planned(chain, cluster):
    run = chain([move("orders", 0, (1, 2), (1, 4)), MOVES[2]], [MOVES[3]])
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    order(run, partition_movements=3)
    assert run.start() == 2
    assert batches(run)[1:] == [{"orders-3"}, {"orders-0"}]
    assert run.record.revisions.last()[1].left_open == ("orders-0",)


def stop_and_resume(run):
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    resume(run.context, by="bob")


@pytest.mark.parametrize("left", ["retried", "open"])
def test_what_a_stop_took_back_begins_at_the_start_under_other_limits_too(chain, cluster, left):
    """Not at the step that it was at: its replicas are not those any more."""
    cluster.create_topic("events", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    first, last = move("events", 0, (1, 2), (4, 1, 2)), move("events", 0, (4, 1, 2), (4, 5, 1))
    run = chain([replace(first, step=1, steps=2)], [replace(last, step=2, steps=2), MOVES[0]], [MOVES[3]])
    run.do_all()
    assert next_batch(run.context, 1) == 2
    if left == "retried":
        cluster.kill(5)
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    if left == "open":
        cluster.kill(5)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert "events-0" in run.record.finished(2).left_out
    assert next_batch(run.context, 2) == 3
    stop_and_resume(run)
    assert run.replicas()["events-0"] == (1, 2)
    order(run, partition_movements=1)
    assert run.start() == 3
    number = 1 + next(i for i, batch in enumerate(batches(run)) if i > 1 and "events-0" in batch)
    assert whole_batch(RecordView(run.record), number).steps[0].reassignment.current == (1, 2)
    cluster.restart(5)
    for number in range(3, run.record.plan_in_force().batches + 1):
        run.do_all(batch=number)
        next_batch(run.context, number)
    run.finish()
    assert run.replicas()["events-0"] == (4, 5, 1)


# A batch that a stop has cancelled

ORDERS_0 = TopicPartition("orders", 0)
WIDER = [move("orders", 0, (1, 2), (3, 4)), move("orders", 1, (2, 3), (4, 5)), MOVES[2]]
WIDER_TARGET = {"orders-0": (3, 4), "orders-1": (4, 5), "orders-2": (3, 2), "orders-3": (1, 2)}


@pytest.fixture
def last_batch(reassignment):
    """A reassignment whose last batch copies."""
    run = reassignment([MOVES[3]], WIDER, replica_movements=2)
    assert run.start() == 1
    run.do_all(batch=1)
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    return run


def to_the_end(run, number: int) -> None:
    following = number
    while following is not None:
        run.do_all(batch=following)
        following = next_batch(run.context, following)
    run.finish()
    assert run.replicas() == WIDER_TARGET | {"orders-3": (1, 3)}


@pytest.mark.parametrize("when", ["while it is stopped", "after the resume"])
def test_a_batch_that_is_stopped_is_smaller_when_it_is_resumed_also_the_last_one(last_batch, when):
    run = last_batch
    if when == "while it is stopped":
        cancel.stop(run.context, CancelScope(), by="bob")
        order(run, partition_movements=1)
    stop_and_resume(run)
    if when == "after the resume":
        order(run, partition_movements=1)
    assert [run.start() for _ in range(2)] == [2, 2]
    assert [len(batch) for batch in batches(run)] == [1, 1, 1, 1]
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    order(run, partition_movements=2)
    assert run.start() == 2
    assert [len(batch) for batch in batches(run)] == [1, 1, 1, 1], "it has begun again"
    to_the_end(run, 2)


def test_the_last_batch_has_begun_again_once_it_is_submitted_after_a_resume(last_batch):
    run = last_batch
    stop_and_resume(run)
    assert run.start() == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    with pytest.raises(InvalidRequestError, match=r"Batch 2 of 2 .* or stop the reassignment, ask again and resume it"):
        order(run, partition_movements=1)


def test_a_batch_that_is_stopped_and_resumed_stays_as_it_is_where_no_other_limits_are_asked_for(last_batch):
    stop_and_resume(last_batch)
    assert last_batch.start() == 2
    assert last_batch.record.revisions.all() == []
    to_the_end(last_batch, 2)


def test_what_had_been_dropped_when_the_stop_came_keeps_its_step_under_other_limits(last_batch, cluster):
    """Cut into two steps, it would be where neither of them begins or ends."""
    run = last_batch
    cluster.catch_up(ORDERS_0)
    assert cluster.alter_reassignments({ORDERS_0: (3, 4)}, allow_replication_factor_change=True) == {ORDERS_0: None}
    stop_and_resume(run)
    assert run.replicas() | {"orders-0": (3, 4), "orders-1": (2, 3)} == run.replicas()
    order(run, replica_movements=1)
    assert run.start() == 2
    (kept,) = whole_batch(RecordView(run.record), 2).steps
    assert kept.reassignment == WIDER[0].reassignment
    assert all("orders-0" not in batch for batch in batches(run)[2:])
    to_the_end(run, 2)
    assert all("orders-0" not in run.record.finished(n).left_out for n in run.record.finished_batches())


def test_what_is_in_flight_or_half_way_when_it_is_resumed_stays_in_its_batch_under_other_limits(last_batch, cluster):
    """Nobody would look after it in a later one: not after its throttle, and not after what is to be dropped."""
    run = last_batch
    cluster.catch_up(ORDERS_0)
    cancel.stop(run.context, CancelScope(), by="bob")
    order(run, partition_movements=1, replica_movements=1)
    resume(run.context, by="bob")
    assert cluster.list_reassignments().keys() == {step.partition for step in WIDER[1:]}
    assert run.start() == 2
    assert [{s.reassignment.target for s in whole_batch(RecordView(run.record), 2).steps}] == [
        {step.reassignment.target for step in WIDER}
    ]
    to_the_end(run, 2)


def test_later_steps_of_what_stays_in_its_batch_are_cut_by_the_other_limits(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    cluster.catch_up_all()
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    assert run.start() == 1
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob")
    order(run, replica_movements=2)
    resume(run.context, by="bob")
    assert run.start() == 1
    assert targets(run) == [(4, 2, 3), (4, 5, 6)]
    run.run_batches()
    run.finish()
    assert run.replicas()["wide-0"] == (4, 5, 6)


def test_what_leaves_a_dead_broker_does_so_with_the_first_of_the_steps_that_other_limits_cut(reassignment, cluster):
    """Its first step would keep the dead replica, and each batch would be tried in vain."""
    for name in ("wide", "later"):
        cluster.create_topic(name, [(1, 2, 3)])
    cluster.catch_up_all()
    later = steps_for(Reassignment(TopicPartition("later", 0), (1, 2, 3), (4, 5, 1)), replica_movements=2)
    run = reassignment([MOVES[0]], wide((1, 2, 3), (1, 2, 4))[0], list(later), replica_movements=2)
    cluster.kill(3)
    assert run.start() == 1
    run.do_all()
    order(run, replica_movements=1)
    assert next_batch(run.context, 1) == 2
    batches = range(2, run.record.plan_in_force().batches + 1)
    steps = [s for n in batches for s in whole_batch(RecordView(run.record), n).steps]
    assert [s.reassignment.target for s in steps if s.partition.topic == "later"] == [(4, 1, 2), (4, 5, 1)]


def test_a_batch_is_not_re_batched_while_its_stop_is_in_force(last_batch):
    run = last_batch
    cancel.stop(run.context, CancelScope(), by="bob")
    order(run, partition_movements=1)
    revise(run.context, 1, AuditDraft(), then=Rerun("start_next_batch", batch=1))
    assert run.record.revisions.all() == []


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


def test_the_wait_for_batches_does_not_end_before_what_waits_has_a_batch(reassignment, cluster):
    """The last batch is finished seconds before the next one is planned; a look in between must not take it for the end."""
    run = reassignment([MOVES[0], MOVES[1]])
    cluster.kill(4)
    run.do_all()
    assert wait_for_batches(RecordView(run.record), run.clock.now).reason == (
        "1 of 1 batches finished; a batch of those that the last one has left is not planned yet"
    )
    assert first_batch(run.context) == 2, "also when start_next_batch never ran"
    assert wait_for_batches(RecordView(run.record), run.clock.now).reason == "1 of 2 batches finished"
    cluster.restart(4)
    run.do_all(batch=2)
    assert wait_for_batches(RecordView(run.record), run.clock.now) == Done("2 of 2 batches finished")
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


# Steps of partitions with replicas out of sync (KIP-435)


WIDE = TopicPartition("wide", 0)


def wide(current, target):
    return [[step] for step in steps_for(Reassignment(WIDE, current, target), replica_movements=1)]


def targets(run):
    return [
        whole_batch(RecordView(run.record), n).steps[0].reassignment.target
        for n in range(1, run.record.plan_in_force().batches + 1)
    ]


def test_a_stopped_step_that_is_batched_again_twice_still_leads_to_the_target(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    cluster.catch_up_all()
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    assert run.start() == 1
    run.do_all(batch=1)
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancel.stop(run.context, CancelScope(), by="bob")
    order(run, partition_movements=7)
    resume(run.context, by="bob")
    assert run.start() == 2
    assert targets(run) == [(4, 2, 3), (4, 5, 3), (4, 5, 6)]
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    order(run, partition_movements=8)
    resume(run.context, by="bob")
    run.run_batches()
    run.finish()
    assert run.replicas()["wide-0"] == (4, 5, 6)


def test_a_replica_out_of_sync_is_dropped_first_so_that_a_dead_broker_holds_no_step_up(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    assert targets(run) == [(4, 2, 3), (4, 5, 3), (4, 5, 6)]
    cluster.kill(3)
    run.run_batches()
    run.finish()
    assert targets(run) == [(4, 1, 2), (4, 5, 2), (4, 5, 6)]
    assert run.replicas()["wide-0"] == (4, 5, 6)


def test_a_broker_that_dies_between_two_steps_is_dropped_in_the_next_one(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    run.start()
    run.do_all(batch=1)
    cluster.kill(3)
    assert next_batch(run.context, 1) == 2
    assert targets(run) == [(4, 2, 3), (4, 5, 2), (4, 5, 6)]
    event = [e for e in run.record.audit if e.step == "start_next_batch"][-1]
    assert event.facts["revision"]["unhealthy"] == ["wide-0"]
    run.do_all(batch=2)
    assert next_batch(run.context, 2) == 3
    run.do_all(batch=3)
    run.finish()


def test_a_replica_out_of_sync_is_still_dropped_first_where_limits_are_asked_for_after_it_was_planned(
    reassignment, cluster
):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    cluster.kill(3)
    assert run.start() == 1
    assert targets(run)[0] == (4, 1, 2)
    order(run, partition_movements=7)
    assert run.start() == 1
    assert run.record.limits_in_force().partition_movements == 7
    assert targets(run) == [(4, 1, 2), (4, 5, 2), (4, 5, 6)]


def test_r_is_exceeded_where_min_insync_takes_it(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)], configs={"min.insync.replicas": "3"})
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    cluster.kill(2)
    cluster.kill(3)
    run.run_batches()
    run.finish()
    assert targets(run)[0] == (4, 5, 1)
    assert run.replicas()["wide-0"] == (4, 5, 6)


def test_a_healthy_partition_keeps_its_planned_steps(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    run.run_batches()
    assert run.record.revisions.all() == []


def know_racks(run, rack_of):
    """Let the summary of the plan name the racks, as the planner's does."""
    uri = run.record.plan_ref().uri
    unused = dict.fromkeys(BrokerSummary.model_fields, 0)
    brokers = tuple(BrokerSummary(**unused | {"broker": b, "rack": rack, "alive": True}) for b, rack in rack_of.items())
    write_summary(uri, read_summary(uri).model_copy(update={"brokers": brokers}))


RACKS = {1: "a", 2: "b", 3: "c", 4: "b", 5: "c", 6: "a"}


def test_steps_that_are_cut_again_keep_replicas_on_distinct_racks(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment([MOVES[0]], *wide((1, 2, 3), (4, 5, 6)))
    know_racks(run, RACKS)
    run.do_all()
    change_limits(run.context, {"partition_movements": 7}, by="bob")
    next_batch(run.context, 1)
    assert targets(run)[1:] == [(4, 1, 3), (4, 5, 1), (4, 5, 6)]


def test_steps_for_what_is_out_of_sync_keep_the_others_on_distinct_racks(reassignment, cluster):
    cluster.create_topic("wide", [(1, 2, 3)])
    run = reassignment(*wide((1, 2, 3), (4, 5, 6)))
    know_racks(run, RACKS)
    cluster.kill(3)
    run.run_batches()
    assert targets(run) == [(4, 1, 2), (4, 5, 1), (4, 5, 6)]


# What stays blocked


def run_to_the_end(run, *, minutes_between_looks=30):
    """Run all batches as Airflow does; return how many ran, and for how long each was waited for."""
    waited, number = {}, run.start()
    while number is not None:
        began, names = run.clock.now, iter(OWN_STEPS)
        name = next(names)
        while name is not None:
            try:
                run.wait(name, number, started_at=began) if name == "admit" else run.do(name, number)
                name = next(names, None)
            except StillWaiting:
                run.clock.sleep(minutes_between_looks * 60)
                run.cluster.catch_up_all()
        waited[number] = run.clock.now - began
        assert number < 20, "batches without end"
        number = next_batch(run.context, number)
    return waited


@pytest.mark.parametrize("partitions", [2, 5])
def test_partitions_whose_kept_replica_is_dead_are_waited_for_once_and_left_out_then(reassignment, cluster, partitions):
    """One per batch: what is blocked must not be put behind what is blocked too, for ever."""
    cluster.create_topic("grown", [(1, 5)] * partitions)
    steps = [move("grown", n, (1, 5), (1, 5, 2)) for n in range(partitions)]
    run = reassignment(*([s] for s in steps), [MOVES[0]], partition_movements=1)
    cluster.kill(5)
    waited = run_to_the_end(run)
    assert run.replicas()["orders-0"] == (3, 2)
    assert len(waited) <= 2 * partitions + 1
    timeout = timedelta(minutes=run.context.request.catch_up_timeout_minutes)
    assert timeout <= sum(waited.values(), timedelta()) < timeout + timedelta(hours=2)
    with pytest.raises(
        VerificationError, match=r"grown-0, but .*left out: broker 5 of the target 1,5,2 is down"
    ) as end:
        run.finish()
    assert end.value.advice[0] == StartBrokers((5,))


def test_what_can_move_again_does_so_while_another_partition_stays_blocked(reassignment, cluster):
    cluster.create_topic("grown", [(1, 5), (1, 6)])
    steps = [move("grown", 0, (1, 5), (1, 5, 2)), move("grown", 1, (1, 6), (1, 6, 2))]
    run = reassignment(*([s] for s in steps), partition_movements=1)
    cluster.kill(5)
    cluster.kill(6)
    looks = []
    run.clock.on_sleep.append(lambda: looks.append(1) or (len(looks) == 4 and cluster.restart(6)))
    waited = run_to_the_end(run)
    assert run.replicas()["grown-1"] == (1, 6, 2)
    assert waited[1] < timedelta(hours=3)
    assert len(waited) == 3


class RefusingCluster(FakeCluster):
    """Its controller refuses one topic for ever, with a reason that may pass."""

    def alter_reassignments(self, targets, **options):
        refused = {p: Refusal("INVALID_REPLICA_ASSIGNMENT", "no such broker") for p in targets if p.topic == "grown"}
        rest = {p: t for p, t in targets.items() if p not in refused}
        return refused | super().alter_reassignments(rest, **options)


def test_what_the_controller_refuses_again_and_again_is_left_out_after_a_few_tries(reassignment, cluster):
    cluster.create_topic("grown", [(1, 5)] * 2)
    cluster.__class__ = RefusingCluster
    run = reassignment(*([move("grown", n, (1, 5), (1, 2))] for n in range(2)), partition_movements=1)
    waited = run_to_the_end(run)
    assert len(waited) <= 6
    assert set(whole_batch(RecordView(run.record), len(waited)).partitions) <= set(
        cluster.describe_partitions(["grown"])
    )


def _die(*_: object) -> bool:
    raise SystemExit
