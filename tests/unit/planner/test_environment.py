"""What is said on a machine that cannot plan."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from kafka_reassignment.errors import PlannerMissingError, is_worth_a_retry
from kafka_reassignment.planner.environment import require_hadoop, require_pyspark, why_no_java

pytestmark = pytest.mark.quick


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python looks into before all others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    return tmp_path


def write_pyspark(site: Path, version_of_files: str | None) -> None:
    (site / "pyspark").mkdir()
    (site / "pyspark" / "__init__.py").touch()
    if version_of_files:
        (site / "pyspark" / "version.py").write_text(f'__version__: str = "{version_of_files}"\n')


def test_nothing_is_said_of_pyspark_itself(site):
    require_pyspark()
    write_pyspark(site, version("pyspark"))
    require_pyspark()


@pytest.mark.parametrize(("files", "found"), [("3.5.8", "version 3.5.8"), (None, "none")])
def test_files_of_another_version_are_found(site, files, found):
    write_pyspark(site, files)
    with pytest.raises(PlannerMissingError) as refused:
        require_pyspark()
    own = version("pyspark")
    assert f"pyspark {own} were replaced or removed: expected its own, found those of {found}" in str(refused.value)
    assert f"pip install --force-reinstall --no-deps pyspark=={own}" in str(refused.value)
    assert not is_worth_a_retry(refused.value)


def write_java(folder: Path, text: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('openjdk version "11.0.22" 2024-01-16', "Java here is 11"),
        ('java version "1.8.0_402"', "Java here is 8"),
        ('openjdk version "17.0.10" 2024-01-16', None),
        ('openjdk version "21" 2023-09-19', None),
    ],
)
def test_a_java_that_is_too_old_is_named(tmp_path, monkeypatch, text, problem):
    write_java(tmp_path, text)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = why_no_java()
    assert (found is None) if problem is None else (problem in str(found) and "expected 17 or later" in str(found))


def test_java_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"Java is not installed here ({tmp_path}{os.sep}bin" in str(why_no_java())
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert str(why_no_java()).startswith("Java is not installed here, and plans")


@pytest.mark.parametrize("master", ["yarn"])
def test_a_yarn_master_without_hadoops_configuration_is_refused(monkeypatch, tmp_path, master):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(PlannerMissingError, match="Neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set here"):
        require_hadoop(master)
    require_hadoop("local[*]")
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    require_hadoop(master)
