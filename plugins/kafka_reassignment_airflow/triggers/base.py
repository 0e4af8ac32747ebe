"""The trigger under all others: it looks now and then, and wakes the task when the wait is over.

Each look is the step's own function, the one that the task calls as well, so that both decide alike and both keep the
throttle in place. The task looks again when it is woken, because a trigger may fire twice, late, or in another
triggerer than before. The clients block, so every look runs in a thread. The connection is kept from look to look: each
one costs a login.
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any, TypedDict

from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_reassignment.errors import ConnectionNotFoundError, is_worth_a_retry
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.steps.base.context import RunContext, utc_now
from kafka_reassignment.steps.base.waiting import Done, Failed, Waiting, WaitResult
from kafka_reassignment_airflow.context import open_run
from kafka_reassignment_airflow.metrics import publish
from kafka_reassignment_airflow.triggers.threads import in_a_thread

SHORTEST_PAUSE_SECONDS = 1.0

LOOKING_SHARE = 0.1
"""The part of the time that a trigger spends looking, at most: a look at a large cluster takes seconds."""

MAX_FAILING = timedelta(minutes=30)
"""How long looks may fail in a row with errors that are not known to pass; then the task is woken, and fails with them."""


class WaitEnded(TypedDict):
    """Payload of every event: why the task is woken, for its log."""

    reason: str


class WaitTrigger(BaseTrigger):
    """Fire when a look returns something else than ``Waiting``, or at the deadline.

    :param deadline: ISO time at which the task is woken in any case; it decides what being late means.
    :param poll_seconds: seconds between two looks, and fewer when what is waited for is expected sooner; the first look
        is after one such time, because a trigger that fires at once races the deferral (apache/airflow#71580).
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
        failing_since: datetime | None = None
        pause = self.poll_seconds
        while True:
            await asyncio.sleep(pause)
            pause = self.poll_seconds
            now = utc_now()
            if now >= datetime.fromisoformat(self.deadline):
                yield TriggerEvent(WaitEnded(reason="the time is up"))
                return
            try:
                result = await in_a_thread(self.look)
            except Exception as error:
                # A connection that was deleted looks like one that cannot be read now: a person has to hear of it some
                # time.
                if is_worth_a_retry(error) and not isinstance(error, ConnectionNotFoundError):
                    failing_since = None
                    self.log.warning("Looking again in %.0f s: %s", self.poll_seconds, error)
                    continue
                failing_since = failing_since or now
                self.log.warning("Looking again in %.0f s, after %r", self.poll_seconds, error, exc_info=error)
                if now - failing_since < MAX_FAILING:
                    continue
                yield TriggerEvent(
                    WaitEnded(reason=f"for {now - failing_since} every look failed, at last with {error!r}")
                )
                return
            failing_since = None
            match result:
                case Waiting(reason=reason, seconds_left=seconds_left):
                    self.log.info("%s", reason)
                    pause = self._pause(seconds_left, looked_for=(utc_now() - now).total_seconds())
                    continue
                case Done(message=message):
                    yield TriggerEvent(WaitEnded(reason=message))
                case Failed(error=failure):
                    yield TriggerEvent(WaitEnded(reason=str(failure)))
            return

    def _pause(self, seconds_left: float | None, *, looked_for: float) -> float:
        """Return how long to wait for the next look."""
        if seconds_left is None:
            return self.poll_seconds
        shortest = max(SHORTEST_PAUSE_SECONDS, looked_for / LOOKING_SHARE)
        return min(self.poll_seconds, max(shortest, seconds_left))

    @abstractmethod
    def look(self) -> WaitResult:
        """Look once; whatever it raises, the next look may succeed."""


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
        self._open = ExitStack()
        self._run: RunContext | None = None
        self._looking = threading.Lock()

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
        """Look through the connection of the look before; after an error through a new one."""
        with self._looking:
            try:
                if self._run is None:
                    self._run = self._open.enter_context(
                        open_run(
                            self.kafka_conn_id,
                            lambda _store, _cluster: self.reassignment_id,
                            actor=Actor.model_validate(self.actor),
                            log=self.log,
                        )
                    )
                result = self.look_at(self._run)
                publish(self._run)
                return result
            except BaseException:
                self._close()
                raise

    async def cleanup(self) -> None:
        """Close the connection; Airflow calls this at every end of a trigger."""
        await in_a_thread(self.close)

    def close(self) -> None:
        """Close the connection when the look under way, if any, is over."""
        with self._looking:
            self._close()

    def _close(self) -> None:
        self._run = None
        self._open.close()

    @abstractmethod
    def look_at(self, run: RunContext) -> WaitResult:
        """Look once, through the step's own function."""

    @property
    def began(self) -> datetime:
        """When the wait began."""
        return datetime.fromisoformat(self.started_at)
