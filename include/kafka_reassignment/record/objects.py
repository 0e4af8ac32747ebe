"""Small objects under a URI: written completely or not at all, and created at most once where that matters.

Paths are ``UPath`` (Airflow's ``ObjectStoragePath`` is one), so that a record may live on a local
disk or in an object store. Object stores do not append and do not rename: nothing here relies on
either, except on local disks, where a rename is what makes a write atomic.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from pydantic import BaseModel
from upath import UPath

from kafka_reassignment.errors import RecordError

M = TypeVar("M", bound=BaseModel)

_SAFE = re.compile(r"[^A-Za-z0-9._-]")


def path_part(identity: str) -> str:
    """Return a name that is safe as one part of a path and different for different identities.

    Run ids come from people and hold ``:``, ``+``, ``/`` or ``..``; what is not plain is replaced, and
    a digest keeps two identities apart that would otherwise look the same.
    """
    plain = _SAFE.sub("_", identity)[:100]
    if plain == identity and plain.strip("."):
        return plain
    return f"{plain.strip('.') or '_'}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


def write_object(path: UPath, content: bytes) -> None:
    """Write the object, replacing an earlier one; a crash leaves the earlier or the new one, never a part.

    Raises:
        RecordError: the store does not take it (full, read-only, unreachable).
    """
    try:
        if _is_local(path):
            with _part_of(path, content) as part:
                part.replace(path.path)
        else:
            path.write_bytes(content)
    except OSError as error:
        raise RecordError(_cannot("write", path, error)) from error


def create_object(path: UPath, content: bytes) -> bool:
    """Create the object unless it exists; return whether this call created it.

    On local disks by a hard link to a file that is complete: a reader never sees a part of it.

    Raises:
        RecordError: the store does not take it.
    """
    try:
        if _is_local(path):
            with _part_of(path, content) as part:
                Path(path.path).hardlink_to(part)
        else:
            with path.open("xb") as new:
                new.write(content)
    except FileExistsError:
        return False
    except OSError as error:
        raise RecordError(_cannot("create", path, error)) from error
    return True


def _is_local(path: UPath) -> bool:
    return path.protocol in ("", "file", "local")


@contextmanager
def _part_of(path: UPath, content: bytes) -> Iterator[Path]:
    """Yield a complete file beside the object, under a name of its own; it is removed afterwards."""
    target = Path(path.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        part.write_bytes(content)
        yield part
    finally:
        part.unlink(missing_ok=True)


def read_object(path: UPath) -> bytes | None:
    """Return the object's content, or None when there is none.

    Raises:
        RecordError: the store does not answer.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RecordError(_cannot("read", path, error)) from error


def names_in(folder: UPath) -> list[str]:
    """Return the names of the objects in a folder, in no order; none when nothing was ever written there.

    A store that does not answer is never taken for an empty one, as ``exists()`` and ``iterdir()`` do with some
    errors: that would read as "nothing is owed" or "it is not stopped".

    Raises:
        RecordError: the store does not answer.
    """
    folder.fs.invalidate_cache(folder.path)  # object stores keep listings, which hide what others wrote since
    try:
        return [str(name).rstrip("/").rpartition("/")[2] for name in folder.fs.ls(folder.path, detail=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(_cannot("list", folder, error)) from error


def last_number(folder: UPath) -> int:
    """Return the highest number among the objects ``000001.json``, ``000002.json``… of a folder; 0 when there is none.

    Raises:
        RecordError: the store does not answer.
    """
    stems = (name.removesuffix(".json") for name in names_in(folder) if name.endswith(".json"))
    return max((int(stem) for stem in stems if stem.isdigit()), default=0)


def read_model(path: UPath, model: type[M]) -> M | None:
    """Return the object parsed as a model, or None when there is none.

    Raises:
        RecordError: the object is not what the model says.
    """
    content = read_object(path)
    if content is None:
        return None
    try:
        return model.model_validate_json(content)
    except ValueError as error:
        raise RecordError(
            f"{path} is not a readable {model.__name__}: {error}. It was altered or written by another version; "
            "restore it from a copy, or remove the reassignment's folder if nothing of it is in flight"
        ) from error


def _cannot(verb: str, path: UPath, error: OSError) -> str:
    return (
        f"Cannot {verb} {path}: {error}. The record must be writable before anything is done to the cluster; "
        "free space or repair access to the record store, then rerun the step"
    )
