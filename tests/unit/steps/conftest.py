"""Fixtures of tests that run steps on the fake cluster."""

from collections.abc import Callable

import pytest
from tests.steps_fixtures import *  # noqa: F403 - fixtures are found by name
from tests.steps_lab import ProcessDiedError
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


@pytest.fixture
def held(cluster):
    """Let the next request of a kind wait until something else is done; its try may die then."""

    def hold(call: str, meanwhile: Callable[[], object], *, dies: bool = False) -> None:
        request = getattr(cluster, call)

        def late(*args, **options):
            delattr(cluster, call)
            meanwhile()
            answer = request(*args, **options)
            if dies:
                raise ProcessDiedError
            return answer

        setattr(cluster, call, late)

    return hold
