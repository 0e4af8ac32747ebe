"""Finding a Java that can run brokers, or saying what is missing."""

from __future__ import annotations

import pytest

from kafka_lab.errors import LocalClusterError
from kafka_lab.java import find_java

pytestmark = pytest.mark.quick


@pytest.fixture
def java_that_says(tmp_path, monkeypatch):
    """A JAVA_HOME whose java prints these words and exits with this code."""

    def make(words, code=0):
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\ncat >&2 <<'WORDS'\n{words}\nWORDS\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return make


@pytest.mark.parametrize(
    ("words", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK 64-Bit Server VM', 17),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('java version "1.8.0_412"', 8),
    ],
)
def test_the_major_release_is_read_from_old_and_new_version_texts(java_that_says, words, major):
    java_that_says(words)
    assert find_java(8).major == major


def test_a_java_that_is_too_old_is_named_with_its_place(java_that_says, tmp_path):
    java_that_says('openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(LocalClusterError, match=f"need Java 17 or later, found Java 11 at {tmp_path}/bin/java"):
        find_java(17)


def test_no_java_at_all_names_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalClusterError, match=r"no 'java' on the PATH and no JAVA_HOME.* openjdk-17-jre-headless"):
        find_java(17)


def test_a_java_home_without_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(LocalClusterError, match=r"no executable .*gone/bin/java .from JAVA_HOME"):
        find_java(17)


def test_a_java_that_fails_is_reported_with_its_output(java_that_says):
    java_that_says("Error: could not find libjava.so", code=2)
    with pytest.raises(LocalClusterError, match=r"does not run: .* exit code 2 and 'Error: could not find libjava.so'"):
        find_java(17)
