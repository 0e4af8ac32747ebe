"""The page in a real browser, in a frame as Airflow's."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.browser.frame import served
from tests.browser.night import night
from tests.unit.plan.test_report import CHROMIUM
from upath import UPath

from kafka_reassignment_airflow.web import app as web

expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return night(UPath(tmp_path_factory.mktemp("records")))


@pytest.fixture(scope="module")
def address(store):
    """Where the page is served; it asks again every second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web, "LIVE_SECONDS", 1)
        with served(store) as address:
            yield address
