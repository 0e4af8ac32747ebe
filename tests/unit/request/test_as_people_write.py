"""What people write into a line of text is the same request as what a program sends; and one message says all that is wrong."""

import pytest
from tests.fakes.cluster import FakeCluster
from upath import UPath

from kafka_reassignment.errors import InvalidRequestError, UnknownBrokerError
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import PACES, Limits, parse_limits, parse_partition_count, parse_request
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.quick

GOOD = {"job": "rebalance", "throttle_mb_per_second": 10}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("4, 5", (4, 5)),
        ("4 5", (4, 5)),
        ("1-3, 7", (1, 2, 3, 7)),
        ("12", (12,)),
        (" 5,4, ", (5, 4)),
        ("", ()),
        ([4, 5], (4, 5)),
    ],
)
def test_brokers_are_a_list_or_the_text_of_one_in_its_order(text, ids):
    assert parse_request({**GOOD, "brokers": text}).brokers == ids
    asked = parse_partition_count({"topic": "orders", "partitions": 6, "exclude_brokers": text})
    assert asked.exclude_brokers == ids


@pytest.mark.parametrize("text", ["4; 5", "all", "4-", "-4", "5-3", "1-999999999", "1--3", "٤", "4" * 11, "1.5"])
def test_a_text_that_is_no_list_of_brokers_is_refused(text):
    with pytest.raises(InvalidRequestError, match="'brokers': expected broker ids"):
        parse_request({**GOOD, "brokers": text})


@pytest.mark.parametrize(
    ("text", "in_bytes"),
    [("600 GB", 600 * 10**9), ("1.5TB", 1_500 * 10**9), ("0.1 MB", 100_000), ("7 kB", 7_000), (600, 600)],
)
def test_a_size_has_a_decimal_unit_and_a_number_alone_is_bytes(text, in_bytes):
    assert parse_request({**GOOD, "batch_bytes": text}).limits.batch_bytes == in_bytes


@pytest.mark.parametrize("text", ["600", "600 gb", "600 GiB", "-1 GB", "GB", "1e3 GB", "9" * 60 + " GB", "0 GB"])
def test_a_size_without_a_known_unit_or_of_nothing_is_refused(text):
    with pytest.raises(InvalidRequestError, match="batch_bytes"):
        parse_request({**GOOD, "batch_bytes": text})


def test_a_pace_fills_the_limits_that_are_not_given_and_only_the_numbers_are_kept():
    assert parse_limits({"pace": "normal"}) == Limits()
    assert parse_limits({"pace": "gentle", "partition_movements": 7}) == Limits(
        **{**PACES["gentle"], "partition_movements": 7}
    )
    asked = parse_request({**GOOD, "pace": "fast"})
    assert asked.limits == Limits(**PACES["fast"])
    assert parse_request(asked.as_fields()) == asked
    assert "pace" not in asked.as_fields()
    with pytest.raises(InvalidRequestError, match="'pace' is 'hasty', expected gentle, normal, fast"):
        parse_request({**GOOD, "pace": "hasty"})


def test_a_faster_pace_does_more_in_each_batch():
    for slower, faster in zip(list(PACES.values()), list(PACES.values())[1:], strict=False):
        assert all(slower[name] <= faster[name] for name in slower)
        assert slower != faster


def test_one_message_says_all_that_is_wrong_with_the_request_by_itself():
    with pytest.raises(InvalidRequestError) as refused:
        parse_request({"job": "move_topics", "reassignment_json": "{}", "canary_topic": "c"})
    text = str(refused.value)
    for fault in (
        "needs 'topics'",
        "needs 'brokers'",
        "'reassignment_json' belongs to job 'apply_json' only",
        "no throttle",
        "'canary_topic' belongs to auto rate",
    ):
        assert fault in text


def test_what_a_job_ignores_and_an_id_that_guards_nothing_are_said_with_the_rest():
    with pytest.raises(InvalidRequestError) as refused:
        parse_request({"job": "leaders", "brokers": [1], "expected_cluster_id": ""})
    for fault in ("no throttle", "'expected_cluster_id' is empty", "job 'leaders' takes no 'brokers', found 1"):
        assert fault in str(refused.value)


def test_one_message_says_all_in_which_the_request_does_not_fit_the_cluster(tmp_path):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)])
    store = RecordStore(UPath(tmp_path))
    record = store.record(cluster.describe_cluster().cluster_id, "r")
    run = RunContext(cluster, store, record, Actor(requested_by="ann"), Log())
    asked = {**GOOD, "job": "move_topics", "brokers": "9", "exclude_brokers": [8], "topics": ["nope"]}
    with pytest.raises(UnknownBrokerError, match="'brokers' names broker 9.*'topics' names 'nope'") as refused:
        preflight(run, asked, "ann")
    assert len(refused.value.advice) == 2
    assert store.lock_owner(record.cluster_id) is None


class Log:
    def info(self, *_): ...

    warning = info
