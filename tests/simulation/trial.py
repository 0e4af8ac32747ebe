"""One script in one scenario: played, healed, led to its end, and judged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.actions import Action
from tests.simulation.coverage import Coverage
from tests.simulation.damage import still_blocked
from tests.simulation.follower import Follower
from tests.simulation.invariants import Watch, at_the_end
from tests.simulation.page import PageReader
from tests.simulation.play import Play
from tests.simulation.story import ending
from tests.simulation.violations import Violation
from tests.simulation.windows import WindowWatch

from kafka_reassignment_airflow.runs import DAG_ID, SWEEP_DAG_ID

SWEEPS = 3


@dataclass
class Trial:
    """What a script showed: violations in the order they were found.

    ``met`` counts the actions that found something to act on, ``hands`` the errors whose advice was carried out.
    """

    scenario: Any
    script: tuple[Action, ...]
    violations: list[Violation] = field(default_factory=list)
    story: str = ""
    fingerprint: str = ""
    world: Any = None
    met: int = 0
    hands: int = 0

    @property
    def kinds(self) -> list[str]:
        """The kinds of its violations, each once."""
        return list(dict.fromkeys(v.kind for v in self.violations))


def run_trial(
    scenario: Any,
    script: Sequence[Action],
    *,
    coverage: Coverage | None = None,
    watch: bool = False,
    watched: bool = True,
) -> Trial:
    """Play a script and judge it.

    Args:
        scenario: where it begins.
        script: what happens.
        coverage: counts which actions met which states.
        watch: tell the story with every change of a task and a partition.
        watched: judge after each event; without it only the end is judged, and the story is the same.
    """
    world = scenario.world()
    play = Play(world, script, scenario=scenario, coverage=coverage)
    watching, reader, windows = Watch(play), PageReader(play), WindowWatch(play)

    def look() -> None:
        windows.look()
        watching.look()
        reader.look()

    if watched:
        world.time.after_event = look
    if watch:
        play.story.watch()
    world.main_run = world.airflow.trigger(DAG_ID, scenario.request)
    play.run()
    play.heal()
    follower = Follower(play)
    follower.lead_to_the_end()
    left = [] if follower.violations else _swept(play, follower)
    if watched:
        watching.look()
        reader.look_at_the_end()
    if play.damaged:
        world.time.after_event = world.ledger.observe  # a person takes the lock away by force
        left = left + still_blocked(play)
    violations = watching.violations + follower.violations + left + windows.violations + reader.violations
    return Trial(
        scenario,
        tuple(script),
        violations,
        play.story.text() + ("\n" + ending(violations) if violations else ""),
        _fingerprint(play),
        world,
        sum(1 for met in play.met.values() if met),
        follower.followed,
    )


def _swept(play: Play, follower: Follower) -> list[Violation]:
    """Let the hourly sweep of every Airflow run, and return what is not as promised after some of them."""
    left: list[Violation] = []
    for _ in range(SWEEPS):
        sweeps = []
        for airflow in play.world.airflows:
            airflow.paused.discard(SWEEP_DAG_ID)
            sweeps.append(airflow.trigger(SWEEP_DAG_ID, {}, by=None, run_type="scheduled"))
        play.world.run_until_idle(3600.0)
        follower.follow_sweeps(sweeps)
        follower.lead_to_the_end()
        left = [] if follower.corrections else at_the_end(play)
        if not left:
            break
        play.world.time.advance(3600.0)
    return left


def _fingerprint(play: Play) -> str:
    world = play.world
    digest = hashlib.sha256(world.disk.fingerprint().encode())
    digest.update(repr(sorted(play.state.partitions.items())).encode())
    digest.update(repr(sorted(play.state.configs.items())).encode())
    for airflow in world.airflows:
        for key, run in airflow.runs.items():
            digest.update(f"{key} {run.state} {[(t.state, t.try_number) for t in run.tasks.values()]}".encode())
    digest.update(f"{world.time.now} {play.story.text()}".encode())
    return digest.hexdigest()[:16]
