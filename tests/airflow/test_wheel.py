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

from kafka_lab.airflow import PROJECT

pytestmark = pytest.mark.airflow

BUNDLE = "kafka_reassignment_airflow.bundle.KafkaReassignmentDagBundle"
DAGS = sorted(path.name for path in (PROJECT / "dags").glob("*_dag.py"))


def uv(*arguments):
    subprocess.run([sys.executable, "-m", "uv", *map(str, arguments)], check=True, timeout=300)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--wheel", "--sdist", "--out-dir", folder, PROJECT)
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The wheel in an environment of its own, which has the dependencies of this one and none of its checkouts."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "venv", symlinks=True)
    python = home / "venv" / "bin" / "python"
    packages = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    for entry in (Path(sys.prefix) / packages).iterdir():
        if "kafka_reassignment" not in entry.name and entry.suffix != ".pth":
            (home / "venv" / packages / entry.name).symlink_to(entry)
    (wheel,) = built.glob("*.whl")
    uv("pip", "install", "--quiet", "--no-deps", "--python", python, wheel)
    bundles = [{"name": "kafka_reassignment", "classpath": BUNDLE, "kwargs": {}}]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYTHONPATH", "PYTEST"))} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
    }

    def airflow(*arguments, **settings):
        """Run Airflow's command line outside the checkout."""
        done = subprocess.run(
            [python, "-m", "airflow", *arguments],
            env=environment | settings,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"airflow {' '.join(arguments)}: {done.stderr[-3000:]}"
        return done

    return airflow


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


def test_airflow_lists_the_provider(installed):
    assert "kafka-reassignment" in {row["package_name"] for row in rows(installed("providers", "list", "-o", "json"))}


@pytest.mark.parametrize("plugins_folder", ["", str(PROJECT / "plugins")], ids=["default", "the checkout's"])
def test_airflow_has_the_plugin_once_whatever_the_plugins_folder_is(installed, plugins_folder):
    settings = {"AIRFLOW__CORE__PLUGINS_FOLDER": plugins_folder} if plugins_folder else {}
    listed = installed("plugins", "-o", "json", **settings)
    (plugin,) = (row for row in rows(listed) if row["name"] == "kafka_reassignment")
    assert plugin["source"].startswith("kafka-reassignment==")
    assert "already registered" not in listed.stderr + listed.stdout


def test_airflow_lists_every_dag_from_where_the_wheel_is_installed(installed):
    installed("db", "migrate")
    installed("dags", "reserialize")
    listed = rows(installed("dags", "list", "-o", "json"))
    assert sorted(Path(row["fileloc"]).name for row in listed) == DAGS
    assert {row["bundle_name"] for row in listed} == {"kafka_reassignment"}
    assert all("site-packages/kafka_reassignment_airflow/dags/" in row["fileloc"] for row in listed)
