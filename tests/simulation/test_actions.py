"""Scripts are data: drawn alike from a seed, and simplified argument by argument."""

from __future__ import annotations

import json
import random

import pytest
from tests.simulation import play  # noqa: F401 - registers the actions
from tests.simulation.actions import ACTIONS, Action, pick, random_actions, smaller
from tests.simulation.clock import START
from tests.simulation.coverage import Coverage
from tests.simulation.violations import Violation

pytestmark = pytest.mark.quick


def test_a_seed_draws_the_same_script_each_time():
    assert random_actions(random.Random(7), 20) == random_actions(random.Random(7), 20)


def test_every_action_can_be_drawn_and_written_as_json():
    drawn = random_actions(random.Random(1), 3_000)
    assert {a.name for a in drawn} == ACTIONS.keys()
    for each in drawn:
        assert Action(**json.loads(json.dumps(each.as_data()))) == each


def test_a_simpler_form_has_one_argument_nearer_to_nothing():
    given = Action("another_moves", 30.0, {"partition": 5, "dead": True})
    forms = smaller(given)
    assert Action("another_moves", 30.0, {"partition": 0, "dead": True}) in forms
    assert Action("another_moves", 30.0, {"partition": 5, "dead": False}) in forms
    assert Action("another_moves", 15.0, {"partition": 5, "dead": True}) in forms
    assert given not in forms


def test_simplifying_comes_to_an_end():
    current = Action("another_moves", 77.7, {"partition": 5, "brokers": 3, "dead": True})
    steps = 0
    while forms := smaller(current):
        current = forms[-1]
        steps += 1
    assert steps < 50
    assert current == Action("another_moves", 0.0, {"partition": 0, "brokers": 0, "dead": False})


def test_a_number_always_chooses_something_that_is_there():
    assert [pick("abc", n) for n in (0, 2, 3, 7)] == ["a", "c", "a", "b"]
    assert pick([], 3) is None


def test_violations_of_one_cause_are_of_one_kind():
    one = Violation("I1", "no throttle holds what broker 4 receives of a-1, for 74 s (a-1)", START)
    other = Violation("I1", "no throttle holds what broker 2 receives of b-0, for 90 s (b-0)", START)
    assert one.kind == other.kind
    assert one.kind != Violation("I3", one.what, START).kind


def test_an_action_that_never_did_anything_is_a_hole():
    coverage = Coverage()
    coverage.counts["sweep", ""] = 1
    coverage.counts["sweep", "locked"] = 1
    coverage.counts["stop", ""] = 1
    holes = coverage.holes()
    assert ("roll_back", "") in holes
    assert ("stop", "locked") in holes
    assert ("sweep", "locked") not in holes
    assert "hole: stop never met locked" in coverage.text()
