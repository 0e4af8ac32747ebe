"""Requests whose limits, auto rate or windows are in an object, as in the record, beside the defaults of the form."""

import pytest
from tests.airflow.test_asked import fields_of

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.request import parse_request

pytestmark = pytest.mark.quick

ASKED = {"job": "rebalance", "throttle_mb_per_second": 50}
AUCKLAND = {"windows": ["sat 22:00-04:00"], "time_zone": "Pacific/Auckland"}


@pytest.fixture
def request_of(dags, monkeypatch):
    """The request that ``preflight`` of ``kafka_reassignment`` reads of a run with a conf."""

    def read(**conf):
        return parse_request(fields_of(monkeypatch, dags["kafka_reassignment"], conf))

    return read


@pytest.mark.parametrize(
    "given",
    [
        {"maintenance": AUCKLAND},
        {"limits": {"max_batches": 3}},
        {"limits": {"pace": "gentle"}},
        {"limits": {"batch_minutes": None}},
        {"auto": {"auto_rate": True}},
    ],
    ids=["windows of another time zone", "limits", "a pace", "no limit", "auto rate"],
)
def test_what_an_object_of_the_conf_asks_for_counts_and_no_default_of_the_form(request_of, given):
    """The windows would be those of UTC otherwise, in green."""
    assert request_of(**ASKED, **given) == parse_request(ASKED | given)


def test_a_request_of_the_record_is_the_same_when_it_is_asked_for_again(request_of):
    asked = parse_request(ASKED | {"pace": "gentle", "auto_rate": True, **AUCKLAND})
    assert request_of(**asked.model_dump(mode="json", exclude_none=True)) == asked


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"maintenance": AUCKLAND, "time_zone": "UTC"},
            "'time_zone' is given twice: 'UTC', and 'Pacific/Auckland' in 'maintenance'; give it once",
        ),
        ({"limits": {"pace": "gentle"}, "pace": "fast"}, "'pace' is given twice"),
        ({"auto": {"auto_rate": True}, "auto_rate": False}, "'auto_rate' is given twice"),
    ],
    ids=["a time zone", "a pace", "auto rate"],
)
def test_a_field_with_two_values_is_refused(request_of, given, words):
    with pytest.raises(InvalidRequestError, match=words):
        request_of(**ASKED, **given)


def test_fields_in_an_object_and_beside_it_are_one_request(request_of):
    given = {
        "maintenance": AUCKLAND | {"must_end_by": None},
        "blackouts": ["2026-12-24"],
        "time_zone": "Pacific/Auckland",
    }
    assert request_of(**ASKED, **given) == parse_request(ASKED | AUCKLAND | {"blackouts": ["2026-12-24"]})
