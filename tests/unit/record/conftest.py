"""What the tests of the record share."""

import pytest
from upath import UPath

from kafka_reassignment.record.store import RecordStore


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    return RecordStore(UPath(f"file://{tmp_path}" if request.param == "file" else f"memory://{tmp_path.name}"))
