"""The trigger under all others: it looks now and then, and wakes the task when the wait is over.

Each look is the step's own function, the one that the task calls as well, so that both decide alike and both keep the
throttle in place. The task looks again when it is woken, because a trigger may fire twice, late, or in another triggerer
than before. The clients block, so every look runs in a thread.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, TypedDict

from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.steps.context import RunContext, utc_now
from kafka_reassignment.steps.waiting import Done, Failed, Waiting, WaitResult
from kafka_reassignment_airflow.context import open_run


class WaitEnded(TypedDict):
    """Payload of every event: why the task is woken, for its log."""

    reason: str


class WaitTrigger(BaseTrigger):
    """Fire when a look returns something else than ``Waiting``, or at the deadline.

    :param deadline: ISO time at which the task is woken in any case; it decides what being late means.
    :param poll_seconds: seconds between two looks; the first is after one such time, because a trigger that fires at
        once races the deferral (apache/airflow#71580).
    """

    def __init__(self, *, deadline: str, poll_seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.deadline = deadline
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path = f"{type(self).__module__}.{type(self).__name__}"
        return path, {"deadline": self.deadline, "poll_seconds": self.poll_seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep and look until the wait is over."""
        while True:
            await asyncio.sleep(self.poll_seconds)
            if utc_now() >= datetime.fromisoformat(self.deadline):
                yield TriggerEvent(WaitEnded(reason="the time is up"))
                return
            try:
                result = await asyncio.to_thread(self.look)
            except ReassignmentError as error:
                # The cluster or the store may be away for a moment: the trigger outlives that.
                self.log.warning("Looking again in %.0f s: %s", self.poll_seconds, error)
                continue
            match result:
                case Waiting(reason=reason):
                    self.log.info("%s", reason)
                    continue
                case Done(message=message):
                    yield TriggerEvent(WaitEnded(reason=message))
                case Failed(error=failure):
                    yield TriggerEvent(WaitEnded(reason=str(failure)))
            return

    @abstractmethod
    def look(self) -> WaitResult:
        """Look once.

        Raises:
            ReassignmentError: the look failed, but the next one may not.
        """


class StepTrigger(WaitTrigger):
    """Look at the cluster on behalf of one reassignment.

    :param kafka_conn_id: connection of the cluster.
    :param reassignment_id: identity of the reassignment.
    :param actor: fields of the ``Actor`` of the deferred task, for audit events.
    :param started_at: ISO time at which the wait began.
    """

    def __init__(
        self, *, kafka_conn_id: str, reassignment_id: str, actor: dict[str, Any], started_at: str, **polling: Any
    ) -> None:
        super().__init__(**polling)
        self.kafka_conn_id = kafka_conn_id
        self.reassignment_id = reassignment_id
        self.actor = actor
        self.started_at = started_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, polling = super().serialize()
        return path, polling | {
            "kafka_conn_id": self.kafka_conn_id,
            "reassignment_id": self.reassignment_id,
            "actor": self.actor,
            "started_at": self.started_at,
        }

    def look(self) -> WaitResult:
        """Look through a connection of this look's own."""
        actor = Actor.model_validate(self.actor)
        with open_run(
            self.kafka_conn_id, lambda _store, _cluster: self.reassignment_id, actor=actor, log=self.log
        ) as run:
            return self.look_at(run)

    @abstractmethod
    def look_at(self, run: RunContext) -> WaitResult:
        """Look once, through the step's own function."""

    @property
    def began(self) -> datetime:
        """When the wait began."""
        return datetime.fromisoformat(self.started_at)
