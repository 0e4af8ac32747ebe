"""kafka-reassign-partitions JSON: read strictly, written stably, refused with the item and the next step."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_reassignment.errors import (
    DuplicatePartitionError,
    InvalidAssignmentError,
    InvalidPlanFileError,
    InvalidRequestError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan, render_plan

pytestmark = pytest.mark.quick

topics = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(lambda t: t not in {".", ".."})
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
replicas = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True).map(tuple)


def plan(**entry: object) -> str:
    return json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 3, "replicas": [1, 2]} | entry]})


def without(key: str) -> str:
    document = json.loads(plan())
    del document["partitions"][0][key]
    return json.dumps(document)


def test_the_plan_kafka_itself_prints_is_read() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[3,1,2],"log_dirs":["any","any","any"]}]}'
    )
    assert parse_plan(text) == {TopicPartition("foo", 1): (3, 1, 2)}
    assert parse_plan(text.encode()) == parse_plan(text)


def test_a_plan_is_one_line_by_topic_and_partition_with_the_order_of_replicas_kept() -> None:
    foo1, foo10, bar0 = TopicPartition("foo", 1), TopicPartition("foo", 10), TopicPartition("bar", 0)
    assert render_plan({foo10: (2, 1), foo1: (3, 1, 2), bar0: (7,)}) == (
        '{"version":1,"partitions":['
        '{"topic":"bar","partition":0,"replicas":[7]},'
        '{"topic":"foo","partition":1,"replicas":[3,1,2]},'
        '{"topic":"foo","partition":10,"replicas":[2,1]}]}'
    )


@given(st.dictionaries(partitions, replicas, min_size=1, max_size=8))
def test_what_is_written_is_read_back_and_the_order_of_naming_does_not_matter(
    wanted: dict[TopicPartition, tuple[int, ...]],
) -> None:
    text = render_plan(wanted)
    assert parse_plan(text) == wanted
    assert render_plan(dict(reversed(wanted.items()))) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The plan is not JSON: .* found: Expecting value at line 1, column 1"),
        ('{"version":1,', "not JSON: .* at line 1, column 14"),
        (plan() + plan(), "more text follows the plan at line 1, column .*--generate' prints two plans"),
        ("Current partition replica assignment\n" + plan(), "not JSON: .* Expecting value"),
        (b"\xff\xfe{}", "byte 0 is not UTF-8"),
        ("[" * 200_000 + "]" * 200_000, "values nested too deeply"),
        ('{"version":1,"partitions":[{"topic":"t","partition":' + "9" * 5000 + "}]}", "Exceeds the limit"),
        ('{"version":NaN,"partitions":[]}', "the value NaN, which JSON does not know"),
        ("[]", r"The plan must be a JSON object with 'version' and 'partitions', found \[\]"),
        ("{}", r"must have the keys partitions, version, found \[\]\. Add 'partitions'"),
        ('{"partitions":[1]}', "Add 'version'"),
        ('{"version":2,"partitions":[]}', r"'version' must be the number 1, found 2\. Use a plan"),
        ('{"version":true,"partitions":[]}', "'version' must be the number 1, found true"),
        ('{"version":1.0,"partitions":[]}', "'version' must be the number 1, found 1.0"),
        ('{"version":"1","partitions":[]}', "'version' must be the number 1, found \"1\""),
        ('{"version":1,"version":1,"partitions":[]}', 'the key "version" twice in one object'),
        ('{"version":1,"partitions":[],"user":"x"}', r"only the keys partitions, version, found \[\"user\"\]\. Remove"),
        ('{"version":1,"partitions":[]}', r"'partitions' must be a list with at least one partition, found \[\]"),
        ('{"version":1,"partitions":{}}', "'partitions' must be a list"),
        ('{"version":1,"partitions":["foo-1"]}', r"partitions\[0\] must be an object .* found \"foo-1\""),
        (without("replicas"), r"partitions\[0\] must have the keys .* Add 'replicas'"),
        (plan(leader=1), r"partitions\[0\] must have only the keys .* found \[\"leader\"\]"),
        (plan(topic=""), "'topic' must be a Kafka topic name .* found \"\""),
        (plan(topic=".."), "'topic' must be a Kafka topic name"),
        (plan(topic="a/../b"), "'topic' must be a Kafka topic name .* found \"a/../b\""),
        (
            plan(topic="a\u0000\u001b[31mb\n"),
            r"'topic' must be a Kafka topic name .* found \"a\\u0000\\u001b\[31mb\\n\"",
        ),
        (plan(topic="x" * 250), "'topic' must be a Kafka topic name"),
        (plan(topic="x" * 10_000_000), r"'topic' must be a Kafka topic name .* found \"x{116}\.\.\."),
        (plan(topic=7), "'topic' must be a Kafka topic name .* found 7"),
        (plan(partition=-1), r"partitions\[0\] \(topic orders\): 'partition' must be a whole number from 0, found -1"),
        (plan(partition=True), "'partition' must be a whole number from 0, found true"),
        (plan(partition="3"), "'partition' must be a whole number from 0, found \"3\""),
        (plan(partition=2**31), "'partition' must be a whole number from 0, found 2147483648"),
        (plan(replicas=["1", "2"]), r"\(orders-3\): 'replicas' must be a list of broker ids .* found \[\"1\", \"2\"\]"),
        (plan(replicas=[1, True]), r"'replicas' must be a list of broker ids .* found \[1, true\]"),
        (plan(replicas=[1.0]), r"'replicas' must be a list of broker ids .* found \[1.0\]"),
        (plan(replicas="1,2"), "'replicas' must be a list of broker ids"),
        (plan(replicas=None), "'replicas' must be a list of broker ids .* found null"),
        (
            plan(log_dirs=["any"]),
            r"'log_dirs' must be 'any' for each of the 2 replicas, found \[\"any\"\]\. Leave it out",
        ),
        (plan(log_dirs=["any", "/disk1"]), "'log_dirs' must be 'any' for each of the 2 replicas"),
    ],
    ids=lambda value: repr(value[:40]) if len(value) < 200 else f"{value[:10]!r} and {len(value)} more",
)
def test_what_is_not_the_format_is_refused_with_the_item_and_what_was_found(text: str, message: str) -> None:
    with pytest.raises(InvalidPlanFileError, match=message) as refused:
        parse_plan(text)
    assert len(str(refused.value)) < 500
    assert str(refused.value).isprintable()
    assert refused.value.advice


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [([], r"\[\]"), ([1, 1], r"\[1, 1\]"), ([1, -2], r"\[1, -2\]"), ([2**31], r"\[2147483648\]")],
    ids=["empty", "repeated", "negative", "too large"],
)
def test_a_replica_list_that_cannot_be_is_refused(wrong: list[int], shown: str) -> None:
    with pytest.raises(
        InvalidAssignmentError,
        match=rf"partitions\[0\] \(orders-3\): 'replicas' must be .* found {shown}\. Correct the list",
    ):
        parse_plan(plan(replicas=wrong))


def test_a_partition_named_twice_is_refused_with_both_wishes() -> None:
    text = json.dumps(
        {
            "version": 1,
            "partitions": [
                {"topic": "orders", "partition": 3, "replicas": [1, 2]},
                {"topic": "orders", "partition": 4, "replicas": [1, 2]},
                {"topic": "orders", "partition": 3, "replicas": [2, 3]},
            ],
        }
    )
    with pytest.raises(
        DuplicatePartitionError,
        match=r"partitions\[2\]: partition orders-3 is named twice, expected once, found replicas \[1, 2\] and \[2, 3\]\. "
        "Remove one",
    ):
        parse_plan(text)


def test_a_plan_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(InvalidPlanFileError, match=r"The plan must be at most 1000 bytes, found 1001\. Split it"):
        parse_plan("[" * 1001, max_bytes=1000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "partitions", "topic", "partition", "replicas", "log_dirs", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_whatever_comes_it_is_a_plan_or_refused_on_one_printable_line(value: object) -> None:
    try:
        outcome = render_plan(parse_plan(json.dumps(value)))
    except InvalidRequestError as refused:
        outcome = str(refused)
    assert outcome.isprintable()
    assert len(outcome) < 600


CURRENT = (
    'Current partition replica assignment\n{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}\n'
)
PROPOSED = 'Proposed partition reassignment configuration\n{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,2]}]}\n'


@pytest.mark.parametrize(
    "text", [CURRENT + "\n" + PROPOSED, PROPOSED + "\n" + CURRENT], ids=["current first", "proposed first"]
)
def test_the_whole_output_of_generate_means_its_proposed_plan(text):
    assert parse_plan(text) == {TopicPartition("t", 0): (3, 2)}


@pytest.mark.parametrize("text", [CURRENT, PROPOSED, CURRENT + CURRENT, "x\n" + CURRENT + PROPOSED])
def test_anything_else_with_titles_is_refused_with_what_to_give(text):
    with pytest.raises(InvalidPlanFileError, match="give the plan alone, or the whole output"):
        parse_plan(text)
