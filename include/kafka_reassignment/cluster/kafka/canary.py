"""How long producers wait: canary messages with acks=all, by confluent-kafka, which measures them itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import InvalidSetupError, NotAuthorizedError, ReassignmentError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import LONGEST_PRODUCE_SECONDS

KEY = b"kafka-reassignment-canary"
"""The same each time, so that a compacted topic keeps one message of each partition."""

VALUE = b"written by kafka-reassignment to see how long producers wait"

_FLUSH_SECONDS = LONGEST_PRODUCE_SECONDS + 2.0
_GONE = frozenset({UNKNOWN_TOPIC_OR_PARTITION, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})
_FORBIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_SLOW = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


class CanaryConversation:
    """A producer of canary messages; a context manager.

    It asks for its topics only when it needs a leader: brokers may create a topic that was deleted when they are asked
    for it.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._errors: list[KafkaError] = []
        self._known: set[TopicPartition] = set()
        config: dict[str, Any] = {
            **settings.confluent_config(),
            "acks": "all",
            "linger.ms": 0,
            "enable.idempotence": False,
            "message.timeout.ms": int(LONGEST_PRODUCE_SECONDS * 1000),
            "topic.metadata.refresh.interval.ms": -1,
            "error_cb": self._errors.append,
        }
        try:
            self._producer = Producer(config)
        except KafkaException as failed:
            raise InvalidSetupError(
                f"{settings.subject}: confluent-kafka makes no producer of it: "
                f"{settings.redact(failed.args[0].str())}. Nothing was sent",
                Correct("correct the connection's extra, or ask for no canary topic"),
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        del self._producer  # what closes it: below 2.13 it has no other way

    def is_usable_again(self) -> bool:
        """Whether no broker has failed since it was opened, and it knows each partition that it was asked for."""
        self._producer.poll(0)
        return not self._errors

    def produce_latencies(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """Write one message to each partition and measure it; before the first one, another that waits for connections too.

        Raises:
            NotAuthorizedError: the right to write to a topic is missing.
            ReassignmentError: a broker refused a message.
        """
        if new := [p for p in partitions if p not in self._known]:
            self._round(new)
            self._known.update(new)
        return self._round(partitions)

    def _round(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """Write one message to each partition; those that are not acknowledged in time have the longest time."""
        found = dict.fromkeys(partitions, LONGEST_PRODUCE_SECONDS)
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
            if error is None:
                found[partition] = min(message.latency() or 0.0, LONGEST_PRODUCE_SECONDS)
            else:
                refused(partition, error)

        def refused(partition: TopicPartition, error: KafkaError) -> None:
            if error.code() in _GONE:
                found.pop(partition, None)
            elif error.code() not in _SLOW:
                failed.append(error)

        for p in partitions:
            try:
                self._producer.produce(p.topic, key=KEY, value=VALUE, partition=p.partition, on_delivery=delivered)
            except KafkaException as at_once:
                refused(p, at_once.args[0])
                self._errors.append(at_once.args[0])  # a partition may be newer than what this producer knows
            except BufferError as full:
                raise ReassignmentError(f"A canary message was not taken: {full}.") from None
        self._producer.flush(_FLUSH_SECONDS)
        for error in failed:
            words = self._settings.redact(error.str())
            if error.code() in _FORBIDDEN:
                topics = ", ".join(sorted({p.topic for p in partitions}))
                raise NotAuthorizedError(
                    f"Not authorised for writing canary messages to {topics} ({words})",
                    Correct("give the connection's principal WRITE on the canary topic"),
                )
            raise ReassignmentError(f"The cluster refused a canary message ({words}).")
        return found
