"""Jars fetched once and checked at each use; by the real Ivy, from a repository that is a folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from tests.kafka_fixtures import wait_until

from kafka_lab.errors import LocalClusterError
from kafka_lab.jars import (
    IVY_SETTINGS_VARIABLE,
    cache_directory,
    damage_of,
    fetch_jars,
    ivy_jar,
    recipe_of,
)
from kafka_lab.releases import Release

VERSION = "4.3.1"
JARS = [
    "kafka-storage-4.3.1-test.jar",
    "kafka-storage-4.3.1.jar",
    "kafka-tools-4.3.1.jar",
    "kafka_2.13-4.3.1.jar",
    "log4j-slf4j-impl-2.25.4.jar",
]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder with the wanted jars, set as the mirror Ivy looks at."""
    for dependency in Release.parse(VERSION).dependencies:
        folder = tmp_path / "repository" / dependency.organisation / dependency.module
        folder.mkdir(parents=True)
        for classifier in dependency.classifiers or ("",):
            name = f"{dependency.module}-{dependency.revision}" + (f"-{classifier}" if classifier else "")
            (folder / f"{name}.jar").write_text(f"the jar of {dependency.module}")
    settings = tmp_path / "ivysettings.xml"
    pattern = tmp_path / "repository" / "[organisation]" / "[module]" / "[artifact]-[revision](-[classifier]).[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers>'
        f'<filesystem name="folder"><artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(settings))
    return tmp_path / "repository"


@pytest.fixture
def fetch(tmp_path, repository):
    """Fetch into a cache of the test's own; ``fetch.lines`` has what was logged."""

    def run():
        run.lines = []
        return fetch_jars(VERSION, cache=tmp_path / "cache", log_line=run.lines.append)

    return run


@pytest.fixture
def home(tmp_path):
    return tmp_path / "cache" / f"kafka-{VERSION}"


def test_jars_are_fetched_once_and_always_in_the_same_order(fetch, home):
    first = fetch()
    assert [jar.name for jar in first.jars] == JARS
    assert fetch.lines[0].startswith("Fetching the jars of Kafka 4.3.1")
    assert fetch() == first
    assert fetch.lines == []
    assert sorted(p.name for p in home.parent.iterdir()) == ["kafka-4.3.1", "kafka-4.3.1.lock"]


def test_a_damaged_cache_is_reported_and_fetched_again(fetch, home):
    fetch()
    jar = home / JARS[3]
    fetched = jar.read_text()
    jar.write_text(fetched.swapcase())  # the same size
    fetch()
    assert fetch.lines[0] == (
        "The cached jars of Kafka 4.3.1 are not usable (changed on disk: kafka_2.13-4.3.1.jar); fetching them again."
    )
    assert jar.read_text() == fetched


def test_what_a_killed_fetch_left_behind_is_removed(fetch, home):
    remains = home.parent / ".kafka-4.3.1.killed"
    (remains / "jars").mkdir(parents=True)
    (remains / "jars" / "kafka_2.13-4.3.1.jar").write_text("half of it")
    fetch()
    assert not remains.exists()
    assert damage_of(home, Release.parse(VERSION)) is None


FETCHING = """
import sys
from pathlib import Path
from kafka_lab.jars import fetch_jars
fetch_jars("4.3.1", cache=Path(sys.argv[1]))
"""


def test_a_fetch_that_is_killed_takes_ivy_and_its_half_done_work_along(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as never_answers:
        settings = tmp_path / "hanging.xml"
        settings.write_text(
            '<ivysettings><settings defaultResolver="hangs"/><resolvers><ibiblio name="hangs" m2compatible="true" '
            f'root="http://127.0.0.1:{never_answers.getsockname()[1]}/"/></resolvers></ivysettings>'
        )
        monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(settings))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        cache = tmp_path / "cache"
        with subprocess.Popen([sys.executable, "-c", FETCHING, str(cache)]) as fetching:
            never_answers.settimeout(30)
            waiting, _ = never_answers.accept()  # Ivy is at work
            assert list(cache.glob(".kafka-4.3.1.*"))
            fetching.kill()
        waiting.settimeout(10)
        while waiting.recv(4096):  # until Ivy is gone
            pass
        waiting.close()
    wait_until(lambda: not list(cache.glob(".kafka-4.3.1.*")))


def test_of_several_that_start_at_once_one_fetches_and_all_get_the_same(tmp_path, repository):
    lines, got = [], []

    def start():
        got.append(fetch_jars(VERSION, cache=tmp_path / "cache", log_line=lines.append))

    starts = [threading.Thread(target=start) for _ in range(4)]
    for thread in starts:
        thread.start()
    for thread in starts:
        thread.join()
    assert len([line for line in lines if line.startswith("Fetching")]) == 1
    assert len(got) == 4
    assert len(set(got)) == 1


def test_a_version_nobody_has_released_is_named_with_what_was_found(tmp_path, repository):
    with pytest.raises(LocalClusterError) as failed:
        fetch_jars("4.99.0", cache=tmp_path / "cache", log_line=str)
    assert str(failed.value).startswith(
        "Cannot fetch the jars of Kafka 4.99.0: expected them on Maven Central, found: "
    )
    assert "kafka_2.13;4.99.0: not found" in str(failed.value)
    assert "Check the version and the network." in str(failed.value)
    assert not (tmp_path / "cache" / "kafka-4.99.0").exists()


def test_a_network_that_is_down_is_reported(tmp_path, repository, monkeypatch):
    settings = tmp_path / "down.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="down"/><resolvers>'
        '<ibiblio name="down" m2compatible="true" root="http://127.0.0.1:9/"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(settings))
    with pytest.raises(LocalClusterError, match=r"Cannot fetch the jars .* Connection refused") as failed:
        fetch_jars(VERSION, cache=tmp_path / "cache", log_line=str)
    assert IVY_SETTINGS_VARIABLE in str(failed.value)


@pytest.mark.quick
def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalClusterError, match=r"Cannot keep the jars of Kafka 4\.3\.1 in .*/file/cache"):
        fetch_jars(VERSION, cache=tmp_path / "file" / "cache")


@pytest.mark.quick
def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("KAFKA_REASSIGNMENT_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


@pytest.mark.quick
def test_ivy_comes_with_pyspark():
    assert ivy_jar().is_file()


@pytest.fixture
def checked(tmp_path):
    """A folder with one jar and a manifest that fits; gives the folder and its manifest."""
    release = Release.parse(VERSION)
    (tmp_path / "a.jar").write_bytes(b"123")
    sha256 = "a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3"
    manifest = {"recipe": "", "jars": {"a.jar": {"bytes": 3, "sha256": sha256}}}

    def write(**changes):
        (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **changes}))
        return damage_of(tmp_path, release)

    manifest["recipe"] = recipe_of(release)
    return tmp_path, write


@pytest.mark.quick
def test_an_intact_folder_has_no_damage(checked):
    _, damage_with = checked
    assert damage_with() is None


@pytest.mark.quick
def test_every_damage_is_named(checked):
    folder, damage_with = checked
    assert damage_with(recipe="of another version") == "they were fetched by another version of this project"
    assert damage_with(jars={}) == "missing or not in the manifest: a.jar"
    (folder / "b.jar").write_bytes(b"")
    assert damage_with() == "missing or not in the manifest: b.jar"
    (folder / "b.jar").unlink()
    (folder / "a.jar").write_bytes(b"124")
    assert damage_with() == "changed on disk: a.jar"
    (folder / "manifest.json").write_text("{")
    assert damage_of(folder, Release.parse(VERSION)) == "the manifest cannot be read"
    (folder / "manifest.json").unlink()
    assert damage_of(folder, Release.parse(VERSION)) == "there is no manifest"
