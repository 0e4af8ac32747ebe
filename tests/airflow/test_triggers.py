"""When a trigger wakes its task."""

import asyncio
from datetime import UTC, datetime

import pytest

from kafka_reassignment.errors import CatchUpTimeoutError, ClusterUnavailableError
from kafka_reassignment.steps.waiting import Done, Failed, Waiting
from kafka_reassignment_airflow.triggers.base import WaitTrigger

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


def test_it_wakes_the_task_with_a_failure_that_only_a_person_can_end():
    assert reason(Scripted(WAITING, Failed(CatchUpTimeoutError("too late")))) == "too late"


def test_it_wakes_the_task_at_the_deadline_whatever_the_cluster_does():
    assert reason(Scripted(deadline="2026-01-01T00:00:00+00:00")) == "the time is up"
