"""The templates of the pages, and what they need beside their values."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from kafka_reassignment.templates import html_templates
from kafka_reassignment.text import format_bytes, format_seconds
from kafka_reassignment_airflow.web.answers import answers
from kafka_reassignment_airflow.web.forms import forms_of
from kafka_reassignment_airflow.web.views import Page

_PACKAGE = "kafka_reassignment_airflow.web"


@cache
def templates() -> Environment:
    """Return the templates; every value is escaped."""
    made = html_templates(_PACKAGE)
    made.filters |= {"bytes": format_bytes, "seconds": format_seconds}
    made.globals["asset"] = _asset
    return made


def values_of(page: Page) -> dict[str, Any]:
    """Return the values of the template of one reassignment."""
    return {"page": page, "answers": answers(page), "forms": forms_of(page.found, page.row.roll_back)}


@cache
def _asset(name: str) -> Markup:
    """A file of this package, to be written into a page as it is."""
    return Markup((files(_PACKAGE) / "assets" / name).read_text(encoding="utf-8"))  # noqa: S704 - a file of ours
