"""The report of a plan: one page, everything in it, nothing loaded from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from kafka_reassignment.plan import report
from kafka_reassignment.plan.report import plan_page
from kafka_reassignment.plan.summary import BatchSummary, BrokerSummary, LogDirSummary, MoveSummary, PlanSummary
from kafka_reassignment.request import Job

CHARTS = {
    "bytes_by_broker",
    "replicas_by_broker",
    "leaders_by_broker",
    "bytes_by_rack",
    "replicas_by_rack",
    "leaders_by_rack",
    "flows",
    "batch_bytes",
    "batch_busiest",
}

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def broker(number: int, rack: str | None, before: int, after: int) -> BrokerSummary:
    return BrokerSummary(
        broker=number,
        rack=rack,
        alive=True,
        share_bytes=5_000_000_000,
        bytes_before=before,
        bytes_after=after,
        replicas_before=40,
        replicas_after=50,
        leaders_before=10,
        leaders_after=20,
        bytes_received=max(0, after - before),
        bytes_sent=max(0, before - after),
    )


def batch(number: int, busiest: int) -> BatchSummary:
    return BatchSummary(
        number=number,
        steps=3,
        bytes_to_copy=3_000_000_000,
        leader_movements=0,
        receivers=3,
        senders=3,
        busiest_receiver_bytes=busiest,
        busiest_sender_bytes=1_000_000_000,
        steps_hash="x",
    )


def summary(**changes: object) -> PlanSummary:
    plan = PlanSummary(
        job=Job.DECOMMISSION,
        mode="fewest_bytes",
        tolerance=0.1,
        plan_hash="abcdef0123456789",
        partitions_in_cluster=2_000,
        partitions=1_234,
        bytes_to_copy=6_000_000_000,
        lower_bound_bytes=5_000_000_000,
        leader_changes=77,
        outside_before=3,
        outside_after=1,
        seconds_at_rate=3_700,
        brokers=(broker(1, "a", 9_000_000_000, 6_000_000_000), broker(2, None, 1_000_000_000, 4_000_000_000)),
        batches=(batch(1, 1_000_000_000), batch(2, 2_000_000_000)),
        log_dirs=(
            LogDirSummary(broker=1, path="/d1", total_bytes=None, free_bytes=None, bytes_to_take=0),
            LogDirSummary(broker=2, path="/d2", total_bytes=10**10, free_bytes=4 * 10**9, bytes_to_take=3 * 10**9),
        ),
        biggest_moves=(
            MoveSummary(topic="orders", partition=3, current=(1, 2), target=(2, 1), bytes_to_copy=2_500_000_000),
        ),
        assumptions=("Broker 7 is not alive.",),
        left_unbalanced=("1 brokers stay outside the tolerance.",),
    )
    return plan.model_copy(update=changes)


def words(page: str) -> str:
    body = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_the_page_has_every_figure_an_approver_needs():
    text = words(plan_page(summary(), title="Plan of r1", bytes_per_second=50_000_000))

    for part in (
        "6.000 GB to copy",
        "5.000 GB lower bound; the plan is 1.200 times it",
        "1:01:40 estimated at 50 MB/s for each broker",
        "1,234 of 2,000 partitions change",
        "77 preferred leaders change",
        "3 → 1 brokers outside the tolerance",
        "2 batches; together they copy 1.00 times as long as the busiest broker needs",
        "Left unbalanced: 1 brokers stay outside the tolerance.",
        "Assumed: Broker 7 is not alive.",
        "orders-3 2.500 1, 2 2, 1",
        # 4 GB free of 10, 3 to take: 1 GB is free at the peak.
        "2 /d2 10.000 4.000 3.000 1.000 90.0 %",
        "1 /d1 not reported not reported 0.000 not known not known",
    ):
        assert part in text


def test_an_unthrottled_plan_has_no_estimate():
    text = words(plan_page(summary(seconds_at_rate=None), title="t"))
    assert "not known no rate is set, so no estimate" in text


def test_the_page_has_all_charts_and_loads_nothing():
    page = plan_page(summary(), title="t")

    specs = json.loads(re.search(r"const charts = (.*);\n", page)[1])
    assert specs.keys() == CHARTS
    assert all(f'id="{name}"' in page for name in CHARTS)
    head = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|url\(|@import", head)
    assert page.count("</script>") == 2


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_a_browser_draws_every_chart_without_a_network(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(plan_page(summary(), title="t"), encoding="utf-8")

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run(
        [CHROMIUM, *options, *offline, "--enable-logging=stderr", page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    drawn = re.findall(r'<div class="chart[^"]*" id="(\w+)"[^>]*>(?:<details.*?</details>)?<svg', shown.stdout)
    assert set(drawn) == CHARTS
    assert "CONSOLE" not in shown.stderr


def test_vega_is_the_files_of_its_npm_packages_unaltered():
    folder = Path(report.__path__[0]) / "vega"
    noted = dict(
        re.findall(r"^\| `([\w-]+\.min\.js)` .* `([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.M)
    )

    assert noted == {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.js")}
    assert len(noted) == 3


def test_names_of_the_cluster_cannot_break_the_page():
    brokers = (broker(1, "</script><b>", 9_000_000_000, 6_000_000_000),)
    page = plan_page(summary(brokers=brokers, assumptions=("<script>x</script>",)), title="<i>")

    assert "<i>" not in page
    assert "</script><b>" not in page
    assert "<script>x" not in page


def test_an_empty_plan_says_so():
    page = plan_page(summary(batches=(), biggest_moves=(), bytes_to_copy=0, lower_bound_bytes=0), title="t")
    assert "Nothing to do: the cluster is as asked for." in words(page)


def test_a_thousand_brokers_and_ten_thousand_batches_stay_a_small_page():
    page = plan_page(
        summary(
            brokers=tuple(broker(n, f"r{n % 10}", n * 10**9, 500 * 10**9) for n in range(1_000)),
            batches=tuple(batch(n, 10**9) for n in range(1, 10_001)),
            log_dirs=tuple(
                LogDirSummary(broker=n, path="/d", total_bytes=10, free_bytes=5, bytes_to_take=1) for n in range(1_000)
            ),
        ),
        title="t",
    )
    assert len(page) < 2_000_000


def test_a_rollback_plan_shows_its_batches_and_no_brokers():
    page = plan_page(summary(brokers=(), log_dirs=(), biggest_moves=()), title="t")

    assert json.loads(re.search(r"const charts = (.*);\n", page)[1]).keys() == {"batch_bytes", "batch_busiest"}
    assert "All brokers" not in page
