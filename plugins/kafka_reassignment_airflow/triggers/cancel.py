"""Waiting for a stopped reassignment to come to rest."""

from __future__ import annotations

from typing import Any

from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.cancel import Scope
from kafka_reassignment_airflow.triggers.base import ClusterTrigger


class SettleTrigger(ClusterTrigger):
    """Wait until more of what was stopped can be brought to rest, or all of it is.

    :param partitions: names and patterns, all when empty.
    :param foreign: whether moves of others are meant too.
    """

    def __init__(self, *, partitions: list[str], foreign: bool, **polling: Any) -> None:
        super().__init__(**polling)
        self.partitions = partitions
        self.foreign = foreign

    def arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return super().arguments() | {"partitions": self.partitions, "foreign": self.foreign}

    def look_at(self, cluster: ClusterPort, record: Record) -> str:
        """Return when the task should look and act."""
        return cancel.look(cluster, record, Scope(tuple(self.partitions), foreign=self.foreign))
