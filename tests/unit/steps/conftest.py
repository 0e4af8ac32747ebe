"""Fixtures of tests that run steps on the fake cluster."""

import pytest
from tests.steps_fixtures import *  # noqa: F403 - fixtures are found by name
from tests.unit.steps.left_open_lab import pass_minutes
from tests.unit.steps.throttle_lab import MOVES


@pytest.fixture
def submitted(reassignment):
    """A batch that copies, under its throttle."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


@pytest.fixture
def chain(reassignment, cluster):
    """A reassignment in which a minute passes at each look, and live replicas catch up."""
    return lambda *batches, **request: pass_minutes(reassignment(*batches, **request), cluster)
