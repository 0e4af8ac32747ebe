"""Fixtures of tests that run steps on the fake cluster."""

from tests.steps_fixtures import *  # noqa: F403 - fixtures are found by name
