"""Data on a cluster: topics filled by a real producer, and a ledger of what a producer was promised."""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.cimpl import NewTopic

from kafka_lab.clients import QUIET, admin_client
from kafka_lab.errors import LocalClusterError
from kafka_lab.waiting import wait_for_isr
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Replicas, TopicPartition

_ANSWER_SECONDS = 30


def create_topic(
    bootstrap_servers: str,
    topic: str,
    assignment: Sequence[Replicas],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic whose partitions 0, 1, … have these replicas; return when every broker knows it, led and in sync.

    Raises:
        LocalClusterError: the cluster refused it, or it is not in sync in time.
    """
    admin = admin_client(bootstrap_servers)
    replicas = [list(partition) for partition in assignment]
    new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=dict(configs or {}))
    try:
        admin.create_topics([new], request_timeout=_ANSWER_SECONDS)[topic].result()
    except KafkaException as refused:
        raise LocalClusterError(
            f"Topic {topic} was not created: expected success, found: {refused}. Check its name, replicas and configs."
        ) from refused
    for broker in admin.list_topics(topic, timeout=_ANSWER_SECONDS).brokers.values():
        wait_for_isr(f"{broker.host}:{broker.port}", _ANSWER_SECONDS, topic)


def fill_topics(
    bootstrap_servers: str,
    topics: Sequence[str],
    size_bytes: int,
    progress: Callable[[int], None] | None = None,
    *,
    message_bytes: int = 10_000,
) -> None:
    """Write ``size_bytes`` of incompressible messages with acks=all, the same share to each partition.

    Args:
        bootstrap_servers: whom to write to.
        topics: they must exist.
        size_bytes: in total, before replication; rounded up to whole messages.
        progress: takes the bytes acknowledged so far, several times a second.
        message_bytes: size of one message.

    Raises:
        LocalClusterError: a topic is unknown, or a message was not acknowledged.
    """
    failures: Counter[str] = Counter()
    acknowledged = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures[error.name()] += 1

    partitions = _partitions(bootstrap_servers, topics)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "linger.ms": 50,
            "batch.size": 900_000,  # just under the 1 MB a broker takes by default
            "queue.buffering.max.kbytes": 64 * 1024,
        },
        logger=QUIET,
    )
    value = os.urandom(message_bytes)
    told = time.monotonic()
    messages = math.ceil(size_bytes / message_bytes)
    targets = cycle(partitions)
    for _ in range(messages):
        target = next(targets)
        while True:
            try:
                producer.produce(target.topic, value, partition=target.partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if failures:
            break
        if progress and time.monotonic() - told > 0.2:
            producer.poll(0)
            progress(acknowledged * message_bytes)
            told = time.monotonic()
    left = producer.flush(_ANSWER_SECONDS * 4)
    if failures or left:
        raise LocalClusterError(
            f"Filling {name_some(topics)} failed: expected {messages} messages acknowledged, found {acknowledged}"
            f"{''.join(f', {n} × {name}' for name, n in failures.items())}. Look which brokers are down."
        )
    if progress:
        progress(size_bytes)


def _partitions(bootstrap_servers: str, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition of the topics, those of different topics in turns."""
    try:
        shown = admin_client(bootstrap_servers).list_topics(timeout=_ANSWER_SECONDS).topics
    except KafkaException as failed:
        raise LocalClusterError(
            f"Cannot see the topics at {bootstrap_servers}: expected an answer, found: {failed}. Is the cluster up?"
        ) from failed
    if missing := [topic for topic in topics if topic not in shown]:
        raise LocalClusterError(f"Topics to write to must exist, found no {name_some(missing)}. Create them first.")
    found = (TopicPartition(topic, partition) for topic in topics for partition in shown[topic].partitions)
    return sorted(found, key=lambda p: (p.partition, p.topic))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the messages of a ledger; all are counts of messages.

    ``acknowledged`` were promised by the brokers; ``read`` were found again, each counted once.
    ``lost`` were promised and are nowhere; ``displaced`` were promised at one offset and found at others
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
        self._offsets = array("q")  # by message number: where it was acknowledged, -1 when it was not
        self._latency = array("f")  # milliseconds, in the order of acknowledgement
        self._acknowledged_at = array("f")  # seconds since the start, in the same order
        self._failures: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._started = 0.0

    def start(self) -> Self:
        """Begin to write."""
        self._partitions = _partitions(self._bootstrap_servers, self._topics)
        self._begin = {p: end for p, (_, end) in self._watermarks().items()}
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._write, name="ledger", daemon=True)
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

    def latency_ms(self, quantile: float, since: float = 0.0, until: float = math.inf) -> float:
        """Milliseconds from produce to acknowledgement that this share of the messages stayed within.

        Args:
            quantile: 0.5 is the median, 1 the slowest.
            since: only those acknowledged that many seconds after the start, or later.
            until: only those acknowledged before.

        Returns:
            Milliseconds; NaN when no message was acknowledged in that time.
        """
        pairs = zip(self._acknowledged_at, self._latency, strict=False)  # the thread may be appending
        chosen = sorted(latency for at, latency in pairs if since <= at < until)
        return chosen[max(0, math.ceil(len(chosen) * quantile) - 1)] if chosen else math.nan

    def verify(self, timeout_seconds: float = 120) -> Verdict:
        """Stop, read back everything since the start, and compare it with what was acknowledged.

        Raises:
            LocalClusterError: the partitions cannot be read to their end in that time.
        """
        self.stop()
        seen = bytearray(len(self._offsets))  # 1: found somewhere, 2: found where it was acknowledged
        copies = 0
        number_of = {p: i for i, p in enumerate(self._partitions)}
        for partition, offset, value in self._read_back(timeout_seconds):
            number = self._number_in(value)
            if number is None or number >= len(seen) or number % len(number_of) != number_of[partition]:
                continue
            copies += 1
            seen[number] |= 2 if self._offsets[number] == offset else 1
        promised = [seen[n] for n, offset in enumerate(self._offsets) if offset >= 0]
        read = len(seen) - seen.count(0)
        return Verdict(
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
        """The number of a message of ours that is whole; None for any other."""
        number = int.from_bytes(value[16:24])
        return number if value == self._value(number) else None

    def _write(self) -> None:
        config = {"bootstrap.servers": self._bootstrap_servers, "reconnect.backoff.max.ms": 500, **self._config}
        producer = Producer(config, logger=QUIET)
        number = 0
        while not self._stopping.is_set():
            self._offsets.append(-1)
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
            assert offset is not None  # an acknowledged message has one
            self._offsets[number] = offset
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
                at = Position(partition.topic, partition.partition)
                watermarks = consumer.get_watermark_offsets(at, timeout=_ANSWER_SECONDS)
                if watermarks is None:
                    raise LocalClusterError(
                        f"{partition} does not tell its end: expected offsets within {_ANSWER_SECONDS} s, found no "
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
