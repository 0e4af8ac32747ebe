"""What the documentation tells people to type is what the DAGs and the command take."""

import json
import re
import shlex
from copy import deepcopy
from pathlib import Path

import pytest
from typer.main import get_command

from kafka_lab.airflow import PROJECT
from kafka_reassignment.cli import app
from kafka_reassignment.request import parse_request

pytestmark = pytest.mark.quick
DOCS = PROJECT / "docs"
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def commands():
    """Every command of a shell block, with its page."""
    for page in sorted(DOCS.rglob("*.md")):
        for block in BLOCK.finditer(page.read_text()):
            for line in filter(None, map(str.strip, block[2].splitlines())):
                yield pytest.param(page, shlex.split(line), id=f"{page.stem}: {line[:60]}")


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_of_the_docs_is_accepted(dags, page: Path, command: list[str]) -> None:
    match command:
        case ["airflow", "dags", "trigger", dag_id, "--conf", conf]:
            given = json.loads(conf)
            assert set(given) <= set(dags[dag_id].params), page
            params = deepcopy(dags[dag_id].params)
            params.update(given)
            params.validate()
            if dag_id == "kafka_reassignment":
                parse_request(given)
        case ["airflow", "variables", "set", "kafka_maintenance_requests", requests]:
            assert [parse_request(request).job for request in json.loads(requests)], page
        case ["kafka-reassignment", name, *options]:
            known = get_command(app).commands[name].params
            assert {o for o in options if o.startswith("--")} <= {o for param in known for o in param.opts}, page
        case _:
            pytest.fail(f"{page}: nobody checks {command}")


def test_there_are_commands_to_check():
    assert len(list(commands())) >= 12


def test_every_page_is_in_the_navigation():
    listed = (PROJECT / "zensical.toml").read_text()
    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} - {
        str(p.relative_to(DOCS)) for p in (DOCS / "decisions").glob("*.md")
    }
    assert {page for page in pages if f'"{page}"' not in listed} == set()
