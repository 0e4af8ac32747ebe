"""How requests name brokers and topics."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, Field

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

BROKERS_TEXT = r"^\s*\d{1,10}(\s*-\s*\d{1,10})?([\s,]+\d{1,10}(\s*-\s*\d{1,10})?)*[\s,]*$"
"""Broker ids as people write them: ``4, 5`` or ``1-3, 7``."""

_BROKERS = re.compile(r"(\d+)(?:\s*-\s*(\d+))?", re.ASCII)


def brokers_of(given: object) -> object:
    """Return a text such as ``4, 5`` or ``1-3, 7`` as broker ids, in its order; anything else as it is.

    Raises:
        ValueError: it is a text of something else, or a range that runs backwards or is longer than any cluster.
    """
    if not isinstance(given, str):
        return given
    if len(given) > MAX_NAMES or (given.strip() and not re.match(BROKERS_TEXT, given, re.ASCII)):
        raise ValueError("expected broker ids such as '4, 5' or '1-3, 7'")
    ids: list[int] = []
    for first, last in _BROKERS.findall(given):
        start, end = int(first), int(last or first)
        if not 0 <= end - start < MAX_NAMES or len(ids) > MAX_NAMES:
            raise ValueError(f"expected broker ids from the lower to the higher one, found {first}-{last}")
        ids += range(start, end + 1)
    return tuple(ids)


BrokerIds = Annotated[tuple[BrokerId, ...], Field(max_length=MAX_NAMES), BeforeValidator(brokers_of)]
"""A list of ids, or the text of one. The bounds come first: behind a validator they are not in the JSON schema."""

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
