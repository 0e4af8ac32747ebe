"""Which jars a release needs, and which releases can run here."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from kafka_lab.errors import LocalClusterError
from kafka_lab.releases import Release

pytestmark = pytest.mark.quick


def wanted(version):
    module = ET.fromstring(Release.parse(version).ivy_module())
    return {d.get("name"): d.get("rev") for d in module.iter("dependency")}


def test_a_release_of_today_comes_with_its_tools_a_logging_backend_and_a_remote_store():
    found = wanted("4.3.1")
    assert found.pop("log4j-slf4j-impl") == "2.25.4"
    assert found == {"kafka_2.13": "4.3.1", "kafka-tools": "4.3.1", "kafka-storage": "4.3.1"}


def test_the_remote_store_is_an_artifact_beside_the_main_one():
    module = ET.fromstring(Release.parse("4.3.1").ivy_module())
    artifacts = [a.attrib for d in module.iter("dependency") if d.get("name") == "kafka-storage" for a in d]
    assert artifacts == [
        {"name": "kafka-storage"},
        {"name": "kafka-storage", "{http://ant.apache.org/ivy/maven}classifier": "test"},
    ]


def test_a_release_with_zookeeper_logs_by_reload4j():
    assert wanted("3.9.2") == {"kafka_2.13": "3.9.2", "kafka-tools": "3.9.2", "slf4j-reload4j": "1.7.36"}


def test_an_old_release_gets_a_zookeeper_client_that_connects_on_a_java_of_today():
    assert wanted("2.3.1") == {"kafka_2.12": "2.3.1", "slf4j-reload4j": "1.7.36", "zookeeper": "3.5.9"}


def test_the_reassignment_tool_is_where_its_release_has_it():
    assert Release.parse("2.3.1").reassignment_tool == "kafka.admin.ReassignPartitionsCommand"
    assert Release.parse("4.3.1").reassignment_tool == "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def test_releases_are_ordered_by_number_not_by_letter():
    assert Release.parse("3.10.0") > Release.parse("3.9.2")


@pytest.mark.parametrize("text", ["4.3", "latest", "4.3.1-rc0", "", "4.3.1.0", "../4.3.1", "４.3.1"])
def test_a_version_that_is_no_release_is_refused(text):
    with pytest.raises(LocalClusterError, match=r"is not a release, expected three numbers such as 4.3.1"):
        Release.parse(text)


def test_a_release_older_than_any_that_runs_is_refused():
    with pytest.raises(LocalClusterError, match=r"Kafka 1.1.1 cannot run here: expected 2.0.0 or later"):
        Release.parse("1.1.1")
