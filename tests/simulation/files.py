"""How the product sees the record store of the simulation: as ``UPath``, ``pathlib``, ``os`` and fsspec.

Parts, renames, links and flushes are what the product's own code does with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import count
from typing import Any, ClassVar

import pyarrow as pa
from tests.simulation.caches import kept_table
from tests.simulation.disk import ROOT, Content, SimDisk, Table

_in_use: list[SimDisk] = [SimDisk()]
_open: dict[int, SimFile | str] = {}
_numbers = count(1_000_000)  # never those of files that are really open
_new = object.__new__


def use(disk: SimDisk) -> SimPath:
    """Make this the disk behind every path, and return its root."""
    _in_use[0] = disk
    return SimPath(ROOT)


def _place(path: object) -> str:
    """Return a path as the disk has it."""
    return path.path if isinstance(path, SimPath) else str(path).removeprefix("s3:/")


class SimPath:
    """Stands for ``UPath`` and, on a local disk, for ``pathlib.Path``."""

    __slots__ = ("path",)

    fs: ClassVar[SimFiles]

    def __init__(self, path: object) -> None:
        self.path = _place(path)

    def __truediv__(self, part: object) -> SimPath:
        made = _new(SimPath)
        made.path = f"{self.path}/{part}"
        return made

    def __str__(self) -> str:
        return self.path if _in_use[0].kind == "local" else f"s3:/{self.path}"

    __fspath__ = __str__

    def __repr__(self) -> str:
        return f"SimPath({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimPath) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def protocol(self) -> str:
        return _in_use[0].protocol

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> SimPath:
        return SimPath(self.path.rpartition("/")[0])

    @property
    def parents(self) -> list[SimPath]:
        above = self.path.split("/")
        return [SimPath("/".join(above[:n])) for n in range(len(above) - 1, 0, -1)]

    def with_name(self, name: str) -> SimPath:
        return self.parent / name

    def joinpath(self, *parts: object) -> SimPath:
        return SimPath("/".join([self.path, *map(str, parts)]))

    def exists(self) -> bool:
        return _in_use[0].has(self.path)

    def is_dir(self) -> bool:
        return _in_use[0].is_folder(self.path)

    def iterdir(self) -> Iterator[SimPath]:
        return (self / name for name in _in_use[0].names(self.path))

    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        if not exist_ok and _in_use[0].is_folder(self.path):
            raise FileExistsError(self.path)
        _in_use[0].make_folders(self.path)

    def read_bytes(self) -> bytes:
        return bytes(_in_use[0].read(self.path))

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> int:
        _in_use[0].write(self.path, bytes(content))
        return len(content)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    def open(self, mode: str = "r", **_: object) -> SimFile:
        return SimFile(self.path, mode)

    def replace(self, to: object) -> None:
        _in_use[0].rename(self.path, SimPath(to).path)

    rename = replace

    def hardlink_to(self, existing: object) -> None:
        _in_use[0].link(SimPath(existing).path, self.path)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            _in_use[0].unlink(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise


class SimFile:
    """An open file. On a local disk it exists from its opening on; in an object store from its closing on."""

    def __init__(self, path: str, mode: str) -> None:
        self.path = path
        self._parts: list[bytes] = []
        self._table: Table | None = None
        self._writes = "r" not in mode
        self._new = "x" in mode
        self._on_disk = _in_use[0].kind == "local"
        self._number = next(_numbers)
        self._is_open = True
        if not self._writes:
            self.content: Content = _in_use[0].read(path)
        elif self._on_disk:
            _in_use[0].write(path, b"", new=self._new)

    def __enter__(self) -> SimFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kept=kind is None)

    def read(self) -> bytes:
        return bytes(self.content)

    def write(self, content: bytes) -> int:
        self._parts.append(bytes(content))
        return len(content)

    def write_table(self, rows: pa.Table) -> None:
        self._table = kept_table(rows)

    def flush(self) -> None:
        if self._writes and self._on_disk:
            _in_use[0].fill(self.path, self._content())

    def fileno(self) -> int:
        _open[self._number] = self
        return self._number

    def close(self, *, kept: bool = True) -> None:
        if self._is_open and self._writes:
            if self._on_disk:
                self.flush()
            elif kept:
                _in_use[0].write(self.path, self._content(), new=self._new)
        self._is_open = False
        _open.pop(self._number, None)

    def _content(self) -> Content:
        return self._table or b"".join(self._parts)


class SimFiles:
    """Stands for an fsspec file system."""

    def ls(self, path: object, detail: bool = False) -> list[Any]:
        folder = _place(path)
        above = f"{folder}/"
        paths = [above + name for name in _in_use[0].names(folder)]
        if not detail:
            return paths
        return [{"name": p, "type": "directory" if _in_use[0].is_folder(p) else "file"} for p in paths]

    def invalidate_cache(self, path: object = None) -> None:
        """No listing is kept."""

    def makedirs(self, path: object, exist_ok: bool = True) -> None:
        if _in_use[0].kind == "local":
            _in_use[0].make_folders(_place(path))

    def exists(self, path: object) -> bool:
        return _in_use[0].has(_place(path))

    def open(self, path: object, mode: str = "rb", **_: object) -> SimFile:
        return SimFile(_place(path), mode)

    def glob(self, pattern: str) -> list[str]:
        folder, _, names = pattern.rpartition("/")
        path = _place(folder)
        if not _in_use[0].has(path):
            return []
        return [f"{path}/{name}" for name in _in_use[0].names(path) if fnmatch(name, names)]

    def rm(self, path: object, recursive: bool = False) -> None:
        _in_use[0].remove_tree(_place(path))

    def cat_file(self, path: object) -> bytes:
        return bytes(_in_use[0].read(_place(path)))

    def pipe_file(self, path: object, content: bytes, mode: str = "overwrite") -> None:
        _in_use[0].write(_place(path), content, new=mode == "create")

    def rm_file(self, path: object) -> None:
        _in_use[0].unlink(_place(path))


FILES = SimPath.fs = SimFiles()


class SimOs:
    """Stands for ``os``: flushes of files and folders; the rest is the real one's."""

    O_RDONLY = os.O_RDONLY

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: object, flags: int, mode: int = 0o777) -> int:
        number = next(_numbers)
        _open[number] = SimPath(path).path
        return number

    def close(self, number: int) -> None:
        _open.pop(number, None)

    def fsync(self, number: int | SimFile) -> None:
        target = number if isinstance(number, SimFile) else _open[number]
        if isinstance(target, SimFile):
            target.flush()
            _in_use[0].flush_file(target.path)
        elif _in_use[0].is_folder(target):
            _in_use[0].flush_folder(target)
        else:
            _in_use[0].flush_file(target)
