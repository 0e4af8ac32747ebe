"""Real brokers for the modules of the KIPs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kips.moving_lab import MovingLab, moving_lab
from tests.kips.views_lab import ViewsLab, open_views_lab


@pytest.fixture
def moving(kafka, create_topic, tmp_path: Path) -> Iterator[MovingLab]:
    """Moves on the shared brokers, slow enough to be met in flight."""
    with moving_lab(kafka, create_topic, tmp_path) as lab:
        yield lab


@pytest.fixture
def breaking(breakable_kafka, create_topic, tmp_path: Path) -> Iterator[MovingLab]:
    """The same, for tests that kill brokers."""
    with moving_lab(breakable_kafka, create_topic, tmp_path) as lab:
        yield lab


@pytest.fixture
def views(kafka, create_topic, tmp_path: Path) -> Iterator[ViewsLab]:
    """Moves on the shared brokers, held in flight for the views."""
    with open_views_lab(kafka, create_topic, tmp_path) as lab:
        yield lab
