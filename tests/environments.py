"""The project's wheel, and Python environments of their own beside this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kafka_lab.airflow import PROJECT


def uv(*arguments: object) -> None:
    """Run uv.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run([sys.executable, "-m", "uv", *map(str, arguments)], check=True, timeout=900)


def build(folder: Path, *kinds: str) -> Path:
    """Build the wheel into a folder, and what else ``kinds`` ask for (``--sdist``); the wheel."""
    uv("build", "--quiet", "--wheel", *kinds, "--out-dir", folder, PROJECT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(folder: Path, *requirements: str) -> Path:
    """Make an environment with these, at the versions of dev.lock where it has them; its interpreter."""
    python = folder / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, folder)
    locked = PROJECT / "requirements" / "dev.lock"
    uv("pip", "install", "--quiet", "--no-verify-hashes", "--python", python, "--constraints", locked, *requirements)
    return python
