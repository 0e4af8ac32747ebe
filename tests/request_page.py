"""docs/request.md: every field of every form, made from the models that the forms are made from.

``make request-page`` writes the tables again; tests/airflow/test_docs.py says when they are not as the models are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from airflow.sdk import Param

from kafka_lab.airflow import PROJECT
from kafka_reassignment.advice import (
    BATCH_DAG_ID,
    CANCEL_DAG_ID,
    DAG_ID,
    DESCRIBE_DAG_ID,
    LIMITS_DAG_ID,
    MAINTENANCE_DAG_ID,
    PARTITION_COUNT_DAG_ID,
    RESUME_DAG_ID,
    SWEEP_DAG_ID,
    THROTTLE_DAG_ID,
)
from kafka_reassignment.request import PartitionCountRequest
from kafka_reassignment_airflow.form import models
from kafka_reassignment_airflow.form.params import form_params, limits_params, request_params

PAGE = PROJECT / "docs" / "request.md"
BEGIN = "<!-- made by make request-page -->\n"
HEAD = "| Field | In the form | Value | Default | What it is |\n|-|-|-|-|-|"
FIRST = "Always shown"
"""The fields that are in no section."""


def with_tables(page: str) -> str:
    """Return the page with the tables of these models behind its mark."""
    return page.partition(BEGIN)[0] + BEGIN + "\n".join(_tables())


def _forms() -> dict[str, dict[str, Param]]:
    """Return the fields of each DAG that takes some; those that people use most come first."""
    return {
        DAG_ID: request_params(),
        THROTTLE_DAG_ID: form_params(models.RateForm),
        LIMITS_DAG_ID: limits_params(),
        CANCEL_DAG_ID: form_params(models.CancelForm),
        RESUME_DAG_ID: form_params(models.ResumeForm),
        DESCRIBE_DAG_ID: form_params(models.DescribeForm),
        PARTITION_COUNT_DAG_ID: form_params(PartitionCountRequest),
        MAINTENANCE_DAG_ID: form_params(models.MaintenanceForm),
        SWEEP_DAG_ID: form_params(models.SweepForm),
        BATCH_DAG_ID: form_params(models.BatchForm),
    }


def _tables() -> Iterator[str]:
    for dag_id, fields in _forms().items():
        yield f"\n## {dag_id}"
        for section, some in groupby(fields.items(), key=lambda field: field[1].schema.get("section")):
            if len({f.schema.get("section") for f in fields.values()}) > 1:
                yield f"\n### {section or FIRST}" if dag_id == DAG_ID else f"\n{section or FIRST}:"
            yield f"\n{HEAD}"
            yield from (_row(name, field) for name, field in some)
    yield ""


def _row(name: str, field: Param) -> str:
    # What an Airflow knows of its own connections is in its form, and not here.
    description = re.sub(r" Known: .*", "", str(field.description))
    cells = (f"`{name}`", str(field.schema["title"]), _value(name, field.schema), _default(field), description)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _default(field: Param) -> str:
    value = field.value
    if value is None or value == "":
        return "empty"
    if not field.has_value:
        return "must be given"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _value(name: str, schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    kinds = [
        kind for kind in (schema["type"] if isinstance(schema["type"], list) else [schema["type"]]) if kind != "null"
    ]
    return " or ".join(_kind(kind, name, schema) for kind in kinds)


def _kind(kind: str, name: str, schema: Mapping[str, Any]) -> str:
    match kind:
        case "boolean":
            return "`true` or `false`"
        case "integer":
            return f"whole number{' of bytes' if name == 'batch_bytes' else ''}{_bounds(schema)}"
        case "number":
            return f"number{_bounds(schema)}"
        case "array":
            return {"integer": "list of numbers", "object": "list of requests"}.get(
                schema["items"]["type"], "list of texts"
            )
        case _:
            return f"text such as `{schema['examples'][0]}`" if "examples" in schema else "text"


def _bounds(schema: Mapping[str, Any]) -> str:
    bounds = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to" if "minimum" in schema else "and up to",
        "exclusiveMaximum": "and below",
    }
    said = [f"{word} {schema[bound]:,}" for bound, word in bounds.items() if bound in schema]
    return f", {' '.join(said)}" if said else ""


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
