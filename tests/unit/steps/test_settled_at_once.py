"""What two tasks do to what is noted as settled, where one of them looks while the other one orders."""

from dataclasses import replace

import pytest
from tests.steps_lab import move, right_after
from tests.unit.steps.test_settled import cancelled, made_by_others, superseding

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.supersede import settle_superseded

pytestmark = pytest.mark.quick

WHOLE = CancelScope()
ORDERS_0 = TopicPartition("orders", 0)
TO_3 = move("orders", 0, (1, 2), (1, 3))
TO_4 = move("orders", 1, (2, 3), (4, 3))


@pytest.mark.parametrize("stopped_again", [False, True])
def test_a_report_of_a_stop_leaves_the_lock_and_no_note_to_what_was_resumed_while_it_looked(
    reassignment, cluster, stopped_again
):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="ann")
    run.until_settled(WHOLE)

    def resumed():
        resume(run.context, by="bob")
        run.start()
        run.do_all("admit", "set_throttle", "submit_batch")
        if stopped_again:
            cancel.stop(run.context, WHOLE, by="carol")

    right_after(cluster, "list_reassignments", resumed)
    with pytest.raises(InvalidRequestError, match="was resumed"):
        report_stop(run.context, WHOLE)
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"
    assert (run.record.settled.partitions(), run.record.settled.has_all()) == ({}, False)


def test_what_a_successor_finds_settled_is_not_noted_of_what_was_resumed_while_it_looked(reassignment, cluster):
    first = reassignment([TO_3, TO_4])
    first.do_all("admit", "set_throttle", "submit_batch")
    second = superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])

    def released_and_resumed():
        second.store.release(second.cluster_id, "second")
        resume(first.context_of(first.store.record(first.cluster_id, "r")), by="ann")

    right_after(cluster, "alter_reassignments", released_and_resumed)
    settle_superseded(second.context, AuditDraft())
    assert first.record.stopped() is None
    assert first.record.settled.partitions() == {}


def test_of_two_cancels_at_once_the_slower_one_orders_nothing_more(reassignment):
    """It read that nothing was stopped; then the other one has stopped and settled all, and another client has made more of it."""
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    slow = replace(run.context, actor=Actor(run_id="slow"))
    times = []

    def now():
        times.append(None)
        if len(times) == 2:  # when it makes its order
            cancelled(run)
            made_by_others(run, ORDERS_0, 1, 2, 3)
        return run.clock.now

    cancel.stop(replace(slow, now=now), WHOLE, by="bob")
    assert len(run.record.run_commands.all()) == 1
    assert run.record.settled.partitions().keys() == {"orders-0", "orders-1"}
    assert cancel.cancel_moves(run.context, WHOLE).settled == {}
    assert run.replicas()["orders-0"] == (1, 2, 3)
    resume(run.context, by="ann")
    with pytest.raises(InvalidRequestError, match="is not stopped any more"):
        cancel.stop(slow, WHOLE, by="bob")


def test_a_damaged_note_leaves_the_other_notes_in_force(reassignment):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    for partition in ("orders-0", "orders-1"):
        cancelled(run, CancelScope((partition,)))
    (run.record.root / "settled" / "000002.json").write_bytes(b"")
    assert run.record.settled.partitions().keys() == {"orders-0"}
    made_by_others(run, ORDERS_0, 1, 2, 3)
    assert cancel.cancel_moves(run.context, CancelScope(("orders-0",))).settled == {}
    assert run.replicas()["orders-0"] == (1, 2, 3)
