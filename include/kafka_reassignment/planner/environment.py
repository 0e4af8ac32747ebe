"""What a machine needs to plan, and what is said where it is missing: PySpark with its own files, and Java. No PySpark is imported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import PlannerMissingError

LOWEST_JAVA = 17
"""Spark 4's."""

ELSEWHERE = "or let the task 'plan' run where it is there ([kafka_reassignment] plan_queue)"


def require_pyspark() -> None:
    """Make sure that PySpark is installed, and is itself.

    ``pyspark-client``, which apache-airflow-providers-apache-spark installs, has files of the same names. Whichever is
    installed last replaces those of the other, and no tool notices. Those of one version are the same (seen with
    4.2.0).

    Raises:
        PlannerMissingError: it is missing, or its files are those of another version.
    """
    try:
        expected = version("pyspark")
    except PackageNotFoundError:
        raise PlannerMissingError(
            "PySpark is not installed here, and plans are made with it",
            Correct(f"run 'pip install pyspark{_of_client()}' in this environment, {ELSEWHERE}"),
        ) from None
    if (found := _version_of_files()) != expected:
        raise PlannerMissingError(
            f"The files of pyspark {expected} were replaced or removed: expected its own, found those of "
            f"{f'version {found}' if found else 'none'}. pyspark-client has files of the same names",
            Correct(
                f"run 'pip install --force-reinstall --no-deps pyspark=={expected}' in this environment, {ELSEWHERE}"
            ),
        )


def _of_client() -> str:
    """Return the version that does no harm to a pyspark-client which is there."""
    try:
        return f"=={version('pyspark-client')}"
    except PackageNotFoundError:
        return ""


def _version_of_files() -> str | None:
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    try:
        text = Path(next(iter(folders or ())), "version.py").read_text()
    except (OSError, StopIteration):
        return None
    found = re.search(r"__version__[^\"']*[\"']([^\"']+)", text)
    return found[1] if found else None


def require_hadoop(master: str) -> None:
    """Make sure that a YARN master can be found.

    Spark itself says so on stderr only, and then that its Java process has ended.

    Raises:
        PlannerMissingError: the master is YARN, and nothing says where it is.
    """
    if master.startswith("yarn") and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise PlannerMissingError(
            "Neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set here, and the Spark master is 'yarn'",
            Correct(f"set HADOOP_CONF_DIR to the folder that has yarn-site.xml and core-site.xml, {ELSEWHERE}"),
        )


def why_no_java() -> PlannerMissingError | None:
    """Return what is wrong with Java, after Spark has failed to start; None when nothing is."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return _no_java(f"Java is not installed here ({java} is missing)" if home else "Java is not installed here")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    if found is not None and int(found[1]) < LOWEST_JAVA:
        return _no_java(f"Java here is {found[1]} ({java}), expected {LOWEST_JAVA} or later")
    return None


def _no_java(problem: str) -> PlannerMissingError:
    return PlannerMissingError(
        f"{problem}, and plans are made on Spark",
        Correct(f"install Java {LOWEST_JAVA} or later, set JAVA_HOME, {ELSEWHERE}"),
    )
