"""A conversation is kept from one question to the next, and never longer than it is good."""

from __future__ import annotations

from typing import Self

import pytest

from kafka_reassignment.cluster.kafka.kept import Kept

pytestmark = pytest.mark.quick


class Conversation:
    def __init__(self, log: list[Conversation]) -> None:
        log.append(self)
        self.is_open = False
        self.is_good = True

    def __enter__(self) -> Self:
        self.is_open = True
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.is_open
        self.is_open = False

    def is_usable_again(self) -> bool:
        return self.is_good


@pytest.fixture
def opened() -> list[Conversation]:
    return []


@pytest.fixture
def kept(opened: list[Conversation]) -> Kept[Conversation]:
    return Kept(lambda: Conversation(opened))


def test_questions_share_one_conversation(kept: Kept[Conversation], opened: list[Conversation]) -> None:
    assert [kept.ask(lambda c: c.is_open) for _ in range(5)] == [True] * 5
    assert len(opened) == 1
    kept.close()
    kept.close()
    assert not opened[0].is_open
    assert kept.ask(lambda c: c.is_open)
    assert len(opened) == 2


def test_after_a_question_that_failed_a_new_one_is_opened(kept: Kept[Conversation], opened: list[Conversation]) -> None:
    with pytest.raises(ZeroDivisionError):
        kept.ask(lambda c: 1 // 0)
    assert [c.is_open for c in opened] == [False]
    kept.ask(lambda c: None)
    assert [c.is_open for c in opened] == [False, True]


def test_one_that_is_no_good_any_more_is_not_used_again(kept: Kept[Conversation], opened: list[Conversation]) -> None:
    kept.ask(lambda c: None)
    opened[0].is_good = False
    kept.ask(lambda c: None)
    assert [c.is_open for c in opened] == [False, True]


def test_a_question_within_a_question_has_one_of_its_own(kept: Kept[Conversation], opened: list[Conversation]) -> None:
    kept.ask(lambda outer: kept.ask(lambda inner: outer is not inner) or pytest.fail("shared"))
    assert [c.is_open for c in opened].count(True) == 1
