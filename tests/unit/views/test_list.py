"""What is in flight and whose it is, on a fake cluster: with and without records, half-way and at the end."""

import json

import pytest
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.decisions.move_status import MoveStatus
from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.cancel import Scope
from kafka_reassignment.steps.context import StillWaiting
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.watch import BatchWatch
from kafka_reassignment.views import list as list_view
from kafka_reassignment.views.list import list_reassignments
from kafka_reassignment.views.overview import Whose

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


def test_what_is_in_flight_is_told_as_kafkas_json_with_its_owner(submitted, cluster):
    cluster.alter_reassignments({ORDERS[3]: (6, 2)})
    found = listed(submitted)
    told = found.as_json()
    assert told == json.loads(json.dumps(told))
    assert told["in_flight"] == {
        "version": 1,
        "partitions": [entry(0, 1, 2, 3), entry(1, 2, 3, 4), entry(3, 6, 2)],
    }
    assert [(m["reassignment_id"], m["batch"]) for m in told["moves"]] == [("r", 1), ("r", 1), (None, None)]
    assert told["moves"][2] == entry(3, 6, 2) | {
        "adding": [6],
        "removing": [1],
        "reassignment_id": None,
        "batch": None,
    }
    assert found.targets(Whose.OURS).keys() == {ORDERS[0], ORDERS[1]}
    assert found.targets(Whose.FOREIGN).keys() == {ORDERS[3]}


def test_the_current_batch_is_told_beside_the_whole(submitted):
    [told] = listed(submitted).as_json()["reassignments"]
    assert (told["batch"], told["batches"], told["batches_finished"]) == (1, 2, 0)
    assert told["current_batch"] == {"version": 1, "partitions": [entry(0, 1, 3), entry(1, 4, 3)]}
    assert told["whole"] == {
        "remaining_partitions": 3,
        "remaining": {"version": 1, "partitions": [entry(0, 1, 3), entry(1, 4, 3), entry(2, 5, 1)]},
        "reassignment_json": str(submitted.record.root / "reassignment.json"),
    }
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    [told] = listed(submitted).as_json()["reassignments"]
    assert (told["batch"], told["batches_finished"]) == (2, 1)
    assert told["current_batch"]["partitions"] == told["whole"]["remaining"]["partitions"] == [entry(2, 5, 1)]
    assert [p["state"] for p in told["partitions"]] == ["not submitted"]


def test_a_large_whole_is_only_listed_when_asked_for(submitted, monkeypatch):
    monkeypatch.setattr(list_view, "WHOLE_UP_TO", 2)
    [shown] = listed(submitted).shown
    assert shown.remaining is None
    assert shown.as_json()["whole"]["remaining"] is None
    assert "of the whole" not in str(shown)
    [shown] = listed(submitted, whole=True).shown
    assert len(shown.remaining) == 3


def test_partitions_deleted_meanwhile_are_not_left_of_the_whole(submitted, cluster):
    cluster.delete_topic("orders")
    [shown] = listed(submitted).shown
    assert shown.remaining == {}
    assert {s.status for s in shown.move_statuses.values()} == {MoveStatus.COMPLETED}


def test_without_records_every_move_is_somebody_elses(submitted):
    found = list_reassignments(submitted.cluster, None)
    assert found.targets(Whose.FOREIGN) == found.targets() == {ORDERS[0]: (1, 2, 3), ORDERS[1]: (2, 3, 4)}
    assert found.shown == ()


def test_nothing_in_flight_is_an_empty_plan(reassignment):
    run = reassignment(FIRST)
    found = listed(run)
    assert found.as_json()["in_flight"] == {"version": 1, "partitions": []}
    assert next(iter(found.lines())) == "Nothing is in flight in cluster fake-cluster"


def test_an_active_reassignment_is_told_with_its_identity(submitted):
    [told] = listed(submitted).as_json()["active"]
    assert told == {
        "reassignment_id": "r",
        "started_at": "2026-01-01T12:00:00+00:00",
        "started_at_seconds": 1767268800.0,
        "requested_by": "ann",
        "job": "rebalance",
        "life": "active",
    }


def test_a_finished_one_is_no_longer_active_but_stays_in_the_records(submitted):
    submitted.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    submitted.do_all(batch=2)
    submitted.finish()
    told = listed(submitted).as_json()
    assert (told["active"], told["reassignments"], told["moves"]) == ([], [], [])
    [finished] = told["finished"]
    assert (finished["reassignment_id"], finished["life"]) == ("r", "finished")
    [named] = listed(submitted, reassignment_id="r").as_json()["reassignments"]
    assert (named["batch"], named["batches"], named["batches_finished"]) == (None, 2, 2)
    assert named["whole"]["remaining_partitions"] == 0


def test_moves_of_a_reassignment_that_gave_the_cluster_back_are_still_known_as_its_own(submitted, tmp_path):
    submitted.store.release(submitted.cluster_id, "r")
    Run(submitted.cluster, UPath(tmp_path), [[move("orders", 3, (1, 2), (6, 2))]], reassignment_id="next")
    found = listed(submitted)
    assert {m.partition: (m.reassignment_id, m.batch) for m in found.moves} == {
        ORDERS[0]: ("r", 1),
        ORDERS[1]: ("r", 1),
    }
    assert [s.recorded.reassignment_id for s in found.shown] == ["next"]


def test_half_done_states_are_told_and_named_to_people(submitted, cluster):
    cluster.alter_reassignments({ORDERS[0]: None})
    cluster.kill(4)
    found = listed(submitted)
    [shown] = found.shown
    assert {p: s.status for p, s in shown.move_statuses.items()} == {
        ORDERS[0]: MoveStatus.CANCELLED_BY_OTHER,
        ORDERS[1]: MoveStatus.STUCK,
    }
    lines = list(found.lines())
    assert lines[0] == "In flight of reassignment r: 1 partitions (orders-1)"
    assert lines[1] == (
        "Reassignment r (rebalance) is active, began 2026-01-01 12:00:00 UTC, asked for by ann; 0 of 2 batches finished; "
        "batch 1: 1 cancelled by another client, 1 stuck; 3 partitions of the whole are not at their target yet"
    )
    assert lines[2].startswith("Look at orders-0: cancelled by another client: at 1,2: ")
    assert "orders-1: stuck: in flight to 2,3,4, waiting for 4; broker 4 of the target 4,3 is down" in lines[2]


def test_metadata_that_lags_is_not_taken_for_a_cancel(submitted, cluster):
    cluster.catch_up(ORDERS[1])
    with cluster.stale_metadata():
        cluster._frozen = {**cluster._frozen, ORDERS[0]: cluster._frozen[ORDERS[3]]}  # as before the submission
        cluster.catch_up(ORDERS[0])
        submitted.clock.on_sleep.append(lambda: setattr(cluster, "_frozen", None))
        [shown] = listed(submitted).shown
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


def test_a_reassignment_that_is_not_in_the_records_is_told_as_such(submitted):
    with pytest.raises(RecordError, match="There is no record of reassignment nowhere"):
        listed(submitted, reassignment_id="nowhere")


def test_the_latest_progress_note_comes_along(submitted, cluster):
    with pytest.raises(StillWaiting):
        BatchWatch(1).catch_up(cluster, submitted.record)
    [told] = listed(submitted).as_json()["reassignments"]
    assert told["progress"]["batch"] == 1
    assert told["progress"]["bytes_left"] == 2_000_000


# What people order meanwhile


def test_what_was_stopped_is_cancelled_by_nobody_else_and_may_be_resumed(submitted):
    cancel.stop(submitted.context, Scope(), by="bob")
    cancel.cancel_moves(submitted.context, Scope())
    [shown] = listed(submitted).shown
    assert {str(s) for s in shown.move_statuses.values()} == {
        "cancelled: stopped by bob; now at 1,2",
        "cancelled: stopped by bob; now at 2,3",
    }
    cancel.clear_after_stop(submitted.context, Scope())
    cancel.report_stop(submitted.context, Scope())
    told = listed(submitted)
    assert [r.reassignment_id for r in told.known.of(ReassignmentStatus.STOPPED)] == ["r"]
    assert "Earlier: 1 stopped" in list(told.lines())
    assert told.shown == ()


def test_withdrawn_partitions_are_told_as_such_and_are_not_left_of_the_whole(submitted):
    only = Scope(("orders-1",))
    cancel.stop(submitted.context, only, by="bob")
    cancel.cancel_moves(submitted.context, only)
    [shown] = listed(submitted).shown
    assert shown.move_statuses[ORDERS[0]].status is MoveStatus.IN_FLIGHT
    assert str(shown.move_statuses[ORDERS[1]]) == "cancelled: withdrawn by bob; now at 2,3"
    assert shown.remaining.keys() == {ORDERS[0], ORDERS[2]}


def test_batches_that_were_cut_anew_are_told_as_they_are_now(reassignment):
    run = reassignment([FIRST[0]], [FIRST[1]], SECOND)
    change_limits(run.context, {"partition_movements": 3}, by="bob")
    run.do_all()
    next_batch(run.context, 1)
    [told] = listed(run).as_json()["reassignments"]
    assert (told["batch"], told["batches"], told["batches_finished"]) == (2, 2, 1)
    assert told["current_batch"]["partitions"] == [entry(1, 4, 3), entry(2, 5, 1)]


def test_what_was_left_out_and_comes_again_says_so(reassignment, cluster):
    run = reassignment(FIRST, SECOND)
    run.do_all("admit", "set_throttle")
    cluster.kill(4)
    run.do_all("submit_batch")
    [shown] = listed(run).shown
    told = shown.move_statuses[ORDERS[1]]
    assert told.status is MoveStatus.LEFT_OUT
    assert told.reason == ("broker 4 of the target 4,3 is down; a later batch tries it again; now at 2,3")
