"""What the triggers of a batch share."""

from __future__ import annotations

from typing import Any

from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples
from kafka_reassignment_airflow.triggers.base import StepTrigger


class BatchTrigger(StepTrigger):
    """Look at one batch.

    :param batch: number of the batch.
    """

    def __init__(self, *, batch: int, **step: Any) -> None:
        super().__init__(**step)
        self.batch = batch
        self._samples: SizeSamples | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, step = super().serialize()
        return path, step | {"batch": self.batch}

    def samples(self, run: RunContext) -> SizeSamples:
        """Return the sizes that earlier looks saw, by the clock of the run."""
        if self._samples is None:
            self._samples = SizeSamples.by_clock_of(run)
        return self._samples
