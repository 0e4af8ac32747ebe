"""Every action meets every state that it can meet: by the fixed range of seeds, or by a script of its own."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from tests.simulation.actions import ACTIONS
from tests.simulation.coverage import STATES, Coverage
from tests.simulation.pairs import IMPOSSIBLE, Pair, holes, is_impossible, lead_to
from tests.simulation.play import AT_STATE, TASK_RUNS
from tests.simulation.runner import run_seeds
from tests.simulation.test_seeds import FIXED
from tests.simulation.ways import WAYS


def _led_to(wanted: Iterable[Pair]) -> tuple[set[Pair], list[str]]:
    return lead_to(wanted)


@pytest.mark.quick
def test_the_rules_name_actions_and_states_that_there_are():
    for actions, states, reason in IMPOSSIBLE:
        assert set(actions) <= ACTIONS.keys()
        assert set(states) <= set(STATES)
        assert reason
    for (name, state), way in WAYS.items():
        assert not is_impossible((name, state))
        moments = [way.when, *(lead.when for lead in way.leads if lead.when)]
        bound = {each for m in moments if m.startswith(AT_STATE) for each in m.removeprefix(AT_STATE).split(" & ")}
        assert {name, *(lead.name for lead in way.leads)} <= ACTIONS.keys()
        assert {state, *bound} <= {*STATES, TASK_RUNS}


@pytest.mark.quick
def test_a_pair_that_never_met_is_a_hole_unless_a_rule_says_why():
    coverage = Coverage()
    for name in ACTIONS:
        coverage.counts[name, ""] = 1
    coverage.counts["sweep", "nothing begun"] = coverage.counts["sweep", "locked"] = 1
    assert ("stop", "locked") in holes(coverage)
    assert ("sweep", "locked") not in holes(coverage)
    assert ("power_cut", "nothing begun") not in holes(coverage)


@pytest.mark.simulation
@pytest.mark.slow
def test_every_action_meets_every_state_that_it_can_meet():
    coverage = run_seeds(FIXED, jobs=1).coverage
    assert [p for p, count in coverage.counts.items() if count and is_impossible(p)] == []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        left, red = pool.submit(_led_to, holes(coverage)).result()
    assert (left, red) == (set(), [])
