"""Stores that cannot keep the records, and what is missing for those that could."""

from datetime import UTC, datetime

import pytest
from tests.record_stores import servers
from tests.record_stores.conftest import reachable

from kafka_reassignment.errors import RecordStoreUnusableError
from kafka_reassignment.places import place
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.objects import create_object
from kafka_reassignment.record.store import RecordStore

LOCK = ClusterLock(reassignment_id="r", since=datetime(2026, 1, 1, tzinfo=UTC), requested_by="ann")


def test_a_server_that_ignores_the_condition_is_refused_when_a_cluster_is_to_be_locked():
    with servers.gcs_without_preconditions() as server, reachable(server):
        assert create_object(place(f"{server.uri}/a"), b"1")
        assert create_object(place(f"{server.uri}/a"), b"2"), "it honours the condition now: use it in the other tests"
        with pytest.raises(RecordStoreUnusableError, match="cannot keep the records: .* found that it replaced one"):
            RecordStore(place(server.uri)).acquire("c", LOCK)
        assert RecordStore(place(server.uri)).lock_owner("c") is None
