"""Errors about a form's fields, in the words of the form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from kafka_reassignment.request import PartitionCountRequest, ReassignmentRequest
from kafka_reassignment_airflow.form.models import CancelForm, DescribeForm, MaintenanceForm, RateForm
from kafka_reassignment_airflow.form.params import fields_of


def in_form_words(text: str) -> str:
    """Return a message in which each field has the title by which the form shows it: ``'Brokers' (brokers)``.

    A field is named by its name in quotes, or by a name of several words without.
    """

    def titled(found: re.Match[str]) -> str:
        name = found["quoted"] or found["bare"]
        title = _titles().get(name)
        return found[0] if title is None else f"'{title}' ({name})"

    return re.sub(r"'(?P<quoted>[a-z_]+)'|(?<![\w'=.])(?P<bare>[a-z]+(?:_[a-z]+)+)(?![\w'=])", titled, text)


@cache
def _titles() -> Mapping[str, str]:
    models = (PartitionCountRequest, RateForm, CancelForm, DescribeForm, MaintenanceForm, ReassignmentRequest)
    titles = {name: str(field["title"]) for model in models for name, field in fields_of(model).items()}
    # A job has the name of its field, and is named more often.
    return {name: title for name, title in titles.items() if name != "replication_factor"}
