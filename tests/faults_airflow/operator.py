"""A person who looks at the grid and does, literally, what the message of a failed task advises."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.faults.world import World
from upath import UPath

from kafka_lab.airflow import LocalAirflow
from kafka_lab.airflow_client import AirflowApiError
from kafka_reassignment.advice import (
    Advice,
    Correct,
    ReleaseLock,
    Rerun,
    StartBrokers,
    Trigger,
    WaitUntil,
    advice_from_data,
)
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id

MAX_ACTS = 12
"""A person who has followed that much advice about one plot gets nowhere."""

ADVISED_SECONDS = 180.0
"""How long a person waits for the reassignments that advice has asked for."""


class StuckError(AssertionError):
    """Advice was followed again and again, or there was none, and the reassignment is not at its end."""


class Operator:
    """Looks after every run of one plot.

    Args:
        airflow: where the runs are.
        world: with the cluster and the record.
        cluster_id: of the cluster.
        say: takes a line for everything that is done.
    """

    def __init__(self, airflow: LocalAirflow, world: World, cluster_id: str, say: Callable[[str], None]) -> None:
        self._airflow = airflow
        self._world = world
        self._cluster_id = cluster_id
        self._store = RecordStore(UPath(world.records))
        self._say = say
        self._handled: set[tuple[str, str, str]] = set()
        self.acts: list[str] = []
        self.triggered: list[tuple[str, str]] = []

    def look(self, dag_id: str, run_id: str, reassignment_id: str) -> None:
        """Look at one run; when it has failed, do what its last message advises, else clear its failed tasks.

        Raises:
            StuckError: that was done too often.
        """
        if self._airflow.runs(dag_id).get(run_id) != "failed":
            return
        tasks = self._airflow.find_tasks(dag_id, run_id)
        ended = max((str(t["end_date"]) for t in tasks.values() if t["end_date"]), default="")
        if (dag_id, run_id, ended) in self._handled:
            return
        self._handled.add((dag_id, run_id, ended))
        self._world.wait_until_mended()
        failed = sorted(t for t, ti in tasks.items() if ti["state"] == "failed")
        event = self._last_failure(dag_id, run_id, reassignment_id, failed)
        advice = advice_from_data(event.facts.get("advice")) if event else ()
        self._note(f"{dag_id} {run_id} is red ({', '.join(failed)}): {event.summary if event else 'no event'}")
        if advice:
            for item in advice:
                self._follow(item, dag_id, run_id, reassignment_id)
        else:
            self._note(f"clears the failed tasks of {run_id}")
            self._airflow.clear(dag_id, run_id, only_failed=True)

    def _last_failure(self, dag_id: str, run_id: str, reassignment_id: str, failed: list[str]) -> AuditEvent | None:
        """The event of the first failed task in the order of the trail's end: what a person reads last."""
        try:
            events = list(self._store.record(self._cluster_id, reassignment_id).audit)
        except ReassignmentError:
            return None
        last: dict[str, AuditEvent] = {}
        for event in events:
            if (event.actor.dag_id, event.actor.run_id) == (dag_id, run_id) and event.actor.task_id:
                last[event.actor.task_id] = event
        red = [last[t] for t in failed if t in last and last[t].outcome == "failed"]
        return min(red, key=lambda e: e.sequence, default=None)

    def _follow(self, advice: Advice, dag_id: str, run_id: str, reassignment_id: str) -> None:
        self._note(f"follows: {advice}")
        match advice:
            case Rerun(task=task, batch=batch, reassignment_id=other):
                whose = other or reassignment_id
                where = (dag_id, run_id)
                if batch is not None:
                    where = (BATCH_DAG_ID, batch_run_id(whose, batch))
                elif other or task not in self._airflow.find_tasks(*where):
                    where = (DAG_ID, whose)
                self._airflow.clear(*where, task_ids=[task], only_failed=False, downstream=True)
            case Trigger(dag_id=triggered, params=params):
                new = f"{reassignment_id}-advised-{len(self.triggered) + 1}"
                self._airflow.trigger(triggered, {"kafka_conn_id": "kafka_default", **params}, new)
                self.triggered.append((triggered, new))
            case StartBrokers(brokers=brokers):
                for broker in brokers:
                    if self._world.kafka.pid(broker) is None:
                        self._world.kafka.start_broker(broker)
                self._world.kafka.wait_until_up()
            case WaitUntil(what=what):
                self._world.sleep(10)
                if "has ended" in what:
                    self._wait_for_advised(what)
            case ReleaseLock(reassignment_id=owner):
                self._store.release(self._cluster_id, owner)
            case Correct(what=what):
                raise StuckError(f"a person is to {what}: {self.acts}")

    def _wait_for_advised(self, what: str) -> None:
        """Wait until the reassignments that advice has asked for have ended, well or not."""
        advised = [(dag_id, run_id) for dag_id, run_id in self.triggered if dag_id == DAG_ID]

        def have_ended() -> bool:
            return all(self._airflow.runs(dag_id).get(run_id) in {"success", "failed"} for dag_id, run_id in advised)

        with suppress(StuckError):  # a person may look earlier than that
            wait_for(have_ended, ADVISED_SECONDS, what)

    def _note(self, text: str) -> None:
        self.acts.append(text)
        self._say(text)
        if len(self.acts) > 3 * MAX_ACTS:
            raise StuckError("\n".join(self.acts))


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Return what the condition returns once that is true.

    Raises:
        StuckError: it does not become true in that time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except AirflowApiError:
            pass  # a component was killed; the next look may find it
        if time.monotonic() >= deadline:
            raise StuckError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.5)
