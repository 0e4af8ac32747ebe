"""``dags``: the DAGs of the package, and what makes an Airflow load them. No Airflow is needed, nor imported."""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kafka_reassignment import advice
from kafka_reassignment.advice import Correct
from kafka_reassignment.cli.common import AsJson, console, print_json
from kafka_reassignment.errors import ReassignmentError

AIRFLOW_PART = "kafka_reassignment_airflow"
"""Beside the engine in one distribution; where it is, is all that is asked."""

BUNDLES = [
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "kafka_reassignment", "classpath": f"{AIRFLOW_PART}.bundle.KafkaReassignmentDagBundle", "kwargs": {}},
]
"""Airflow's own bundle, which is lost once the setting is made without it, and ours."""

dags_app = typer.Typer(no_args_is_help=True, help="The DAGs of this package, and how an Airflow loads them.")


class DagsMissingError(ReassignmentError):
    """The part for Airflow, which has the DAGs, is not installed on this machine."""


@dataclass(frozen=True, slots=True)
class DagFile:
    """A DAG: its id, what it does in a sentence, and its file."""

    dag_id: str
    text: str
    file: Path


@dags_app.command("list")
def list_dags(as_json: AsJson = False) -> None:
    """Print the DAGs, what each does, and where their files are."""
    found = list(_dag_files())
    if as_json:
        print_json({"dags": [{"dag_id": d.dag_id, "text": d.text, "file": str(d.file)} for d in found]})
        return
    table = Table("DAG", "what it does")
    for dag in found:
        table.add_row(dag.dag_id, dag.text)
    console.print(table)
    console.print(f"Files: {dag_folder()}", markup=False, soft_wrap=True)


@dags_app.command("settings")
def print_settings(
    as_environment: Annotated[
        bool, typer.Option("--env", help="as an environment variable, for a file that a shell reads with source")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="the value alone, as JSON")] = False,
) -> None:
    """Print the setting by which Airflow loads the DAGs, for airflow.cfg of every component.

    The DAGs stay where they are installed, so that they are always those of the installed version.
    """
    if as_json:
        typer.echo(json.dumps(BUNDLES, indent=1))
    elif as_environment:
        typer.echo(f"export AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='{json.dumps(BUNDLES)}'")
    else:
        typer.echo(
            f"[dag_processor]\ndag_bundle_config_list =\n{textwrap.indent(json.dumps(BUNDLES, indent=1), ' ' * 4)}"
        )


def dag_folder() -> Path:
    """Return where the DAG files are: in the installed package, or in the checkout that is installed in editable mode.

    Raises:
        DagsMissingError: the part for Airflow is not installed.
    """
    spec = find_spec(AIRFLOW_PART)
    for place in spec.submodule_search_locations or () if spec else ():
        for folder in (Path(place) / "dags", Path(place).parents[1] / "dags"):
            if folder.is_dir():
                return folder
    raise DagsMissingError(
        "The DAGs are not installed here, expected them in the package kafka_reassignment_airflow",
        Correct("install the package again, as docs/install.md says"),
    )


def _dag_files() -> Iterator[DagFile]:
    """Yield the DAGs by id. Their files are read and not run: that needs Airflow."""
    found = (_read(file) for file in dag_folder().glob("*_dag.py"))
    yield from sorted(found, key=lambda dag: dag.dag_id)


def _read(file: Path) -> DagFile:
    module = ast.parse(file.read_text())
    (name,) = (
        keyword.value.id
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "DAG"
        for keyword in call.keywords
        if keyword.arg == "dag_id" and isinstance(keyword.value, ast.Name)
    )
    text = (ast.get_docstring(module) or "").split("\n\n")[0]
    return DagFile(getattr(advice, name), " ".join(text.split()), file)
