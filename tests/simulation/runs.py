"""What the database of a simulated Airflow has: runs and their task instances."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.models.taskinstance import TaskInstance
from tests.simulation.clock import START

if TYPE_CHECKING:
    from tests.simulation.attempts import Attempt
    from tests.simulation.structure import DagShape, TaskShape, Template

ACTIVE = frozenset({"queued", "running", "deferred", "awaiting_input", "up_for_retry", "restarting"})


class Ti:
    """One task of one run. ``error`` is what its last failed try raised, ``message`` its words."""

    def __init__(self, run: DagRun, task: TaskShape) -> None:
        self.run = run
        self.task = task
        self.task_id = task.task_id
        self.state: str | None = None
        self.try_number = 0
        self.max_tries = task.retries
        self.error: BaseException | None = None
        self.message = ""
        self.retry_at = START
        self.turn = 0
        self.attempt: Attempt | None = None
        self.trigger: tuple[str, dict[str, Any]] | None = None
        self.is_doubled = False
        self.next_method: str | None = None
        self.next_kwargs: dict[str, Any] | None = None
        self.xcoms: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{self.run.run_id}.{self.task_id}[{self.try_number}] {self.state}"

    def next_retry(self, failed_at: datetime) -> datetime:
        """Return when it is tried again, by Airflow's own calculation."""
        known = SimpleNamespace(
            task=self.task.serialized,
            dag_id=self.run.dag_id,
            task_id=self.task_id,
            logical_date=self.run.triggered_at,
            try_number=self.try_number,
            end_date=failed_at,
            retry_delay_override=None,
        )
        return TaskInstance.next_retry_datetime(known)


class DagRun:
    """One run of one DAG."""

    def __init__(
        self, shape: DagShape, run_id: str, conf: dict[str, Any], by: str | None, run_type: str, at: datetime
    ) -> None:
        self.shape = shape
        self.dag_id = shape.dag_id
        self.run_id = run_id
        self.conf = conf
        self.triggering_user_name = by
        self.run_type = run_type
        self.triggered_at = self.run_after = at
        self.ended_at: datetime | None = None
        self.state = "queued"
        self.rendered: dict[Template, Any] = {}
        """Templates that are the same for every try of this run."""
        self.tasks = {task_id: Ti(self, task) for task_id, task in shape.tasks.items()}

    @property
    def params(self) -> dict[str, Any]:
        """The form's defaults and what was given."""
        return {**self.shape.params, **self.conf}

    @property
    def is_finished(self) -> bool:
        """Whether it is green or red."""
        return self.state in ("success", "failed")
