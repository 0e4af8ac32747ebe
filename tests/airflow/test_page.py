"""The page in a real Airflow, in a real browser: signed in, in Airflow's frame, over a reassignment that copies."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright
from tests.airflow.lab import move_json
from tests.browser.airflow_form import AirflowForm
from tests.browser.airflow_window import frame_of, open_airflow
from tests.unit.plan.test_report import CHROMIUM

from kafka_lab.data import fill_topics

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def serious(frame):
    violations = Axe().run(frame).response["violations"]
    return [(v["id"], v["nodes"][0]["html"]) for v in violations if v["impact"] in {"serious", "critical"}]


def test_a_reassignment_is_watched_and_its_rate_changed_from_its_page(
    browser, airflow, kafka, create_topic, reassignments
):
    topic = create_topic(dict.fromkeys(range(4), (1, 2)))
    fill_topics(kafka.bootstrap_servers, [topic], 60_000_000)
    plan = move_json(topic, dict.fromkeys(range(4), (1, 3)))
    run = reassignments.trigger("watched", job="apply_json", reassignment_json=plan, throttle_mb_per_second=1)
    window, frame = open_airflow(browser, airflow)
    link = frame.get_by_role("link", name=run, exact=True)
    expect(link).to_be_visible(timeout=60_000)
    link.click()

    # It is up to date, without a reload, while data moves.
    expect(frame.locator(".answers")).to_contain_text("It copies batch 1 of 1", timeout=120_000)
    frame.evaluate("window.same = true")
    left = frame.locator(".figures dd").nth(1)
    before = left.inner_text()
    expect(left).not_to_have_text(before, timeout=60_000)
    expect(frame.locator("#replicas tbody")).to_contain_text(f"{topic}-0", timeout=60_000)
    assert frame.evaluate("window.same")
    expect(window).to_have_title(re.compile(rf"^\d+ % · {run} · Kafka reassignments$"))

    # It follows Airflow's own switch, and can be read by all.
    assert serious(frame) == []
    expect(frame.locator("html")).to_have_attribute("data-theme", "light")
    window.evaluate("document.documentElement.classList.replace('light', 'dark')")
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    assert serious(frame) == []

    # What kafka-reassign-partitions takes is copied by a button.
    frame.get_by_role("button", name="Copy the plan's JSON").click()
    expect(frame.locator("#said")).to_have_text("Copied")
    copied = json.loads(window.evaluate("navigator.clipboard.readText()"))
    assert {(e["partition"], tuple(e["replicas"])) for e in copied["partitions"]} == {(i, (1, 3)) for i in range(4)}

    # Its values for a form are taken by Airflow's own form, by the way that the page tells.
    frame.get_by_role("link", name="Change the rate…").first.click()
    frame.get_by_role("button", name="Copy the values").click()
    expect(frame.locator("#said")).to_have_text("Copied")
    frame.get_by_role("link", name="Open kafka_throttle").click()
    window.wait_for_url("**/dags/kafka_throttle")
    form = AirflowForm(window)
    form.paste_json()
    assert (form.shown("reassignment_id"), form.shown("throttle_mb_per_second")) == (run, "1")
    form.fill("throttle_mb_per_second", "40")
    form.trigger()
    window.goto(f"{airflow.url}/dags/kafka_reassignment/runs/{run}/plugin/kafka_reassignment_run")
    frame = frame_of(window)
    expect(frame.locator(".figures")).to_contain_text("40 MB/s", timeout=60_000)
    assert reassignments.wait(run) == "success", reassignments.story(run)
    expect(frame.locator(".answers")).to_contain_text("Nothing: it is finished", timeout=60_000)
    window.context.close()
