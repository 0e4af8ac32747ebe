"""Seeds of the simulator: a fixed range, fresh ones, and the exhaustive pass.

Only invariants that hold by now are demanded; ``DEMANDED`` grows until it has all of them.
"""

from __future__ import annotations

import random

import pytest
from tests.simulation.runner import Summary, run_exhaustive, run_seeds

pytestmark = pytest.mark.simulation

FIXED = range(1, 201)
FRESH = 50
DEMANDED = frozenset({"twice", "simulator", "I2", "I3"})


def demanded(summary: Summary) -> list[str]:
    return [f"seed {f.seed}: {f.what}" for f in summary.found if f.invariant in DEMANDED]


def test_a_fixed_range_of_seeds_keeps_the_invariants():
    assert demanded(run_seeds(FIXED, jobs=1)) == []


def test_fresh_seeds_keep_the_invariants():
    first = random.SystemRandom().randrange(10**6, 10**9)
    summary = run_seeds(range(first, first + FRESH), jobs=1)
    assert demanded(summary) == [], f"make simulate SEEDS={first}-{first + FRESH - 1}"


@pytest.mark.parametrize("disk", ["objects", "local"])
def test_a_task_that_dies_at_any_call_is_carried_on_by_airflows_retries(disk):
    assert run_exhaustive(disk, every=5 if disk == "local" else 2).found == []
