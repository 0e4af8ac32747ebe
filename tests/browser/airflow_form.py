"""Airflow's own trigger form, as a person uses it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from playwright.sync_api import Locator, Page


class AirflowForm:
    """The form of the DAG whose page is open in a window."""

    def __init__(self, window: Page) -> None:
        window.get_by_test_id("trigger-dag-button").click()
        self.dialog = window.get_by_role("dialog")
        self.dialog.get_by_role("button", name="Run Parameters").wait_for()
        self._window = window

    def open_section(self, title: str) -> None:
        """Open a section; Airflow closes the one that was open."""
        button = self.dialog.get_by_role("button", name=title, exact=True)
        if button.get_attribute("aria-expanded") != "true":
            button.click()

    def fill(self, name: str, value: str) -> None:
        """Write into a field of an open section."""
        self._input(name).fill(value)

    def choose(self, name: str, words: str) -> None:
        """Choose a value by the words that the form shows."""
        self._box(name).click()
        self._window.keyboard.type(words)
        self._window.keyboard.press("Enter")

    def switch(self, name: str) -> None:
        """Change a switch."""
        self._switch(name).click()

    def paste_json(self) -> None:
        """Paste what was copied, by the way that the page tells; the fields are shown again."""
        self.dialog.get_by_role("button", name="Advanced Options").click()
        self.dialog.locator(".monaco-editor").last.click()
        self._window.keyboard.press("Control+A")
        self._window.keyboard.press("Control+V")
        self.dialog.click(position={"x": 8, "y": 8})  # the editor's text counts when it is left
        self.open_section("Run Parameters")

    def shown(self, name: str) -> str | bool:
        """What a field shows, whether its section is open or not: its text, the words of a choice, or whether it is on."""
        if self._switch(name).count():
            return self._switch(name).locator("input").is_checked()
        if self._box(name).count():
            return self._box(name).inner_text().strip()
        return self._input(name).input_value()

    def trigger(self) -> str:
        """Trigger; return the id of the run."""
        self._window.get_by_test_id("trigger-dag-submit").click()
        self._window.wait_for_url(re.compile(r"/runs/[^/]+$"))
        return unquote(self._window.url.rpartition("/")[2])

    def _input(self, name: str) -> Locator:
        return self.dialog.locator(f"input[name=element_{name}], textarea[name=element_{name}]")

    def _box(self, name: str) -> Locator:
        return self.dialog.locator(f"div#element_{name}")

    def _switch(self, name: str) -> Locator:
        return self.dialog.locator(f"label[id='switch:element_{name}']")
