"""Which topics a name or a pattern means: the one rule for requests, cancels and queries.

A pattern has ``*``, ``?`` or ``[abc]`` in it, none of which a topic name can have. Upper and lower case differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase


def topic_matches(topic: str, patterns: Iterable[str]) -> bool:
    """Whether the topic is named by one of the names or patterns."""
    return any(topic == pattern or fnmatchcase(topic, pattern) for pattern in patterns)


def topics_matching(pattern: str, topics: Collection[str]) -> frozenset[str]:
    """Return the topics that one name or pattern means; pass a set when there are many of either."""
    if pattern in topics:
        return frozenset((pattern,))
    if not any(character in pattern for character in "*?["):
        return frozenset()
    return frozenset(topic for topic in topics if fnmatchcase(topic, pattern))
