"""Long lists in slices, as requests take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def in_slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size``; the last may be shorter; ``itertools.batched`` needs Python 3.12."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
