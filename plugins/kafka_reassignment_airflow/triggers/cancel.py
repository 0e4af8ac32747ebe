"""Waiting for a stopped reassignment to settle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import WaitResult
from kafka_reassignment.steps.cancel import settle_moves
from kafka_reassignment_airflow.triggers.base import StepTrigger


class SettleTrigger(StepTrigger):
    """Wait until everything that was stopped is settled; cancel and submit what can be settled.

    :param partitions: names of partitions.
    :param topics: names and patterns of topics; all is meant when both are empty.
    :param foreign: whether moves of other clients are meant too.
    """

    def __init__(self, *, partitions: list[str], foreign: bool, topics: Sequence[str] = (), **step: Any) -> None:
        super().__init__(**step)
        self.partitions = partitions
        self.topics = list(topics)
        self.foreign = foreign

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, step = super().serialize()
        return path, step | {"partitions": self.partitions, "topics": self.topics, "foreign": self.foreign}

    def look_at(self, run: RunContext) -> WaitResult:
        """Look and act once."""
        scope = CancelScope(tuple(self.partitions), foreign=self.foreign, topics=tuple(self.topics))
        return settle_moves(run, scope, self.began)
