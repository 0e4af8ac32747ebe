"""Below Kafka 2.4 nothing can be superseded, since nothing can be cancelled."""

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import CANCEL_DAG_ID, Correct, Rerun, Trigger, WaitUntil
from kafka_reassignment.errors import InvalidRequestError, ReassignmentInProgressError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.tables import read_table
from kafka_reassignment.steps.plan import take_snapshot
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.quick

ORDERS_0, THEIRS_0 = TopicPartition("orders", 0), TopicPartition("theirs", 0)
REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10}


def second(run):
    return run.context_of(run.store.record(run.cluster_id, "second"))


def test_supersede_is_refused_and_the_advice_stops_what_runs_first(reassignment):
    first = reassignment([move("orders", 0, (1, 2), (1, 3))])
    first.do_all("admit", "set_throttle", "submit_batch")
    with pytest.raises(InvalidRequestError) as refused:
        preflight(second(first), REQUEST | {"supersede": True}, "bob")
    assert str(refused.value) == (
        "'supersede' is asked for, expected a request without it: cluster fake-cluster is below Kafka 2.4, whose controller "
        "cannot cancel what is in flight. Nothing was stopped. Trigger kafka_reassignment_cancel with reassignment_id r, then "
        "wait until that run has settled it, then ask again without 'supersede'"
    )
    assert refused.value.advice[0] == Trigger(CANCEL_DAG_ID, {"reassignment_id": "r"})
    assert first.record.stopped() is None


def test_supersede_is_refused_also_where_nothing_runs(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.store.release(run.cluster_id, "r")
    with pytest.raises(InvalidRequestError) as refused:
        preflight(second(run), REQUEST | {"supersede": True}, "bob")
    assert refused.value.advice == (Correct("ask again without 'supersede'"),)


def test_a_request_beside_another_clients_move_is_not_told_to_cancel_it(old, reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.store.release(run.cluster_id, "r")
    old.somebody_submits({THEIRS_0: (4, 6)})
    with pytest.raises(ReassignmentInProgressError, match="theirs-0") as refused:
        preflight(second(run), REQUEST, "bob")
    assert refused.value.advice == (WaitUntil("the moves are done"), Rerun("preflight"))


def test_a_snapshot_counts_a_move_in_flight_as_done_since_its_original_replicas_are_not_known(old, reassignment):
    """Replica 2 is out of sync for a moment: the original replicas would be those of broker 1 alone."""
    run = reassignment([move("orders", 0, (1, 2), (1, 3))], supersede=True)
    old.somebody_submits({ORDERS_0: (1, 2, 3)})
    old.kafka.fall_behind(ORDERS_0, 2)
    take_snapshot(run.context, snapshot := run.record.uri_of("snapshot"), as_if_cancelled=True)
    rows = read_table(f"{snapshot}/partitions").to_pylist()
    assert [r["replicas"] for r in rows if (r["topic"], r["partition"]) == ("orders", 0)] == [[1, 2, 3]]
