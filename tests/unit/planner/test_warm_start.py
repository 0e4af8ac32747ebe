"""Spark's classes kept in an archive; in a Python of its own, because the tests' session is up in this one."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys
from pathlib import Path
from kafka_reassignment.planner import session as sessions
from kafka_reassignment.planner.warm_start import prepare

archive = Path(sys.argv[1], "a folder", "spark.jsa")
sessions.class_archive = lambda: archive

def classes_from_archive():
    with sessions.planner_session("local[1]", memory="512m") as spark:
        bean = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
        assert spark.range(3).count() == 3
        return any("SharedArchiveFile" in str(given) for given in bean.getInputArguments())

assert not classes_from_archive()
assert prepare(archive) == archive
assert classes_from_archive()
assert [p.name for p in archive.parent.iterdir()] == ["spark.jsa"]
archive.unlink()
archive.write_bytes(b"of another Java")
assert classes_from_archive()
print("done")
"""


def test_sessions_use_the_archive_and_start_without_one_or_with_one_that_does_not_fit(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "done"
