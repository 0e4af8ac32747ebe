"""What the ledger notes of an answer, without brokers."""

import time
from types import SimpleNamespace

import pytest

from kafka_lab.errors import LocalClusterError
from kafka_lab.ledger import Ledger
from kafka_reassignment.model import TopicPartition

pytestmark = pytest.mark.quick


class Acknowledging:
    """A producer each of whose messages is acknowledged at once, with or without an offset."""

    def __init__(self, offset):
        self.offset = offset

    def produce(self, _topic, _value, *, partition, on_delivery):
        on_delivery(
            None, SimpleNamespace(offset=lambda: self.offset, latency=lambda: 0.001, partition=lambda: partition)
        )


@pytest.mark.parametrize("offset", [0, 7, None])
def test_an_acknowledged_message_is_promised_also_where_the_broker_does_not_say_where_it_is(offset):
    ledger = Ledger("nowhere:9092", ["orders"])
    ledger._partitions = [TopicPartition("orders", 0)]
    ledger._started = time.monotonic()
    ledger._offsets.append(-1)
    ledger._produce(Acknowledging(offset), 0)
    assert ledger.acknowledged == 1
    assert ledger._offsets[0] != -1


def test_a_ledger_whose_writing_has_ended_with_an_error_proves_nothing(monkeypatch):
    ledger = Ledger("nowhere:9092", ["orders"])
    monkeypatch.setattr(ledger, "_write", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ledger._write_all()
    with pytest.raises(LocalClusterError, match=r"wrote 0 messages, then ended with ZeroDivisionError"):
        ledger.verify()
