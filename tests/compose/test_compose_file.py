"""docker-compose.yml as a file: nothing of it needs Docker."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from fsspec.registry import known_implementations
from packaging.utils import canonicalize_name

from kafka_lab.airflow import PROJECT
from kafka_lab.compose import secured
from kafka_lab.compose.check import AFTERWARDS, CLUSTERS
from kafka_lab.compose.env import EXAMPLE

pytestmark = pytest.mark.longer

TEXT = (PROJECT / "docker-compose.yml").read_text()
FILE = yaml.safe_load(TEXT)
SERVICES = FILE["services"]
ONE_SHOTS = {"store-init", "airflow-init", "demo", "kafka-secured-keys", "kafka-secured-users"}
BUILT_HERE = "kafka-reassignment:local"
SECRET = re.compile(r"(?i)(password|secret|fernet_key|secret_key|token)$")
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?:(:[?-])([^}]*))?\}")
EXAMPLE_VALUES = dict(re.findall(r"^(\w+)=(.*)$", (PROJECT / EXAMPLE).read_text(), re.MULTILINE))
services = pytest.mark.parametrize("name", SERVICES)


@services
def test_a_service_says_whether_it_is_healthy_or_ends_by_itself(name):
    service = SERVICES[name]
    assert ("healthcheck" in service) != (name in ONE_SHOTS)
    assert service["restart"] == ("no" if name in ONE_SHOTS else "unless-stopped")


@services
def test_an_image_has_the_tag_of_one_version(name):
    image = SERVICES[name]["image"]
    assert image == BUILT_HERE or re.fullmatch(r"[\w./-]+:v?\d+\.\d+(\.\d+)?", image)
    assert (image == BUILT_HERE) == ("build" in SERVICES[name])


def test_the_image_of_the_dockerfile_begins_with_one_version():
    [base] = re.findall(r"^FROM (\S+)", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"apache/airflow:\d+\.\d+\.\d+-python3\.\d+", base)


def test_the_image_has_what_uv_reads_before_the_package_is_installed():
    """uv refuses to build a package whose workspace lacks a member, also without its dependencies."""
    before, installed, _ = (PROJECT / "Dockerfile").read_text().partition("RUN pip install --no-cache-dir --no-deps")
    assert installed
    copied = {
        source for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", before, re.MULTILINE) for source in line.split()[:-1]
    }
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    members = {f"{member}/pyproject.toml" for member in project["tool"]["uv"]["workspace"]["members"]}
    assert members
    assert members <= copied
    assert {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"} <= copied


@services
def test_a_service_is_not_root_and_cannot_become_it(name):
    service = SERVICES[name]
    uid, _, _ = service["user"].partition(":")
    assert int(uid) > 0
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_what_is_published_is_published_on_this_machine_alone():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_every_variable_is_in_the_example_and_a_missing_secret_is_refused_with_the_command_that_makes_it():
    used = {}
    for name, operator, rest in VARIABLE.findall(TEXT):
        used.setdefault(name, set()).add((operator, rest))
    assert used.keys() == EXAMPLE_VALUES.keys()
    for name, ways in used.items():
        default = EXAMPLE_VALUES[name]
        wanted = (":-", default) if name.endswith("_PORT") else (":?", "run 'make env'")
        assert ways == {wanted}, name


def secrets_of(service):
    """The values of a service's environment that are secrets by their names, those in connections and URLs among them."""
    for name, value in service.get("environment", {}).items():
        if SECRET.search(name):
            yield value
        if name.startswith("AIRFLOW_CONN_"):
            connection = json.loads(value)
            yield from (v for key, v in {**connection, **connection.get("extra", {})}.items() if SECRET.search(key))
        if in_url := re.search(r"://\w+:([^@]*)@", str(value)):
            yield in_url[1]


@services
def test_no_secret_is_in_the_file(name):
    assert [value for value in secrets_of(SERVICES[name]) if not re.fullmatch(r"\$\{\w+:\?[^}]+\}", value)] == []


def test_secrets_are_found_wherever_they_are():
    assert len(list(secrets_of(SERVICES["airflow-scheduler"]))) == 6
    assert list(secrets_of({"environment": {"POSTGRES_PASSWORD": "airflow"}})) == ["airflow"]


def test_the_example_has_no_secret():
    assert {name: v for name, v in EXAMPLE_VALUES.items() if v} == {
        "STORE_ACCESS_KEY": "records",
        "AIRFLOW_PORT": "8080",
        "SPARK_PORT": "8081",
    }


def test_volumes_and_services_that_are_named_exist():
    mounted = {volume.partition(":")[0] for s in SERVICES.values() for volume in s.get("volumes", [])}
    assert mounted == FILE["volumes"].keys()
    for name, service in SERVICES.items():
        for other, condition in service.get("depends_on", {}).items():
            ends = condition == {"condition": "service_completed_successfully"}
            assert ends == (other in ONE_SHOTS), (name, other)
            of_same_profile = SERVICES[other].get("profiles", service.get("profiles"))
            assert of_same_profile == service.get("profiles"), (name, other)
    profiles = {profile for service in SERVICES.values() for profile in service.get("profiles", [])}
    assert profiles == CLUSTERS.keys() >= AFTERWARDS.keys()
    assert {one for ones in AFTERWARDS.values() for one in ones} <= ONE_SHOTS


def test_brokers_have_an_id_and_a_rack_each_and_the_names_that_certificates_and_connections_have():
    for connection, prefix in (("default", "kafka"), ("secured", "kafka-secured"), ("zookeeper", "kafka-zookeeper")):
        brokers = [f"{prefix}-{number}" for number in (1, 2, 3)]
        environments = [SERVICES[broker]["environment"] for broker in brokers]
        assert [e["KAFKA_BROKER_RACK"] for e in environments] == ["a", "b", "c" if connection == "default" else "b"]
        assert [e.get("KAFKA_NODE_ID", e.get("KAFKA_BROKER_ID")) for e in environments] == [1, 2, 3]
        extra = SERVICES["airflow-scheduler"]["environment"][f"AIRFLOW_CONN_KAFKA_{connection.upper()}"]
        assert ",".join(f"{broker}:9092" for broker in brokers) in extra
    assert {f"kafka-secured-{number}" for number in (1, 2, 3)} == set(secured.BROKERS)


def test_the_image_has_the_files_that_the_services_run():
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    taken = {line[1:] for line in ignored if line.startswith("!")}
    assert {"pyproject.toml", "requirements/runtime.lock", "include", "plugins", "dags", "lab"} <= taken
    assert not any(Path(entry).name.startswith(".") for entry in taken)
    for entry in taken:
        assert (PROJECT / entry).exists(), entry
    for name in ("demo", "kafka-secured-keys", "kafka-secured-users"):
        module = SERVICES[name]["command"][0]
        assert SERVICES[name]["working_dir"] == "/opt/kafka-reassignment/lab"
        assert (PROJECT / "lab" / Path(*module.split(".")).with_suffix(".py")).exists()


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import {module}
"""


def packages_of_the_image() -> set[str]:
    text = (PROJECT / "requirements/runtime.lock").read_text()
    return {canonicalize_name(found) for found in re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==", text, re.MULTILINE)}


def test_the_image_has_the_packages_that_reach_the_records():
    """C6: the file system of the place, and the provider of its connection's type."""
    environment = SERVICES["airflow-scheduler"]["environment"]
    record = urlsplit(environment["AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI"])
    assert known_implementations[record.scheme]["class"].partition(".")[0] == "s3fs"
    assert json.loads(environment[f"AIRFLOW_CONN_{record.username.upper()}"])["conn_type"] == "aws"
    assert {"s3fs", "apache-airflow-providers-amazon"} <= packages_of_the_image()


@pytest.mark.parametrize("name", ["demo", "kafka-secured-keys", "kafka-secured-users"])
def test_the_image_has_every_package_that_a_service_imports(name):
    """The image has the packages of runtime.lock; what the lab needs for clusters of its own is not among them."""
    locked = packages_of_the_image()
    ours = {"kafka-reassignment", "kafka-reassignment-lab"}
    installed = {module: set(map(canonicalize_name, of)) for module, of in packages_distributions().items()}
    absent = {module for module, of in installed.items() if not of & (locked | ours)}
    assert {"filelock", "pytest"} <= absent
    code = WITHOUT.format(absent=absent, module=SERVICES[name]["command"][0])
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=PROJECT / "lab"
    )
    assert ended.returncode == 0, ended.stderr


def test_airflow_loads_the_dags_and_finds_what_its_settings_name():
    environment = SERVICES["airflow-scheduler"]["environment"]
    [bundle] = json.loads(environment["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    module, _, name = bundle["classpath"].rpartition(".")
    loaded = getattr(import_module(module), name)(name=bundle["name"])
    assert {file.name for file in Path(loaded.path).glob("*_dag.py")} == {
        file.name for file in (PROJECT / "dags").glob("*_dag.py")
    }
    record = urlsplit(environment["AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI"])
    store = json.loads(environment[f"AIRFLOW_CONN_{record.username.upper()}"])
    assert store["extra"]["endpoint_url"] == "http://store:7070"
    assert SERVICES["store"]["environment"]["VGW_PORT"] == ":7070"
    assert SERVICES["store-init"]["entrypoint"][-1] == f"/opt/volumes/store/{record.hostname}"
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    for worker in ("spark-worker-1", "spark-worker-2"):
        assert SERVICES[worker]["command"][-1] == f"{spark['host']}:{spark['port']}"
    offered = {
        entry.partition(" = ")[0] for entry in environment["AIRFLOW__KAFKA_REASSIGNMENT__CONNECTIONS"].split("; ")
    }
    assert offered == {*CLUSTERS.values()}
    assert {f"AIRFLOW_CONN_{connection.upper()}" for connection in offered} <= environment.keys()
