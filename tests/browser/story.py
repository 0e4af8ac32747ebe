"""One reassignment as an operator sees it: a real Airflow over real brokers, and one window that stays open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Frame, Locator, Page, expect
from tests.airflow.reassignments import Reassignments
from tests.browser.airflow_form import AirflowForm
from tests.browser.airflow_window import frame_of

from kafka_lab.cluster import LocalCluster
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id
from kafka_reassignment_airflow.web.answers import DOING, DONE, NOW, STOP, WAITS


@dataclass
class Story:
    """What the chapters share.

    ``run`` is the id of the reassignment, once it is triggered; ``before`` are the replicas by partition at the
    beginning. Pictures go to ``pictures``. ``failed_in`` is the chapter in which the story has ended too early.
    """

    window: Page
    cluster: LocalCluster
    port: ClusterPort
    reassignments: Reassignments
    pictures: Path
    before: Mapping[int, tuple[int, ...]]
    run: str = ""
    failed_in: str = ""

    @property
    def url(self) -> str:
        return self.reassignments.airflow.url

    def page(self, run: str = "") -> Frame:
        """Open the page of a reassignment, as the tab of its run."""
        path = f"/dags/{DAG_ID}/runs/{quote(run or self.run, safe='')}/plugin/kafka_reassignment_run"
        self.window.goto(f"{self.url}{path}")
        return frame_of(self.window)

    def form(self, link: str) -> tuple[AirflowForm, dict[str, object]]:
        """Go from the page by one of its links to Airflow's form, and paste the values there; return both."""
        frame = self.page()
        frame.get_by_role("navigation", name="What can be done").get_by_role("link", name=link, exact=True).click()
        frame.get_by_role("button", name="Copy the values").click()
        expect(frame.locator("#said")).to_have_text("Copied")
        values = json.loads(self.window.evaluate("navigator.clipboard.readText()"))
        frame.get_by_role("link", name="Open kafka_").click()
        self.window.wait_for_url("**/dags/kafka_*")
        form = AirflowForm(self.window)
        form.paste_json()
        return form, values

    def clear(self, batch: int, task: str) -> None:
        """Clear a task of a batch in Airflow's window, by its keys, with what comes after it."""
        run = quote(batch_run_id(self.run, batch), safe="")
        self.window.goto(f"{self.url}/dags/{BATCH_DAG_ID}/runs/{run}/tasks/{task}")
        self.window.get_by_test_id("task-state-badge").or_(
            self.window.get_by_role("heading", name=task)
        ).first.wait_for()
        self.window.get_by_label("Press shift+c to clear").click()
        confirm = self.window.get_by_role("dialog").get_by_role("button", name="Confirm")
        expect(confirm).to_be_enabled()
        confirm.click()
        expect(self.window.get_by_role("dialog")).to_have_count(0)

    def picture(self, name: str) -> None:
        """Take a picture of the window."""
        self.window.screenshot(path=self.pictures / f"story-{name}.png")


def answer(frame: Frame, question: str) -> Locator:
    """The box on the first screen with the answer to a question."""
    return frame.locator(".answer").filter(has=frame.get_by_role("heading", name=question))


def assert_on_first_screen(frame: Frame) -> None:
    """All five answers begin where one sees them without scrolling."""
    height = frame.page.viewport_size["height"]
    for question in (DOING, DONE, WAITS, STOP, NOW):
        box = answer(frame, question).locator("strong").bounding_box()
        assert box["y"] + box["height"] < height, question


def figure(frame: Frame, name: str) -> Locator:
    """A figure above the answers, such as *left*."""
    return frame.locator(".figures div").filter(has=frame.locator("dt", has_text=name)).locator("dd")
