"""What the page does in a browser: it stays up to date and keeps the reader's place, follows Airflow's switch, can be read by all."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from tests.browser.night import AT_WORK, CLUSTER, begin, copying, event, progress_note
from tests.browser.story import answer, assert_on_first_screen

from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.web.answers import WAITS

ONE = "reassignment?" + urlencode({"cluster": CLUSTER, "id": AT_WORK})
HELD = "reassignment?" + urlencode({"cluster": "prod-us", "id": "rebalance-2026-w47"})
FORM = "form?" + urlencode({"cluster": CLUSTER, "id": AT_WORK, "do": "stop"})

HOSTILE = "<img src=x onerror=parent.hacked=1>"


@pytest.fixture
def opened(browser, address):
    """Open a page in a frame as Airflow's; return the window and the frame's content."""
    contexts = []

    def open_page(path, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 820}, **options})
        contexts.append((context, errors := []))
        window = context.new_page()
        window.on("pageerror", lambda error: errors.append(str(error)))
        window.goto(f"{address}/frame?to={quote('/kafka-reassignment/' + path)}")
        frame = window.frame("view")
        frame.wait_for_url("**/kafka-reassignment/**")
        frame.wait_for_selector("h1")
        return window, frame

    yield open_page
    for context, errors in contexts:
        context.close()
        assert errors == []


def test_a_page_stays_up_to_date_without_a_reload_and_keeps_the_readers_place(opened, store):
    _, frame = opened(ONE)
    frame.evaluate("window.same = true")
    frame.click("#owed summary")
    frame.fill("#audit #text", "batch")
    place = frame.evaluate(
        "(scrollTo(0, 300), document.querySelector('#audit #text').focus({preventScroll: true}), scrollY)"
    )
    record = store.record(CLUSTER, AT_WORK)
    record.write_progress(progress_note(14, datetime.now(UTC), ("orders-1",), left=12_300_000_000))
    expect(frame.locator(".answers")).to_contain_text("12.3 GB left")
    assert frame.evaluate("window.same")
    assert frame.evaluate("document.querySelector('#owed').open")
    assert frame.evaluate("scrollY") == place == 300
    assert frame.evaluate("document.activeElement.id") == "text"
    assert frame.input_value("#audit #text") == "batch"


def test_a_page_that_has_lost_airflow_says_so_and_recovers(opened):
    window, frame = opened(ONE)
    window.route("**/*part=live*", lambda route: route.fulfill(status=401))
    expect(frame.locator("#stale")).to_have_text("This page is not up to date: sign in to Airflow again.")
    window.unroute("**/*part=live*")
    expect(frame.locator("#stale")).to_be_hidden(timeout=15_000)


@pytest.mark.parametrize("system", ["light", "dark"])
def test_dark_and_light_follow_the_switch_of_airflow_and_not_the_system(opened, system):
    window, frame = opened(ONE, color_scheme=system)
    colours = []
    for theme in ("dark", "light"):
        window.evaluate(f"document.documentElement.className = '{theme}'")
        expect(frame.locator("html")).to_have_attribute("data-theme", theme)
        colours.append(frame.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(16, 19, 24)", "rgb(255, 255, 255)"]


@pytest.mark.parametrize("path", ["", ONE, HELD, FORM], ids=["list", "one", "held", "form"])
def test_axe_finds_nothing_serious(opened, path):
    window, frame = opened(path)
    for theme in ("dark", "light"):
        window.evaluate(f"document.documentElement.className = '{theme}'")
        expect(frame.locator("html")).to_have_attribute("data-theme", theme)
        found = Axe().run(frame).response["violations"]
        serious = [v for v in found if v["impact"] in {"serious", "critical"}]
        assert [(v["id"], v["nodes"][0]["html"]) for v in serious] == []


def test_a_button_copies_the_json_of_the_plan(opened, store):
    window, frame = opened(ONE, permissions=["clipboard-read", "clipboard-write"])
    frame.click("text=Copy the plan's JSON")
    expect(frame.locator("#said")).to_have_text("Copied")
    copied = json.loads(window.evaluate("navigator.clipboard.readText()"))
    assert copied["version"] == 1
    assert len(copied["partitions"]) == 24 * 6
    assert {(e["topic"], e["partition"]) for e in copied["partitions"]} >= {("orders", 0), ("payments", 1)}


@pytest.mark.parametrize("path", ["", ONE, HELD, FORM], ids=["list", "one", "held", "form"])
def test_a_phone_shows_it_without_scrolling_the_page_sideways(opened, path):
    _, frame = opened(path, viewport={"width": 390, "height": 844})
    assert frame.evaluate("document.documentElement.scrollWidth") <= 390


def test_times_are_in_the_zone_that_the_reader_has_chosen_in_airflow_or_else_in_that_of_the_browser(opened):
    window, frame = opened(ONE, timezone_id="Asia/Tokyo")
    look = frame.locator(".crumbs time")
    expect(look).to_contain_text("GMT+9")
    expect(look).to_have_attribute("title", look.get_attribute("datetime")[:19].replace("T", " ") + " UTC")
    window.evaluate("localStorage.setItem('timezone', JSON.stringify('America/New_York'))")
    frame.evaluate("location.reload()")
    expect(look).to_contain_text(re.compile("GMT[-−][45]"))


def test_links_to_airflow_leave_the_frame(opened):
    window, frame = opened(FORM)
    frame.click("text=Open kafka_reassignment_cancel")
    window.wait_for_url("**/dags/kafka_reassignment_cancel")


def test_the_title_of_the_window_says_which_reassignment_it_shows_until_the_page_is_left(opened):
    window, frame = opened(ONE)
    expect(window).to_have_title(re.compile(rf"^\d+ % · {AT_WORK} · Kafka reassignments$"))
    frame.goto("about:blank")
    expect(window).to_have_title("Airflow")


def test_all_of_it_can_be_reached_and_used_by_the_keyboard(opened):
    _, frame = opened(ONE)
    reached = []
    for _ in range(20):
        frame.page.keyboard.press("Tab")
        reached.append(frame.evaluate("document.activeElement?.textContent.trim().slice(0, 40)"))
    wanted = ["All reassignments", "Change the rate…", "Stop…", "Report of the plan", "Copy the plan's JSON"]
    assert [text for text in wanted if text not in reached] == []
    frame.focus("text=All reassignments")
    frame.page.keyboard.press("Enter")
    expect(frame.locator("h1")).to_have_text("Kafka reassignments")


def test_a_filter_changes_the_list_without_a_reload_and_the_address_can_be_opened_again(opened):
    _, frame = opened("")
    frame.evaluate("window.same = true")
    frame.select_option("select[name=state]", "held")
    expect(frame.locator("tbody tr")).to_have_count(1)
    expect(frame.locator("tbody")).to_contain_text("rebalance-2026-w47")
    assert "state=held" in frame.evaluate("location.search")
    assert frame.evaluate("window.same")


def test_the_audit_trail_is_filtered_by_outcome_batch_and_text(opened, store):
    event(
        store.record(CLUSTER, AT_WORK),
        "reinstate_throttle",
        14,
        datetime.now(UTC),
        "broker 4 had lost its rate",
        "failed",
    )
    _, frame = opened(ONE)
    frame.select_option("#audit select[name=outcome]", "problems")
    expect(frame.locator("#audit tbody tr")).to_have_count(1)
    frame.select_option("#audit select[name=outcome]", "")
    frame.fill("#audit input[name=batch]", "3")
    frame.press("#audit input[name=batch]", "Enter")
    expect(frame.locator("#audit tbody tr")).to_have_count(len(BATCH_STEPS))


def test_what_a_record_says_never_becomes_a_part_of_the_page(opened, store):
    """Names of topics, runs and people, reasons and summaries: whoever can write records could run scripts as the reader."""
    now = datetime.now(UTC)
    record = begin(store, "prod-xx", HOSTILE, now)
    store.acquire("prod-xx", ClusterLock(reassignment_id=HOSTILE, since=now, requested_by=HOSTILE))
    event(record, "admit", None, now, HOSTILE)
    copying(record, 1, now, 6)
    note = progress_note(1, now, (HOSTILE,) * 6)
    record.write_progress(note.model_copy(update={"text": HOSTILE, "waits": (HOSTILE,)}))
    window, frame = opened("")
    expect(frame.locator("tbody")).to_contain_text(HOSTILE)
    frame.click(f"text={HOSTILE}")
    expect(frame.locator("h1")).to_have_text(HOSTILE)
    expect(frame.locator("#replicas")).to_contain_text(HOSTILE)
    frame.wait_for_timeout(1_500)  # an update as well
    assert frame.locator("img").count() == 0
    assert window.evaluate("window.hacked") is None


def test_a_long_reason_unfolds_where_it_stands_and_pushes_no_answer_off_the_first_screen(opened, store):
    record = store.record(CLUSTER, AT_WORK)
    why = f"RecordDamagedError: The plan at file:///{'records/' * 60} was altered"
    event(record, "sense_isr_catch_up", 14, datetime.now(UTC), why, "failed")
    _, frame = opened(ONE)
    assert_on_first_screen(frame)
    reason = answer(frame, WAITS).locator("details")
    expect(reason).not_to_have_attribute("open", "")
    reason.locator("summary").click()
    event(record, "sense_isr_catch_up", 14, datetime.now(UTC), f"{why} again", "failed")
    expect(reason).to_contain_text("was altered again")
    expect(reason).to_have_attribute("open", "")
