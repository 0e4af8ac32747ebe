"""The wheel beside an Airflow that has no checkout: its provider, plugin and DAGs are there without a file copied."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tests.environments import build, uv

from kafka_lab.airflow import PROJECT

pytestmark = pytest.mark.airflow

BUNDLE = "kafka_reassignment_airflow.bundle.KafkaReassignmentDagBundle"
DAGS = sorted(path.name for path in (PROJECT / "dags").glob("*_dag.py"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder, "--sdist")
    return folder


class Installed:
    """The wheel in an environment of its own, which has the dependencies of this one and none of its checkouts.

    Args:
        wheel: the file.
        home: folder of the environment, and AIRFLOW_HOME.
        without: packages of this one that it does not have.
    """

    def __init__(self, wheel, home, *, without=()):
        self._home = home
        self.python = home / "venv" / "bin" / "python"
        venv.create(home / "venv", symlinks=True)
        packages = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
        for entry in (Path(sys.prefix) / packages).iterdir():
            is_left_out = entry.name.startswith(("kafka_reassignment", "_kafka_reassignment", *without))
            if not is_left_out and entry.suffix != ".pth":
                (home / "venv" / packages / entry.name).symlink_to(entry)
        uv("pip", "install", "--quiet", "--no-deps", "--python", self.python, wheel)
        bundles = [{"name": "kafka_reassignment", "classpath": BUNDLE, "kwargs": {}}]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYTHONPATH", "PYTEST"))}
        self._environment = inherited | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        }

    def run(self, *arguments, **settings):
        """Run the environment's Python outside the checkout."""
        done = subprocess.run(
            [self.python, *arguments],
            env=self._environment | settings,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout[-3000:]} {done.stderr[-3000:]}"
        return done

    def airflow(self, *arguments, **settings):
        """Run Airflow's command line."""
        return self.run("-m", "airflow", *arguments, **settings)

    def dags(self):
        """What `airflow dags list` has."""
        self.airflow("db", "migrate")
        self.airflow("dags", "reserialize")
        return rows(self.airflow("dags", "list", "-o", "json"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    (wheel,) = built.glob("*.whl")
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def without_pyspark(built, tmp_path_factory):
    (wheel,) = built.glob("*.whl")
    return Installed(wheel, tmp_path_factory.mktemp("without"), without=("pyspark", "py4j"))


def rows(done):
    return json.loads(done.stdout[done.stdout.index("[{") :])


def test_wheel_and_sdist_have_the_licence_the_dags_and_nothing_for_tests(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert {Path(name).parts[0] for name in names} == {
        "kafka_reassignment",
        "kafka_reassignment_airflow",
        next(name.split("/")[0] for name in names if ".dist-info/" in name),
    }
    assert sorted(Path(n).name for n in names if n.startswith("kafka_reassignment_airflow/dags/")) == DAGS
    assert [name for name in names if name.endswith("/licenses/LICENSE")]
    with tarfile.open(sdist) as opened:
        names = {str(Path(*Path(name).parts[1:])) for name in opened.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", *(f"dags/{name}" for name in DAGS)} <= names
    assert {Path(name).parts[0] for name in names if len(Path(name).parts) > 1} == {"dags", "include", "plugins"}


def test_a_package_index_accepts_both(built):
    uv("tool", "run", "--quiet", "--from", "twine>=7", "twine", "check", "--strict", *built.glob("kafka_*"))


def test_airflow_lists_the_provider(installed):
    listed = rows(installed.airflow("providers", "list", "-o", "json"))
    assert "kafka-reassignment" in {row["package_name"] for row in listed}


@pytest.mark.parametrize("plugins_folder", ["", str(PROJECT / "plugins")], ids=["default", "the checkout's"])
def test_airflow_has_the_plugin_once_whatever_the_plugins_folder_is(installed, plugins_folder):
    settings = {"AIRFLOW__CORE__PLUGINS_FOLDER": plugins_folder} if plugins_folder else {}
    listed = installed.airflow("plugins", "-o", "json", **settings)
    (plugin,) = (row for row in rows(listed) if row["name"] == "kafka_reassignment")
    assert plugin["source"].startswith("kafka-reassignment==")
    assert "already registered" not in listed.stderr + listed.stdout


def test_airflow_lists_every_dag_from_where_the_wheel_is_installed(installed):
    listed = installed.dags()
    assert sorted(Path(row["fileloc"]).name for row in listed) == DAGS
    assert {row["bundle_name"] for row in listed} == {"kafka_reassignment"}
    assert all("site-packages/kafka_reassignment_airflow/dags/" in row["fileloc"] for row in listed)


def test_without_pyspark_airflow_has_the_plugin_and_every_dag(without_pyspark):
    assert sorted(Path(row["fileloc"]).name for row in without_pyspark.dags()) == DAGS
    plugins = rows(without_pyspark.airflow("plugins", "-o", "json"))
    assert "kafka_reassignment" in {row["name"] for row in plugins}


def test_without_pyspark_the_planner_names_the_command_that_installs_it(without_pyspark):
    ask = """
from kafka_reassignment.errors import PlannerMissingError
from kafka_reassignment.planner.environment import require_pyspark
try:
    require_pyspark()
except PlannerMissingError as error:
    print(error)
"""
    assert "pip install pyspark" in without_pyspark.run("-c", ask).stdout
