"""Requests that mean harm, or come from a broken program: refused with a short, clear text, before anything is touched."""

import json
import time
import unicodedata
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.brokers import check_brokers_known
from kafka_reassignment.errors import InvalidRequestError, UnknownBrokerError
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.record.models import RecordedRequest
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import ReassignmentRequest, parse_limits, parse_request
from kafka_reassignment.request.names import MAX_NAMES
from kafka_reassignment.request.partition_count import parse_partition_count
from kafka_reassignment.request.reassignment import GROUPS

pytestmark = pytest.mark.longer

GOOD = {"job": "rebalance", "throttle_mb_per_second": 10}
HUGE = "x" * 10_000_000
NESTED = "[" * 1_000_000
TRICKS = (
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "a/b",
    "a\x00b",
    "a\nb",
    "$(reboot)",
    "; rm -rf /",
    "{{ 7*7 }}",
    "a b",
    "é",
    "",
)


def refusal(read, *args):
    with pytest.raises(InvalidRequestError) as refused:
        read(*args)
    text = str(refused.value)
    assert len(text) < 2_000, f"{len(text)} characters"
    assert not [c for c in text if unicodedata.category(c) == "Cc"], "control characters"
    return text


@pytest.mark.parametrize("field", sorted(ReassignmentRequest.model_fields))
@pytest.mark.parametrize(
    "value",
    [HUGE, [HUGE], {"a": HUGE}, [[[]]], -1, 10**400, float("nan"), float("inf"), {"__class__": 1}, object(), b"\xff"],
    ids=["huge", "huge list", "huge dict", "nested", "negative", "endless", "nan", "inf", "dunder", "object", "bytes"],
)
def test_no_field_takes_what_it_does_not_expect(field, value):
    fields = {**GOOD, field: value}
    try:
        parse_request(fields)
    except InvalidRequestError:
        refusal(parse_request, fields)
    else:
        assert field == "reassignment_json", "only a plan is read later, by its own strict reader"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"must_end_by": "2999-12-31 23:59"},
        {"must_end_by": "2999-12-31 23:59", "time_zone": "America/New_York"},
        {"must_end_by": "2999-12-31T23:59-23:59"},
        {"not_before": "2000-01-01 00:00", "time_zone": "Europe/Madrid"},
        {"not_before": "2000-01-01T00:00+23:59"},
        {"blackouts": ["2000-01-01", "2999-12-31"], "time_zone": "America/New_York"},
        {"tolerance": 5e-324, "keep_free_share": -0.0},
        {"throttle_mb_per_second": 0.0010001, "allow_low_throttle": True},
    ],
    ids=str,
)
def test_what_is_taken_can_be_read_back_from_its_record(fields):
    request = parse_request(GOOD | fields)
    recorded = RecordedRequest(
        cluster_id="c", reassignment_id="r", started_at=datetime.now(UTC), requested_by="ann", request=request
    )
    assert RecordedRequest.model_validate_json(recorded.model_dump_json()) == recorded
    assert parse_request(request.as_fields()) == request


def is_number(annotation: object) -> bool:
    schema = TypeAdapter(annotation).json_schema()
    kinds = {choice.get("type") for choice in (schema, *schema.get("anyOf", ()))}
    return bool(kinds & {"integer", "number"})


MODELS = (ReassignmentRequest, *GROUPS.values())
NUMBERS = [name for model in MODELS for name, field in model.model_fields.items() if is_number(field.annotation)]


@pytest.mark.parametrize("field", NUMBERS)
def test_true_is_no_number(field):
    assert "expected a number, found true" in refusal(parse_request, GOOD | {field: True})


def test_there_are_numbers_to_be_refused():
    assert {"throttle_mb_per_second", "batch_bytes", "approval_hours", "tolerance", "canary_limit_ms"} <= set(NUMBERS)


@pytest.mark.parametrize("fields", [{"job": "decomission"}, {"mode": "replication_factor"}], ids=str)
def test_the_words_of_what_is_allowed_are_no_case_of_their_own(fields):
    with pytest.raises(InvalidRequestError) as refused:
        parse_request(GOOD | fields)
    assert type(refused.value) is InvalidRequestError


def test_an_expected_cluster_id_that_is_empty_guards_nothing():
    fields = GOOD | {"expected_cluster_id": ""}
    assert "'expected_cluster_id' is empty" in refusal(parse_request, fields)
    assert parse_request(fields, is_recorded=True).expected_cluster_id == "", "what an earlier version took stays so"
    assert parse_request(GOOD | {"expected_cluster_id": None}).expected_cluster_id is None


@pytest.mark.parametrize("value", ["1999-12-30T00:00Z", "3000-01-03T00:00Z", "0001-01-01T00:00+05:00"])
def test_a_year_that_is_a_typing_error_is_refused(value):
    assert "found the year" in refusal(parse_request, GOOD | {"must_end_by": value})


@pytest.mark.parametrize(
    "name", ["__class__", HUGE, "job\x00", "a\nb", "{{ conn }}"], ids=["dunder", "huge", "nul", "newline", "template"]
)
def test_no_field_is_accepted_that_is_not_known(name):
    assert "is not a known field" in refusal(parse_request, {**GOOD, name: 1})
    refusal(parse_limits, {name: 1})


@pytest.mark.parametrize("name", TRICKS)
def test_a_topic_name_is_one_that_kafka_could_have(name):
    refusal(parse_request, {**GOOD, "topics": [name]})
    entry = {"topic": name, "partition": 0, "replicas": [1]}
    refusal(parse_plan, json.dumps({"version": 1, "partitions": [entry]}))


def test_more_names_than_any_cluster_has_are_refused():
    refusal(parse_request, {**GOOD, "topics": [f"t{i}" for i in range(300_000)]})
    refusal(parse_request, {**GOOD, "exclude_brokers": list(range(300_000))})


@pytest.mark.parametrize(
    "text",
    [
        HUGE,
        NESTED,
        '{"a":' * 100_000,
        '{"version": 1, "partitions": ' + NESTED,
        json.dumps({"version": 1, "partitions": [{"topic": HUGE, "partition": 0, "replicas": [1]}]}),
        json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 10**300, "replicas": [1]}]}),
        json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1] * 100_000}]}),
        json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], HUGE: 1}]}),
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [' + "9" * 5_000 + "]}]}",
        '{"version": 1, "version": 1, "partitions": []}',
        "\ufeff{}",
        "NaN",
    ],
    ids=lambda text: text[:20],
)
def test_a_plan_that_is_none_is_refused(text):
    refusal(parse_plan, text)


@pytest.mark.parametrize("identity", [t for t in TRICKS if t] + [HUGE[:250]])
def test_ids_stay_inside_the_record_store(tmp_path, identity):
    store = RecordStore(UPath(tmp_path / "records"))
    for root in (store.record(identity, "r").root, store.record("c", identity).root):
        assert (tmp_path / "records") in UPath(root.path).resolve().parents
    assert len({store.record("c", other).root for other in (*TRICKS, identity)}) == len({*TRICKS, identity})


def test_excluded_brokers_of_a_partition_count_are_bounded_and_read_in_no_time():
    ids = list(range(MAX_NAMES))
    began = time.process_time()
    request = parse_partition_count({"topic": "t", "partitions": 4, "exclude_brokers": ids})
    with pytest.raises(UnknownBrokerError):
        check_brokers_known(
            request.exclude_brokers, list(range(1_000)), subject="'exclude_brokers'", advice=Correct("x")
        )
    assert time.process_time() - began < 2
    with pytest.raises(InvalidRequestError, match="exclude_brokers"):
        parse_partition_count({"topic": "t", "partitions": 4, "exclude_brokers": [*ids, MAX_NAMES]})


@pytest.mark.parametrize("rate", [0, -1, 0.0])
@pytest.mark.parametrize("field", ["throttle_mb_per_second", "mb_per_second_while_unhealthy"])
def test_a_rate_of_nothing_is_refused_in_our_words(field, rate):
    with pytest.raises(
        InvalidRequestError, match="expected a rate above 0 MB/s, found -?[01]: it would stop replication"
    ):
        parse_request(GOOD | {field: rate})


def test_a_roll_back_is_refused_what_it_cannot_keep_and_one_that_is_recorded_stays_readable():
    fields = {"job": "roll_back", "roll_back_of": "r", "throttle_mb_per_second": 10, "exclude_brokers": [2, 3]}
    assert "'exclude_brokers' cannot be kept by job 'roll_back', found 2, 3" in refusal(parse_request, fields)
    assert parse_request(fields | {"exclude_brokers": []}).exclude_brokers == ()
    assert ReassignmentRequest.model_validate(fields).exclude_brokers == (2, 3)


@pytest.mark.parametrize("job", ["replication_factor", "leaders", "restore_racks"])
def test_brokers_that_a_job_does_not_look_at_are_refused_but_stay_readable_in_a_record(job):
    fields = {"job": job, "topics": ["orders"], "throttle_mb_per_second": 10, "brokers": "5, 6"}
    fields |= {"replication_factor": 2} if job == "replication_factor" else {}
    assert f"job '{job}' takes no 'brokers', found 5, 6" in refusal(parse_request, fields)
    assert parse_request(fields, is_recorded=True).brokers == (5, 6)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("throttle_mb_per_second", True),
        ("throttle_mb_per_second", 4e-7),
        ("mb_per_second_while_unhealthy", 4e-7),
        ("replication_factor", True),
        ("batch_bytes", "10000000 TB"),
    ],
)
def test_a_number_that_is_none_or_cannot_be_reckoned_with_is_refused(field, given):
    fields = {**GOOD, "job": "replication_factor", "topics": ["t"], "replication_factor": 3, "allow_low_throttle": True}
    fields.pop("brokers", None)
    assert field in refusal(parse_request, {**fields, field: given})
