"""What the tests do with reassignments on a real Airflow."""

import time
from collections.abc import Callable
from typing import Any

from kafka_lab.airflow import LocalAirflow
from kafka_reassignment.places import place
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id


class Reassignments:
    """What the tests do with Airflow: trigger, wait, look, clear; with readable failures."""

    def __init__(self, airflow: LocalAirflow, cluster_id: str) -> None:
        self.airflow = airflow
        self._store = RecordStore(place(airflow.record_uri))
        self._cluster_id = cluster_id

    def record(self, run_id: str) -> Record:
        return self._store.record(self._cluster_id, run_id)

    def trigger(self, run_id: str, **conf: object) -> str:
        return self.airflow.trigger(DAG_ID, {"kafka_conn_id": "kafka_default", "keep_free_share": 0, **conf}, run_id)

    def state(self, run_id: str, task_id: str, batch: int | None = None) -> str | None:
        dag_id, run = (DAG_ID, run_id) if batch is None else (BATCH_DAG_ID, batch_run_id(run_id, batch))
        task = self.airflow.find_tasks(dag_id, run).get(task_id)
        return task["state"] if task else None

    def wait_for_task(
        self, run_id: str, task_id: str, *states: str, batch: int | None = None, seconds: float = 300
    ) -> str:
        return self._until(
            lambda: s if (s := self.state(run_id, task_id, batch)) in states else None,
            seconds,
            lambda: (
                f"{task_id} of {run_id} batch {batch} is {self.state(run_id, task_id, batch)}, expected {states}; {self.story(run_id)}"
            ),
        )

    def wait_for_question(self, run_id: str) -> None:
        """Wait until the plan's approval is asked for: before 3.3 Airflow defers the task that asks."""
        self.wait_for_task(run_id, "approve", "awaiting_input", "deferred")

    def wait(self, run_id: str, *, seconds: float = 480) -> str:
        """Wait for the end of the reassignment's run and return its state."""
        return self._until(
            lambda: s if (s := self.airflow.run_state(DAG_ID, run_id)) in {"success", "failed"} else None,
            seconds,
            lambda: f"{run_id} did not end; {self.story(run_id)}",
        )

    def wait_for_run(self, dag_id: str, run_id: str, *, seconds: float = 300) -> str:
        """Wait for the end of a run of any DAG and return its state."""
        return self._until(
            lambda: s if (s := self.airflow.runs(dag_id).get(run_id)) in {"success", "failed"} else None,
            seconds,
            lambda: f"{dag_id} {run_id} did not end: {self._states(dag_id, run_id)}",
        )

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.airflow.get(path, deserialize=True)["value"]

    def wait_for_batch(self, run_id: str, batch: int, *states: str, seconds: float = 300) -> str:
        run = batch_run_id(run_id, batch)
        return self._until(
            lambda: s if (s := self.airflow.runs(BATCH_DAG_ID).get(run)) in states else None,
            seconds,
            lambda: f"{run} is {self.airflow.runs(BATCH_DAG_ID).get(run)}, expected {states}; {self.story(run_id)}",
        )

    def approve(self, run_id: str) -> None:
        """Approve a plan as the form does."""
        task = f"/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/approve/-1"
        answer = {"chosen_options": ["Approve"], "params_input": {}}
        self.answer_later(lambda: self.airflow.patch(f"{task}/hitlDetails", answer))

    @staticmethod
    def answer_later(answer: Callable[[], object]) -> None:
        """Answer a question as late as a person would.

        An answer within a second or two of the question races the task's exit, and Airflow asks again
        (apache/airflow#71580).
        """
        time.sleep(6)
        answer()

    def until(self, seen: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until something is seen."""
        self._until(lambda: "seen" if seen() else None, seconds, lambda: "not seen in time")

    def log(self, run_id: str, task_id: str, batch: int | None = None) -> str:
        """The log of the last try of a task."""
        dag_id, run = (DAG_ID, run_id) if batch is None else (BATCH_DAG_ID, batch_run_id(run_id, batch))
        return self.log_of(dag_id, run, task_id)

    def log_of(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The log of the last try of a task of any DAG."""
        tries = self.airflow.tasks(dag_id, run_id)[task_id]["try_number"]
        return self.airflow.task_log(dag_id, run_id, task_id, tries)

    def clear(self, run_id: str, batch: int, *task_ids: str, only_failed: bool, downstream: bool = False) -> list[str]:
        return self.airflow.clear(
            BATCH_DAG_ID,
            batch_run_id(run_id, batch),
            task_ids=list(task_ids),
            only_failed=only_failed,
            downstream=downstream,
        )

    def lock_owner(self) -> ClusterLock | None:
        """The lock of the cluster; None when it is not locked."""
        return self._store.lock_owner(self._cluster_id)

    def story(self, run_id: str) -> str:
        """Everything a reader of a failed test needs: states of all tasks, and the audit trail."""
        lines = [f"{DAG_ID} {run_id}: " + self._states(DAG_ID, run_id)]
        batches = [run for run in self.airflow.runs(BATCH_DAG_ID) if run.startswith(run_id)]
        lines += [f"{run}: {self._states(BATCH_DAG_ID, run)}" for run in batches]
        lines += [
            f"{e.step} {e.batch or ''} try {e.actor.try_number} {e.outcome}: {e.summary}"
            for e in self.record(run_id).audit
        ]
        return "\n".join(lines)

    def _states(self, dag_id: str, run_id: str) -> str:
        return ", ".join(f"{t}={i['state']}" for t, i in self.airflow.find_tasks(dag_id, run_id).items())

    @staticmethod
    def _until(look: Callable[[], str | None], seconds: float, describe: Callable[[], str]) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (found := look()) is not None:
                return found
            time.sleep(0.5)
        raise AssertionError(describe())
