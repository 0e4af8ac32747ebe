"""The store of the records, where Airflow's configuration puts it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import cast

from airflow.sdk.io import ObjectStoragePath, has_fs
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordStoreUnusableError
from kafka_reassignment.places import GCS, GOOGLE_PROVIDER, place, provider_missing
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.hooks.connection import find_connection
from kafka_reassignment_airflow.settings import setting


def record_store() -> RecordStore:
    """Return the store under ``[kafka_reassignment] record_uri``; by default in Airflow's home.

    The URI may name an Airflow connection, as ``s3://my_conn@bucket/path``.

    :raises RecordStoreUnusableError: the client library of the store is missing.
    :raises ConnectionNotFoundError: the URI names a connection that was not found.
    """
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    return RecordStore(place(setting("record_uri") or f"file://{home}/kafka_reassignments"))


@lru_cache(maxsize=256)
def open_place(uri: str) -> UPath:
    """Return the place of a URI that names an Airflow connection, with the credentials of the connection.

    They stay in the client library's memory. A process keeps what it has opened: a connection that is changed later is
    in force in new processes.

    :param uri: such as ``s3://my_conn@bucket/path``.
    :raises RecordStoreUnusableError: the provider of the store is not installed, or too old.
    :raises ConnectionNotFoundError: there is no such connection.
    """
    path = ObjectStoragePath(uri)
    # Looked up first: where there is none, Airflow's S3 client goes on with other credentials, such as the machine's.
    find_connection(path.conn_id or "", "Record store")
    if not has_fs(path.protocol):
        raise provider_missing(uri)
    try:
        files = path.fs
    except ImportError as error:
        raise provider_missing(uri) from error
    if path.protocol in GCS and isinstance(files.storage_options.get("token"), str):
        raise RecordStoreUnusableError(
            f"{uri} cannot keep the records: expected credentials that last as long as a reassignment, found an access "
            "token of an hour, which Google's provider gives its file system before its release 20.0.0",
            Correct(f"install it on every component of Airflow: {GOOGLE_PROVIDER}"),
        )
    return cast("UPath", path)
