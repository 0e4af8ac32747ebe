"""Small objects under a URI: written completely or not at all, and created at most once where that matters.

Paths are ``UPath`` (Airflow's ``ObjectStoragePath`` is one), so that a record may live on a local
disk or in an object store. Object stores do not append and do not rename: nothing here relies on
either, except on local disks, where a rename is what makes a write atomic.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ENOSYS, ENOTSUP, EPERM
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import (
    RecordDamagedError,
    RecordStoreUnusableError,
    RecordUnavailableError,
    store_errors,
)
from kafka_reassignment.places import AZURE, GCS, S3
from kafka_reassignment.versioned import VERSION, newer_version, read_json, to_json

M = TypeVar("M", bound=BaseModel)

CONDITIONAL = (*S3, *GCS, *AZURE, "memory")
"""Protocols whose client libraries pass the condition of an exclusive creation to the store."""

NO_LINKS = (EPERM, ENOSYS, ENOTSUP)
"""How disks without hard links refuse one: FAT and exFAT, some FUSE file systems, some SMB shares. No retry helps."""

_SAFE = re.compile(r"[^A-Za-z0-9._-]")

LARGEST_KEPT = 16_384
"""Bytes of the largest object whose parsed model is kept: audit events of large batches have megabytes."""

LOCK = "lock"
EARLIER_LOCKS = ("lock.json", "hold.json")
AUDIT_HEADS = "audit-heads"
OWN_NAMES = (LOCK, *EARLIER_LOCKS, AUDIT_HEADS)
"""What a cluster's folder has beside its reassignments; no identity leads to one of these names."""


def path_part(identity: str) -> str:
    """Return a name that is safe as one part of a path and different for different identities.

    Run ids come from people and hold ``:``, ``+``, ``/`` or ``..``; what is not plain is replaced, and
    a digest keeps two identities apart that would otherwise look the same.
    """
    plain = _SAFE.sub("_", identity)[:100]
    if plain == identity and plain.strip(".") and plain.lower() not in OWN_NAMES:
        return plain
    return f"{plain.strip('.') or '_'}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


def write_object(path: UPath, content: bytes) -> None:
    """Write the object, replacing an earlier one; a crash leaves the earlier or the new one, never a part.

    Raises:
        RecordUnavailableError: the store does not take it (full, read-only, unreachable).
    """
    with store_errors("write", path):
        if _is_local(path):
            with _part_of(path, content) as part:
                part.replace(path.path)
        else:
            path.fs.pipe_file(path.path, content)


def create_object(path: UPath, content: bytes) -> bool:
    """Create the object unless it exists; return whether this call created it.

    On local disks by a hard link to a file that is complete: a reader never sees a part of it. On object stores by one
    request that the store refuses if the object exists (docs/decisions/0033). A client that repeats a request whose
    answer was lost is refused by its own object: where that matters, a caller that is refused reads who wrote it.

    Raises:
        RecordStoreUnusableError: the disk knows no hard links.
        RecordUnavailableError: the store does not take it.
    """
    with store_errors("create", path):
        if _is_local(path):
            with _part_of(path, content) as part:
                return _is_new(lambda: _link(path, part))
        return _is_new(lambda: _create(path, content))


def _link(path: UPath, part: Path) -> None:
    try:
        Path(path.path).hardlink_to(part)
    except OSError as error:
        if error.errno in NO_LINKS:
            raise RecordStoreUnusableError(
                f"The disk of {path} cannot keep the records: expected it to make a hard link, found: {error}. Two reassignments "
                "could lock one cluster",
                Correct("keep the records on a disk with hard links, or in a store that docs/record.md names"),
            ) from error
        raise


def _create(path: UPath, content: bytes) -> None:
    # Not open("xb"): s3fs writes an empty object without the condition, and adlfs takes two requests.
    path.fs.pipe_file(path.path, content, mode="create")


def require_exclusive_creation(path: UPath, content: bytes) -> None:
    """Make sure that the store refuses to create an object which exists: some ignore the condition and replace it.

    Local disks are known to refuse. What a store that does not refuse has replaced is removed, where that is allowed.

    Args:
        path: of an object that exists.
        content: of that object.

    Raises:
        RecordStoreUnusableError: the store, or its client library, does not refuse.
        RecordUnavailableError: the store does not answer.
    """
    if _is_local(path):
        return
    if path.protocol not in CONDITIONAL:
        raise _not_exclusive(path, f"nothing is known about exclusive creation at {path.protocol}://")
    try:
        with store_errors("create", path):
            if not _is_new(lambda: _create(path, content)):
                return
        with suppress(Exception):  # the rights that a store needs do not include it
            path.fs.rm_file(path.path)
    except RecordUnavailableError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == ENOSYS:
            raise _not_exclusive(path, "it does not know the condition") from error
        raise
    raise _not_exclusive(path, "it replaced one")


def _not_exclusive(path: UPath, found: str) -> RecordStoreUnusableError:
    return RecordStoreUnusableError(
        f"The store of {path} cannot keep the records: expected it to refuse to create an object that exists, found that "
        f"{found}. Two reassignments could lock one cluster",
        Correct("keep the records on a shared disk, or in a store that docs/record.md names"),
    )


def _is_new(create: Callable[[], None]) -> bool:
    try:
        create()
    except FileExistsError:
        return False
    except OSError as error:
        if _is_precondition(error):
            return False
        raise
    return True


def _is_precondition(error: OSError) -> bool:
    """Whether a store has refused by the condition. s3fs knows that by a detail of the answer that only some stores send."""
    response = getattr(error.__cause__, "response", None)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return bool(status == HTTPStatus.PRECONDITION_FAILED)


def flush_tree(folder: UPath) -> None:
    """Flush what other code wrote below a folder, tables above all; it is on the disk when this returns.

    Raises:
        RecordUnavailableError: the disk does not take it.
    """
    if not _is_local(folder):
        return  # an object store has taken an object when it answers
    if not Path(folder.path).is_dir():
        return
    with store_errors("flush", folder):
        pending = [Path(folder.path)]
        while pending:
            path = pending.pop()
            if path.is_dir():
                pending += path.iterdir()
            _flush(path)
        _flush(Path(folder.path).parent)


def _is_local(path: UPath) -> bool:
    return path.protocol in ("", "file", "local")


@contextmanager
def _part_of(path: UPath, content: bytes) -> Iterator[Path]:
    """Yield a complete file beside the object, under a name of its own, which is removed afterwards.

    The file is flushed before the caller renames or links it, and the folder after that: after a power cut, the object
    is there with its content, or it is not there.
    """
    target = Path(path.path)
    _make_folder(target.parent)
    part = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        part.write_bytes(content)
        _flush(part)
        yield part
    finally:
        part.unlink(missing_ok=True)
    _flush(target.parent)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each flushed into the one above it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush(folder.parent)


def _flush(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read_object(path: UPath) -> bytes | None:
    """Return the object's content, or None when there is none.

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    try:
        with store_errors("read", path, (FileNotFoundError, NotADirectoryError)):
            # On object stores one request; opened as a file, an object is looked up in a listing first, which may be
            # old.
            return path.read_bytes() if _is_local(path) else path.fs.cat_file(path.path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def names_in(folder: UPath) -> list[str]:
    """Return the names of the objects in a folder, in no order; none when nothing was ever written there.

    A store that does not answer is never taken for an empty one, as ``exists()`` and ``iterdir()`` do with some
    errors: that would read as "nothing is owed" or "it is not stopped".

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    return [_name(path) for path in _listed(folder, detail=False)]


def folders_in(folder: UPath) -> list[str]:
    """Return the names of the folders in a folder, in no order: a file beside them is none of the record.

    A link is taken for a folder: where it leads to is not looked at.

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    return [_name(entry["name"]) for entry in _listed(folder, detail=True) if entry["type"] != "file"]


def _name(path: object) -> str:
    return str(path).rstrip("/").rpartition("/")[2]


def _listed(folder: UPath, *, detail: bool) -> list[Any]:
    try:
        with store_errors("list", folder, (FileNotFoundError,)):
            return _newly_listed(folder, detail=detail)
    except FileNotFoundError:
        return []


def _newly_listed(folder: UPath, *, detail: bool) -> list[Any]:
    """List a folder, and forget what the client has listed of it, before and after.

    Clients of object stores keep listings. An old one hides what others wrote since, also from a read by name: s3fs
    2026.9 answers that by the listing it has.
    """
    files, path = folder.fs, folder.path
    files.invalidate_cache(path)
    try:
        listed: list[Any] = files.ls(path, detail=detail)
    finally:
        files.invalidate_cache(path)
    return listed


def last_number(folder: UPath) -> int:
    """Return the highest number among the objects ``000001.json``, ``000002.json``… of a folder; 0 when there is none.

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    stems = [name.removesuffix(".json") for name in names_in(folder) if name.endswith(".json")]
    return max([int(stem) for stem in stems if stem.isdigit()], default=0)


def read_model(path: UPath, model: type[M]) -> M | None:
    """Return the object parsed as a model, or None when there is none.

    Raises:
        RecordDamagedError: the object is not what the model says.
    """
    content = read_object(path)
    return None if content is None else parse(path, content, model)


class ReadOnce:
    """Objects that never change once they are there: what was read or written is not read again.

    Only for what is created exclusively and never removed. An object that is not there yet is looked for each time. It
    lives as long as a try of a task or a trigger, so a new process reads everything from the store.

    Args:
        most: how many are kept, those used last.
        largest: bytes of the largest that is kept; any size when None.
    """

    def __init__(self, most: int = 64, largest: int | None = None) -> None:
        self._most = most
        self._largest = largest
        self._kept: dict[str, BaseModel] = {}

    def read(self, path: UPath, model: type[M]) -> M | None:
        """Return the object parsed as a model, or None when there is none.

        Raises:
            RecordDamagedError: the object is not what the model says.
        """
        name = str(path)
        kept = self._kept.get(name)
        if isinstance(kept, model):
            self._keep(name, kept)
            return kept
        content = read_object(path)
        if content is None:
            return None
        item = parse(path, content, model)
        self._keep(name, item, len(content))
        return item

    def create(self, path: UPath, item: BaseModel) -> bool:
        """Create the object unless it exists; return whether this call created it."""
        content = as_bytes(item)
        is_new = create_object(path, content)
        if is_new:
            self._keep(str(path), item, len(content))
        return is_new

    def has(self, path: UPath) -> bool:
        """Whether the object was read or created; the store is not asked."""
        return str(path) in self._kept

    def _keep(self, name: str, item: BaseModel, size: int = 0) -> None:
        if self._largest is not None and size > self._largest:
            return
        self._kept.pop(name, None)
        self._kept[name] = item
        while len(self._kept) > self._most:
            self._kept.pop(next(iter(self._kept)))


def as_bytes(item: BaseModel) -> bytes:
    """Return an object as it is stored."""
    return to_json(item, indent=1)


def parse(path: UPath, content: bytes, model: type[M]) -> M:
    """Return the content of an object as a model. Models are frozen: equal contents share one.

    Raises:
        RecordDamagedError: the content is not what the model says.
    """
    try:
        return _parsed(model, content) if len(content) <= LARGEST_KEPT else read_json(model, content)
    except ValidationError as error:
        if newer := newer_version(content):
            raise RecordDamagedError(
                f"{path} has version {newer}, expected at most {VERSION}: a newer version of this project wrote it",
                Correct("install that version again; then rerun the step"),
            ) from error
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordDamagedError(
            f"{path} is not a readable {model.__name__}: expected what this version writes, found "
            f"{where + ': ' if where else ''}{first['msg']}. It was altered, or a newer version wrote it",
            Correct(f"restore {path} from a copy, or install the version that wrote it; then rerun the step"),
        ) from error


@lru_cache(maxsize=4096)
def _parsed(model: type[M], content: bytes) -> M:
    return read_json(model, content)
