"""Every fault that was found once is mended, or listed as one that the code of today still has; the list only shrinks.

Each script still shows its fault where the mend is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.simulation.actions import ACTIONS, ADDED
from tests.simulation.mutations import MUTATIONS
from tests.simulation.track_record import STILL_BROKEN, known_faults, run_known

pytestmark = pytest.mark.longer

NUMBERS = sorted(
    [f"A{n}" for n in range(1, 7)]
    + [f"B{n}" for n in range(1, 8)]
    + [f"C{n}" for n in range(1, 6)]
    + [f"G{n}" for n in range(1, 5)]
    + [f"H{n}" for n in range(1, 21)]
)

MEETS_NOTHING: Mapping[str, str] = {"G1": "release_lock: a step of a finished batch takes no lock, so none is there"}
"""By number, the one action that finds nothing to act on, and why."""

WITHOUT_A_MUTATION: Mapping[str, str] = {}
"""By number, why no mutation puts a fault back; its script may have gone blind."""


@pytest.fixture(scope="module")
def today(process):
    return process.submit(run_known).result()


@pytest.fixture(scope="module")
def mutated(process):
    return process.submit(run_known, mutated=True).result()


def test_every_known_fault_has_a_script_of_known_actions():
    faults = known_faults()
    assert [f.number for f in faults] == NUMBERS
    assert {a.name for f in faults for a in f.script} <= {*ACTIONS, *ADDED}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_known_fault_is_mended_or_listed(today, number):
    assert today[number].breaks == (number in STILL_BROKEN), today[number].words
    assert number in STILL_BROKEN or today[number].words == ""


@pytest.mark.parametrize("fault", known_faults(), ids=lambda fault: fault.number)
def test_every_action_of_a_script_meets_something(today, fault):
    assert today[fault.number].met == len(fault.script) - (fault.number in MEETS_NOTHING)


def test_a_fault_has_a_mutation_or_is_listed():
    assert sorted([*MUTATIONS, *WITHOUT_A_MUTATION]) == NUMBERS


@pytest.mark.parametrize("number", sorted(MUTATIONS))
def test_a_script_shows_its_fault_without_the_mend(mutated, number):
    assert mutated[number].breaks, mutated[number].words
    assert mutated[number].crashes == (), "the mutation does not fit the product any more"
