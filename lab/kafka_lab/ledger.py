"""A ledger of what a producer was promised: which acknowledged messages are still there."""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Position

from kafka_lab.clients import QUIET
from kafka_lab.data import partitions_of
from kafka_lab.errors import LocalClusterError
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import TopicPartition

_ANSWER_SECONDS = 30
_NOT_ACKNOWLEDGED, _SOMEWHERE = -1, -2
"""In place of an offset. A broker that has a message already, because its answer was lost with the leader, acknowledges
the second request of an idempotent producer without one."""


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """What became of the messages of a ledger; all are counts of messages.

    ``acknowledged`` were promised by the brokers; ``read`` were found again, each counted once.
    ``lost`` were promised and are nowhere; ``displaced`` were promised at one offset, if at any, and found at others
    only; ``duplicates`` are copies beyond the first; ``failed`` were refused or timed out, so may be
    there or not.
    """

    acknowledged: int
    read: int
    lost: int
    displaced: int
    duplicates: int
    failed: int
    failures: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    """A producer with acks=all that keeps writing numbered messages and remembers which were acknowledged.

    Runs in a thread of its own from ``start`` (or ``with``) until ``stop``; needs some 20 bytes for each
    message. Message ``n`` goes to partition ``n`` modulo their number, topics in turns.

    Args:
        bootstrap_servers: whom to write to.
        topics: they must exist; what else is in them does not matter.
        messages_per_second: how often it writes.
        message_bytes: size of one message, 32 at least.
        producer_config: librdkafka settings over the defaults (acks=all, idempotent).
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topics: Sequence[str],
        *,
        messages_per_second: float = 100,
        message_bytes: int = 1_000,
        producer_config: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topics = tuple(topics)
        self._interval = 1 / messages_per_second
        self._config = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, **(producer_config or {})}
        self._mark = os.urandom(16)
        self._padding = bytes(max(0, message_bytes - 24))
        self._partitions: list[TopicPartition] = []
        self._begin: dict[TopicPartition, int] = {}
        self._offsets = array("q")  # by message number: where it was acknowledged
        self._latency = array("f")  # milliseconds, in the order of acknowledgement
        self._acknowledged_at = array("f")  # seconds since the start, in the same order
        self._failures: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._died: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._started = 0.0

    def start(self) -> Self:
        """Begin to write."""
        self._partitions = partitions_of(self._bootstrap_servers, self._topics)
        self._begin = {p: end for p, (_, end) in self._watermarks().items()}
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._write_all, name="ledger", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Write no more, and wait until each message is acknowledged or failed; safe to call twice."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def acknowledged(self) -> int:
        """Messages the brokers acknowledged so far."""
        return len(self._latency)

    @property
    def failures(self) -> dict[str, int]:
        """Messages that were refused or timed out so far, by librdkafka's name of the error."""
        return dict(self._failures)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the start: the clock of ``latency_ms``."""
        return time.monotonic() - self._started

    @property
    def latencies(self) -> list[tuple[float, float]]:
        """Of each message acknowledged so far: when (seconds since the start), and how long that took (milliseconds)."""
        return list(zip(self._acknowledged_at, self._latency, strict=False))  # the thread may be appending

    def latency_ms(self, quantile: float, since: float = 0.0, until: float = math.inf) -> float:
        """Milliseconds from produce to acknowledgement that this share of the messages stayed within.

        Args:
            quantile: 0.5 is the median, 1 the slowest.
            since: only those acknowledged that many seconds after the start, or later.
            until: only those acknowledged before.

        Returns:
            Milliseconds; NaN when no message was acknowledged in that time.
        """
        chosen = sorted(latency for at, latency in self.latencies if since <= at < until)
        return chosen[max(0, math.ceil(len(chosen) * quantile) - 1)] if chosen else math.nan

    def verify(self, timeout_seconds: float = 120) -> LedgerCheck:
        """Stop, read back everything since the start, and compare it with what was acknowledged.

        Raises:
            LocalClusterError: the partitions cannot be read to their end in that time, or the writing has ended with an
                error.
        """
        self.stop()
        if self._died is not None:
            raise LocalClusterError(
                f"The ledger wrote {len(self._offsets)} messages, then ended with {self._died!r}: expected to write until it was "
                "stopped, so nothing is known of what came after."
            ) from self._died
        seen = bytearray(len(self._offsets))  # 1: found somewhere, 2: found where it was acknowledged
        copies = 0
        number_of = {p: i for i, p in enumerate(self._partitions)}
        for partition, offset, value in self._read_back(timeout_seconds):
            number = self._number_in(value)
            if number is None or number >= len(seen) or number % len(number_of) != number_of[partition]:
                continue
            copies += 1
            seen[number] |= 2 if self._offsets[number] in {offset, _SOMEWHERE} else 1
        promised = [seen[n] for n, offset in enumerate(self._offsets) if offset != _NOT_ACKNOWLEDGED]
        read = len(seen) - seen.count(0)
        return LedgerCheck(
            acknowledged=len(promised),
            read=read,
            lost=promised.count(0),
            displaced=promised.count(1),
            duplicates=copies - read,
            failed=sum(self._failures.values()),
            failures=self.failures,
        )

    def _value(self, number: int) -> bytes:
        return self._mark + number.to_bytes(8) + self._padding

    def _number_in(self, value: bytes) -> int | None:
        """The number of a complete message of ours; None for any other."""
        number = int.from_bytes(value[16:24])
        return number if value == self._value(number) else None

    def _write_all(self) -> None:
        try:
            self._write()
        except BaseException as died:
            self._died = died
            raise

    def _write(self) -> None:
        config = {"bootstrap.servers": self._bootstrap_servers, "reconnect.backoff.max.ms": 500, **self._config}
        producer = Producer(config, logger=QUIET)
        number = 0
        while not self._stopping.is_set():
            self._offsets.append(_NOT_ACKNOWLEDGED)
            self._produce(producer, number)
            number += 1
            due = self._started + number * self._interval
            producer.poll(0)
            while (early := due - time.monotonic()) > 0 and not self._stopping.is_set():
                producer.poll(min(early, 0.5))  # comes back at the first acknowledgement
        producer.flush()  # ends at the latest with message.timeout.ms, each message acknowledged or failed

    def _produce(self, producer: Producer, number: int) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failures[error.name()] += 1
                return
            offset = message.offset()
            self._offsets[number] = _SOMEWHERE if offset is None else offset
            self._acknowledged_at.append(time.monotonic() - self._started)
            self._latency.append((message.latency() or 0.0) * 1_000)

        target = self._partitions[number % len(self._partitions)]
        while True:
            try:
                producer.produce(target.topic, self._value(number), partition=target.partition, on_delivery=delivered)
            except BufferError:
                producer.poll(0.1)
            except KafkaException as refused:  # an idempotent producer may give up for good
                self._failures[refused.args[0].name()] += 1
                return
            else:
                return

    def _consumer(self) -> Consumer:
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": self._bootstrap_servers,
            "group.id": f"ledger-{self._mark.hex()}",  # librdkafka wants one; nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
        return Consumer(config, logger=QUIET)

    def _watermarks(self) -> dict[TopicPartition, tuple[int, int]]:
        """First offset and end offset of every partition."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        consumer = self._consumer()
        try:
            for partition in self._partitions:
                watermarks = _watermarks_of(consumer, Position(partition.topic, partition.partition))
                if watermarks is None:
                    raise LocalClusterError(
                        f"{partition} does not report its end: expected offsets within {_ANSWER_SECONDS} s, found no "
                        "answer. Look whether it has a leader."
                    )
                found[partition] = watermarks
        except KafkaException as failed:
            raise LocalClusterError(
                f"Cannot see the ends of {name_some(self._topics)}: expected offsets, found: {failed}. "
                "Look whether each partition has a leader."
            ) from failed
        finally:
            consumer.close()
        return found

    def _read_back(self, timeout_seconds: float) -> Iterator[tuple[TopicPartition, int, bytes]]:
        """Everything that was written since the start, by anybody."""
        watermarks = self._watermarks()
        begins = {p: max(first, self._begin[p]) for p, (first, _) in watermarks.items()}  # some may be deleted
        unread = {p for p, (_, end) in watermarks.items() if end > begins[p]}
        consumer = self._consumer()
        try:
            consumer.assign([Position(p.topic, p.partition, begins[p]) for p in sorted(unread)])
            deadline = time.monotonic() + timeout_seconds
            while unread:
                if time.monotonic() > deadline:
                    raise LocalClusterError(
                        f"Reading back takes longer than {timeout_seconds:g} s: expected the ends of all partitions, "
                        f"{name_some(sorted(unread))} are not read to theirs. Look whether they have a leader."
                    )
                for message in consumer.consume(num_messages=1_000, timeout=0.2):
                    partition = TopicPartition(message.topic() or "", message.partition() or 0)
                    offset = message.offset()
                    if message.error() is None and offset is not None:
                        yield partition, offset, message.value() or b""
                for position in consumer.position([Position(p.topic, p.partition) for p in unread]):
                    partition = TopicPartition(position.topic, position.partition)
                    if position.offset >= watermarks[partition][1]:
                        unread.discard(partition)
        finally:
            consumer.close()


def _watermarks_of(consumer: Consumer, at: Position) -> tuple[int, int] | None:
    """First offset and end offset, asked again while the broker that was asked is not the leader any more."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            watermarks: tuple[int, int] | None = consumer.get_watermark_offsets(at, timeout=_ANSWER_SECONDS)
        except KafkaException as failed:
            if failed.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return watermarks
