"""A broker is emptied by hand, in the browser: each test is a chapter, and goes on where the one before it has ended."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from tests.airflow.lab import replicas
from tests.airflow.reassignments import Reassignments
from tests.browser.airflow_form import AirflowForm
from tests.browser.airflow_window import frame_of, open_airflow
from tests.browser.story import Story, answer, assert_on_first_screen, figure
from tests.kafka_fixtures import wait_until

from kafka_lab.airflow import LocalAirflow, kafka_connection
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID, THROTTLE_DAG_ID, batch_run_id
from kafka_reassignment_airflow.web.answers import DOING, DONE, NOW, STOP, WAITS

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.kafka]

TOPIC = "orders"
EMPTIED = 4
MEGABYTES = 100
"""Of each of the three partitions that leave: a minute and a half for each batch at 1 MB/s."""


@pytest.fixture(scope="module")
def story(browser, tmp_path_factory):
    """An Airflow, five brokers on three racks, and a window that is signed in."""
    pictures = Path(os.environ.get("STORY_PICTURES") or tmp_path_factory.mktemp("pictures"))
    with LocalCluster(brokers=5, racks=3) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, TOPIC, [(4, 2), (3, 4), (4, 5)])
        fill_topics(servers, [TOPIC], 3 * MEGABYTES * 10**6)
        environment = {"AIRFLOW__KAFKA_REASSIGNMENT__RETRY_DELAY_SECONDS": "3"}
        connections = {"kafka_default": kafka_connection(servers)}
        with (
            LocalAirflow(connections=connections, environment=environment) as airflow,
            open_cluster(ClusterSettings.of({"bootstrap.servers": servers}, name="tests")) as port,
        ):
            window, _ = open_airflow(browser, airflow)
            made = Reassignments(airflow, cluster.cluster_id)
            yield Story(window, cluster, port, made, pictures, before=replicas(port, TOPIC))
            window.context.close()


@pytest.fixture(autouse=True)
def in_order(request, story):
    """Skip what comes after a chapter that has failed; show what there is to see when one fails."""
    failed = request.session.testsfailed
    if story.failed_in:
        pytest.skip(f"the story ends in {story.failed_in}")
    yield
    if request.session.testsfailed > failed:
        story.failed_in = request.node.name
        story.picture(f"failed-{request.node.name}")
        print(f"pictures in {story.pictures}\n{story.window.url}\n{story.reassignments.story(story.run)}")


def test_the_form_is_filled_in_by_hand(story):
    window = story.window
    window.goto(f"{story.url}/dags/{DAG_ID}")
    form = AirflowForm(window)
    expect(window.get_by_test_id("trigger-dag-submit")).to_be_disabled()  # what it should do is not chosen yet
    form.choose("job", "Empty brokers")
    form.fill("brokers", str(EMPTIED))
    form.fill("throttle_mb_per_second", "1")
    story.picture("form")
    form.open_section("How fast")
    form.fill("partition_movements", "1")
    form.open_section("Safety")
    form.switch("require_approval")
    form.fill("keep_free_share", "0")
    story.run = form.trigger()
    asked = story.reassignments.airflow.get(f"/dags/{DAG_ID}/dagRuns/{quote(story.run, safe='')}")["conf"]
    assert {k: asked[k] for k in ("kafka_conn_id", "job", "brokers", "throttle_mb_per_second")} == {
        "kafka_conn_id": "kafka_default",
        "job": "decommission",
        "brokers": "4",
        "throttle_mb_per_second": 1,
    }


def test_the_plan_is_approved_by_its_score_card(story):
    story.window.goto(f"{story.url}/plugin/kafka_reassignments")
    frame = frame_of(story.window)
    link = frame.get_by_role("link", name=story.run, exact=True)
    expect(link).to_be_visible(timeout=180_000)
    link.click()
    expect(answer(frame, NOW)).to_contain_text("Approve or reject the plan", timeout=240_000)
    expect(answer(frame, WAITS)).to_contain_text("For an approval")
    expect(answer(frame, DONE)).to_contain_text("after the approval")
    answer(frame, NOW).get_by_role("link", name="its task").click()
    story.window.wait_for_url("**/tasks/approve")
    story.window.goto(f"{story.window.url}/required_actions")
    question = story.window.locator("body")
    expect(question).to_contain_text(re.compile(r"decommission: 3 of \d+ partitions in 3 batches"))
    expect(question).to_contain_text("Asked because the request asks for an approval")
    brokers = [row.get_by_role("cell").all_inner_texts() for row in question.get_by_role("row").all()]
    (emptied,) = [cells for cells in brokers if cells[:1] == [str(EMPTIED)]]
    assert "0.000" in emptied
    question.locator("[name=element_reason]").fill("looks right")
    story.picture("approval")
    question.get_by_test_id("hitl-option-Approve").click()
    wait_until(lambda: "approved by admin: looks right" in story.reassignments.story(story.run), 60)


def test_bytes_are_seen_to_move_without_a_reload(story):
    frame = story.page()
    expect(answer(frame, DOING)).to_contain_text("It copies batch 1 of 3", timeout=180_000)
    frame.evaluate("window.same = true")
    left = figure(frame, "left")
    before = left.inner_text()
    expect(left).not_to_have_text(before, timeout=60_000)
    expect(frame.locator("#replicas tbody")).to_contain_text(f"{TOPIC}-", timeout=60_000)
    assert frame.evaluate("window.same")
    expect(answer(frame, STOP)).to_contain_text("Yes: batch 1 goes back")


def test_a_broker_that_is_down_is_named_and_its_return_is_seen(story):
    frame = story.page()
    (moving,) = story.port.list_reassignments().values()
    (target,) = moving.adding
    story.cluster.kill(target)
    expect(answer(frame, WAITS)).to_contain_text(f"broker {target} is down", timeout=120_000)
    expect(answer(frame, NOW)).to_contain_text(f"Bring broker {target} back")
    assert_on_first_screen(frame)
    story.picture("broker-down")
    story.cluster.start_broker(target)
    expect(answer(frame, WAITS)).to_contain_text("It does not wait", timeout=180_000)
    expect(answer(frame, DOING)).to_contain_text(re.compile("It (copies|completes) batch 1"))
    assert figure(frame, "rate per broker").inner_text() == "1 MB/s"


def test_a_step_that_has_failed_is_run_again_from_airflows_window(story):
    """Files of the plan are gone: the step fails, and says what to do without them. They are found again, and it is cleared."""
    steps = next(Path(story.reassignments.record(story.run).plan_uri.removeprefix("file://")).rglob("steps"))
    away = steps.with_name("away")
    shutil.move(steps, away)
    frame = story.page()
    expect(answer(frame, DOING)).to_contain_text(re.compile(r"It stands: \w+ of batch 1 has failed"), timeout=240_000)
    expect(answer(frame, WAITS)).to_contain_text("was altered: expected the table 'steps'")
    expect(answer(frame, NOW)).to_contain_text("Trigger kafka_reassignment with job decommission")
    expect(answer(frame, NOW).get_by_role("link", name="kafka_reassignment…")).to_be_visible()
    assert_on_first_screen(frame)
    story.picture("failed")
    (failed,) = re.findall(r"It stands: (\w+) of batch", answer(frame, DOING).inner_text())
    story.reassignments.wait_for_batch(story.run, 1, "failed")
    shutil.move(away, steps)
    frame.get_by_role("link", name="Run of batch 1").click()
    story.window.wait_for_url(f"**/dags/{BATCH_DAG_ID}/runs/**")
    story.clear(1, failed)
    story.reassignments.wait_for_batch(story.run, 1, "success", seconds=300)
    frame = story.page()
    expect(answer(frame, DOING)).to_contain_text("It copies batch 2 of 3", timeout=120_000)
    expect(figure(frame, "batches")).to_have_text("1 of 3")


def test_a_finished_step_that_is_cleared_stays_finished(story):
    reassignments, batch = story.reassignments, batch_run_id(story.run, 1)
    story.window.goto(f"{story.url}/dags/{BATCH_DAG_ID}")
    story.window.locator("text=drop_old_replicas >> visible=true").first.wait_for()
    story.picture("grid")
    moving = {p.partition for p in story.port.list_reassignments()}
    done = {n: r for n, r in replicas(story.port, TOPIC).items() if EMPTIED not in r and n not in moving}
    assert done
    tries = reassignments.airflow.tasks(BATCH_DAG_ID, batch)["drop_old_replicas"]["try_number"]
    story.clear(1, "drop_old_replicas")

    def has_run_again():
        task = reassignments.airflow.tasks(BATCH_DAG_ID, batch)["drop_old_replicas"]
        return task["try_number"] > tries and task["state"] == "success"

    wait_until(has_run_again, 120)
    reassignments.wait_for_batch(story.run, 1, "success")
    assert {n: r for n, r in replicas(story.port, TOPIC).items() if n in done} == done
    assert reassignments.airflow.tasks(BATCH_DAG_ID, batch_run_id(story.run, 2))["submit_batch"]["try_number"] == 1
    assert 1 in reassignments.record(story.run).finished_batches()


def test_the_rate_is_changed_by_the_form_that_the_page_fills_in(story):
    form, values = story.form("Change the rate…")
    assert values["reassignment_id"] == form.shown("reassignment_id") == story.run
    assert (values["throttle_mb_per_second"], form.shown("throttle_mb_per_second")) == (1, "1")
    form.fill("throttle_mb_per_second", "1.5")
    run = form.trigger()
    assert story.reassignments.wait_for_run(THROTTLE_DAG_ID, run) == "success"
    frame = story.page()
    expect(figure(frame, "rate per broker")).to_have_text("1.5 MB/s")
    expect(frame.locator("#brokers")).to_contain_text("1.5 MB/s", timeout=60_000)


def test_it_is_stopped_by_the_form_that_the_page_fills_in(story):
    form, _ = story.form("Stop…")
    assert form.shown("reassignment_id") == story.run
    form.fill("reason", "producers are slow")
    run = form.trigger()
    assert story.reassignments.wait_for_run(CANCEL_DAG_ID, run, seconds=240) == "success"
    assert story.port.list_reassignments() == {}
    frame = story.page()
    expect(answer(frame, DOING)).to_contain_text("Nothing: it was stopped by admin: producers are slow")
    expect(answer(frame, NOW)).to_contain_text("Resume it, or roll it back")
    story.picture("stopped")
    assert throttles(story) == {}


def test_it_is_rolled_back_and_nothing_is_left(story):
    reassignments = story.reassignments
    assert replicas(story.port, TOPIC) != story.before
    form, values = story.form("Roll back…")
    assert values["roll_back_of"] == form.shown("roll_back_of") == story.run
    form.fill("throttle_mb_per_second", "50")
    run = form.trigger()
    assert reassignments.wait(run, seconds=400) == "success", reassignments.story(run)
    assert reassignments.state(run, "verify") == "success"
    frame = story.page(run)
    expect(answer(frame, DOING)).to_contain_text("Nothing: it is finished")
    expect(answer(frame, NOW)).not_to_contain_text("restored")
    story.picture("rolled-back")
    frame = story.page()
    expect(answer(frame, DOING)).to_contain_text(f"Nothing: {run} has rolled it back")
    expect(answer(frame, NOW).get_by_role("link", name=run)).to_be_visible()
    assert replicas(story.port, TOPIC) == story.before
    assert throttles(story) == {}
    for each in (story.run, run):
        reassignments.record(each).audit.verify()
        assert reassignments.record(each).journal().is_settled
    assert reassignments.lock_owner() is None


def throttles(story):
    """Every throttle config that has a value, of all brokers and of the topic."""
    resources = [ConfigResource.topic(TOPIC), *map(ConfigResource.broker, story.cluster.brokers)]
    configs = story.port.describe_configs(resources, THROTTLE_KEYS)
    return {(r, key): entry.value for r, entries in configs.items() for key, entry in entries.items() if entry.value}
