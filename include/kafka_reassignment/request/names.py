"""How requests name brokers and topics."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, TypeVar

from pydantic import Field

T = TypeVar("T")

MAX_NAMES = 100_000
"""Brokers, or topic patterns, in one request: more than any cluster has."""

DEFAULT_KAFKA_CONNECTION_ID = "kafka_default"

KafkaConnectionId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=250,
        title="Kafka connection",
        description="Airflow connection of the cluster, of type Apache Kafka.",
    ),
]

BrokerId = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]

_IN_NAMES = r"A-Za-z0-9_\-*?\[\]"
TopicPattern = Annotated[
    str,
    # Not "." and "..", which Kafka refuses.
    Field(min_length=1, max_length=249, pattern=rf"^([.{_IN_NAMES}]*[{_IN_NAMES}][.{_IN_NAMES}]*|\.{{3,}})$"),
]


def each_named_once(items: tuple[T, ...], kind: str = "") -> tuple[T, ...]:
    """Return the items as they are; ``kind`` says in the error what they are.

    Raises:
        ValueError: one of them is there twice.
    """
    for item, count in Counter(items).most_common(1):
        if count > 1:
            raise ValueError(f"{f'{kind} {item!r}'.lstrip()} is named twice; name each one once")
    return items
