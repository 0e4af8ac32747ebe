"""The promises of the record, kept by a disk and by each kind of object store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from unittest import mock

import fsspec
import pytest
from tests.record_stores import servers
from upath import UPath

from kafka_reassignment.places import place
from kafka_reassignment.record.store import RecordStore

_numbers = count(1)
KINDS = {
    "s3": servers.s3,
    "gs": servers.gcs,
    "gs by connection": servers.gcs_by_connection,
    "abfs": servers.azure,
    "abfs by connection": servers.azure_by_connection,
}


@contextmanager
def reachable(server: servers.Server) -> Iterator[servers.Server]:
    """Let this process reach the server, and make its bucket."""
    with mock.patch.dict(os.environ, server.environment), mock.patch.dict(fsspec.config.conf, server.fsspec):
        place(server.uri).fs.mkdir(servers.BUCKET)
        yield server


@dataclass(frozen=True)
class Place:
    """A base URI that nothing was written below yet; ``server`` is None on a disk."""

    uri: str
    server: servers.Server | None

    @property
    def folder(self) -> UPath:
        return place(self.uri)

    @property
    def store(self) -> RecordStore:
        """As a task opens it: nothing is known of what others have read."""
        return RecordStore(place(self.uri))


@contextmanager
def running(kind: str) -> Iterator[servers.Server]:
    """Start a store of this kind, and let this process reach it."""
    try:
        with KINDS[kind]() as started, reachable(started):
            yield started
    except servers.NotInstalledError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=["file", *KINDS])
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server | None]:
    if request.param == "file":
        yield None
        return
    with running(request.param) as started:
        yield started


@pytest.fixture
def base(server: servers.Server | None, tmp_path) -> Place:
    return Place(f"{server.uri}/{next(_numbers)}" if server else f"file://{tmp_path}", server)
