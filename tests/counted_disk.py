"""A record store in memory that counts what is asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.simulation.disk import Content, SimDisk


class CountedDisk(SimDisk):
    """Counts reads and listings: each is a round trip on an object store."""

    def __init__(self) -> None:
        super().__init__("objects")
        self._calls: Counter[str] = Counter()
        self.is_watched = False
        self.on_read: Callable[[str], object] = lambda _: None

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """Yield the calls from here to the end of the block, by kind."""
        self._calls = Counter()
        yield self._calls

    def read(self, path: str) -> Content:
        self._calls["read"] += 1
        self.on_read(path)
        return super().read(path)

    def names(self, path: str) -> list[str]:
        self._calls["list"] += 1
        return super().names(path)

    def has(self, path: str) -> bool:
        self._calls["read"] += 1
        return super().has(path)
