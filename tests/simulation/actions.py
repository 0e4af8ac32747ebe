"""What people, tools, brokers, Airflow and the record store do to a reassignment: each action is data.

Numbers in arguments choose among what is there when the action happens (``items[number % len(items)]``), so that a
script stays a script when actions are taken out of it. An action that finds nothing to act on does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka_reassignment.steps.batch import BATCH_STEPS

T = TypeVar("T")

MAIN_TASKS = (
    "preflight",
    "plan",
    "approve",
    "start_batches",
    "wait_for_batches",
    "elect_leaders",
    "verify",
    "report",
)
"""Tasks of a reassignment that scripts by chance name. With ``keep_throttle``, the scripts of all seeds would be
others, also of those that broke something once; it is at work in them all the same, and dies in the exhaustive pass."""

LONGEST = ("sense_isr_catch_up",)
"""While it waits data moves: most of the time, and of what can go wrong."""


@dataclass(frozen=True)
class Action:
    """One thing that happens.

    Args:
        name: of the action, as in ``ACTIONS``.
        at: seconds after the start of the script, or after the moment that ``when`` names.
        arguments: of the action.
        when: ``task`` or ``task:n``: the n-th start of a task with this name; ``@state`` or ``@state & state``: the
            first moment in these states of ``coverage.STATES``; by time alone when None.
    """

    name: str
    at: float = 0.0
    arguments: dict[str, Any] = field(default_factory=dict)
    when: str | None = None

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        moment = f"{self.at:g} s" + (f" after {self.when}" if self.when else "")
        return f"{moment}: {self.name}({given})"

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        data: dict[str, Any] = {"name": self.name, "at": self.at}
        if self.arguments:
            data["arguments"] = self.arguments
        return data | ({"when": self.when} if self.when else {})


Do = Callable[..., str | None]
"""Carries an action out on a ``Play``; returns what it met, in words, or None when there was nothing to act on."""

Make = Callable[[random.Random], dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """A kind of action.

    Args:
        name: in scripts.
        group: whose doing: people, tools, kafka, airflow or store.
        weight: how often, among all.
        do: carries it out.
        make: draws its arguments.
    """

    name: str
    group: str
    weight: float
    do: Do
    make: Make


ACTIONS: dict[str, Kind] = {}

ADDED: dict[str, Kind] = {}
"""Actions that came later. Among ``ACTIONS`` they would change the scripts of all seeds, also of those that broke something once."""

ADDED_FROM = 10_000_000
"""The seed from which on a script may have one of ``ADDED`` as well."""


def action(
    group: str, weight: float = 1.0, *, among: dict[str, Kind] = ACTIONS, **make: Callable[[random.Random], Any]
) -> Callable[[Do], Do]:
    """Register a kind of action under the name of its function; ``make`` draws each argument."""

    def registered(do: Do) -> Do:
        among[do.__name__] = Kind(
            do.__name__, group, weight, do, lambda rng: {name: draw(rng) for name, draw in make.items()}
        )
        return do

    return registered


def kind_of(name: str) -> Kind:
    """Return a kind of action by its name."""
    return ADDED[name] if name in ADDED else ACTIONS[name]


def number(rng: random.Random) -> int:
    """Draw a number that chooses among what is there: more often a small one."""
    return rng.choice((0, 0, 0, 1, 1, 2, 3, 5))


def one_of(*items: Any) -> Callable[[random.Random], Any]:
    """Draw one of these."""
    return lambda rng: rng.choice(items)


def pick(items: Sequence[T], index: int) -> T | None:
    """Return what an index chooses; None when there is nothing."""
    return items[index % len(items)] if items else None


def random_actions(rng: random.Random, count: int) -> list[Action]:
    """Draw a script of so many actions, some of them bound to a moment of a batch."""
    names = sorted(ACTIONS)
    weights = [ACTIONS[name].weight for name in names]
    made = [_random(rng, name) for name in rng.choices(names, weights, k=count)]
    return sorted(made, key=lambda a: (a.at, a.name))


def with_added(rng: random.Random, script: Sequence[Action]) -> tuple[Action, ...]:
    """Return a script with one or two of the actions that came later, three times out of four."""
    names = sorted(ADDED)
    weights = [ADDED[name].weight for name in names]
    added = [_random(rng, name) for name in rng.choices(names, weights, k=rng.choice((0, 1, 1, 2)))]
    return (*script, *added)


def _random(rng: random.Random, name: str) -> Action:
    arguments = kind_of(name).make(rng)
    if rng.random() < 0.5:
        task = rng.choice((*BATCH_STEPS, *BATCH_STEPS, *MAIN_TASKS, *LONGEST * 6))
        nth = rng.choice((1, 1, 1, 2, 3))
        delay = rng.choice((0.0, 0.0, 0.6, 2.0, 8.0, 15.0, 30.0))
        return Action(name, delay, arguments, f"{task}:{nth}")
    return Action(name, round(rng.expovariate(1 / 150.0), 1), arguments)


def smaller(given: Action) -> list[Action]:
    """Return simpler forms of an action: each argument nearer to nothing, an earlier and rounder time."""
    arguments = [{**given.arguments, name: less} for name, value in given.arguments.items() for less in _less(value)]
    return [replace(given, arguments=each) for each in arguments] + [replace(given, at=at) for at in _less(given.at)]


def _less(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [False] if value else []
    if isinstance(value, int) and value > 0:
        return sorted({0, value // 2})
    if isinstance(value, float) and value > 0:
        return [v for v in (0.0, float(round(value / 2)), float(round(value))) if v < value]
    return []
