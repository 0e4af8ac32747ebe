"""How often files are opened and folders listed below a folder: what an object store would be asked."""

from __future__ import annotations

import sys
from contextlib import contextmanager

_below: list[str] = []
_seen: list[str] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _below and event in {"open", "os.listdir", "os.scandir"} and str(arguments[0]).startswith(_below[-1]):
        _seen.append(str(arguments[0]))


sys.addaudithook(_hook)


@contextmanager
def file_calls(folder):
    """The paths that were opened or listed while it is entered."""
    _seen.clear()
    _below.append(str(folder))
    try:
        yield _seen
    finally:
        _below.pop()
