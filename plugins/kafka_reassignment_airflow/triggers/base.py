"""Triggers that look at the cluster or the record now and then, and wake the task when looking is worth it.

They decide nothing: the task looks again itself before it acts, because a trigger may fire twice, late,
or in another triggerer than before. The clients block, so every look runs in a thread.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, TypedDict

from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_reassignment.errors import ReassignmentError, is_worth_a_retry
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.context import StillWaiting, utc_now
from kafka_reassignment.steps.watch import BatchWatch
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.hooks.record import record_store

LONGEST_DEFERRAL = timedelta(days=7)
"""A task that may wait for ever looks for itself that often, in case its trigger is lost."""


class Woken(TypedDict):
    """Payload of every event: why the task is woken, for its log."""

    reason: str


class PollingTrigger(BaseTrigger):
    """Fire when ``look`` no longer says that there is something to wait for, or at the deadline.

    :param deadline: ISO time at which the task is woken in any case; it decides what being late means.
    :param poll_seconds: time between two looks; the first is after one such time, because a trigger that
        fires at once races the deferral (apache/airflow#71580).
    """

    def __init__(self, *, deadline: str, poll_seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.deadline = deadline
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        return f"{type(self).__module__}.{type(self).__name__}", self.arguments()

    def arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"deadline": self.deadline, "poll_seconds": self.poll_seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, tell, sleep, until there is something to wake the task for."""
        while True:
            await asyncio.sleep(self.poll_seconds)
            if utc_now() >= datetime.fromisoformat(self.deadline):
                yield TriggerEvent(Woken(reason="the time is up"))
                return
            try:
                reason = await asyncio.to_thread(self.look)
            except StillWaiting as waiting:
                self.log.info("%s", waiting.reason)
            except ReassignmentError as error:
                if not is_worth_a_retry(error):
                    yield TriggerEvent(Woken(reason=str(error)))
                    return
                # The cluster or the store may be away for a moment: the trigger outlives that.
                self.log.warning("Looking again in %.0f s: %s", self.poll_seconds, error)
            else:
                yield TriggerEvent(Woken(reason=reason))
                return

    @abstractmethod
    def look(self) -> str:
        """Return why the task should be woken.

        Raises:
            StillWaiting: it should not, yet.
            ReassignmentError: looking failed.
        """


class ClusterTrigger(PollingTrigger):
    """A look at a cluster, on behalf of one reassignment.

    :param kafka_conn_id: connection of the cluster.
    :param reassignment_id: run id of the ``kafka_reassignment`` run.
    """

    def __init__(self, *, kafka_conn_id: str, reassignment_id: str, **polling: Any) -> None:
        super().__init__(**polling)
        self.kafka_conn_id = kafka_conn_id
        self.reassignment_id = reassignment_id

    def arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        own = {"kafka_conn_id": self.kafka_conn_id, "reassignment_id": self.reassignment_id}
        return super().arguments() | own

    def look(self) -> str:
        """Look at the cluster through a connection of this look's own."""
        with KafkaReassignmentHook(self.kafka_conn_id).get_conn() as cluster:
            record = record_store().record(cluster.describe_cluster().cluster_id, self.reassignment_id)
            return self.look_at(cluster, record)

    @abstractmethod
    def look_at(self, cluster: ClusterPort, record: Record) -> str:
        """Look, with the cluster and the record open."""


class BatchTrigger(ClusterTrigger):
    """A look at one batch.

    :param batch: number of the batch.
    """

    def __init__(self, *, batch: int, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.batch = batch
        self.watch = BatchWatch(batch)

    def arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return super().arguments() | {"batch": self.batch}


class AdmissionTrigger(BatchTrigger):
    """Wait until nothing speaks against starting the batch."""

    def look_at(self, cluster: ClusterPort, record: Record) -> str:
        """Return when the batch may start."""
        return self.watch.admission(cluster, record)


class CatchUpTrigger(BatchTrigger):
    """Wait until the ISR of every partition of the batch holds its whole target; log the progress."""

    def look_at(self, cluster: ClusterPort, record: Record) -> str:
        """Return when the task should check."""
        return self.watch.catch_up(cluster, record)
