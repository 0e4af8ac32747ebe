"""The known faults: a script for each, and which of them the code of today still has.

Every file of ``seeds/`` has the fault's number and words, the invariant that it broke, a scenario beside ``BASE`` and a
script. "hands" as invariant: it ended, but a person had to carry out advice where Airflow's retries should do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulation.actions import Action
from tests.simulation.scenario import MB, Scenario, Topic
from tests.simulation.trial import Trial, run_trial

FOLDER = Path(__file__).parent / "seeds"

STILL_BROKEN: Mapping[str, str] = {}
"""By number, why the code of today still has a fault; a fault that is mended must leave this list."""


@dataclass(frozen=True)
class KnownFault:
    """A fault that was found once, and how to meet it again."""

    number: str
    what: str
    invariant: str
    scenario: Scenario
    script: tuple[Action, ...]

    def breaks(self) -> tuple[bool, Trial]:
        """Whether the code of today has the fault: it breaks the invariant, or asks for a hand that none should need."""
        trial = run_trial(self.scenario, self.script)
        if self.invariant == "hands":
            return trial.hands > 0, trial
        return any(v.invariant == self.invariant for v in trial.violations), trial


def known_faults() -> list[KnownFault]:
    """Return all of them, by number."""
    return [read(path) for path in sorted(FOLDER.glob("*.json"))]


def read(path: Path, *, size_bytes: int | None = None, request: Mapping[str, Any] | None = None) -> KnownFault:
    """Read one file; the size of the partitions and fields of the request may be others."""
    data = json.loads(path.read_text())
    data |= {"size_bytes": size_bytes} if size_bytes else {}
    data["request"] = data.get("request", {}) | (request or {})
    script = tuple(Action(**each) for each in data["script"])
    return KnownFault(data["fault"], data["what"], data["invariant"], _scenario(data), script)


def _scenario(data: Mapping[str, Any]) -> Scenario:
    size = int(data.get("size_bytes", 100 * MB))
    topics = (
        Topic("a", ((1, 2), (2, 1)), size, 1),
        Topic("b", ((1, 2),), size, 1),
        Topic("c", ((1, 2, 3),), size, 2),
    )
    request: dict[str, Any] = {"throttle_mb_per_second": 5, "partition_movements": 1, "replica_movements": 2}
    if "targets" in data:
        moves = [
            {"topic": name.split("-")[0], "partition": int(name.split("-")[1]), "replicas": replicas}
            for name, replicas in data["targets"].items()
        ]
        request |= {"job": "apply_json", "reassignment_json": json.dumps({"version": 1, "partitions": moves})}
    return Scenario(
        1,
        {b: "abc"[b % 3] for b in range(1, 6)},
        topics,
        request | data.get("request", {}),
        data.get("disk", "objects"),
        gone=tuple(data.get("gone", ())),
        writes=dict(data.get("writes", {})),
    )


def run_known() -> dict[str, tuple[bool, str]]:
    """Return of each known fault whether the code of today has it, and what its script broke; for a process of its own."""
    found = {}
    for fault in known_faults():
        breaks, trial = fault.breaks()
        found[fault.number] = breaks, "; ".join(map(str, trial.violations))
    return found
