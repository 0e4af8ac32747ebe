"""Requests as a person writes them are those that a program sends."""

import json
import re
from textwrap import dedent

import pytest

from kafka_lab.airflow import PROJECT
from kafka_reassignment.errors import InvalidRequestError, InvalidThrottleError
from kafka_reassignment.request import parse_request, written_requests
from kafka_reassignment.request.written import EXAMPLE
from kafka_reassignment_airflow.form.params import request_params

pytestmark = pytest.mark.quick

TEXT = """
Kafka connection: prod-eu
job: rebalance
Throttle (MB/s): 50
Windows: sat 22:00-04:00
windows: cron 0 22 * * sun for 6 h
TIME_ZONE: Europe/Madrid
pace: gentle
require approval: yes
not_before: 2026-12-01 10:00

kafka_conn_id: prod-us
job: decommission
brokers: 1-2, 7
topics: orders*
topics: payments
throttle_mb_per_second: 80.5
batch_bytes: 600 GB
"""


def test_a_line_is_a_field_by_its_name_or_title_and_an_empty_line_ends_a_request():
    as_sent = [
        {
            "kafka_conn_id": "prod-eu",
            "job": "rebalance",
            "throttle_mb_per_second": 50,
            "windows": ["sat 22:00-04:00", "cron 0 22 * * sun for 6 h"],
            "time_zone": "Europe/Madrid",
            "pace": "gentle",
            "require_approval": True,
            "not_before": "2026-12-01 10:00",
        },
        {
            "kafka_conn_id": "prod-us",
            "job": "decommission",
            "brokers": [1, 2, 7],
            "topics": ["orders*", "payments"],
            "throttle_mb_per_second": 80.5,
            "batch_bytes": 600_000_000_000,
        },
    ]
    assert [parse_request(r) for r in written_requests(TEXT)] == [parse_request(r) for r in as_sent]
    assert written_requests(" \n\n ") == []


def test_the_example_of_the_documentation_is_the_same_as_its_json():
    page = (PROJECT / "docs" / "how-to" / "rebalance-on-schedule.md").read_text()
    (text,) = re.findall(r"```\n(   Kafka connection.+?)```", page, re.DOTALL)
    (as_json,) = re.findall(r"kafka_maintenance_requests '(.+)'", page)
    assert [parse_request(r) for r in written_requests(dedent(text))] == [parse_request(r) for r in json.loads(as_json)]


def test_the_form_takes_what_was_written():
    params = request_params()
    for request in written_requests(TEXT):
        for name, value in request.items():
            assert params[name].resolve(value) == value


@pytest.mark.parametrize("title", [p.schema["title"] for p in request_params().values()])
def test_every_title_of_the_form_names_its_field(title):
    """A second line of the same field is seen as one of a known field, whatever its value."""
    several = {"Topics", "Exclude topics", "Watched groups", "Windows", "Blackouts"}
    with pytest.raises(InvalidRequestError) as refused:
        written_requests(f"{title}: ?\n{title.upper()}: ?")
    assert "Line 2 gives" in str(refused.value) or title in several
    assert "not a known field" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rebalance, please", "Line 1 is 'rebalance, please'"),
        ("job: rebalance\njob: leaders", "Line 2 gives 'job' again"),
        ("job: rebalance\nthrottle_mb_per_second:", "Line 2 is 'throttle_mb_per_second:'"),
        ('[{"job": "rebalance"', "but are not JSON"),
        (
            f"{EXAMPLE}\n\njob: leaders\nthrottle_mb_per_second: 9\nspeed: 3",
            "The request in lines 5 to 7 cannot be carried out: 'speed' is not a known field",
        ),
        ("job: rebalance", "The request in line 1"),
        ("a: b\n" * 10_001, "at most 10000 are read"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, said):
    with pytest.raises(InvalidRequestError) as refused:
        written_requests(text)
    assert said in str(refused.value)


def test_a_rate_is_asked_for_here_too():
    with pytest.raises(InvalidThrottleError, match="no throttle"):
        written_requests("job: rebalance")
