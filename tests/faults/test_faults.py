"""A short part of the fault suite; ``make faults`` runs any range of seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.checks import problems
from tests.faults.runner import ScenarioRun
from tests.faults.scenarios import scenario
from tests.faults.suite import Suite

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SEEDS = (1, 8)
"""Killed steps, lost answers, killed brokers, a stop and a resume: two minutes in all."""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """One cluster for all seeds, with throttles in its server.properties."""
    with Suite(tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_strikes_nothing_is_lost_and_nothing_left_behind(suite: Suite, seed: int):
    outcome = suite.run(seed)
    assert outcome.ok, "\n".join((*outcome.problems, str(outcome.scenario), *outcome.lines))


def test_the_checks_find_what_is_wrong(suite: Suite):
    """A run that went well, then spoilt in four ways: each is reported, and nothing else is."""
    with suite.world_of(scenario(SEEDS[0])) as world:
        run = ScenarioRun(world.scenario, world, suite.processes)
        run.run()
        assert problems(run) == []
        partition, (first, second, *rest) = min(world.replicas().items())
        world.cluster.alter_reassignments({partition: (second, first, *rest)})
        rate = ConfigChange(ConfigResource.broker(first), FOLLOWER_RATE, ConfigOperation.SET, "1234567")
        world.change_config(rate)
        lost = world.ledgers[partition.topic]
        lost._offsets[0] = 10**9  # a message that was never written there
        event = Path(run.record.root) / "audit" / "000002.json"
        event.write_text(json.dumps(json.loads(event.read_text()) | {"summary": "nothing happened"}))
        found = problems(run)
    assert len(found) == 4
    assert f"{partition} is at" in found[0]
    assert f"{FOLLOWER_RATE} is ConfigValue(value='1234567'" in found[1]
    assert "lost=" in found[2] or "displaced=1" in found[2]
    assert "the trail was altered" in found[3]
