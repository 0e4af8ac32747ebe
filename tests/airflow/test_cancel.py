"""Which reassignment a cancel stops when its task is cleared days later."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment_airflow.operators.cancel import StopOperator

pytestmark = pytest.mark.quick


@pytest.fixture
def run(two_batches):
    return two_batches()


def which(run, asked, reassignment_id="", run_id="cancel-1"):
    task = StopOperator(task_id="stop", reassignment_id=reassignment_id)
    context = {"dag_run": SimpleNamespace(run_id=run_id, run_after=asked)}
    return task.which_reassignment(run.store, run.cluster_id, context)


def test_the_reassignment_that_has_the_lock_is_meant_where_none_is_named(run):
    assert which(run, run.clock.now) == "r"
    run.store.release(run.cluster_id, "r")
    assert which(run, run.clock.now) == "cancel-1", "moves that were started elsewhere may be meant"


def test_a_stop_that_is_cleared_later_does_not_stop_another_reassignment(run):
    asked = run.clock.now
    run.store.release(run.cluster_id, "r")
    run.clock.sleep(3 * 24 * 3600)
    later = ClusterLock(reassignment_id="later", since=run.clock.now, requested_by="bob")
    run.store.acquire(run.cluster_id, later)
    with pytest.raises(InvalidRequestError, match="later, which has the lock .* after this was asked"):
        which(run, asked)
    assert which(run, asked, "r") == "r"
    assert which(run, run.clock.now) == "later"
    assert which(run, asked, run_id="later") == "later", "a DAG of one's own may stop what it has started itself"


def test_clocks_that_differ_by_seconds_keep_nobody_from_stopping(run):
    assert which(run, run.clock.now - timedelta(seconds=30)) == "r"
