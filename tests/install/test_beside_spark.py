"""PySpark in an environment where the Spark provider's ``pyspark-client`` has replaced its files."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.environments import build, environment, uv

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

OLDER = "pyspark-client==4.1.1"


def warm_up(python: Path) -> subprocess.CompletedProcess[str]:
    command = [python.parent / "kafka-reassignment", "warm-up"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_replaced_files_are_told_and_the_command_that_is_named_mends_them(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", str(build(tmp_path / "dist")))
    uv("pip", "install", "--quiet", "--python", python, OLDER)
    refused = warm_up(python)
    assert refused.returncode != 0
    assert "found those of version 4.1.1" in refused.stdout + refused.stderr
    [command] = re.findall(r"run 'pip ([^']+)'", refused.stdout + refused.stderr, re.IGNORECASE)
    # uv's name for pip's --force-reinstall
    uv("pip", *(word.replace("--force-reinstall", "--reinstall") for word in shlex.split(command)), "--python", python)
    mended = warm_up(python)
    assert mended.returncode == 0, mended.stderr
    assert "of classes in" in mended.stdout
