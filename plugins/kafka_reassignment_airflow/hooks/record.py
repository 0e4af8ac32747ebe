"""The store of the records, where Airflow's configuration puts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from airflow.sdk import ObjectStoragePath
from upath import UPath

from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.settings import setting


def record_store() -> RecordStore:
    """Return the store under ``[kafka_reassignment] record_uri``; by default in Airflow's home.

    The URI may name an Airflow connection, as ``s3://my_conn@bucket/path``.
    """
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    uri = setting("record_uri") or f"file://{home}/kafka_reassignments"
    return RecordStore(cast("UPath", ObjectStoragePath(uri)))
