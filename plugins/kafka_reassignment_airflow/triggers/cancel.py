"""Waiting for a stopped reassignment to settle."""

from __future__ import annotations

from typing import Any

from kafka_reassignment.steps.cancel import CancelScope, settle_moves
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.waiting import WaitResult
from kafka_reassignment_airflow.triggers.base import StepTrigger


class SettleTrigger(StepTrigger):
    """Wait until everything that was stopped is settled; cancel and submit what can be settled.

    :param partitions: names and patterns, all when empty.
    :param foreign: whether moves of other clients are meant too.
    """

    def __init__(self, *, partitions: list[str], foreign: bool, **step: Any) -> None:
        super().__init__(**step)
        self.partitions = partitions
        self.foreign = foreign

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, step = super().serialize()
        return path, step | {"partitions": self.partitions, "foreign": self.foreign}

    def look_at(self, run: RunContext) -> WaitResult:
        """Look and act once."""
        return settle_moves(run, CancelScope(tuple(self.partitions), foreign=self.foreign), self.began)
