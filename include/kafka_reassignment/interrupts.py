"""Ctrl-C on the command line: it ends quietly, whether a command runs or is still imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

CTRL_C_EXIT_CODE = 130


def end_at_ctrl_c() -> None:
    """End this process at Ctrl-C without a stack: nothing is open yet. Who has it ignored, such as ``nohup``, wants it so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Let Ctrl-C raise ``KeyboardInterrupt`` while a command runs, so that it closes what it has opened."""
    ends = signal.getsignal(signal.SIGINT) is _end
    if ends:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ends:
            end_at_ctrl_c()


def _end(_signal: int, _frame: object) -> None:
    # Not by an exception: what is imported at this moment may turn it into another one, or print it and go on.
    os.write(2, b"Interrupted\n")
    os._exit(CTRL_C_EXIT_CODE)
