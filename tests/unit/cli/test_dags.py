"""The DAGs of the package in a terminal, without Airflow."""

import configparser
import json
import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from kafka_reassignment.cli import app, dags
from kafka_reassignment.cli.exit_codes import ExitCode

pytestmark = pytest.mark.quick


def dags_command(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["dags", *arguments])


def test_every_dag_is_listed_with_what_it_does_and_its_file():
    listed = json.loads(dags_command("list", "--json").stdout)["dags"]
    by_id = {dag["dag_id"]: dag for dag in listed}
    assert len(by_id) == 10
    assert by_id["kafka_throttle"]["text"].startswith("Change the rate of a reassignment while it runs")
    assert by_id["kafka_throttle"]["file"].endswith("/dags/rate_dag.py")
    assert "kafka_maintenance_window" in dags_command("list").stdout


def test_the_setting_is_the_same_in_airflow_cfg_in_the_environment_and_for_programs():
    as_json = json.loads(dags_command("settings", "--json").stdout)
    cfg = configparser.ConfigParser(interpolation=None)
    cfg.read_string(dags_command("settings").stdout)
    assert json.loads(cfg["dag_processor"]["dag_bundle_config_list"]) == as_json
    export, assignment = shlex.split(dags_command("settings", "--env").stdout)
    name, _, value = assignment.partition("=")
    assert export == "export", "else no program that the shell starts sees it"
    assert (name, json.loads(value)) == ("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", as_json)


def test_where_the_part_for_airflow_is_missing_it_says_so(monkeypatch):
    monkeypatch.setattr(dags, "find_spec", lambda _name: None)
    missing = dags_command("list")
    assert (missing.exit_code, "The DAGs are not installed here" in missing.stderr) == (ExitCode.NOT_HERE, True)


def test_the_command_line_imports_no_airflow():
    script = (
        "import sys\n"
        "from kafka_reassignment.cli import app\n"
        "app(['dags', 'list', '--json'], standalone_mode=False)\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'airflow'], 'Airflow is imported'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)
