"""The moves in flight and their owners, on a fake cluster: with and without records, half-way and at the end."""

import json
import shutil
from pathlib import Path

import pytest
from tests.steps_lab import Run, StillWaiting, move, write_plan
from upath import UPath

from kafka_reassignment.decisions.move_status import MoveStatus
from kafka_reassignment.errors import NotSubmittedError, RecordError, VerificationError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.store import forget_read_plans
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.verify import verify
from kafka_reassignment.views import listing
from kafka_reassignment.views.listing import Whose, list_reassignments
from kafka_reassignment.views.watch import Watch

pytestmark = pytest.mark.quick

ORDERS = [TopicPartition("orders", n) for n in range(4)]
FIRST = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
SECOND = [move("orders", 2, (3, 1), (5, 1))]


def listed(run, **more):
    return list_reassignments(run.cluster, run.store, sleep=run.clock.sleep, **more)


def entry(partition, *replicas):
    return {"topic": "orders", "partition": partition, "replicas": list(replicas)}


@pytest.fixture
def submitted(reassignment):
    run = reassignment(FIRST, SECOND)
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


def test_a_listing_says_what_failed_and_what_is_owed(reassignment):
    run = reassignment(FIRST, SECOND)
    run.do_all("admit", "set_throttle")
    with pytest.raises(NotSubmittedError):
        run.do("sense_isr_catch_up")
    found = listed(run)
    [one] = found.as_json()["reassignments"]
    assert one["failed"]["step"] == "sense_isr_catch_up"
    assert "Rerun submit_batch" in one["failed"]["summary"]
    assert len(one["throttle_owed"]) > 2
    [line] = [line for line in found.lines() if line.startswith("Reassignment r ")]
    assert "it has failed at sense_isr_catch_up: NotSubmittedError" in line
    run.store.release(run.cluster_id, "r")
    assert any("; throttle configs to restore: broker 1: " in line for line in listed(run, reassignment_id="r").lines())


def test_a_listing_has_a_red_step_of_the_run_itself_also_once_it_has_ended(reassignment, cluster):
    run = reassignment(FIRST)
    run.run_batches()
    cluster.alter_reassignments({ORDERS[0]: (1, 2)})
    cluster.catch_up_all()
    with pytest.raises(VerificationError):
        verify(run.context)
    assert run.store.lock_owner(run.cluster_id) is None
    found = listed(run, reassignment_id="r")
    [one] = found.as_json()["reassignments"]
    assert (one["status"], one["failed"]["step"]) == ("ended", "verify")
    assert one["remaining"]["partitions"] == [entry(0, 1, 3)], "it was said that nothing was left"
    assert any(line.endswith("1 partitions of the plan are not at their target yet") for line in found.lines())
    look = Watch(cluster, run.store, "r", now=lambda: run.clock.now).look()
    assert look.doing.startswith("r is ended: verify has failed: VerificationError: ")
    assert look.waits == ()


def test_a_damaged_event_before_all_that_counts_keeps_nobody_from_the_listing(submitted):
    first = submitted.record.root / "audit" / "000001.json"
    assert first.exists()
    first.write_text("{")
    [one] = listed(submitted).as_json()["reassignments"]
    assert one["failed"] is None


def test_an_event_that_cannot_be_read_takes_neither_the_listing_nor_the_watch_away(submitted):
    """Both ended as damaged, with the moves in flight, of which the cluster tells."""
    last = submitted.record.root / "audit" / f"{submitted.record.audit.last_number():06d}.json"
    last.write_bytes(b"")
    found = listed(submitted)
    assert len(found.moves) == 2
    assert any(str(last) in text for text in found.lines())
    assert any(str(last) in text for text in found.as_json()["unreadable"])
    look = Watch(submitted.cluster, submitted.store, now=lambda: submitted.clock.now).look()
    assert look.in_flight == 2
    assert str(last) in str(look)
    assert str(last) in look.as_json()["unreadable"][0]


def test_a_listing_says_why_the_current_batch_waits(reassignment, cluster):
    run = reassignment(FIRST, SECOND)
    cluster.alter_reassignments({ORDERS[3]: (6, 2)})
    with pytest.raises(StillWaiting) as waits:
        run.do("admit")
    [one] = listed(run).as_json()["reassignments"]
    assert one["failed"] is None
    assert one["progress"]["text"] == str(waits.value)
    assert any(str(waits.value) in line for line in listed(run).lines())


def test_moves_in_flight_are_kafkas_json_and_have_their_owner(submitted, cluster):
    cluster.alter_reassignments({ORDERS[3]: (6, 2)})
    found = listed(submitted)
    values = found.as_json()
    assert values == json.loads(json.dumps(values))
    assert values["in_flight"] == {
        "version": 1,
        "partitions": [entry(0, 1, 2, 3), entry(1, 2, 3, 4), entry(3, 6, 2)],
    }
    assert [(m["reassignment_id"], m["batch"]) for m in values["moves"]] == [("r", 1), ("r", 1), (None, None)]
    assert values["moves"][2] == entry(3, 6, 2) | {
        "adding": [6],
        "removing": [1],
        "reassignment_id": None,
        "batch": None,
    }
    assert found.targets(Whose.OURS).keys() == {ORDERS[0], ORDERS[1]}
    assert found.targets(Whose.FOREIGN).keys() == {ORDERS[3]}


def test_an_overview_has_the_current_batch_and_what_is_left_of_the_plan(submitted):
    [message] = listed(submitted).as_json()["reassignments"]
    assert (message["batch"], message["batches"], message["batches_finished"]) == (1, 2, 0)
    assert message["current_batch"] == {"version": 1, "partitions": [entry(0, 1, 3), entry(1, 4, 3)]}
    assert message["remaining_partitions"] == 3
    assert message["remaining"] == {"version": 1, "partitions": [entry(0, 1, 3), entry(1, 4, 3), entry(2, 5, 1)]}
    assert message["reassignment_json"] == str(submitted.record.root / "reassignment.json")
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    [message] = listed(submitted).as_json()["reassignments"]
    assert (message["batch"], message["batches_finished"]) == (2, 1)
    assert message["current_batch"]["partitions"] == message["remaining"]["partitions"] == [entry(2, 5, 1)]
    assert [p["state"] for p in message["partitions"]] == ["not submitted"]


def test_what_is_left_of_a_large_plan_is_only_listed_when_asked_for(submitted, monkeypatch):
    monkeypatch.setattr(listing, "MAX_REMAINING", 2)
    [shown] = listed(submitted).overviews
    assert shown.remaining is None
    assert shown.as_json()["remaining"] is None
    assert "of the plan" not in str(shown)
    [shown] = listed(submitted, all_remaining=True).overviews
    assert len(shown.remaining) == 3


def test_deleted_partitions_are_not_left_of_the_plan(submitted, cluster):
    cluster.delete_topic("orders")
    [shown] = listed(submitted).overviews
    assert shown.remaining == {}
    assert {s.status for s in shown.move_statuses.values()} == {MoveStatus.COMPLETED}


def test_without_records_every_move_is_another_clients(submitted):
    found = list_reassignments(submitted.cluster, None)
    assert found.targets(Whose.FOREIGN) == found.targets() == {ORDERS[0]: (1, 2, 3), ORDERS[1]: (2, 3, 4)}
    assert found.overviews == ()


def test_nothing_in_flight_is_an_empty_plan(reassignment):
    run = reassignment(FIRST)
    found = listed(run)
    assert found.as_json()["in_flight"] == {"version": 1, "partitions": []}
    assert next(iter(found.lines())) == "Nothing is in flight in cluster fake-cluster"


def test_an_active_reassignment_is_listed_with_its_identity(submitted):
    [message] = listed(submitted).as_json()["active"]
    assert message == {
        "reassignment_id": "r",
        "started_at": "2026-01-01T12:00:00+00:00",
        "started_at_seconds": 1767268800.0,
        "requested_by": "ann",
        "job": "rebalance",
        "status": "active",
    }


def test_a_finished_reassignment_is_no_longer_active_but_stays_in_the_records(submitted):
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    submitted.do_all(batch=2)
    submitted.finish()
    message = listed(submitted).as_json()
    assert (message["active"], message["reassignments"], message["moves"]) == ([], [], [])
    [finished] = message["finished"]
    assert (finished["reassignment_id"], finished["status"]) == ("r", "finished")
    [named] = listed(submitted, reassignment_id="r").as_json()["reassignments"]
    assert (named["batch"], named["batches"], named["batches_finished"]) == (None, 2, 2)
    assert named["remaining_partitions"] == 0


def test_moves_of_a_reassignment_that_released_the_lock_are_still_its_own(submitted, tmp_path):
    submitted.store.release(submitted.cluster_id, "r")
    Run(submitted.cluster, UPath(tmp_path), [[move("orders", 3, (1, 2), (6, 2))]], reassignment_id="next")
    found = listed(submitted)
    assert {m.partition: (m.reassignment_id, m.batch) for m in found.moves} == {
        ORDERS[0]: ("r", 1),
        ORDERS[1]: ("r", 1),
    }
    assert [o.reassignment.reassignment_id for o in found.overviews] == ["next"]


def test_half_done_states_are_listed_and_pointed_out(submitted, cluster):
    cluster.alter_reassignments({ORDERS[0]: None})
    cluster.kill(4)
    found = listed(submitted)
    [shown] = found.overviews
    assert {p: s.status for p, s in shown.move_statuses.items()} == {
        ORDERS[0]: MoveStatus.CANCELLED_BY_OTHER,
        ORDERS[1]: MoveStatus.STUCK,
    }
    lines = list(found.lines())
    assert lines[0] == "In flight of reassignment r: 1 partitions (orders-1)"
    assert lines[1] == (
        "Reassignment r (rebalance) is active, began 2026-01-01 12:00:00 UTC, asked for by ann; 0 of 2 batches finished; "
        "batch 1: 1 cancelled by another client, 1 stuck; 3 partitions of the plan are not at their target yet"
    )
    assert lines[2].startswith("Look at orders-0: cancelled by another client: at 1,2: ")
    assert "orders-1: stuck: in flight to 2,3,4, waiting for 4; broker 4 of the target 4,3 is down" in lines[2]


def test_metadata_that_lags_is_not_taken_for_a_cancel(submitted, cluster):
    cluster.catch_up(ORDERS[1])
    with cluster.stale_metadata():
        cluster._frozen = {**cluster._frozen, ORDERS[0]: cluster._frozen[ORDERS[3]]}  # as before the submission
        cluster.catch_up(ORDERS[0])
        submitted.clock.on_sleep.append(lambda: setattr(cluster, "_frozen", None))
        [shown] = listed(submitted).overviews
    assert shown.move_statuses[ORDERS[0]].status is MoveStatus.EXPANDED


def test_the_number_of_calls_does_not_grow_with_the_partitions(submitted, cluster):
    cluster.calls.clear()
    listed(submitted)
    few = len(cluster.calls)
    cluster.create_topic("many", [(1, 2)] * 200)
    cluster.alter_reassignments({TopicPartition("many", n): (1, 3) for n in range(200)})
    cluster.calls.clear()
    assert len(listed(submitted).moves) == 202
    assert len(cluster.calls) == few


def test_a_reassignment_that_is_not_in_the_records_is_an_error(submitted):
    with pytest.raises(RecordError, match="There is no record of reassignment nowhere"):
        listed(submitted, reassignment_id="nowhere")


def test_the_latest_progress_note_is_included(submitted):
    with pytest.raises(StillWaiting):
        submitted.do("sense_isr_catch_up")
    [message] = listed(submitted).as_json()["reassignments"]
    assert message["progress"]["batch"] == 1
    assert message["progress"]["bytes_left"] == 2_000_000


# Commands while it runs


def test_a_stopped_reassignment_is_cancelled_by_itself_and_may_be_resumed(submitted):
    cancel.stop(submitted.context, CancelScope(), by="bob")
    cancel.cancel_moves(submitted.context, CancelScope())
    [shown] = listed(submitted).overviews
    assert {str(s) for s in shown.move_statuses.values()} == {
        "cancelled: stopped by bob; now at 1,2",
        "cancelled: stopped by bob; now at 2,3",
    }
    cancel.clear_after_stop(submitted.context, CancelScope())
    report_stop(submitted.context, CancelScope())
    message = listed(submitted)
    assert [r.reassignment_id for r in message.known.of(ReassignmentStatus.STOPPED)] == ["r"]
    assert "Earlier: 1 stopped" in list(message.lines())
    assert message.overviews == ()


def test_withdrawn_partitions_say_so_and_are_not_left_of_the_plan(submitted):
    only = CancelScope(("orders-1",))
    cancel.stop(submitted.context, only, by="bob")
    cancel.cancel_moves(submitted.context, only)
    [shown] = listed(submitted).overviews
    assert shown.move_statuses[ORDERS[0]].status is MoveStatus.IN_FLIGHT
    assert str(shown.move_statuses[ORDERS[1]]) == "cancelled: withdrawn by bob; now at 2,3"
    assert shown.remaining.keys() == {ORDERS[0], ORDERS[2]}


def test_rebatched_batches_are_listed_as_they_are_now(reassignment):
    run = reassignment([FIRST[0]], [FIRST[1]], SECOND)
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    run.do_all()
    next_batch(run.context, 1)
    [message] = listed(run).as_json()["reassignments"]
    assert (message["batch"], message["batches"], message["batches_finished"]) == (2, 2, 1)
    assert message["current_batch"]["partitions"] == [entry(1, 4, 3), entry(2, 5, 1)]


def test_what_was_left_out_and_is_retried_later_says_so(reassignment, cluster):
    run = reassignment(FIRST, SECOND)
    run.do_all("admit", "set_throttle")
    cluster.kill(4)
    run.do_all("submit_batch")
    [shown] = listed(run).overviews
    message = shown.move_statuses[ORDERS[1]]
    assert message.status is MoveStatus.LEFT_OUT
    assert message.reason == ("broker 4 of the target 4,3 is down; a later batch tries it again; now at 2,3")


def test_a_neighbour_whose_plan_is_damaged_is_named_and_hides_nothing_of_the_others(submitted, cluster):
    old = submitted.store.record(submitted.cluster_id, "old")
    old.write_request(submitted.record.recorded_request().model_copy(update={"reassignment_id": "old"}))
    old.freeze_plan(write_plan(old.plan_uri, [SECOND], frozen_at=submitted.clock.now))
    old.run_commands.append(RunCommand(at=submitted.clock.now, by="bob", stopped=True))
    cluster.alter_reassignments({ORDERS[3]: (6, 2)})
    Path(old.plan_uri, "summary.json").write_text("{}")
    shutil.rmtree(Path(old.plan_uri, "steps"))
    forget_read_plans()
    found = listed(submitted)
    assert {m.partition: m.reassignment_id for m in found.moves} == {ORDERS[0]: "r", ORDERS[1]: "r", ORDERS[3]: None}
    (unreadable,) = found.as_json()["unreadable"]
    assert unreadable.startswith("Which moves are of old is not known: The plan at ")
