"""A window of a real Airflow with the page in its frame."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Frame, Page

from kafka_lab.airflow import LocalAirflow
from kafka_reassignment_airflow.plugin import PAGE


def open_airflow(
    browser: Browser, airflow: LocalAirflow, *, theme: str = "light", size: tuple[int, int] = (1440, 900)
) -> tuple[Page, Frame]:
    """Sign in by Airflow's own form, and open the page from Airflow's address for it."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(120_000)  # Airflow beside brokers on a busy machine
    context.add_init_script(f"localStorage.setItem('theme', localStorage.getItem('theme') || '{theme}')")
    window = context.new_page()
    window.goto(f"{airflow.url}/")
    window.fill("input[name=username]", airflow.user)
    window.fill("input[name=password]", airflow.password)
    window.keyboard.press("Enter")
    window.wait_for_url(re.compile(rf"{re.escape(airflow.url)}/(?!.*login).*"))
    window.goto(f"{airflow.url}/plugin/kafka_reassignments")
    return window, frame_of(window)


def frame_of(window: Page) -> Frame:
    """Return the content of the frame with the page, once it is there."""
    element = window.wait_for_selector("iframe")
    assert element is not None
    frame = element.content_frame()
    assert frame is not None
    frame.wait_for_url(f"**{PAGE}/**")
    frame.wait_for_selector("h1")
    return frame
