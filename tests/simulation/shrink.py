"""Making a script that breaks something as short and plain as it can be while it breaks the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.actions import Action, smaller
from tests.simulation.trial import Trial, run_trial

MOST_TRIALS = 400
"""Scripts that are tried for one violation."""


def shrink(found: Trial, *, most: int = MOST_TRIALS) -> Trial:
    """Return a trial of fewer actions with smaller arguments, in a plainer scenario, whose first violation is of the same kind.

    First whole actions go, the most at a time first; then arguments and times get smaller; then what was wrong with the
    scenario from the start goes. Each step is kept only if the same invariant is broken in the same way.
    """
    kind, best, left = found.violations[0].kind, found, most
    progress = True
    while progress and left > 0:
        progress = False
        for scenario, script in _simpler(best):
            left -= 1
            trial = _try(scenario, script)
            if trial is not None and kind in trial.kinds:
                best, progress = trial, True
                break
            if left <= 0:
                break
    return best


def _try(scenario: Any, script: Sequence[Action]) -> Trial | None:
    try:
        return run_trial(scenario, script)
    except Exception:  # noqa: BLE001 - a script that the simulator itself cannot play is no simpler form
        return None


def _simpler(trial: Trial) -> Iterator[tuple[Any, tuple[Action, ...]]]:
    """Yield simpler forms, the boldest first."""
    scenario, script = trial.scenario, trial.script
    size = len(script)
    while size:
        for start in range(0, len(script), size):
            yield scenario, script[:start] + script[start + size :]
        size //= 2
    for plainer in _plainer(scenario):
        yield plainer, script
    for index, action in enumerate(script):
        for less in smaller(action):
            yield scenario, (*script[:index], less, *script[index + 1 :])


def _plainer(scenario: Any) -> Iterator[Any]:
    for name, nothing in (("dead", ()), ("rates", {}), ("static_rates", {}), ("behind", ()), ("writes", {})):
        if getattr(scenario, name) != nothing:
            yield replace(scenario, **{name: nothing})
    if scenario.disk != "objects":
        yield replace(scenario, disk="objects")
    needed = {
        "job",
        "reassignment_json",
        "brokers",
        "topics",
        "replication_factor",
        "throttle_mb_per_second",
        "unthrottled",
    }
    for name in sorted(scenario.request.keys() - needed):
        yield replace(scenario, request={k: v for k, v in scenario.request.items() if k != name})
