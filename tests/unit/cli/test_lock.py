"""The lock of a cluster in a terminal."""

import json

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from typer.testing import CliRunner
from upath import UPath

from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.errors import RecordsMissingError

pytestmark = pytest.mark.quick


@pytest.fixture
def run(tmp_path):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000)
    return Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (1, 3))]])


def lock(run, command, *arguments):
    return CliRunner(env={"COLUMNS": "500"}).invoke(
        app, ["lock", command, run.cluster_id, *arguments, "--record-uri", str(run.store._base)]
    )


def test_the_owner_of_the_lock_is_shown_until_it_is_released(run):
    assert lock(run, "show").stdout.startswith("Cluster fake-cluster is locked by r, asked for by ann, since 20")
    assert lock(run, "release", "r", "--yes").exit_code == 0
    assert lock(run, "show").stdout == "Cluster fake-cluster is not locked\n"


def test_by_force_the_lock_is_taken_from_whoever_has_it_if_its_number_is_the_one_seen(run):
    assert "(lock 1)" in lock(run, "show").stdout
    stale = lock(run, "release", "--force", "--number", "7", "--yes")
    assert (stale.exit_code, "Lock 7 of cluster fake-cluster is not in force, expected 1" in stale.stdout) == (1, True)
    assert lock(run, "release", "--force", "--number", "1", "--yes").exit_code == 0
    assert lock(run, "show").stdout == "Cluster fake-cluster is not locked\n"


def test_a_damaged_lock_is_reported_and_released_by_the_command_that_the_report_names(run):
    (run.store._base / run.cluster_id / "lock" / "000001.json").write_bytes(b"")
    shown = lock(run, "show")
    assert shown.exit_code == ExitCode.DAMAGED
    command = f"kafka-reassignment lock release {run.cluster_id} --force --number 1"
    assert f"cluster {run.cluster_id} cannot be read" in shown.stderr
    assert command in shown.stderr
    assert lock(run, "release", *command.split()[4:], "--yes").exit_code == 0
    assert run.store.lock_owner(run.cluster_id) is None


def test_by_force_a_person_is_asked_for_the_number_and_the_cluster(run):
    arguments = ["lock", "release", run.cluster_id, "--force", "--record-uri", str(run.store._base)]
    refused = CliRunner().invoke(app, arguments, input="1\nanother-cluster\n")
    assert refused.exit_code == 1
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"
    assert CliRunner().invoke(app, arguments, input=f"1\n{run.cluster_id}\n").exit_code == 0
    assert run.store.lock_owner(run.cluster_id) is None


def test_only_the_owners_lock_is_released(run):
    refused = lock(run, "release", "other", "--yes")
    assert refused.exit_code == 1
    assert "other has not locked cluster fake-cluster: nothing was released" in refused.stdout
    assert "is locked by r" in lock(run, "show").stdout


def test_programs_read_the_lock_and_its_release(run):
    shown = json.loads(lock(run, "show", "--json").stdout)
    assert (shown["locked"], shown["number"], shown["reassignment_id"]) == (True, 1, "r")
    refused = lock(run, "release", "other", "--yes", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["released"]) == (ExitCode.NOT_SO, False)
    released = lock(run, "release", "r", "--yes", "--json")
    assert (released.exit_code, json.loads(released.stdout)["released"]) == (ExitCode.DONE, True)
    assert json.loads(lock(run, "show", "--json").stdout) == {
        "cluster_id": run.cluster_id,
        "number": 2,
        "locked": False,
    }


def test_by_force_nothing_is_released_or_written_where_nobody_has_the_lock(run):
    lock(run, "release", "r", "--yes")
    again = lock(run, "release", "--force", "--number", "2", "--yes")
    assert (again.exit_code, again.stdout) == (
        ExitCode.NOT_SO,
        "Cluster fake-cluster is not locked: nothing was released\n",
    )
    assert run.store.lock(run.cluster_id).last_number() == 2


@pytest.mark.parametrize(
    "arguments", [("show",), ("release", "r", "--yes"), ("release", "--force", "--number", "0", "--yes")]
)
def test_while_the_share_is_away_no_cluster_looks_unlocked_and_nothing_is_written(run, tmp_path, arguments):
    tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-away"))
    tmp_path.mkdir()
    refused = lock(run, *arguments)
    assert (refused.exit_code, refused.stdout) == (ExitCode.NOT_FOUND, "")
    assert f"There is no record of cluster fake-cluster at {tmp_path}" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RecordsMissingError):
        run.record.require_records()


def test_the_owner_is_named_as_it_is(run):
    run.store.release(run.cluster_id, "r")
    Run(run.cluster, run.folder, [[move("orders", 0, (1, 2), (1, 3))]], reassignment_id="drain:on:b7")
    assert "is locked by drain:on:b7, " in lock(run, "show").stdout, "what is copied from there has to name it"


def test_a_throttle_journal_that_cannot_be_read_keeps_nobody_from_the_lock(run):
    run.do_all("admit", "set_throttle")
    for place in (run.record.root / "throttle-journal").iterdir():
        place.write_bytes(b"")
    released = lock(run, "release", "r", "--yes")
    assert (released.exit_code, released.stdout) == (0, "Released\n")
    assert "Still owed: not known: " in released.stderr
