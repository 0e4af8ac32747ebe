"""What Airflow knows of this distribution by its entry points: provider, configuration, plugin, DAG bundle."""

import json
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import airflow
import pytest
from airflow.configuration import conf
from airflow.dag_processing.dagbag import DagBag
from airflow.plugins_manager import AirflowPlugin
from airflow.secrets import BaseSecretsBackend
from jsonschema import validate

from kafka_lab.airflow import PROJECT
from kafka_reassignment.cli.dags import BUNDLES, dag_folder
from kafka_reassignment_airflow.bundle import KafkaReassignmentDagBundle
from kafka_reassignment_airflow.provider_info import OPTIONS, get_provider_info
from kafka_reassignment_airflow.settings import instance, plan_arguments, setting, step_defaults

pytestmark = pytest.mark.quick


def entry_point(group):
    found = [found for found in entry_points(group=group) if found.dist.name == "kafka-reassignment"]
    assert len(found) == 1, f"{len(found)} entry points of {group} are installed, expected one: run `make setup`"
    return found[0].load()


def test_the_provider_info_is_valid_by_airflows_own_schema():
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    info = entry_point("apache_airflow_provider")()
    validate(info, schema)
    for option in info["config"]["kafka_reassignment"]["options"].values():
        validate(option, schema["definitions"]["option"])
    assert info["package-name"] == "kafka-reassignment"


def test_the_example_of_notifiers_escapes_what_people_typed_where_it_sends_html():
    [mail] = json.loads(OPTIONS["notifiers"]["example"])
    assert mail["kwargs"]["html_content"] == "{{ told.text | e }} {{ told.link | e }}"


@pytest.mark.parametrize("kind", ["operators", "sensors", "hooks", "triggers", "bundles"])
def test_every_module_that_the_provider_info_lists_can_be_imported(kind):
    listed = [module for entry in get_provider_info()[kind] for module in entry["python-modules"]]
    assert listed
    for module in listed:
        import_module(module)


def test_the_entry_point_of_the_plugin_is_a_plugin_with_the_page():
    plugin = entry_point("airflow.plugins")
    assert issubclass(plugin, AirflowPlugin)
    assert [app["url_prefix"] for app in plugin.fastapi_apps] == ["/kafka-reassignment"]
    assert [view["destination"] for view in plugin.external_views] == ["nav", "dag_run"]


@pytest.mark.parametrize("base", ["http://localhost:8080/", "https://company.example/airflow/"])
@pytest.mark.parametrize(
    "route", ["plugin/kafka_reassignments", "dags/kafka_reassignment/runs/r/plugin/kafka_reassignment_run"]
)
def test_the_frames_of_airflows_window_show_the_page_also_where_airflow_is_below_a_path(base, route):
    """The window says where it is in <base href>, so the address of a frame is taken from there, whatever is open."""
    window = (Path(airflow.__file__).parent / "ui" / "dist" / "index.html").read_text()
    assert '<base href="{{ backend_server_base_url }}" />' in window
    there = urljoin(urljoin(base, route), urlsplit(base).path)
    plugin = entry_point("airflow.plugins")
    addresses = [urljoin(there, view["href"]) for view in plugin.external_views]
    assert addresses == [f"{base}kafka-reassignment/", f"{base}kafka-reassignment/run?id={{RUN_ID}}"]


def test_the_command_prints_the_name_of_the_bundle():
    classpath = f"{KafkaReassignmentDagBundle.__module__}.{KafkaReassignmentDagBundle.__qualname__}"
    assert BUNDLES[1]["classpath"] == classpath
    assert dag_folder() == KafkaReassignmentDagBundle(name="b").path


def test_the_bundle_of_a_checkout_has_its_dags():
    assert KafkaReassignmentDagBundle(name="kafka_reassignment").path == PROJECT / "dags"


def test_settings_are_those_of_the_configuration_and_their_defaults_otherwise(monkeypatch):
    assert (setting("maintenance_schedule"), setting("maintenance_time_zone"), setting("record_uri")) == ("", "UTC", "")
    assert step_defaults()["retry_delay"].total_seconds() == float(OPTIONS["retry_delay_seconds"]["default"])
    assert instance() == ""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    assert instance() == "https://airflow.example"
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__INSTANCE", "berlin")
    assert instance() == "berlin"
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__MAINTENANCE_TIME_ZONE", "Europe/Berlin")
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RETRY_DELAY_SECONDS", "2.5")
    assert setting("maintenance_time_zone") == "Europe/Berlin"
    assert step_defaults()["retry_delay"].total_seconds() == 2.5


class Vault(BaseSecretsBackend):
    """Where a deployment keeps its secrets."""

    def get_config(self, key):
        return f"[of {key}]"


@pytest.mark.parametrize(
    ("way", "given", "found"),
    [
        ("", '[{"kwargs": {"token": "x"}}]', '[{"kwargs": {"token": "x"}}]'),
        ("_CMD", "echo [of a command]", "[of a command]"),
        ("_SECRET", "kafka/notifiers", "[of kafka/notifiers]"),
    ],
)
def test_notifiers_may_hold_tokens_so_they_come_from_where_secrets_are_and_are_not_shown(
    monkeypatch, way, given, found
):
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", f"{__name__}.Vault")
    monkeypatch.setenv(f"AIRFLOW__KAFKA_REASSIGNMENT__NOTIFIERS{way}", given)
    assert setting("notifiers").strip() == found
    shown = conf.as_dict(display_sensitive=False, include_cmds=True, include_secret=True)
    assert found not in str(shown)
    assert shown["kafka_reassignment"]["notifiers"] == "< hidden >"


@pytest.mark.parametrize(
    "given", [{}, {"queue": "spark"}, {"queue": "spark", "pool": "planners"}, {"executor": "LocalExecutor"}]
)
def test_where_plans_are_made_is_a_setting_of_one_task_alone(monkeypatch, given):
    for name, value in given.items():
        monkeypatch.setenv(f"AIRFLOW__KAFKA_REASSIGNMENT__PLAN_{name.upper()}", value)
    [dag] = DagBag(str(PROJECT / "dags" / "reassignment_dag.py")).dags.values()
    assert plan_arguments() == given
    elsewhere = {
        t.task_id: {n: getattr(t, n) for n in ("queue", "pool", "executor")}
        for t in dag.tasks
        if (t.queue, t.pool, t.executor) != ("default", "default_pool", None)
    }
    expected = {"queue": "default", "pool": "default_pool", "executor": None} | given
    assert elsewhere == ({"plan": expected} if given else {})
