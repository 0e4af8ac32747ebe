"""What preflight says about producers, by the settings of the brokers."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.producer_wait import BACKOFF, LONG_POLL, ProducerWait, producer_wait
from kafka_reassignment.model import ConfigResource, ConfigSource, ConfigValue

pytestmark = pytest.mark.quick


def shown(*settings: tuple[int, int]) -> dict[ConfigResource, dict[str, ConfigValue]]:
    return {
        ConfigResource.broker(broker): {
            BACKOFF: ConfigValue(str(backoff), ConfigSource.STATIC_BROKER),
            LONG_POLL: ConfigValue(str(long_poll), ConfigSource.DEFAULT),
        }
        for broker, (backoff, long_poll) in enumerate(settings, 1)
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([(1000, 500)], ProducerWait(1000, 500)),
        ([(50, 100), (1000, 500), (50, 900)], ProducerWait(1000, 900)),
    ],
)
def test_the_slowest_broker_counts(settings, expected):
    assert producer_wait(shown(*settings)) == expected


def test_nothing_is_said_where_no_broker_shows_both():
    assert producer_wait({ConfigResource.broker(1): {}}) is None
    assert producer_wait({}) is None


def test_better_settings_are_named_where_there_are_any():
    assert str(ProducerWait(1000, 500)) == (
        "each drop of old replicas may keep producers with acks=all waiting for about 1.1 s (replica.fetch.backoff.ms is 1000 ms, "
        "replica.fetch.wait.max.ms 500 ms); with 50 ms and 100 ms it would be about 0.2 s"
    )
    assert str(ProducerWait(20, 300)).endswith("300 ms); with 20 ms and 100 ms it would be about 0.2 s")
    assert "it would be" not in str(ProducerWait(50, 100))
