"""Every fault that was found once is mended, or listed as one that the code of today still has; the list only shrinks."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from tests.simulation.actions import ACTIONS
from tests.simulation.track_record import STILL_BROKEN, known_faults, run_known

pytestmark = pytest.mark.longer

NUMBERS = sorted(
    [f"A{n}" for n in range(1, 6)]
    + [f"B{n}" for n in range(1, 8)]
    + [f"C{n}" for n in range(1, 6)]
    + [f"G{n}" for n in range(1, 5)]
    + [f"H{n}" for n in range(1, 11)]
)


@pytest.fixture(scope="module")
def today():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run_known).result()


def test_every_known_fault_has_a_script_of_known_actions():
    faults = known_faults()
    assert [f.number for f in faults] == NUMBERS
    assert {a.name for f in faults for a in f.script} <= ACTIONS.keys()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_known_fault_is_mended_or_listed(today, number):
    breaks, words = today[number]
    assert breaks == (number in STILL_BROKEN), words
