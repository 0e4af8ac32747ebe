"""One suite, two clusters: every test below runs on the fake and on real brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.lab import FakeLab, KafkaLab, Lab, set_rates

FAKE = pytest.param("fake", marks=pytest.mark.quick)
REAL = pytest.param("kafka", marks=pytest.mark.kafka)


@pytest.fixture(params=[FAKE, REAL])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A cluster to set up and ask; nothing is left behind on a real one."""
    if request.param == "fake":
        yield FakeLab()
        return
    lab = KafkaLab(request.getfixturevalue("kafka"), request.getfixturevalue("create_topic"))
    try:
        yield lab
    finally:
        set_rates(lab.cluster, None)


@pytest.fixture(params=[FAKE, REAL])
def breakable_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """As ``lab``; brokers may be killed, and are brought back afterwards."""
    if request.param == "fake":
        yield FakeLab()
        return
    create_topic = request.getfixturevalue("create_topic")
    yield KafkaLab(request.getfixturevalue("breakable_kafka"), create_topic)
