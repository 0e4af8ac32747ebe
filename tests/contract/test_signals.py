"""What auto rate sees: how long producers wait, and what consumer groups have committed. On the fake and on real brokers."""

from __future__ import annotations

import pytest
from tests.contract.lab import Lab, eventually
from tests.kafka_fixtures import fresh_topic_name

from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import LONGEST_PRODUCE_SECONDS


def test_each_partition_tells_how_long_its_isr_takes_for_a_message(lab: Lab) -> None:
    partitions = lab.create_topic([(1, 2), (3, 4)])
    found = lab.cluster.produce_latencies(partitions)
    assert found.keys() == set(partitions)
    assert all(0 < seconds < LONGEST_PRODUCE_SECONDS for seconds in found.values())
    ends = lab.cluster.end_offsets(partitions)
    assert all(1 <= end <= 2 for end in ends.values()), "they are written, and few"


def test_only_the_named_partitions_are_written_to(lab: Lab) -> None:
    first, second = lab.create_topic([(1, 2), (3, 4)])
    assert lab.cluster.produce_latencies([second]).keys() == {second}
    assert lab.cluster.end_offsets([first]) == {first: 0}


def test_a_topic_that_there_is_not_is_left_out_and_not_created(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    unknown = TopicPartition(fresh_topic_name(), 0)
    assert lab.cluster.produce_latencies([p, unknown, TopicPartition(p.topic, 7)]).keys() == {p}
    assert lab.cluster.describe_partitions([unknown.topic]) == {}
    assert lab.cluster.produce_latencies([]) == {}


def test_a_partition_below_its_min_isr_waits_as_long_as_is_asked(breakable_lab: Lab) -> None:
    lab = breakable_lab
    [p] = lab.create_topic([(1, 2)], configs={"min.insync.replicas": "2"})
    lab.kill(2)
    eventually(lambda: lab.cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1}, seconds=60)
    assert lab.cluster.produce_latencies([p]) == {p: pytest.approx(LONGEST_PRODUCE_SECONDS)}


def test_a_group_shows_what_it_has_committed(lab: Lab) -> None:
    first, second, third = lab.create_topic([(1, 2), (2, 3), (3, 4)])
    group = fresh_topic_name()
    lab.write(first, messages=9, size_bytes=9_000)
    lab.commit(group, first, 7)
    lab.commit(group, third, 0)
    assert lab.cluster.committed_offsets(group) == {first: 7, third: 0}, second


def test_a_group_that_there_is_not_has_committed_nothing(lab: Lab) -> None:
    assert lab.cluster.committed_offsets(fresh_topic_name()) == {}
