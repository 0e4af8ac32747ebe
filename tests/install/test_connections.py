"""Records on Google Cloud Storage and Azure through Airflow's connections, in an environment with both providers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.environments import build, environment, uv
from tests.record_stores.servers import NotInstalledError, azure, gcs

from kafka_lab.airflow import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_promises_of_the_record_are_kept_through_connections_of_both_providers(tmp_path: Path) -> None:
    for server in (gcs, azure):
        try:
            with server():
                pass
        except NotInstalledError as missing:
            pytest.skip(str(missing))
    wheel = build(tmp_path / "dist")
    python = environment(
        tmp_path / "venv",
        f"{wheel}[gcs,azure]",
        "apache-airflow-providers-google>=20",
        *("--group", f"{PROJECT / 'pyproject.toml'}:dev"),
    )
    uv("pip", "install", "--quiet", "--python", python, "--no-deps", PROJECT / "lab")
    done = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "-k", "connection", "tests/record_stores/test_promises.py"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", done.stdout), done.stdout[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
