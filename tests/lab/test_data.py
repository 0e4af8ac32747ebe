"""Topics filled with data, and the ledger that knows what a producer was promised."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TopicPartition as Position
from tests.kafka_fixtures import wait_until

from kafka_lab.data import create_topic, fill_topics
from kafka_lab.errors import LocalClusterError
from kafka_lab.ledger import Ledger

pytestmark = pytest.mark.kafka


def bytes_on_disk(kafka, broker, topic):
    return sum(f.stat().st_size for f in kafka.data_dir(broker).glob(f"{topic}-*/*.log"))


def test_topics_are_filled_evenly_on_every_replica(kafka, create_topic):
    topics = [create_topic({0: (1, 2), 1: (2, 3)}), create_topic({0: (3, 1), 1: (1, 3)})]
    progress = []
    fill_topics(kafka.bootstrap_servers, topics, 20_000_000, progress.append)
    assert progress == sorted(progress)
    assert progress[-1] == 20_000_000
    kafka.wait_until_in_sync()
    # four partitions of 5 MB; batch headers and keys add less than 2 %
    assert [bytes_on_disk(kafka, b, topics[0]) / 5e6 for b in (1, 2, 3)] == pytest.approx([1, 2, 1], rel=0.02)
    assert [bytes_on_disk(kafka, b, topics[1]) / 5e6 for b in (1, 2, 3)] == pytest.approx([2, 0, 2], rel=0.02)


def test_a_topic_that_does_not_exist_cannot_be_filled(kafka):
    with pytest.raises(LocalClusterError, match=r"Topics to write to must exist, found no nowhere\. Create them"):
        fill_topics(kafka.bootstrap_servers, ["nowhere"], 1)


def test_a_topic_the_cluster_refuses_is_progress_with_its_reason(kafka, create_topic):
    topic = create_topic({0: (1, 2)})
    with pytest.raises(LocalClusterError, match=rf"Topic {topic} was not created: .*TOPIC_ALREADY_EXISTS"):
        create_topic_on(kafka, topic)


def create_topic_on(kafka, topic):
    create_topic(kafka.bootstrap_servers, topic, [(1, 2)])


def test_killing_a_leader_loses_no_acknowledged_message(breakable_kafka, create_topic):
    kafka = breakable_kafka
    topic = create_topic({0: (2, 3, 4), 1: (3, 4, 2)}, configs={"min.insync.replicas": "2"})
    with Ledger(kafka.bootstrap_servers, [topic], messages_per_second=200) as ledger:
        wait_until(lambda: ledger.acknowledged > 200)
        calm = ledger.elapsed_seconds
        kafka.kill(2)
        before = ledger.acknowledged
        kafka.wait_until_live({1, 3, 4, 5, 6})
        wait_until(lambda: ledger.acknowledged > before + 500)
    verdict = ledger.verify()
    assert verdict.acknowledged == ledger.acknowledged > 700
    assert (verdict.lost, verdict.displaced, verdict.duplicates, verdict.failed) == (0, 0, 0, 0)
    assert verdict.read == verdict.acknowledged
    # messages to the dead leader waited until it was fenced, some 6 s
    assert ledger.latency_ms(1.0, until=calm) < ledger.latency_ms(1.0, since=calm) < 30_000
    assert ledger.latency_ms(0.5, until=calm) <= ledger.latency_ms(0.99, until=calm)


def test_the_ledger_finds_what_was_lost(kafka, create_topic, kafka_admin):
    topic = create_topic({0: (1, 2), 1: (2, 1)})
    with Ledger(kafka.bootstrap_servers, [topic], messages_per_second=500) as ledger:
        wait_until(lambda: ledger.acknowledged >= 100)
    for future in kafka_admin.delete_records([Position(topic, 0, 30)]).values():
        future.result()
    verdict = ledger.verify()
    assert verdict.lost == 30
    assert verdict.read == verdict.acknowledged - 30


def test_what_was_acknowledged_without_an_offset_is_found_anywhere_and_can_be_lost(kafka, create_topic, kafka_admin):
    topic = create_topic({0: (1, 2)})
    with Ledger(kafka.bootstrap_servers, [topic], messages_per_second=500) as ledger:
        wait_until(lambda: ledger.acknowledged >= 100)
    for number in range(10):
        ledger._offsets[number] = -2
    verdict = ledger.verify()
    assert (verdict.lost, verdict.displaced) == (0, 0)
    assert verdict.acknowledged == verdict.read == ledger.acknowledged
    for future in kafka_admin.delete_records([Position(topic, 0, 5)]).values():
        future.result()
    assert ledger.verify().lost == 5


def test_two_ledgers_on_one_topic_do_not_see_each_other(kafka, create_topic):
    topic = create_topic({0: (1, 2)})
    fill_topics(kafka.bootstrap_servers, [topic], 1_000_000)
    with (
        Ledger(kafka.bootstrap_servers, [topic]) as one,
        Ledger(kafka.bootstrap_servers, [topic], message_bytes=100) as other,
    ):
        wait_until(lambda: min(one.acknowledged, other.acknowledged) >= 20)
    for ledger in (one, other):
        verdict = ledger.verify()
        assert verdict.read == verdict.acknowledged == ledger.acknowledged
        assert verdict.lost == 0


def test_the_rate_is_what_was_asked(kafka, create_topic):
    topic = create_topic({0: (1, 2)})
    with Ledger(kafka.bootstrap_servers, [topic], messages_per_second=50) as ledger:
        wait_until(lambda: ledger.acknowledged >= 1)
        time.sleep(4)
        written, elapsed = ledger.acknowledged, ledger.elapsed_seconds
    assert written / elapsed == pytest.approx(50, rel=0.2)
