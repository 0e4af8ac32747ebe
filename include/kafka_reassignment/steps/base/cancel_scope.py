"""What a cancel is about: all of a reassignment, or some partitions and topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from kafka_reassignment.advice import CANCEL_DAG_ID, RUNNING, Correct, Trigger
from kafka_reassignment.errors import UnknownTopicOrPartitionError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.record import Record
from kafka_reassignment.request.topics import topic_matches


@dataclass(frozen=True)
class CancelScope:
    """What is to be cancelled: ``partitions`` (``orders-3``) and all of ``topics`` (names or patterns); everything when both are empty.

    A topic may have the name of a partition (``q-0``), so each has a field of its own. ``foreign`` includes moves that
    other clients started; without it none of these is touched.
    """

    partitions: tuple[str, ...] = ()
    foreign: bool = False
    topics: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the reassignment as a whole is meant."""
        return not (self.partitions or self.topics)

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition is meant."""
        return self.is_whole or str(partition) in self._names or topic_matches(partition.topic, self.topics)

    def check(self, meant: Collection[TopicPartition], everything: Callable[[], Iterable[TopicPartition]]) -> None:
        """Refuse names that fit nothing.

        Args:
            meant: the partitions that fit, of those that a cancel can be about.
            everything: all that a cancel can be about; asked only for a better message.

        Raises:
            UnknownTopicOrPartitionError: a name fits nothing.
        """
        names, topics = {str(p) for p in meant}, {p.topic for p in meant}
        for name in self.partitions:
            if name not in names:
                raise UnknownTopicOrPartitionError(
                    f"'partitions' names {name!r}, which is no partition of this reassignment and none in flight: expected "
                    "such as 'orders-3'",
                    Correct(
                        "name it in 'topics', since it is a topic"
                        if any(p.topic == name for p in everything())
                        else "correct the name"
                    ),
                )
        for pattern in self.topics:
            if not any(topic_matches(topic, (pattern,)) for topic in topics):
                raise UnknownTopicOrPartitionError(
                    f"'topics' names {pattern!r}, which fits no topic of this reassignment and none in flight: expected a "
                    "topic or a pattern of topics",
                    Correct(
                        "name it in 'partitions', since it is a partition"
                        if any(str(p) == pattern for p in everything())
                        else "correct the name"
                    ),
                )

    def again(self, record: Record) -> Trigger:
        """Return how to cancel the same once more."""
        params: dict[str, object] = {"reassignment_id": record.reassignment_id if record.exists else RUNNING}
        params |= {name: list(given) for name in ("partitions", "topics") if (given := getattr(self, name))}
        return Trigger(CANCEL_DAG_ID, params | ({"foreign": True} if self.foreign else {}))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.partitions)
