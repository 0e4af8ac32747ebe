"""What the two fault suites share: a suite that runs seeds, how a seed ends, and the command that runs a range of them."""

from __future__ import annotations

import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Generic, Self, TypeAlias, TypeVar

import typer
from rich.console import Console

out = Console(highlight=False, soft_wrap=True)

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedOutcome:
    """How a seed ended; right when there are no problems. ``lines`` are everything that happened."""

    seed: int
    seconds: float
    problems: tuple[str, ...]
    struck: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all held."""
        return not self.problems


O_co = TypeVar("O_co", bound=SeedOutcome, covariant=True)
O = TypeVar("O", bound=SeedOutcome)  # noqa: E741 - as in outcome


class SeedSuite(Generic[O_co]):
    """Runs seeds; a context manager that leaves nothing running behind.

    Args:
        folder: where the records of the runs are kept.
        say: takes a line for everything that happens.
    """

    def __init__(self, folder: Path, say: Say = lambda _: None) -> None:
        self._folder = folder
        self._say = say

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @abstractmethod
    def run(self, seed: int) -> O_co:
        """Run one seed and check everything."""

    @abstractmethod
    def _stop(self) -> None:
        """Stop what was started."""


@dataclass(frozen=True, slots=True)
class SeedCommand(Generic[O]):
    """The command of a suite.

    Args:
        name: of the suite, as in ``make faults``.
        suite: opens it, with the folder and what takes a line.
        planned: what a seed does, in words.
        line: an outcome in some words, which follow its seed, its end and its seconds.
        total: all outcomes in some words.
    """

    name: str
    suite: Callable[[Path, Say], SeedSuite[O]]
    planned: Callable[[int], object]
    line: Callable[[O], str]
    total: Callable[[Sequence[O]], str]

    def app(self, *, default: str, about: str) -> typer.Typer:
        """Return it with its options.

        Args:
            default: the seeds that it runs unless others are given.
            about: what it does, as its help.
        """
        app = typer.Typer(add_completion=False)

        @app.command(help=about)
        def main(
            seeds: Annotated[str, typer.Option(help="a seed, a range or several: 7, 1-200, 3,9,20-30")] = default,
            verbose: Annotated[bool, typer.Option("--verbose", "-v", help="print everything that happens")] = False,
            plan_only: Annotated[bool, typer.Option("--plan-only", help="print the plan and run nothing")] = False,
            folder: Annotated[Path | None, typer.Option(help="keep the records of all runs here")] = None,
        ) -> None:
            self.run(seeds, verbose=verbose, plan_only=plan_only, folder=folder)

        return app

    def run(self, seeds: str, *, verbose: bool, plan_only: bool, folder: Path | None) -> None:
        """Run a range of seeds, one line each, and a summary.

        Raises:
            typer.Exit: with 1, unless every seed passes.
        """
        numbers = parse_seeds(seeds)
        if plan_only:
            for number in numbers:
                _print(str(self.planned(number)))
            return
        kept = folder or Path(tempfile.mkdtemp(prefix=f"kafka-reassignment-{self.name}-"))
        kept.mkdir(parents=True, exist_ok=True)
        began, outcomes = time.monotonic(), list[O]()
        try:
            with self.suite(kept, (lambda line: _print(line, "dim")) if verbose else (lambda _: None)) as suite:
                for number in numbers:
                    if verbose:
                        _print(str(self.planned(number)))
                    outcomes.append(suite.run(number))
                    self._print(outcomes[-1])
        except KeyboardInterrupt:
            _print("Interrupted; what was started is stopped")
        failed = [o.seed for o in outcomes if not o.ok]
        minutes = (time.monotonic() - began) / 60
        passed = f"{len(outcomes) - len(failed)} of {len(numbers)} seeds passed in {minutes:.1f} min"
        _print(f"{passed}; {self.total(outcomes)}; records: {kept}")
        for seed in failed:
            _print(f"replay with: make {self.name} SEEDS={seed} ARGS=-v")
        if failed or len(outcomes) < len(numbers):
            raise typer.Exit(1)

    def _print(self, outcome: O) -> None:
        end = "ok    " if outcome.ok else "FAILED"
        line = f"{outcome.seed:4}  {end} {outcome.seconds:5.1f} s  {self.line(outcome)}"
        _print(f"{line}  {'; '.join(outcome.struck) or 'nothing was reached'}", None if outcome.ok else "red")
        for problem in outcome.problems:
            _print(f"      {problem}", "red")


def parse_seeds(text: str) -> list[int]:
    """Read ``3,9,20-30``.

    Raises:
        typer.BadParameter: it is not that.
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise typer.BadParameter(f"seeds are {text!r}, expected numbers and ranges such as 3,9,20-30")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _print(line: str, style: str | None = None) -> None:
    out.print(line, markup=False, style=style)
