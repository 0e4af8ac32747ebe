"""A conversation that is kept from one question to the next, because each new one costs a login: TLS, SASL, a token."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, Self, TypeVar


class Conversation(Protocol):
    """What is kept: opened by entering it, closed by leaving it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def is_usable_again(self) -> bool:
        """Make ready for the next question; False when a new conversation is better."""
        ...


C = TypeVar("C", bound=Conversation)
A = TypeVar("A")


class Kept(Generic[C]):
    """At most one open conversation of a kind. A question that failed closes it, so that the next one opens a new one.

    Nobody else can use it meanwhile: a question that is asked during another one opens a conversation of its own.

    Args:
        new: makes a conversation that is not open yet.
    """

    def __init__(self, new: Callable[[], C]) -> None:
        self._new = new
        self._idle: C | None = None
        self._taking = Lock()

    def ask(self, question: Callable[[C], A]) -> A:
        """Return the answer to a question."""
        conversation = self._take()
        try:
            answer = question(conversation)
        except BaseException:
            conversation.__exit__(None, None, None)
            raise
        self._put_back(conversation)
        return answer

    def close(self) -> None:
        """Close what is open; the next question opens it again."""
        with self._taking:
            idle, self._idle = self._idle, None
        if idle is not None:
            idle.__exit__(None, None, None)

    def _take(self) -> C:
        with self._taking:
            idle, self._idle = self._idle, None
        if idle is not None:
            if idle.is_usable_again():
                return idle
            idle.__exit__(None, None, None)
        return self._new().__enter__()

    def _put_back(self, conversation: C) -> None:
        with self._taking:
            if self._idle is None:
                self._idle = conversation
                return
        conversation.__exit__(None, None, None)
