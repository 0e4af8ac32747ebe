"""The pictures of the page in docs/images: a browser in a real Airflow, over the records of one night. Run it with ``make pictures``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlencode

from playwright.sync_api import Browser, sync_playwright
from tests.browser.airflow_window import open_airflow
from tests.browser.night import AT_WORK, CLUSTER, night
from tests.unit.plan.test_report import CHROMIUM
from upath import UPath

from kafka_lab.airflow import PROJECT, LocalAirflow
from kafka_reassignment_airflow.plugin import PAGE

IMAGES = PROJECT / "docs" / "images"
ONE = "reassignment?" + urlencode({"cluster": CLUSTER, "id": AT_WORK})
PICTURES = (
    ("page.png", ONE, "light", (1440, 900)),
    ("page-dark.png", ONE, "dark", (1440, 900)),
    ("page-phone.png", ONE, "light", (430, 900)),
    ("page-list.png", "", "light", (1440, 620)),
)
"""File, page, Airflow's switch, and the size of the window."""


def main() -> None:
    """Start an Airflow without brokers, and take the pictures."""
    if not CHROMIUM:
        raise SystemExit("There is no Chromium on this machine, expected one. Debian: apt-get install chromium")
    with LocalAirflow() as airflow, sync_playwright() as playwright:
        night(UPath(airflow.record_uri))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, path, theme, size in PICTURES:
            take(browser, airflow, IMAGES / name, path, theme, size)
        browser.close()


def take(browser: Browser, airflow: LocalAirflow, to: Path, path: str, theme: str, size: tuple[int, int]) -> None:
    """Take one picture of a page in Airflow's window."""
    window, frame = open_airflow(browser, airflow, theme=theme, size=size)
    frame.goto(f"{airflow.url}{PAGE}/{quote(path, safe='?&=%')}")
    frame.wait_for_selector("h1")
    window.wait_for_timeout(1_000)
    window.screenshot(path=to)
    window.context.close()


if __name__ == "__main__":
    main()
