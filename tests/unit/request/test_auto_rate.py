"""What a request may ask of auto rate."""

import pytest

from kafka_reassignment.errors import DuplicatePartitionError, InvalidRequestError, InvalidThrottleError
from kafka_reassignment.request import parse_request

pytestmark = pytest.mark.quick

ASKED = {"job": "rebalance", "throttle_mb_per_second": 10, "auto_rate": True}


def test_it_is_off_unless_it_is_asked_for():
    assert not parse_request({"job": "rebalance", "throttle_mb_per_second": 10}).auto.auto_rate


@pytest.mark.parametrize(
    ("fields", "bounds"),
    [
        ({}, (2.5, 10)),
        ({"canary_topic": "canary"}, (2.5, 20)),
        ({"watched_groups": ["billing"]}, (2.5, 20)),
        ({"highest_mb_per_second": 30}, (2.5, 30)),
        ({"lowest_mb_per_second": 5}, (5, 10)),
        ({"throttle_mb_per_second": 2}, (1, 2)),
        ({"throttle_mb_per_second": 0.5, "allow_low_throttle": True}, (0.5, 0.5)),
    ],
    ids=["ISR alone", "canary", "groups", "highest", "lowest", "not below 1", "begins below 1"],
)
def test_the_bounds_are_a_quarter_and_twice_the_throttle_and_not_above_it_without_a_signal_that_looks_ahead(
    fields, bounds
):
    request = parse_request(ASKED | fields)
    low, high = request.auto.bounds(request.throttle_bytes_per_second)
    assert (low / 1e6, high / 1e6) == bounds


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"auto_rate": False, "canary_topic": "c"}, InvalidRequestError, "'canary_topic' belongs to auto rate, which is off"),
        (
            {"auto_rate": False, "lowest_mb_per_second": 2},
            InvalidRequestError,
            "'lowest_mb_per_second' belongs to auto rate, which is off; set 'auto_rate', or leave it empty",
        ),
        (
            {"throttle_mb_per_second": None, "unthrottled": True},
            InvalidThrottleError,
            "auto_rate is set, expected a throttle to begin with, found an unthrottled move",
        ),
        ({"lowest_mb_per_second": 11}, InvalidThrottleError, "lowest_mb_per_second is 11, expected at most .* .found 10."),
        ({"highest_mb_per_second": 9}, InvalidThrottleError, "highest_mb_per_second is 9, expected at least .* .found 10."),
        ({"lowest_mb_per_second": 0.5}, InvalidThrottleError, "lowest_mb_per_second is 0.5, expected at least 1"),
        ({"lowest_mb_per_second": 0}, InvalidRequestError, "expected a rate above 0 MB/s"),
        ({"canary_topic": "no such name"}, InvalidRequestError, "canary_topic"),
        ({"canary_topic": "c", "canary_limit_ms": 6000}, InvalidRequestError, "canary_limit_ms"),
        ({"watched_groups": ["a", "a"]}, DuplicatePartitionError, "'a' is named twice"),
        ({"watched_groups": ["a"], "lag_growth_messages": 0}, InvalidRequestError, "lag_growth_messages"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_message(fields, error, text):
    with pytest.raises(error, match=text):
        parse_request(ASKED | fields)


def test_the_fields_are_flat_in_a_request_that_is_asked_for_again():
    fields = {**ASKED, "canary_topic": "canary", "partition_movements": 7}
    again = parse_request(fields).as_fields()
    assert again["canary_topic"] == "canary"
    assert again["partition_movements"] == 7
    assert parse_request(again) == parse_request(fields)
