"""The progress page, served to a logged-in user and to nobody else."""

import json
import re
import shutil
import subprocess
from contextlib import contextmanager
from datetime import UTC, datetime
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from tests.airflow.file_calls import file_calls
from tests.steps_lab import StillWaiting
from tests.unit.plan.test_report import CHARTS, CHROMIUM, summary
from upath import UPath

from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.report import plan_page
from kafka_reassignment.plan.store import forget_read_plans, read_summary, write_summary
from kafka_reassignment.record.audit import AuditLog
from kafka_reassignment.record.models import ProgressNote, SubmittedBatch
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment_airflow.web import app as web
from kafka_reassignment_airflow.web.rows import Rows

pytestmark = pytest.mark.longer


@pytest.fixture
def run(two_batches):
    return two_batches(reassignment_id="manual__<b>1+2:3</b>")


@pytest.fixture
def client(run, monkeypatch):
    return client_of(run, monkeypatch)


def client_of(run, monkeypatch):
    """The application as the api-server mounts it, with its login left out: that is tested on a real Airflow."""
    monkeypatch.setattr(web, "record_store", lambda: run.store)
    app = web.create_app()
    app.router.dependencies.clear()
    for route in app.routes:
        route.dependant.dependencies.clear()
    return TestClient(app)


def query(run):
    return {"cluster": run.cluster_id, "id": "manual__<b>1+2:3</b>"}


def test_the_list_has_each_reassignment_with_what_it_does_now(client, run):
    run.do_all(batch=1)
    run.record.write_progress(ProgressNote(batch=2, at=datetime(2026, 1, 1, tzinfo=UTC), text="waits: <disk> full"))
    shown = client.get("/").text
    assert "manual__&lt;b&gt;1+2:3&lt;/b&gt;" in shown
    assert "1 of 2" in shown
    assert "waits: &lt;disk&gt; full" in shown
    assert "<b>1+2" not in shown


def test_a_page_shows_why_a_batch_waits_and_its_audit_trail(client, run):
    elsewhere = TopicPartition("orders", 1)
    run.cluster.alter_reassignments({elsewhere: (5, 6)})
    with pytest.raises(StillWaiting):
        run.do("admit")
    shown = client.get("/reassignment", params=query(run)).text
    assert "It holds batch 1 of 2 back" in shown
    assert "another client" in shown
    run.cluster.alter_reassignments({elsewhere: None})
    run.do_all(batch=1)
    shown = client.get("/reassignment", params=query(run)).text
    assert "expansions submitted" in shown
    lines = client.get("/audit.jsonl", params=query(run)).text.splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(lines) == len(list(run.record.audit))


def test_a_page_shows_what_a_batch_goes_on_without_until_it_is_taken_up_again(client, run):
    why = "broker 3 of the target 1,3 is down"
    shown = f"orders-0: {why} (batch 1)"
    left_open = SubmittedBatch(
        submitted_at=run.clock.now, accepted=("orders-0",), left_out={}, left_open={"orders-0": why}
    )
    run.do_all("admit", "set_throttle", "submit_batch")
    run.record.write_submitted(1, left_open)
    assert f"orders-0: {why}<" in client.get("/reassignment", params=query(run)).text, "while the batch runs"
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert shown in client.get("/reassignment", params=query(run)).text, "once it is finished"
    next_batch(run.context, 1)
    run.do_all(batch=2)
    assert shown in client.get("/reassignment", params=query(run)).text, "while others go on"
    next_batch(run.context, 2)
    assert run.record.plan_in_force().batches == 3
    run.do_all(batch=3)
    assert "Left open" not in client.get("/reassignment", params=query(run)).text


def test_what_a_finished_batch_did_last_is_not_what_is_done_now(client, run):
    run.do_all(batch=1)
    for batch, shows in ((1, False), (2, True)):
        run.record.write_progress(ProgressNote(batch=batch, at=run.clock.now, text="9 MB left"))
        assert ("9 MB left" in client.get("/reassignment", params=query(run)).text) is shows


def test_a_batch_that_waits_again_is_not_said_to_have_failed(client, run):
    with pytest.raises(ReassignmentError):
        run.do("sense_isr_catch_up")
    assert "sense_isr_catch_up of batch 1 has failed" in client.get("/reassignment", params=query(run)).text
    run.clock.sleep(60)
    run.cluster.alter_reassignments({TopicPartition("orders", 1): (5, 6)})
    with pytest.raises(StillWaiting):
        run.do("admit")
    shown = client.get("/reassignment", params=query(run)).text
    assert "It holds batch 1 of 2 back" in shown
    assert "has failed" not in shown


def test_both_rates_are_shown_where_brokers_differ(client, run):
    assert "<dd>10 MB/s</dd>" in client.get("/reassignment", params=query(run)).text
    change_rate(run.context, asked_bytes_per_second=3_000_000, brokers=(1,))
    assert "<dd>3 to 10 MB/s</dd>" in client.get("/reassignment", params=query(run)).text


def test_why_the_rate_is_what_it_is_is_shown(client, run):
    assert "Rate changed" not in client.get("/reassignment", params=query(run)).text
    why = "auto rate lowers it: <slow>"
    change_rate(run.context, asked_bytes_per_second=7_000_000, decided_on=run.record.journal(), because=why)
    shown = client.get("/reassignment", params=query(run)).text
    assert "<dd>7 MB/s</dd>" in shown
    assert f"Rate changed at {run.clock.now:%Y-%m-%d %H:%M:%S} UTC: auto rate lowers it: &lt;slow&gt;" in shown
    change_rate(run.context, asked_bytes_per_second=5_000_000)
    assert "UTC: by hand" in client.get("/reassignment", params=query(run)).text


def test_how_auto_rate_stands_is_shown(two_batches, monkeypatch):
    run = two_batches(reassignment_id="manual__<b>1+2:3</b>", auto_rate=True)
    client = client_of(run, monkeypatch)
    assert ">auto rate, 2.5 to 10 MB/s<" in client.get("/reassignment", params=query(run)).text
    change_rate(run.context, asked_bytes_per_second=5_000_000)
    shown = client.get("/reassignment", params=query(run)).text
    assert ">auto rate has ended: the rate was changed by hand<" in shown


def test_the_list_has_the_owner_of_the_lock_though_it_had_no_request_a_moment_ago(run):
    rows, request = Rows(lambda: 0.0), run.record.root / "request.json"
    content = request.read_bytes()
    request.unlink()
    assert rows.page(run.store).rows == ()
    request.write_bytes(content)
    assert [row.reassignment_id for row in rows.page(run.store).rows] == ["manual__<b>1+2:3</b>"]


def test_a_run_and_a_run_of_a_batch_lead_to_the_reassignment(client, run):
    for run_id in (query(run)["id"], query(run)["id"] + "__0002"):
        assert "0 of 2" in client.get("/run", params={"id": run_id}).text
    assert client.get("/run", params={"id": "scheduled__other"}).status_code == 404


def test_a_stopped_one_says_who_stopped_it(client, run):
    cancel.stop(run.context, CancelScope(), by="bob", reason="weekend is over")
    assert "stopped by bob: weekend is over" in client.get("/").text


@pytest.mark.parametrize("id_", ["../../etc/passwd", "/etc/passwd", "..", "a" * 250, "\x00", "%2e%2e%2f"])
def test_an_id_never_becomes_a_path(client, run, id_):
    for path in ("/reassignment", "/audit.jsonl", "/plan", "/plan.json", "/run", "/form"):
        answer = client.get(path, params={"cluster": run.cluster_id, "id": id_, "do": "stop"})
        assert answer.status_code == 404
        assert "root:" not in answer.text


SCRIPT = "<script>fetch('/api/v2/variables')</script>"


def write_summary_with(run, **changed):
    """Replace parts of the plan's numbers, as a person who can write records may."""
    summary = read_summary(run.record.plan_uri).model_copy(update=changed)
    write_summary(run.record.plan_uri, summary)


def test_a_report_is_made_from_the_numbers_of_the_plan(client, run):
    shown = client.get("/plan", params=query(run))
    assert "Plan of reassignment manual__&lt;b&gt;1+2:3&lt;/b&gt; of cluster" in shown.text
    assert "vegaEmbed" in shown.text


def test_html_in_a_record_is_never_served(client, run):
    """A person who writes records would otherwise run scripts with the rights of the one who looks at the report."""
    run.record.write_file("plan.html", SCRIPT.encode())
    write_summary_with(run, mode=SCRIPT, assumptions=(SCRIPT,))
    shown = client.get("/plan", params=query(run)).text
    assert SCRIPT not in shown
    assert "&lt;script&gt;fetch(" in shown


def test_a_report_has_an_origin_of_its_own_and_runs_no_script_but_the_templates(client, run):
    answer = client.get("/plan", params=query(run))
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["sandbox"] == "allow-scripts"  # and not allow-same-origin
    assert policy["default-src"] == "'none'"  # so it cannot send anything anywhere
    nonce = policy["script-src"].split()[0].removeprefix("'nonce-").removesuffix("'")
    assert len(nonce) > 30
    assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}">')
    again = client.get("/plan", params=query(run)).headers["Content-Security-Policy"]
    assert nonce not in again


def test_no_page_runs_a_script_but_those_of_its_template_nor_asks_anybody_but_airflow(client, run):
    nonces = set()
    for path in ("/", "/reassignment", "/run", "/form"):
        answer = client.get(path, params=query(run) | {"do": "stop"})
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["connect-src"] == policy["form-action"] == policy["frame-ancestors"] == "'self'"
        nonce = re.fullmatch(r"'nonce-([\w-]{30,})'", policy["script-src"])[1]
        assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}">') == 3
        nonces.add(nonce)
    assert len(nonces) == 4


def test_a_damaged_summary_is_named_and_not_an_error_of_the_server(client, run):
    (UPath(run.record.plan_uri) / "summary.json").write_text("{")
    answer = client.get("/plan", params=query(run))
    assert answer.status_code == 404
    assert "is not readable" in answer.text


@contextmanager
def served(html, policy):
    """A page on a server of its own, as a browser gets it; the paths that it asks for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_a_browser_draws_the_charts_of_a_report_and_runs_nothing_else(tmp_path):
    """With a script of the template's own that tries what one on Airflow's origin could do, and one that is not."""
    page = plan_page(summary(), title="t", nonce="n")
    tries = "let read; try { read = document.cookie } catch (e) { read = e.name }"
    shown = "document.body.dataset.got = read + ' ' + origin; fetch('/secret')"
    end = f"<script nonce=n>{tries} {shown}</script><script>document.body.dataset.ran = 1</script></body></html>"
    page = page[: page.rindex("</body>")] + end
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    with served(page, web.REPORT_POLICY.format(nonce="n")) as (address, asked):
        run = [CHROMIUM, *options, f"--user-data-dir={tmp_path / 'profile'}", address]
        dom = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120).stdout
    drawn = re.findall(r'<div class="chart[^"]*" id="(\w+)"[^>]*>(?:<details.*?</details>)?<svg', dom)
    assert set(drawn) == CHARTS
    assert 'data-got="SecurityError null"' in dom
    assert "data-ran" not in dom
    assert "/secret" not in asked


@pytest.fixture
def many(run, tmp_path):
    """The records of 120 reassignments in one cluster: one at work, the others finished or ended."""
    run.do_all(batch=1)
    kept = run.record.root
    for n in range(120):
        folder = Path(kept.path).parent / f"r{n:03d}"
        shutil.copytree(kept.path, folder)
        request = json.loads((folder / "request.json").read_text())
        request |= {"reassignment_id": folder.name, "started_at": f"2025-01-01T00:{n // 60:02d}:{n % 60:02d}Z"}
        (folder / "request.json").write_text(json.dumps(request))
        if n % 10:
            (folder / "report.txt").write_text("done")
    return tmp_path


def test_the_list_is_paged_latest_first(client, many):
    first, second = client.get("/").text, client.get("/", params={"page": 2}).text
    assert first.index("manual__") < first.index("r119") < first.index("r071")
    assert "r070" not in first
    assert "r070" in second
    assert "page 2 of 3" in second
    assert "r000" in client.get("/", params={"page": 99}).text


def test_a_request_for_the_list_costs_a_few_store_calls_however_many_records_there_are(client, many):
    client.get("/")
    with file_calls(many) as calls:
        assert client.get("/").status_code == 200
        assert client.get("/").status_code == 200  # another tab
    assert len(calls) < 40
    assert not [c for c in calls if "/r0" in c or "/r1" in c]


def test_the_list_shows_what_changes_all_the_same(client, run, many, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(web, "Rows", lambda: Rows(lambda: now[0]))
    fresh = web.create_app()
    fresh.router.dependencies.clear()
    for route in fresh.routes:
        route.dependant.dependencies.clear()
    client = TestClient(fresh)
    assert "chip running" in client.get("/").text
    run.record.write_progress(ProgressNote(batch=2, at=datetime(2026, 1, 1, tzinfo=UTC), text="waits for broker 3"))
    now[0] += 5
    assert "waits for broker 3" in client.get("/").text
    run.store.release(run.cluster_id, "manual__<b>1+2:3</b>")
    assert "chip running" not in client.get("/").text


def test_a_page_reads_a_bounded_number_of_events_and_each_once(client, run):
    run.do_all(batch=1)
    for n in range(300):
        draft = AuditDraft(summary=f"look {n}", facts={"partitions": ["orders-1"] * 1_000})
        run.context.write_event("sense_isr_catch_up", 2, run.clock.now, draft)
    root = Path(run.record.root.path)
    with file_calls(root / "audit") as calls:
        shown = client.get("/reassignment", params=query(run)).text
    assert len(calls) <= 53
    with file_calls(root) as calls:
        client.get("/reassignment", params=query(run))
    assert len(calls) <= 26
    assert "look 299" in shown
    assert "look 200" not in shown
    older = re.search(r"before=(\d+)", shown)[1]
    assert "look 249" in client.get("/reassignment", params=query(run) | {"before": older}).text


def test_events_of_a_page_are_read_side_by_side(client, run, monkeypatch):
    """One after the other, they would take as long as the store takes for all of them."""
    run.do_all(batch=1)
    together, read = Barrier(4), AuditLog.event
    number = run.record.audit.last_number()

    def waits_for_others(log, sequence):
        if sequence > number - 4:
            together.wait(timeout=10)  # breaks where fewer than four are read at once
        return read(log, sequence)

    monkeypatch.setattr(AuditLog, "event", waits_for_others)
    shown = client.get("/reassignment", params=query(run))
    assert shown.status_code == 200
    assert not together.broken


def test_a_damaged_event_is_named_and_the_page_is_shown(client, run):
    run.do_all(batch=1)
    (Path(run.record.root.path) / "audit" / "000002.json").write_text("{")
    shown = client.get("/reassignment", params=query(run))
    assert shown.status_code == 200
    assert "000002.json" in shown.text
    assert "expansions submitted" in shown.text


def test_a_page_says_what_failed_what_was_left_out_who_has_the_lock_and_what_is_owed(client, run):
    run.do_all("admit", "set_throttle")
    with pytest.raises(ReassignmentError):
        run.do("sense_isr_catch_up")
    shown = client.get("/reassignment", params=query(run)).text
    assert "sense_isr_catch_up of batch 1 has failed" in shown
    assert "It has the lock of the cluster since" in shown
    assert "throttle configs of this reassignment are to be restored" in shown
    run.store.release(run.cluster_id, "manual__<b>1+2:3</b>")
    assert "The cluster is not locked." in client.get("/reassignment", params=query(run)).text


def test_a_long_reason_is_folded_so_that_all_five_answers_stay_on_the_first_screen(client, run):
    run.do_all("admit", "set_throttle")
    steps = next(Path(run.record.plan_uri.removeprefix("file://")).rglob("steps"))
    steps.rename(steps.with_name("away"))
    forget_read_plans()
    with pytest.raises(ReassignmentError) as failed:
        run.do("submit_batch")
    shown = unescape(client.get("/reassignment", params=query(run)).text)
    why = f"{type(failed.value).__name__}: {failed.value}"
    assert len(why) > 200
    assert f"<summary>{why[:160]}…</summary>" in shown


def test_a_page_names_the_partitions_that_were_left_out_with_their_reasons(client, run):
    run.do_all("admit", "set_throttle")
    submitted = SubmittedBatch(submitted_at=run.clock.now, accepted=(), left_out={"orders-0": "stale plan"})
    run.record.write_submitted(1, submitted)
    assert "orders-0: stale plan" in client.get("/reassignment", params=query(run)).text


def test_a_run_id_that_two_clusters_have_leads_to_a_choice(client, run):
    reassignment_id = "manual__<b>1+2:3</b>"
    recorded = run.record.recorded_request().model_copy(update={"cluster_id": "z-other"})
    run.store.record("z-other", reassignment_id).write_request(recorded)
    for run_id in (reassignment_id, f"{reassignment_id}__0001"):
        answer = client.get("/run", params={"id": run_id}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (307, f"./?{urlencode({'text': reassignment_id})}")
    listed = client.get("/run", params={"id": reassignment_id})
    assert [listed.text.count(f"cluster={name}&amp;id=") for name in (run.cluster_id, "z-other")] == [1, 1]
