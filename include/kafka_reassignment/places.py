"""Places in a store, by URI: a path, a URL that fsspec knows, or a URL that names an Airflow connection.

``s3://my_conn@bucket/folder`` names the connection ``my_conn``. The engine knows no Airflow: what is installed beside
it and can open such a place says so by the entry point group ``kafka_reassignment.places``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast
from urllib.parse import urlsplit

import fsspec  # type: ignore[import-untyped]
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordStoreUnusableError

OPENERS = "kafka_reassignment.places"
"""Entry points that take a URI with a connection in it and return its ``UPath``."""

S3 = ("s3", "s3a", "s3n")
GCS = ("gs", "gcs")
AZURE = ("abfs", "abfss", "az", "adl")

GOOGLE_PROVIDER = 'pip install "apache-airflow-providers-google>=20"'
"""What a connection to Google Cloud Storage needs. No extra has it: it brings the clients of all of Google's services."""

_EXTRAS = dict.fromkeys(S3, "s3") | dict.fromkeys(GCS, "gcs") | dict.fromkeys(AZURE, "azure")


def place(uri: str) -> UPath:
    """Return the place that a URI names. Nothing is read yet, but the client of its store is there.

    Raises:
        RecordStoreUnusableError: the client library of the store is missing, or nothing here knows Airflow's
            connections.
        ConnectionNotFoundError: there is no such connection.
    """
    if names_connection(uri):
        return _opened(uri)
    try:
        found = UPath(uri)
        _ = found.fs
    except ImportError as error:
        raise _client_missing(uri) from error
    return found


def filesystem(uri: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path within it.

    Raises:
        RecordStoreUnusableError: as ``place``.
        InvalidRequestError: as ``place``.
    """
    if names_connection(uri):
        found = _opened(uri)
        return found.fs, found.path
    files, path = fsspec.core.url_to_fs(uri)
    return files, path


def names_connection(uri: str) -> bool:
    """Whether a URI names an Airflow connection: what stands before ``@`` in place of a user."""
    return "://" in uri and "@" in urlsplit(uri).netloc


def is_on_disk(uri: str) -> bool:
    """Whether a place is a folder or file of this machine's file systems, shared ones included."""
    return "://" not in uri or urlsplit(uri).scheme in ("file", "local")


def _client_missing(uri: str) -> RecordStoreUnusableError:
    """Return the error of a store whose client library is not installed; it names the command that installs it."""
    scheme = urlsplit(uri).scheme
    extra = _EXTRAS.get(scheme)
    how = f'pip install "kafka-reassignment[{extra}]"' if extra else f"the fsspec implementation of {scheme}://"
    return _missing(uri, f"a client library for {scheme}://", how)


def provider_missing(uri: str) -> RecordStoreUnusableError:
    """Return the error of a URI with a connection where no provider opens its store; it names the command that installs one."""
    if urlsplit(uri).scheme in GCS:
        return _missing(uri, "Airflow's provider for Google", GOOGLE_PROVIDER)
    return _client_missing(uri)


def _missing(uri: str, expected: str, how: str) -> RecordStoreUnusableError:
    return RecordStoreUnusableError(
        f"{uri} cannot be opened here: expected {expected}, found none",
        Correct(f"install it on every component of Airflow: {how}"),
    )


def _opened(uri: str) -> UPath:
    if (open_place := _opener()) is not None:
        return open_place(uri)
    raise RecordStoreUnusableError(
        f"{uri} names an Airflow connection, expected this project's part for Airflow beside the engine, found none",
        Correct("run this where it is installed with Airflow, or give a URI without a connection"),
    )


@cache
def _opener() -> Callable[[str], UPath] | None:
    found = next(iter(entry_points(group=OPENERS)), None)
    return None if found is None else cast("Callable[[str], UPath]", found.load())
