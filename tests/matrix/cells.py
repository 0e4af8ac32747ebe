"""What the matrix runs: the same tests for each Kafka, and for each Airflow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.environments import uv
from tests.kafka_fixtures import KAFKA_VARIABLE

from kafka_lab.airflow import PROJECT
from kafka_lab.versions import AIRFLOW, BEFORE_2_4, KAFKA, KafkaVersion

BOUNDS = PROJECT / ".bounds"
PYTHON = Path(sys.executable)
WHOLE = "tests/airflow/test_reassignment.py"
LANES = ("--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder")

# What the tests import beside this package; the group dev wants object stores' clients newer than the old Airflows
# have.
TEST_PACKAGES = (
    "axe-playwright-python",
    "hypothesis>=6.170",
    "moto[server]",
    "playwright",
    "pytest>=9.2,<10",
    "pytest-timeout",
    "pytest-xdist",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One run of pytest; ``name`` heads its column."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A version of Kafka or of Airflow, and what is run on it."""

    system: str
    version: str
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """Unique in the matrix."""
        return f"{self.system} {self.version}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the tests."""
        return {KAFKA_VARIABLE: self.version} if self.system == "Kafka" else {}

    def prepare(self) -> Path:
        """Return the Python that runs the parts, in an environment of its own for an Airflow; minutes for a new one.

        Raises:
            subprocess.CalledProcessError: the package does not fit beside this Airflow; what uv says is on stderr.
        """
        return PYTHON if self.system == "Kafka" else _install_airflow(self.version)


def kafka_cell(version: KafkaVersion) -> Cell:
    """The contract suite of the cluster adapters, and one whole reassignment by the DAGs on a real Airflow."""
    shared = "zookeeper" if version == BEFORE_2_4 else "not zookeeper"
    contract = Part("contract", ("tests/contract", "-m", "kafka and not slow", "-k", shared, *LANES))
    return Cell("Kafka", str(version), (contract, Part("reassignment", (WHOLE, "-k", "ends_verified"))))


def airflow_cell(version: str) -> Cell:
    """The in-process tests, those of the DAGs' structure among them, and reassignments that are rerun, killed and refused."""
    return Cell(
        "Airflow",
        version,
        (
            Part("quick", ("-m", "quick or longer", "--ignore=tests/unit/test_matrix.py", *LANES)),
            Part("reassignments", (WHOLE,)),
        ),
    )


CELLS = (*map(kafka_cell, KAFKA), *map(airflow_cell, AIRFLOW))


def chosen(kafka: Sequence[str], airflow: Sequence[str]) -> list[Cell]:
    """Return the cells whose version begins so; all of them when nothing is asked for.

    Raises:
        ValueError: nothing begins so.
    """
    wanted = [("Kafka", begin) for begin in kafka] + [("Airflow", begin) for begin in airflow]
    for system, begin in wanted:
        if not any(c.system == system and c.version.startswith(begin) for c in CELLS):
            have = ", ".join(c.version for c in CELLS if c.system == system)
            raise ValueError(f"{system} {begin!r} is not in the matrix, expected the beginning of one of {have}.")
    return [c for c in CELLS if not wanted or any(c.system == s and c.version.startswith(b) for s, b in wanted)]


def _install_airflow(version: str) -> Path:
    """Install this package beside a release of Airflow, with its providers of the day on which it was released."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    held = BOUNDS / "constraints" / f"airflow-{version}-python-{python}.txt"
    if not held.exists():
        resolve = PROJECT / "requirements" / "resolve.py"
        subprocess.run([sys.executable, resolve, "--airflow", version, "--python", python], check=True)
    home = BOUNDS / f"airflow-{version}"
    own = home / "bin" / "python"
    if not own.exists():
        uv("venv", "--quiet", "--python", sys.executable, home)
    package = ("--editable", f"{PROJECT}[s3]", "--editable", PROJECT / "lab")
    uv(
        "pip",
        "install",
        "--quiet",
        "--python",
        own,
        "--constraints",
        held,
        f"apache-airflow=={version}",
        *package,
        *TEST_PACKAGES,
    )
    return own
