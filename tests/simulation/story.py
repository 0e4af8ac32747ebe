"""What happened, in lines that a person reads: virtual time, who, what, and what broke."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

WHO = {"people": "a person", "tools": "another client", "kafka": "Kafka", "airflow": "Airflow", "store": "the store"}


class Line(NamedTuple):
    """One thing that happened."""

    at: datetime
    who: str
    what: str


class Story:
    """The lines of one world. ``watch`` adds every change of a task's state; without it only what was said is there."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._start = world.time.now
        self._states: dict[tuple[str, str, str], str | None] = {}
        self._events = 0
        self.lines: list[Line] = []

    def tell(self, who: str, what: str) -> None:
        """Add a line."""
        self.lines.append(Line(self._world.time.now, WHO.get(who, who), what))

    def watch(self) -> None:
        """From now on, tell of tasks and of changes of partitions after each event."""
        earlier = self._world.time.after_event

        def look() -> None:
            if earlier is not None:
                earlier()
            self._look()

        self._world.time.after_event = look

    def text(self) -> str:
        """Return the story."""
        return "\n".join(f"{self._clock(line.at):>12}  {line.who}: {line.what}" for line in self.lines)

    def _clock(self, at: datetime) -> str:
        return str(timedelta(seconds=int((at - self._start).total_seconds())))

    def _look(self) -> None:
        for airflow in self._world.airflows:
            for run in airflow.runs.values():
                self._changed((airflow.name, run.run_id, ""), run.state, f"{run.dag_id} {run.run_id}", "")
                for ti in run.tasks.values():
                    self._changed(
                        (airflow.name, run.run_id, ti.task_id), ti.state, f"{run.run_id} {ti.task_id}", ti.message
                    )
        for partition, seen in sorted(self._world.ledger.state().partitions.items()):
            shown = f"{list(seen.replicas)} ISR {sorted(seen.isr)} leader {seen.leader}" + (
                f" adding {list(seen.adding)} removing {list(seen.removing)}" if seen.in_flight else ""
            )
            self._changed(("cluster", str(partition), ""), shown, str(partition), "")

    def _changed(self, key: tuple[str, str, str], state: str | None, subject: str, words: str) -> None:
        if key in self._states and self._states[key] != state and state not in (None, "queued"):
            shown = f": {words}" if words and state in ("failed", "up_for_retry") else ""
            who = "cluster" if key[0] == "cluster" else "the product"
            self.tell(who, f"{subject} {'→' if key[0] != 'cluster' else ''} {state}{shown}")
        self._states[key] = state


def ending(violations: Iterable[object]) -> str:
    """Return what broke, one line each."""
    return "\n".join(f"BROKEN  {violation}" for violation in violations)
