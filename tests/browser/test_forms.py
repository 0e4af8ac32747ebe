"""The forms in Airflow's own window: each one that the page leads to is filled in, and nothing has to be written as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect
from tests.browser.airflow_form import AirflowForm
from tests.browser.airflow_window import frame_of, open_airflow
from tests.browser.night import AT_WORK, CLUSTER, night
from upath import UPath

from kafka_lab.airflow import LocalAirflow
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment_airflow.form.choices import WORDS
from kafka_reassignment_airflow.runs import MAINTENANCE_DAG_ID
from kafka_reassignment_airflow.web.forms import form_of, forms_of
from kafka_reassignment_airflow.web.views import found_in

pytestmark = [pytest.mark.slow, pytest.mark.airflow]

FINISHED = (CLUSTER, "add-brokers-40")
STOPPED = ("prod-us", "rebalance-2026-w47")
LINKS = {
    (CLUSTER, AT_WORK): ("rate", "limits", "stop", "stop-and-roll-back"),
    STOPPED: ("resume", "roll-back"),
    FINISHED: ("roll-back",),
}


@pytest.fixture(scope="module")
def airflow():
    """One without brokers: the forms need none."""
    with LocalAirflow() as running:
        yield running


@pytest.fixture(scope="module")
def store(airflow):
    made = night(UPath(airflow.record_uri))
    made.record(*STOPPED).run_commands.append(RunCommand(at=datetime.now(UTC), by="bob", stopped=True))
    made.release(*STOPPED)
    return made


@pytest.fixture(scope="module")
def window(browser, airflow, store):
    window, _ = open_airflow(browser, airflow)
    yield window
    window.context.close()


def as_shown(name, value):
    """What Airflow's form shows of a value."""
    if isinstance(value, bool):
        return value
    if name in WORDS:
        return WORDS[name][value]
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize(("which", "do"), [(which, do) for which, names in LINKS.items() for do in names])
def test_what_the_page_leads_to_is_filled_in(airflow, store, window, which, do):
    found = found_in(store, *which)
    assert set(forms_of(found)) == set(LINKS[which])
    wanted = form_of(found, do)
    window.goto(f"{airflow.url}/plugin/kafka_reassignments")
    frame = frame_of(window)
    frame.get_by_role("link", name=which[1], exact=True).click()
    frame.get_by_role("navigation", name="What can be done").get_by_role(
        "link", name=f"{wanted.title}…", exact=True
    ).click()
    frame.get_by_role("button", name="Copy the values").click()
    expect(frame.locator("#said")).to_have_text("Copied")
    assert json.loads(window.evaluate("navigator.clipboard.readText()")) == wanted.params
    frame.get_by_role("link", name=f"Open {wanted.dag_id}").click()
    window.wait_for_url(f"**/dags/{wanted.dag_id}")
    form = AirflowForm(window)
    form.paste_json()
    assert {n: form.shown(n) for n in wanted.params} == {n: as_shown(n, v) for n, v in wanted.params.items()}
    assert which[1] in {form.shown("roll_back_of" if "roll_back_of" in wanted.params else "reassignment_id")}
    expect(window.get_by_test_id("trigger-dag-submit")).to_be_enabled()


def test_maintenance_requests_are_written_by_hand_without_json(airflow, window):
    window.goto(f"{airflow.url}/dags/{MAINTENANCE_DAG_ID}")
    form = AirflowForm(window)
    expect(form.dialog.locator(".monaco-editor")).to_have_count(1)  # the one of Advanced Options
    written = "job: rebalance\nThrottle (MB/s): 50\nwindows: sat 22:00-04:00\n\nkafka_conn_id: prod-us\njob: leaders"
    form.fill("requests", written)
    run = form.trigger()
    assert airflow.get(f"/dags/{MAINTENANCE_DAG_ID}/dagRuns/{run}")["conf"] == {"requests": written}
