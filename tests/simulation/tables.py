"""What the plan step collected of the cluster, kept as it is: in the product it is six tables for Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.simulation.activities import after_call, before_call


@dataclass(frozen=True)
class Snapshot:
    """What the planner sees of the cluster."""

    description: Any
    partitions: dict[Any, Any]
    log_dirs: Any
    facts: Any
    factors: dict[Any, int]


SNAPSHOTS: dict[str, Snapshot] = {}
"""By URI; emptied for each world."""


def write_snapshot(description: Any, partitions: Any, log_dirs: Any, facts: Any, uri: str, *, factors: Any) -> None:
    """Keep the snapshot."""
    before_call("write_snapshot", writes=True)
    SNAPSHOTS[uri] = Snapshot(description, dict(partitions), log_dirs, facts, dict(factors))
    after_call()


def read_replicas(directory: str, partitions: Any) -> dict[Any, Any]:
    """Return the replicas of some partitions in a snapshot."""
    if directory not in SNAPSHOTS:
        raise FileNotFoundError(directory)
    before_call("read_replicas", writes=False)
    there = SNAPSHOTS[directory].partitions
    return {p: there[p].replicas for p in partitions if p in there}
