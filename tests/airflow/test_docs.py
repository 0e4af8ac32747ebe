"""What the documentation tells people to type is what the DAGs and the command take.

The pages about installing are followed line by line by tests/install (`make follow-install`): it types each of their
commands and compares what they print. Of those, only the triggers are checked here too, and tests/install/test_pages.py
says that no block is left out.
"""

import json
import re
import shlex
from copy import deepcopy
from pathlib import Path

import click
import pytest
import yaml
from tests.install.pages import PAGES, followed
from tests.install.shell import commands as split_commands
from tests.request_page import PAGE as REQUEST_PAGE
from tests.request_page import with_tables
from typer.main import get_command

from kafka_lab.airflow import PROJECT
from kafka_lab.app import app as lab_app
from kafka_reassignment.cli import app
from kafka_reassignment.request import parse_request
from kafka_reassignment_airflow.hooks.spark import spark_cluster

pytestmark = pytest.mark.quick
DOCS = PROJECT / "docs"
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def followed_commands():
    return {
        shlex.join(shlex.split(c, comments=True)) for b in followed() if b.is_commands for c in split_commands(b.text)
    }


def commands():
    """Every command of a shell block, with its page."""
    for page in sorted(DOCS.rglob("*.md")):
        for block in BLOCK.finditer(page.read_text()):
            for line in filter(None, map(str.strip, block[2].splitlines())):
                words = shlex.split(line, comments=True)
                typed = words[: words.index(">")] if ">" in words else words
                yield pytest.param(page, typed, id=f"{page.stem}: {line[:60]}")


def saved(page: Path, file: str) -> str:
    """What a page tells to save as a file."""
    found = re.search(
        rf"save this as `{re.escape(file)}`.*?```json\n(.*?)```", page.read_text(), re.DOTALL | re.IGNORECASE
    )
    assert found is not None, f"{page} does not say what is in {file}"
    return found[1]


def read_by(command: click.Command, words: list[str]) -> None:
    """Let a command of ours read all that is typed; nothing is run."""
    options = list(words)
    while isinstance(command, click.Group):
        command = command.commands[options.pop(0)]
    command.make_context("command", options)


def taken_by_compose(words: list[str]) -> None:
    """Whether each profile and the service are in docker-compose.yml; what follows a service is typed in its container."""
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    known = {profile for service in services.values() for profile in service.get("profiles", ())}
    profiles = {words[n + 1] for n, word in enumerate(words) if word == "--profile"}
    assert profiles <= known, profiles - known
    verb, *named = (word for word in words if not word.startswith("-") and word not in profiles)
    assert verb in ("up", "down", "logs", "run", "exec"), verb
    assert (named[:1] or ["demo"])[0] in services, named


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_of_the_docs_is_accepted(dags, monkeypatch, page: Path, command: list[str]) -> None:
    match command:
        case ["airflow", "dags", "trigger", dag_id, "--conf", conf] | [
            "airflow",
            "dags",
            "trigger",
            dag_id,
            "--run-id",
            _,
            "--conf",
            conf,
        ]:
            given = json.loads(conf)
            assert set(given) <= set(dags[dag_id].params), page
            params = deepcopy(dags[dag_id].params)
            params.update(given)
            params.validate()
            if dag_id == "kafka_reassignment":
                parse_request(given)
        case _ if page.parent == DOCS and page.stem in PAGES:
            assert shlex.join(command) in followed_commands(), page
        case ["airflow", "variables", "set", "kafka_maintenance_requests", requests]:
            assert [parse_request(request).job for request in json.loads(requests)], page
        case ["kafka-reassignment", name, *options]:
            monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", "/records")
            read_by(get_command(app), [name, *options])
        case ["kafka-lab" | ".venv/bin/kafka-lab", *options]:
            read_by(get_command(lab_app), options)
        case ["airflow", "connections", "import", file]:
            [(conn_id, fields)] = json.loads(saved(page, file)).items()
            monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
            assert spark_cluster(conn_id).master.startswith("spark://"), page
        case ["make", target, *_]:
            assert re.search(rf"^{target}:", (PROJECT / "Makefile").read_text(), re.MULTILINE), page
        case ["docker", "compose", *words]:
            taken_by_compose(words)
        case ["kafka-reassign-partitions.sh", *_]:
            pass  # Kafka's own
        case _:
            pytest.fail(f"{page}: nobody checks {command}")


def test_there_are_commands_to_check():
    assert len(list(commands())) >= 12


def test_the_page_of_all_fields_is_as_the_forms_are(dags):
    page = REQUEST_PAGE.read_text()
    assert page == with_tables(page), "run 'make request-page'"
    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    listed = {dag_id: re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) for dag_id, section in sections.items()}
    assert listed == {dag_id: list(dag.params) for dag_id, dag in dags.items() if dag.params}


def named_tests():
    """Each file, with the test where one is named, that docs/faults.md has as an answer to a known failure; … is the file before."""
    file = ""
    for row in re.finditer(r"^\| F\d.*$", (DOCS / "faults.md").read_text(), re.MULTILINE):
        for named in re.finditer(r"`(?P<file>…|(?:\w+/)*test_\w+)(?:::(?P<test>\w+))?`", row[0]):
            file = file if named["file"] == "…" else named["file"]
            yield pytest.param(file, named["test"], id=f"{file}::{named['test']}")


@pytest.mark.parametrize(("file", "test"), named_tests())
def test_a_test_that_answers_a_known_failure_is_where_the_page_says(file: str, test: str | None) -> None:
    found = [path for path in (PROJECT / "tests").rglob("test_*.py") if f"/{path.with_suffix('')}".endswith(f"/{file}")]
    assert len(found) == 1, found
    if test:
        assert re.search(rf"^ *(async )?def {test}\(", found[0].read_text(), re.MULTILINE), found


def test_there_are_answers_to_check():
    assert len(list(named_tests())) >= 50


def test_every_decision_is_listed():
    listed = (DOCS / "README.md").read_text()
    assert [p.name for p in (DOCS / "decisions").glob("*.md") if f"](decisions/{p.name})" not in listed] == []


def test_every_page_is_in_the_navigation():
    listed = (PROJECT / "zensical.toml").read_text()
    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} - {
        str(p.relative_to(DOCS)) for p in (DOCS / "decisions").glob("*.md")
    }
    assert {page for page in pages if f'"{page}"' not in listed} == set()
