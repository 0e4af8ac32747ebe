"""Dynamic configs in their layers (KIP-226, 339), the same on the fake and on real brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.lab import Lab, eventually

from kafka_lab.releases import Release
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    Refusal,
    ResourceKind,
)

RATE = "leader.replication.throttled.rate"
LIST = "follower.replication.throttled.replicas"
MIN_ISR = "min.insync.replicas"
ALL_BROKERS = ConfigResource(ResourceKind.BROKER, "")
SET, DELETE, APPEND, SUBTRACT = (
    ConfigOperation.SET,
    ConfigOperation.DELETE,
    ConfigOperation.APPEND,
    ConfigOperation.SUBTRACT,
)
NEVER_SET = ConfigValue("", ConfigSource.DEFAULT)


def change(
    lab: Lab, resource: ConfigResource, key: str, operation: ConfigOperation, value: str | None = None
) -> Refusal | None:
    return lab.cluster.alter_configs([ConfigChange(resource, key, operation, value)])[resource]


def sees(lab: Lab, resource: ConfigResource, key: str, expected: ConfigValue | None) -> None:
    accepted = [expected]
    if expected is None and lab.version < Release(
        2, 4, 0
    ):  # it goes on listing a key that was set once, without a value
        accepted.append(ConfigValue(None, ConfigSource.DEFAULT))
    eventually(lambda: lab.cluster.describe_configs([resource], [key])[resource].get(key), lambda v: v in accepted)


@pytest.fixture
def no_rates_left(lab: Lab) -> Iterator[None]:
    yield
    for resource in (ALL_BROKERS, ConfigResource.broker(1)):
        change(lab, resource, RATE, DELETE)


def topic_of(lab: Lab, value: str | None = None) -> ConfigResource:
    [p] = lab.create_topic([(1, 2)], configs={} if value is None else {LIST: value})
    return ConfigResource.topic(p.topic)


@pytest.mark.usefixtures("no_rates_left")
def test_each_layer_of_a_broker_rate_hides_the_one_below_and_deleting_reveals_it(lab: Lab) -> None:
    one, two = ConfigResource.broker(1), ConfigResource.broker(2)
    sees(lab, one, RATE, None)
    assert change(lab, ALL_BROKERS, RATE, SET, "7000000") is None
    by_default = ConfigValue("7000000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    sees(lab, one, RATE, by_default)
    sees(lab, ALL_BROKERS, RATE, by_default)
    assert change(lab, one, RATE, SET, "9000000") is None
    sees(lab, one, RATE, ConfigValue("9000000", ConfigSource.DYNAMIC_BROKER))
    sees(lab, two, RATE, by_default)
    assert change(lab, one, RATE, DELETE) is None
    sees(lab, one, RATE, by_default)
    assert change(lab, ALL_BROKERS, RATE, DELETE) is None
    sees(lab, one, RATE, None)


def test_deleting_what_is_not_set_is_accepted(lab: Lab) -> None:
    assert change(lab, ConfigResource.broker(1), RATE, DELETE) is None
    assert change(lab, topic_of(lab), LIST, DELETE) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("-1", "Value must be at least 0"),
        ("ten", "Not a number of type LONG"),
        ("", "Not a number of type LONG"),
        ("9223372036854775808", "Not a number of type LONG"),
    ],
)
def test_a_rate_that_is_none_is_refused(lab: Lab, value: str, why: str) -> None:
    refusal = change(lab, ConfigResource.broker(1), RATE, SET, value)
    lab.assert_refused(refusal, Refusal("INVALID_REQUEST", f"Invalid value {value} for configuration {RATE}: {why}"))


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "0:3", "0:3"),
        ("0:3", APPEND, "0:3", "0:3"),
        ("0:3", APPEND, "1:3,2:1", "0:3,1:3,2:1"),
        ("0:3,1:3", SUBTRACT, "0:3", "1:3"),
        ("0:3,1:3", SUBTRACT, "5:5", "0:3,1:3"),
        ("0:3,1:3", SUBTRACT, "0:3,1:3", ""),
        (None, SUBTRACT, "0:3", ""),
        ("*", SUBTRACT, "0:3", "*"),
        ("*", SUBTRACT, "*", ""),
        ("0:3", SET, "*", "*"),
        ("0:3", SET, ",0:1", ",0:1"),
        (",0:1", APPEND, "0:3", "0:1,0:3"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(
    lab: Lab, before: str | None, operation: ConfigOperation, value: str, after: str
) -> None:
    """Also: what is left of a list when all its entries are gone is an empty value of its own, not the default."""
    topic = topic_of(lab, before)
    assert change(lab, topic, LIST, operation, value) is None
    sees(lab, topic, LIST, ConfigValue(after, ConfigSource.DYNAMIC_TOPIC))
    assert change(lab, topic, LIST, DELETE) is None
    sees(lab, topic, LIST, NEVER_SET)


@pytest.mark.parametrize(("before", "value"), [("*", "0:3"), (None, "0-3"), (None, "none*")])
def test_what_is_no_list_of_replicas_is_refused(lab: Lab, before: str | None, value: str) -> None:
    topic = topic_of(lab, before)
    refusal = change(lab, topic, LIST, APPEND, value)
    assert refusal is not None
    assert refusal.code in (
        {"INVALID_CONFIG", "INVALID_REQUEST"} if lab.version < Release(2, 4, 0) else {"INVALID_CONFIG"}
    )
    assert "must be the literal '*' or a list of replicas" in refusal.message
    sees(lab, topic, LIST, NEVER_SET if before is None else ConfigValue(before, ConfigSource.DYNAMIC_TOPIC))


def test_a_scalar_cannot_be_appended_to(lab: Lab) -> None:
    """In ZooKeeper mode lists are put together on this side, which does not know types: what comes out is set."""
    topic = topic_of(lab)
    refusal = change(lab, topic, MIN_ISR, APPEND, "1")
    if not lab.runs_kraft:
        assert refusal is None
        sees(lab, topic, MIN_ISR, ConfigValue("1", ConfigSource.DYNAMIC_TOPIC))
        return
    assert refusal == Refusal("INVALID_CONFIG", f"Can't APPEND to key {MIN_ISR} because its type is not LIST.")


def test_the_changes_of_one_resource_are_all_applied_or_none(lab: Lab) -> None:
    good, bad = topic_of(lab), topic_of(lab)
    replies = lab.cluster.alter_configs(
        [
            ConfigChange(bad, LIST, APPEND, "0:3"),
            ConfigChange(bad, MIN_ISR, SET, "many"),
            ConfigChange(good, LIST, APPEND, "0:3"),
            ConfigChange(good, MIN_ISR, SET, "2"),
        ]
    )
    assert replies.keys() == {good, bad}
    assert replies[good] is None
    words = f"Invalid value many for configuration {MIN_ISR}: Not a number of type INT"
    lab.assert_refused(replies[bad], Refusal("INVALID_CONFIG", words))
    sees(lab, good, MIN_ISR, ConfigValue("2", ConfigSource.DYNAMIC_TOPIC))
    sees(lab, good, LIST, ConfigValue("0:3", ConfigSource.DYNAMIC_TOPIC))
    sees(lab, bad, LIST, NEVER_SET)


def test_one_key_twice_in_one_request_is_refused(lab: Lab) -> None:
    topic = topic_of(lab)
    replies = lab.cluster.alter_configs(
        [ConfigChange(topic, LIST, APPEND, "0:3"), ConfigChange(topic, LIST, SUBTRACT, "0:1")]
    )
    assert replies == {topic: Refusal("INVALID_REQUEST", "Error due to duplicate config keys")}


def test_an_unknown_topic_refuses_alone_and_is_left_out_of_the_description(lab: Lab) -> None:
    topic, unknown = topic_of(lab), ConfigResource.topic("no-such-topic")
    replies = lab.cluster.alter_configs(
        [ConfigChange(unknown, LIST, APPEND, "0:3"), ConfigChange(topic, LIST, APPEND, "0:3")]
    )
    assert replies[topic] is None
    assert replies[unknown] == Refusal("UNKNOWN_TOPIC_OR_PARTITION", "The topic 'no-such-topic' does not exist.")
    assert lab.cluster.describe_configs([topic, unknown], [LIST]).keys() == {topic}


def test_an_unknown_broker_is_unreachable_and_left_out_of_the_description(lab: Lab) -> None:
    one, unknown = ConfigResource.broker(1), ConfigResource.broker(99)
    reply = change(lab, unknown, RATE, SET, "1000000")
    assert reply is not None
    assert reply.code == "UNREACHABLE"
    assert "Broker 99" in reply.message
    assert lab.cluster.describe_configs([one, unknown], [RATE]).keys() == {one}


def test_an_unknown_key_is_left_out_of_the_description_and_refused_in_a_change(lab: Lab) -> None:
    topic = topic_of(lab)
    assert lab.cluster.describe_configs([topic], ["no.such.key", LIST]) == {topic: {LIST: NEVER_SET}}
    assert change(lab, topic, "no.such.key", SET, "1") == Refusal(
        "INVALID_CONFIG", "Unknown topic config name: no.such.key"
    )


def test_min_insync_replicas_shows_the_layer_it_comes_from(lab: Lab) -> None:
    """A fresh cluster holds a dynamic default of its own where eligible leader replicas are on (KIP-966)."""
    topic = topic_of(lab)
    fresh = ConfigSource.DEFAULT if lab.version < Release(4, 1, 0) else ConfigSource.DYNAMIC_DEFAULT_BROKER
    sees(lab, topic, MIN_ISR, ConfigValue("1", fresh))
    change(lab, topic, MIN_ISR, SET, "2")
    sees(lab, topic, MIN_ISR, ConfigValue("2", ConfigSource.DYNAMIC_TOPIC))


def test_no_topic_may_ask_for_no_replica_in_sync(lab: Lab) -> None:
    refusal = change(lab, topic_of(lab), MIN_ISR, SET, "0")
    text = f"Invalid value 0 for configuration {MIN_ISR}: Value must be at least 1"
    lab.assert_refused(refusal, Refusal("INVALID_CONFIG", text))


def test_asking_for_nothing_and_changing_nothing_gives_nothing(lab: Lab) -> None:
    assert lab.cluster.describe_configs([], [RATE]) == {}
    assert lab.cluster.alter_configs([]) == {}
