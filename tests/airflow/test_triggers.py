"""When a trigger wakes its task."""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.fakes.cluster import FakeCluster

from kafka_reassignment.errors import CatchUpTimeoutError, ClusterUnavailableError, ConnectionNotFoundError
from kafka_reassignment.steps.base.waiting import Done, Failed, Waiting
from kafka_reassignment_airflow import context
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.triggers import base
from kafka_reassignment_airflow.triggers.base import MAX_FAILING, StepTrigger, WaitTrigger
from kafka_reassignment_airflow.triggers.threads import in_a_thread

pytestmark = pytest.mark.quick

FAR = "2999-01-01T00:00:00+00:00"
WAITING = Waiting("1 of 2 partitions in sync", until=datetime(2999, 1, 1, tzinfo=UTC))


class Scripted(WaitTrigger):
    """Looks that are known beforehand."""

    def __init__(self, *looks, deadline=FAR):
        super().__init__(deadline=deadline, poll_seconds=0)
        self.looks = list(looks)

    def look(self):
        result = self.looks.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def reason(trigger):
    async def first():
        return await anext(trigger.run())

    return asyncio.run(first()).payload["reason"]


def test_it_waits_until_a_look_is_done():
    trigger = Scripted(WAITING, WAITING, Done("2 of 2 partitions in sync"))
    assert reason(trigger) == "2 of 2 partitions in sync"


def test_it_outlives_a_cluster_that_is_away_for_a_moment():
    trigger = Scripted(ClusterUnavailableError("no broker answers"), WAITING, Done("done"))
    assert reason(trigger) == "done"


def test_it_looks_sooner_when_the_end_is_near_and_not_all_the_time(monkeypatch):
    """An idle minute between the last byte and the next look is a minute for each batch."""

    def expected(seconds):
        return replace(WAITING, seconds_left=seconds)

    looks = [expected(None), expected(100.0), expected(4.0), expected(0.0), Done("done")]
    trigger, slept = Scripted(*looks), []
    trigger.poll_seconds = 10

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert reason(trigger) == "done"
    assert slept == [10, 10, 10, 4, 1], "a first look that is early races the deferral"
    assert trigger._pause(0.0, looked_for=0.5) == 5, "a look at a large cluster takes long"


class EndpointConnectionError(Exception):
    """What an object store's client raises when the store is away: neither ours nor an OSError."""


def test_it_outlives_a_store_that_is_away_whatever_its_client_raises():
    away = [EndpointConnectionError("could not connect")] * 3
    assert reason(Scripted(*away, WAITING, *away, Done("done"))) == "done"


@pytest.mark.parametrize(
    "error", [KeyError("a bug"), ConnectionNotFoundError("was not found")], ids=["a bug", "a connection"]
)
def test_errors_that_need_not_pass_wake_the_task_after_half_an_hour_so_that_they_are_seen(monkeypatch, error):
    looks = []

    class Broken(Scripted):
        def look(self):
            looks.append(clock[0])
            clock[0] += timedelta(minutes=5)
            if len(looks) > 20:
                return Done("looked on")
            raise error

    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    monkeypatch.setattr(base, "utc_now", lambda: clock[0])
    assert reason(Broken()) == f"for 0:30:00 every look failed, at last with {error!r}"
    assert looks[-1] - looks[0] == MAX_FAILING


def test_a_cluster_that_is_away_for_hours_is_waited_for(monkeypatch):
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]

    class Away(Scripted):
        def look(self):
            clock[0] += timedelta(hours=1)
            return super().look()

    monkeypatch.setattr(base, "utc_now", lambda: clock[0])
    assert reason(Away(*[ClusterUnavailableError("no broker answers")] * 9, Done("done"))) == "done"


class Looking(StepTrigger):
    """Looks with a script of what happens in each."""

    def __init__(self, *looks):
        super().__init__(
            kafka_conn_id="k",
            reassignment_id="r",
            actor={"requested_by": "ann"},
            started_at=FAR,
            deadline=FAR,
            poll_seconds=0,
        )
        self.looks = list(looks)

    def look_at(self, run):
        run.cluster.describe_cluster()
        result = self.looks.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Every cluster that was opened, with whether it is closed."""
    clusters = []

    class Cluster(FakeCluster):
        closed = False

        def close(self):
            self.closed = True

    class Hook(KafkaReassignmentHook):
        def get_conn(self):
            clusters.append(Cluster())
            return clusters[-1]

    monkeypatch.setattr(context, "KafkaReassignmentHook", Hook)
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", f"file://{tmp_path}")
    return clusters


def test_its_looks_share_one_connection_which_is_closed_at_its_end(opened):
    trigger = Looking(*[WAITING] * 5, Done("done"))
    assert reason(trigger) == "done"
    assert [c.closed for c in opened] == [False]
    asyncio.run(trigger.cleanup())
    assert [c.closed for c in opened] == [True]


def test_after_an_error_it_looks_through_a_new_connection(opened):
    trigger = Looking(WAITING, ClusterUnavailableError("no broker answers"), WAITING, Done("done"))
    assert reason(trigger) == "done"
    assert [c.closed for c in opened] == [True, False]


def test_it_wakes_the_task_with_a_failure_that_only_a_person_can_end():
    assert reason(Scripted(WAITING, Failed(CatchUpTimeoutError("too late")))) == "too late"


def test_it_wakes_the_task_at_the_deadline_whatever_the_cluster_does():
    assert reason(Scripted(deadline="2026-01-01T00:00:00+00:00")) == "the time is up"


def test_looks_that_stand_still_keep_no_other_cluster_waiting():
    """asyncio's own pool has six threads on two cores: two reassignments of each of three clusters that are away fill it."""
    away = threading.Event()

    async def looks():
        waiting = [asyncio.ensure_future(in_a_thread(away.wait)) for _ in range(40)]
        try:
            return await asyncio.wait_for(in_a_thread(lambda: "seen"), 5)
        finally:
            away.set()
            await asyncio.gather(*waiting)

    assert asyncio.run(looks()) == "seen"
