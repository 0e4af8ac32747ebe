"""Which actions met which states: an action that never met a state is a hole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tests.simulation.actions import ACTIONS, Action
from tests.simulation.windows import is_open

if TYPE_CHECKING:
    from tests.simulation.play import Play

from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, PARTITION_COUNT_DAG_ID

STATES: tuple[str, ...] = (
    "nothing begun",
    "planning",
    "approval asked",
    *BATCH_STEPS,
    "ending",
    "main green",
    "main red",
    "batch red",
    "later batch",
    "stopped",
    "locked",
    "not locked",
    "throttle in place",
    "throttle missing",
    "copying",
    "foreign move",
    "broker dead",
    "cluster away",
    "store disturbed",
    "retrying",
    "two reassignments",
    "window closed",
    "no controller",
    "record damaged",
    "growing",
    "two Airflows",
)
"""What a script may meet. Task names: a task of a batch that runs, waits or is about to be retried."""


class Coverage:
    """How often each action met each state."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.idle: Counter[str] = Counter()
        self._states: set[str] = set()

    def before(self, play: Play, _action: Action) -> None:
        """Note the states that an action is about to meet."""
        self._states = states_of(play)

    def after(self, action: Action, met: str | None) -> None:
        """Note whether it did anything."""
        if met is None:
            self.idle[action.name] += 1
            return
        self.counts.update((action.name, state) for state in self._states)
        self.counts[action.name, ""] += 1

    def add(self, other: Coverage) -> None:
        """Add another one's counts."""
        self.counts += other.counts
        self.idle += other.idle

    def holes(self) -> list[tuple[str, str]]:
        """Return actions and states that never met, and ("name", "") for actions that never did anything."""
        never = [(name, "") for name in sorted(ACTIONS) if not self.counts[name, ""]]
        reachable = {state for _, state in self.counts if state}
        return never + [
            (name, state)
            for name in sorted(ACTIONS)
            if self.counts[name, ""]
            for state in STATES
            if state in reachable and not self.counts[name, state]
        ]

    def never_met(self) -> list[str]:
        """Return the states that no action ever met, and the actions that never did anything."""
        states = [state for state in STATES if not any(self.counts[name, state] for name in ACTIONS)]
        return states + [name for name in sorted(ACTIONS) if not self.counts[name, ""]]

    def text(self) -> str:
        """Return the table, and the holes by name."""
        width = max(map(len, ACTIONS)) + 1
        lines = ["actions met states (columns numbered below; '.' never)"]
        lines += [" " * width + "".join(f"{n:>6}" for n in range(1, len(STATES) + 1)) + "   all  idle"]
        for name in sorted(ACTIONS):
            cells = "".join(f"{_short(self.counts[name, state]):>6}" for state in STATES)
            lines.append(f"{name:<{width}}{cells}{_short(self.counts[name, '']):>6}{_short(self.idle[name]):>6}")
        lines += [f"  {n}: {state}" for n, state in enumerate(STATES, 1)]
        unmet = [state for state in STATES if not any(self.counts[name, state] for name in ACTIONS)]
        if unmet:
            lines.append(f"no action ever met: {', '.join(unmet)}")
        never: dict[str, list[str]] = {}
        for name, state in self.holes():
            never.setdefault(name, []).append(state)
        lines += [
            f"hole: {name} never " + (f"met {', '.join(s)}" if s[0] else "did anything") for name, s in never.items()
        ]
        return "\n".join(lines)


def _short(count: int) -> str:
    return "." if not count else str(count) if count < 10_000 else f"{count // 1000}k"


def states_of(play: Play) -> set[str]:
    """Return the states that a world is in now."""
    main = play.runs(DAG_ID)
    batches = play.runs(BATCH_DAG_ID)
    truth, ledger = play.world.truth, play.ledger
    found = {"locked" if truth.owner() else "not locked"}
    found |= set(_of_runs(main, batches))
    if any(_waits_for_window(play, run) for run in batches):
        found.add("window closed")
    if any(play.world.truth.is_stopped(r.run_id) for r in main):
        found.add("stopped")
    state = ledger.state()
    if ledger.copies:
        found.add("throttle missing" if ledger.bare() else "throttle in place")
    if any(b not in state.partitions[p].isr for p, b in ledger.copies if p in state.partitions):
        found.add("copying")
    if any(who != "ours" for who in ledger.movers.values()):
        found.add("foreign move")
    if play.dead:
        found.add("broker dead")
    if getattr(play.cluster, "_is_cut_off", False):
        found.add("cluster away")
    faults = play.world.disk.faults
    if faults.away or faults.full or faults.seconds_per_call or faults.listing_lag:
        found.add("store disturbed")
    if not play.cluster._replication.has_controller:
        found.add("no controller")
    if play.unreadable:
        found.add("record damaged")
    if any(r.state == "running" for r in play.runs(PARTITION_COUNT_DAG_ID)):
        found.add("growing")
    if len(play.world.airflows) > 1:
        found.add("two Airflows")
    if len([r for r in main if r.state == "running"]) > 1:
        found.add("two reassignments")
    return found


def _of_runs(main: list[Any], batches: list[Any]) -> Iterable[str]:
    if not any(run.state != "queued" for run in main):
        yield "nothing begun"
    for run in main:
        if run.state in ("success", "failed"):
            yield "main green" if run.state == "success" else "main red"
            continue
        at_work = {t.task_id for t in run.tasks.values() if t.state in AT_WORK}
        if at_work & {"preflight", "plan"}:
            yield "planning"
        if at_work & {"elect_leaders", "verify", "report"}:
            yield "ending"
        if any(t.state == "awaiting_input" for t in run.tasks.values()):
            yield "approval asked"
    for run in batches:
        if run.state == "failed":
            yield "batch red"
        if not run.run_id.endswith("__0001") and run.state == "running":
            yield "later batch"
        for ti in run.tasks.values():
            if ti.state in AT_WORK:
                yield ti.task_id
            if ti.state == "up_for_retry":
                yield "retrying"


def _waits_for_window(play: Play, run: Any) -> bool:
    if run.state != "running" or run.tasks["admit"].state != "deferred":
        return False
    request = play.world.truth.request(str(run.conf.get("reassignment_id")))
    spec = request.maintenance if request is not None else None
    return spec is not None and not is_open(spec.windows, spec.time_zone, play.world.time.now)


AT_WORK = frozenset({"running", "deferred", "queued", "up_for_retry", "restarting"})
