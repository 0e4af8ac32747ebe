"""Fixtures of tests that run steps on the fake cluster."""

import pytest
from tests.steps_fixtures import *  # noqa: F403 - fixtures are found by name
from tests.unit.steps.throttle_lab import MOVES


@pytest.fixture
def submitted(reassignment):
    """A batch that copies, under its throttle."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    return run
