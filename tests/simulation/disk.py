"""The record store of the simulation: in memory, with what happens to a disk or an object store.

A ``local`` disk is a POSIX file system: what was written is in memory until the file is flushed, and a new name until
its folder is flushed; a power cut loses the rest. An ``objects`` store takes an object whole or not at all, and its
listings may lag. Both can be away, full, slow, and damaged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Kind = Literal["local", "objects"]
Losing = Literal["names", "contents"]
"""What a power cut loses of what was not flushed: names with their contents, or only contents, so that files are empty."""

ROOT = "/record"

CALLS_WITHOUT_TIME = 20_000
"""More calls than this without any virtual time in between: the caller waits for what cannot change."""


class EndpointConnectionError(Exception):
    """An object store is away: as botocore's, no ``OSError``."""


class StandsStill(BaseException):
    """The product calls the store over and over at one moment of virtual time."""


class Table:
    """A table as content of a file; its rows are read back as they were written. ``text`` says what they are."""

    __slots__ = ("rows", "text")

    def __init__(self, rows: Any, text: bytes) -> None:
        self.rows = rows
        self.text = text

    def __bytes__(self) -> bytes:
        return self.text


Content = bytes | Table


class _File:
    __slots__ = ("content", "flushed", "since")

    def __init__(self, content: Content, since: datetime) -> None:
        self.content = content
        self.flushed: Content = b""
        self.since = since


@dataclass
class Faults:
    """What is wrong with the store now."""

    away: bool = False
    full: bool = False
    seconds_per_call: float = 0.0
    listing_lag: float = 0.0


class SimDisk:
    """Files and folders by path, what of them would survive a power cut, and faults.

    Args:
        kind: of the store.
        now: virtual time.
        sleep: passes virtual time, for a slow store.

    ``on_write(stage, path)`` is called before and after each change ("before", "after"); it may raise, as if the
    process died there.
    """

    def __init__(
        self,
        kind: Kind = "objects",
        *,
        now: Callable[[], datetime] = lambda: datetime(2026, 1, 1, tzinfo=UTC),
        sleep: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.kind: Kind = kind
        self.faults = Faults()
        self.changes = 0
        self._changed: dict[str, int] = {}
        self._all_changed = 0
        self.is_watched = True
        self.on_write: Callable[[str, str], None] | None = None
        self._now = now
        self._sleep = sleep
        self._files: dict[str, _File] = {}
        self._folders: dict[str, dict[str, None]] = {"": {}}
        self._durable: dict[str, _File] = {}
        self._durable_folders: set[str] = {""}
        self._calls = 0
        self.protocol = "" if kind == "local" else "s3"

    def time_passes(self) -> None:
        """Virtual time goes on: calls are counted from 0 again."""
        self._calls = 0

    # ---------------------------------------------------------------- what a caller does

    def read(self, path: str) -> Content:
        self._begin(path)
        file = self._files.get(path) or self._file(path)
        return file.content

    def write(self, path: str, content: Content, *, new: bool = False) -> None:
        """Write an object whole, its folders too; with ``new`` only if there is none."""
        self._begin(path, writes=True)
        if new and path in self._files:
            raise FileExistsError(path)
        self._begin_change(path)
        if new and path in self._files:  # since the try stood still: the store decides when it takes the object
            raise FileExistsError(path)
        self._make_folders(path.rpartition("/")[0])
        self._put(path, _File(content, self._now()))
        self._end_change(path)

    def fill(self, path: str, content: Content) -> None:
        """Replace the content of an open file; not a call of its own."""
        self._file(path).content = content
        self._note(path)

    def rename(self, path: str, to: str) -> None:
        self._begin(to, writes=True)
        file = self._file(path)
        self._begin_change(to)
        self._remove(path)
        self._put(to, file)
        self._end_change(to)

    def link(self, path: str, to: str) -> None:
        self._begin(to, writes=True)
        if to in self._files:
            raise FileExistsError(to)
        self._begin_change(to)
        if to in self._files:
            raise FileExistsError(to)
        self._put(to, self._file(path))
        self._end_change(to)

    def unlink(self, path: str) -> None:
        self._begin(path, writes=True)
        self._file(path)
        self._begin_change(path)
        self._remove(path)
        self._end_change(path)

    def remove_tree(self, path: str) -> None:
        self._begin(path, writes=True)
        self._begin_change(path)
        for each in [p for p in self._files if p == path or p.startswith(f"{path}/")]:
            self._remove(each)
        for each in [f for f in self._folders if f == path or f.startswith(f"{path}/")]:
            del self._folders[each]
            self._folders.get(each.rpartition("/")[0], {}).pop(each.rpartition("/")[2], None)
            self._note(each)
        self._end_change(path)

    def make_folders(self, path: str) -> None:
        self._begin(path, writes=True)
        self._make_folders(path)

    def names(self, path: str) -> list[str]:
        """Return what a folder holds, in order."""
        self._begin(path)
        found = self._folders.get(path)
        if not found and (found is None or self.kind == "objects"):
            raise FileNotFoundError(path)
        if not self.faults.listing_lag:
            return sorted(found)
        now = self._now()
        return sorted(name for name in found if self._is_listed(f"{path}/{name}", now))

    def has(self, path: str) -> bool:
        self._begin(path)
        return path in self._files or path in self._folders

    def is_folder(self, path: str) -> bool:
        return path in self._folders

    def flush_file(self, path: str) -> None:
        """Make a file survive a power cut."""
        self._begin(path, writes=True)
        self._begin_change(path)
        file = self._file(path)
        file.flushed = file.content
        self._end_change(path)

    def flush_folder(self, path: str) -> None:
        """Make a folder's names survive a power cut."""
        self._begin(path, writes=True)
        self._begin_change(path)
        for name in self._folders.get(path, {}):
            each = f"{path}/{name}"
            if each in self._files:
                self._durable[each] = self._files[each]
            else:
                self._durable_folders.add(each)
        for each in [p for p in self._durable if p.rpartition("/")[0] == path and p not in self._files]:
            del self._durable[each]
        self._end_change(path)

    # ---------------------------------------------------------------- what happens to it

    def power_cut(self, losing: Losing = "names") -> list[str]:
        """Lose what was not flushed; return the paths that changed."""
        if self.kind == "objects":
            return []
        before = {p: f.content for p, f in self._files.items()}
        if losing == "names":
            self._files = {p: f for p, f in self._durable.items() if self._has_durable_folders(p)}
            self._folders = {f: {} for f in self._durable_folders if self._has_durable_folders(f)}
            for path in (*self._files, *self._folders):
                folder, _, name = path.rpartition("/")
                if path and folder in self._folders:
                    self._folders[folder][name] = None
        for path, file in self._files.items():
            file.content = file.flushed
            self._durable[path] = file
        self.changes += 1
        self._all_changed = self.changes
        return sorted(
            p for p in {*before, *self._files} if p not in self._files or before.get(p) != self._files[p].content
        )

    def damage(self, path: str, content: Content = b"") -> None:
        """Replace a file's content by hand: empty, cut off or altered."""
        self._file(path).content = self._file(path).flushed = content
        self._note(path)

    def has_changed(self, paths: Iterable[str], since: int) -> bool:
        """Whether any of these files or folders is another one than when ``changes`` had this value."""
        return self._all_changed > since or any(self._changed.get(p, 0) > since for p in paths)

    def paths(self) -> list[str]:
        return sorted(self._files)

    def peek(self, path: str) -> Content | None:
        """Return a file's content whatever the faults; None when there is none."""
        file = self._files.get(path)
        return None if file is None else file.content

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self._files):
            digest.update(path.encode() + b"\0" + bytes(self._files[path].content) + b"\0")
        return digest.hexdigest()[:16]

    # ---------------------------------------------------------------- inside

    def _begin(self, path: str, *, writes: bool = False) -> None:
        if self.is_watched:
            self._calls += 1
            if self._calls > CALLS_WITHOUT_TIME:
                raise StandsStill(f"{CALLS_WITHOUT_TIME} calls of the record store at {self._now():%Y-%m-%d %H:%M:%S}")
        faults = self.faults
        if faults.away or faults.full or faults.seconds_per_call:
            self._strike(path, writes=writes)

    def _strike(self, path: str, *, writes: bool) -> None:
        faults = self.faults
        if faults.seconds_per_call:
            self._sleep(faults.seconds_per_call)
            faults = self.faults
        if faults.away:
            if self.kind == "objects":
                raise EndpointConnectionError('Could not connect to the endpoint URL: "https://store"')
            raise OSError(5, "Input/output error", path)
        if writes and faults.full:
            raise OSError(28, "No space left on device", path)

    def _begin_change(self, path: str) -> None:
        if self.on_write is not None:
            self.on_write("before", path)

    def _end_change(self, path: str) -> None:
        if self.on_write is not None:
            self.on_write("after", path)

    def _file(self, path: str) -> _File:
        try:
            return self._files[path]
        except KeyError:
            if path in self._folders:
                raise IsADirectoryError(path) from None
            raise FileNotFoundError(path) from None

    def _put(self, path: str, file: _File) -> None:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            raise FileNotFoundError(folder)
        self._folders[folder][name] = None
        self._files[path] = file
        self._note(path)

    def _remove(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        del self._files[path]
        self._folders.get(folder, {}).pop(name, None)
        self._note(path)

    def _make_folders(self, path: str) -> None:
        if path in self._folders:
            return
        above, _, name = path.rpartition("/")
        self._make_folders(above)
        self._folders[above][name] = None
        self._folders[path] = {}
        self._note(path)

    def _note(self, path: str) -> None:
        """A path and what the folder above it shows have changed."""
        self.changes += 1
        self._changed[path] = self._changed[path.rpartition("/")[0]] = self.changes

    def _is_listed(self, path: str, now: datetime) -> bool:
        file = self._files.get(path)
        return file is None or (now - file.since).total_seconds() >= self.faults.listing_lag

    def _has_durable_folders(self, path: str) -> bool:
        parts = path.split("/")
        return all("/".join(parts[:n]) in self._durable_folders for n in range(1, len(parts)))
