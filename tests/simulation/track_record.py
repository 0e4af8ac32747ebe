"""The known faults: a script for each, and which of them the code of today still has.

Every file of ``seeds/`` has the fault's number and words, the invariant that it broke, a scenario beside ``BASE`` and a
script. "hands" as invariant: it ended, but a person had to carry out advice where Airflow's retries should do.

A script shows its fault also today, where a mutation takes the mend out of the product (``mutations.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.actions import Action
from tests.simulation.mutations import MUTATIONS
from tests.simulation.scenario import MB, Scenario, Topic
from tests.simulation.seam import install
from tests.simulation.trial import Trial, run_trial

from kafka_reassignment.errors import ReassignmentError

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


@dataclass(frozen=True)
class Shown:
    """What a script showed, as plain values.

    Args:
        breaks: whether it showed its fault.
        words: the violations.
        met: how many of its actions found something to act on.
        crashes: errors of tasks that are none of the product's own.
    """

    breaks: bool
    words: str
    met: int
    crashes: tuple[str, ...]


def run_known(*, mutated: bool = False) -> dict[str, Shown]:
    """Return what each script shows, with the code as it is, or without the mend of its fault; for a process of its own."""
    install()
    found = {}
    for fault in known_faults():
        with pytest.MonkeyPatch.context() as patch:
            if mutated and fault.number in MUTATIONS:
                MUTATIONS[fault.number](patch)
            found[fault.number] = _shown(fault)
    return found


def _shown(fault: KnownFault) -> Shown:
    breaks, trial = fault.breaks()
    tis = [ti for airflow in trial.world.airflows for run in airflow.runs.values() for ti in run.tasks.values()]
    crashes = [repr(ti.error) for ti in tis if ti.error is not None and not isinstance(ti.error, ReassignmentError)]
    return Shown(breaks, "; ".join(map(str, trial.violations)), trial.met, tuple(crashes))
