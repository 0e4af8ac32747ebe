"""Something that looks all the time, in a thread of its own, while it is entered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, Thread
from types import TracebackType
from typing import Self


class Watcher(ABC):
    """``_watch`` looks until ``_over`` is set."""

    def __init__(self) -> None:
        self._over = Event()
        self._thread = Thread(target=self._watch, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @abstractmethod
    def _watch(self) -> None: ...
