"""The matrix of versions: one list in the lab, the file of results and the documentation; what a report of pytest means."""

from __future__ import annotations

import json
import re

import pytest
from tests.matrix import results
from tests.matrix.cells import CELLS, chosen
from tests.matrix.results import FILE, PAGE, Result, keep, of_report, read, table, with_tables

from kafka_lab.airflow import PROJECT
from kafka_lab.cluster import LocalCluster
from kafka_lab.releases import DEFAULT_VERSION
from kafka_lab.versions import AIRFLOW, BEFORE_2_4, KAFKA, LAST_WITH_ZOOKEEPER, KafkaVersion
from kafka_lab.zookeeper import ZooKeeperCluster

pytestmark = pytest.mark.quick

REPORT = """<testsuites><testsuite>
<testcase classname="tests.contract.test_view" name="test_a[kafka]"/>
<testcase classname="tests.contract.test_view" name="test_b[kafka]"><skipped message="Kafka 4.0.2: it has no such thing"/></testcase>
{}</testsuite></testsuites>"""
FAILED = '<testcase classname="tests.contract.test_view" name="test_c[kafka]"><{}/></testcase>'


def report(tmp_path, more=""):
    file = tmp_path / "report.xml"
    file.write_text(REPORT.format(more))
    return file


def test_the_page_shows_what_the_file_has():
    page = PAGE.read_text()
    assert page == with_tables(page, read())


def test_the_file_the_page_and_the_lab_name_the_same_versions():
    assert read().keys() <= {c.name for c in CELLS}
    assert [c.name for c in CELLS] == [*(f"Kafka {v}" for v in KAFKA), *(f"Airflow {v}" for v in AIRFLOW)]
    rows = re.findall(r"^\| (\d+\.\d+\.\d+)(?: with (\w+))? \|", PAGE.read_text(), re.MULTILINE)
    assert [KafkaVersion(release, mode.lower()) for release, mode in rows if mode] == list(KAFKA)
    assert [release for release, mode in rows if not mode] == list(AIRFLOW)


def test_what_is_supported_elsewhere_in_the_docs_is_what_the_matrix_has():
    install = (PROJECT / "docs" / "install.md").read_text()
    assert re.findall(r"^\| (\d+\.\d+\.\d+) \|", install, re.MULTILINE) == list(AIRFLOW)
    [lowest] = re.findall(r'"apache-airflow>=([\d.]+),', (PROJECT / "pyproject.toml").read_text())
    assert next(iter(AIRFLOW)) == lowest


def test_the_list_goes_from_zookeeper_to_the_default_of_the_lab():
    assert [v.kind for v in KAFKA] == [ZooKeeperCluster] * 2 + [LocalCluster] * 5
    assert str(KAFKA[-1]) == f"{DEFAULT_VERSION}-kraft"
    assert (str(BEFORE_2_4), str(LAST_WITH_ZOOKEEPER)) == ("2.3.1-zookeeper", "3.9.2-zookeeper")


def test_a_version_is_read_as_it_is_printed():
    assert [KafkaVersion.parse(str(v)) for v in KAFKA] == list(KAFKA)
    with pytest.raises(ValueError, match=r"'3\.9\.2': expected a release and how it runs, such as 2\.3\.1-zookeeper"):
        KafkaVersion.parse("3.9.2")


def test_cells_are_chosen_by_how_their_version_begins():
    assert chosen([], []) == list(CELLS)
    assert [c.name for c in chosen(["3.9"], [])] == ["Kafka 3.9.2-zookeeper", "Kafka 3.9.2-kraft"]
    assert [c.name for c in chosen(["4.0"], ["3.3"])] == ["Kafka 4.0.2-kraft", "Airflow 3.3.2"]
    with pytest.raises(ValueError, match=r"Kafka '5' is not in the matrix, expected the beginning of one of 2\.3\.1"):
        chosen(["5"], [])


def test_a_report_counts_what_passed_and_why_the_rest_was_left_out(tmp_path):
    result = of_report(report(tmp_path), 0, 1.26)
    assert result.ok
    assert (result.passed, result.failed, result.minutes) == (1, [], 1.3)
    assert result.left_out == {"it has no such thing": 1}
    assert result.text == "1 passed"


@pytest.mark.parametrize("how", ["failure", "error"])
def test_what_failed_is_named(tmp_path, how):
    result = of_report(report(tmp_path, FAILED.format(how)), 1, 1)
    assert not result.ok
    assert result.failed == ["test_view::test_c[kafka]"]
    assert result.text == "**1 failed**, 1 passed"


def test_an_end_without_a_report_is_no_success(tmp_path):
    died = of_report(tmp_path / "none.xml", -9, 1)
    assert (died.ok, died.failed) == (False, ["pytest ended with -9"])
    assert not of_report(tmp_path / "none.xml", 0, 1).ok


def test_a_result_replaces_the_earlier_one_of_its_part_only(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FILE", tmp_path / FILE.name)
    monkeypatch.setattr(results, "PAGE", tmp_path / PAGE.name)
    results.FILE.write_text("{}")
    results.PAGE.write_text(PAGE.read_text())
    first, last = CELLS[0], CELLS[-1]
    day = "2026-01-01"
    keep(last, "quick", Result(5, [], {}, 1, day))
    keep(first, "contract", Result(3, ["a"], {}, 1, day))
    keep(first, "reassignment", Result(1, [], {"no": 2}, 1, day))
    keep(first, "contract", Result(4, [], {"no": 1}, 1, day))
    kept = json.loads(results.FILE.read_text())
    assert {name: {p: r["passed"] for p, r in parts.items()} for name, parts in kept.items()} == {
        first.name: {"contract": 4, "reassignment": 1},
        last.name: {"quick": 5},
    }
    page = results.PAGE.read_text()
    assert f"| 2.3.1 with ZooKeeper | 4 passed | 1 passed | {day} |" in page
    assert "| no | 2.3.1 with ZooKeeper: 3 |" in page
    assert f"| 3.3.2 | 5 passed | not run | {day} |" in page


def test_a_failure_is_seen_in_the_table():
    shown = table("Kafka", {CELLS[0].name: {"contract": Result(3, ["a", "b"], {}, 1, "2026-01-01")}})
    assert "| 2.3.1 with ZooKeeper | **2 failed**, 3 passed | not run | 2026-01-01 |" in shown
