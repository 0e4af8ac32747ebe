"""What the exit code of each command means, and how an error becomes one."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from kafka_reassignment.cli.common import err
from kafka_reassignment.cli.dags import DagsMissingError
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    PlannerMissingError,
    ReassignmentError,
    RecordDamagedError,
    RecordError,
    RecordStoreUnusableError,
    RecordUnavailableError,
    UnsupportedClusterError,
)
from kafka_reassignment.interrupts import CTRL_C_EXIT_CODE, ctrl_c_raises


class ExitCode(IntEnum):
    """The exit codes: each has one meaning, whatever the command."""

    DONE = 0
    """Done; of a question: it is so."""

    NOT_SO = 1
    """The question was answered, and it is not so; or the person who was asked said no."""

    USAGE = 2
    """What was asked for is wrong: an option, a file, a request."""

    UNREACHABLE = 3
    """The cluster or the record store does not answer. Another try may help."""

    REFUSED = 4
    """The cluster refused, or this project did, by the state of the cluster."""

    NOT_FOUND = 5
    """There is no such reassignment, or no such part of its record."""

    DAMAGED = 6
    """The record is damaged, was altered, or was written by a newer version."""

    NOT_HERE = 7
    """This machine or this cluster lacks what the command needs, such as Java."""

    BUG = 70
    """An error of the command itself; its stack is on stderr."""

    INTERRUPTED = CTRL_C_EXIT_CODE
    """Ctrl-C."""

    PIPE_CLOSED = 141
    """Who read the output has stopped reading."""


_CODES: Mapping[type[ReassignmentError], ExitCode] = {
    ClusterUnavailableError: ExitCode.UNREACHABLE,
    DagsMissingError: ExitCode.NOT_HERE,
    InvalidRequestError: ExitCode.USAGE,
    PlannerMissingError: ExitCode.NOT_HERE,
    ReassignmentError: ExitCode.REFUSED,
    RecordDamagedError: ExitCode.DAMAGED,
    RecordError: ExitCode.NOT_FOUND,
    RecordStoreUnusableError: ExitCode.NOT_HERE,
    RecordUnavailableError: ExitCode.UNREACHABLE,
    UnsupportedClusterError: ExitCode.NOT_HERE,
}
"""By the nearest class of an error."""


def exit_code(error: ReassignmentError) -> ExitCode:
    """Return the exit code of an error of ours."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


class Commands(TyperGroup):
    """The commands; what a person can cause ends with words on stderr and a code of its own, never with a stack."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as in the class above
        """Run a command."""
        with ctrl_c_raises(), _exit_codes():
            return super().invoke(ctx)


@contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        yield
    except typer.Exit:
        raise
    except ReassignmentError as error:
        err.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(exit_code(error)) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at the end
        raise typer.Exit(ExitCode.PIPE_CLOSED) from None
    except BaseException as error:
        if _is_interrupt(error):
            err.print("Interrupted", style="red")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        if not isinstance(error, Exception) or isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
            # One of the command line's own; a person who says no aborts, and so does Ctrl-C at a question.
            raise
        traceback.print_exception(error)
        raise typer.Exit(ExitCode.BUG) from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C was the cause: Spark's own process gets it too, and what is stopped then fails with another error."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
