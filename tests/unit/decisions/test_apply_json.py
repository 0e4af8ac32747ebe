"""A target assignment that a person brings along: what of it is refused, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_reassignment.decisions.apply_json import check_targets
from kafka_reassignment.errors import InfeasiblePlanError, InvalidRequestError
from kafka_reassignment.model import Replicas, TopicPartition

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 0)


def check(target: Replicas, **restrictions: Any) -> None:
    check_targets({P: target}, current={P: (1, 2)}, live_brokers={1, 2, 3, 4}, min_insync_replicas={}, **restrictions)


def test_no_new_replica_goes_to_a_cordoned_broker_and_one_that_is_there_may_stay():
    """Kafka would take it, but the broker was cordoned to get none; every other job keeps to that."""
    with pytest.raises(
        InfeasiblePlanError, match=r"puts orders-0 on broker 3, which takes no replicas: each of its log dirs"
    ):
        check((1, 3), cordoned_brokers={3})
    check((2, 4), cordoned_brokers={2, 3})


def test_an_excluded_broker_is_told_as_excluded_though_it_is_cordoned_too():
    with pytest.raises(
        InvalidRequestError, match=r"puts orders-0 on broker 3, which 'exclude_brokers' of the same request"
    ):
        check((1, 3), excluded_brokers={3}, cordoned_brokers={3})
    check((2, 1), excluded_brokers={1, 2})
