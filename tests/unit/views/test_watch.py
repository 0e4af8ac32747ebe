"""One look after the other at a reassignment, on a fake cluster; and how the command shows them."""

import json
from io import StringIO

import pytest
from rich.console import Console
from tests.steps_lab import StillWaiting, move
from typer.testing import CliRunner

from kafka_reassignment import cluster as adapters
from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.cli.watch import drawn
from kafka_reassignment.errors import ClusterUnavailableError, NotSubmittedError, RecordError, RecordUnavailableError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.views.watch import Watch

pytestmark = pytest.mark.quick

ORDERS = [TopicPartition("orders", n) for n in range(4)]
FIRST = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
SECOND = [move("orders", 2, (3, 1), (5, 1))]


def test_what_was_withdrawn_is_neither_done_nor_left(reassignment):
    run = reassignment(FIRST, SECOND)
    cancel.stop(run.context, CancelScope(("orders-1",)), by="bob")
    run.do_all()
    work = watch(run).look().work
    assert (work.bytes_done, work.bytes_left, work.bytes_to_copy) == (1_000_000, 1_000_000, 2_000_000)


def watch(run, reassignment_id=None):
    return Watch(run.cluster, run.store, reassignment_id, now=lambda: run.clock.now)


def test_a_reassignment_is_followed_from_its_plan_to_its_end(reassignment, cluster):
    run = reassignment(FIRST, SECOND)
    watched = watch(run)
    before = watched.look()
    assert (before.doing, before.bytes_left, before.waits) == ("it has not submitted batch 1 of 2", None, ())
    assert (before.work.bytes_left, before.work.bytes_to_copy, before.rates) == (3_000_000, 3_000_000, (10**7, 10**7))
    run.do_all("admit", "set_throttle", "submit_batch")
    moving = watched.look()
    assert (moving.doing, moving.bytes_left) == ("batch 1 of 2: 0 of 2 partitions in sync", 2_000_000)
    assert (moving.in_flight, moving.is_over) == (2, False)
    assert "2.0 MB left" in str(moving)
    assert "3.0 MB of 3.0 MB left of all batches" in str(moving)
    cluster.catch_up_all()
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    next_one = watched.look()
    assert (next_one.batch, next_one.finished, next_one.work.bytes_left) == (2, 1, 1_000_000)
    run.do_all(batch=2)
    assert watched.look().doing == "all batches are finished: it verifies and reports"
    run.finish()
    done = watched.look()
    assert (done.doing, done.is_over, done.is_done, done.work.share) == ("r is finished", True, True, 1.0)
    assert done.as_json() == json.loads(json.dumps(done.as_json()))


def test_no_time_is_left_to_be_told_while_a_replica_that_stays_holds_the_batch_up(reassignment, cluster):
    run = reassignment(FIRST)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    cluster.fall_behind(ORDERS[1], 3)
    run.look("sense_isr_catch_up")
    assert watch(run).look().seconds_left is None


def test_speeds_are_measured_between_looks_and_until_then_they_are_those_of_the_note(reassignment, cluster):
    run = reassignment(FIRST)
    run.do_all("admit", "set_throttle", "submit_batch")
    watched = watch(run)
    run.record.write_progress(ProgressNote(batch=1, at=run.clock.now, text="", bytes_per_second=5.0, seconds_left=7.0))
    noted = watched.look()
    assert (noted.bytes_per_second, noted.seconds_left) == (5.0, 7.0)
    cluster.copy(ORDERS[0], 3, 400_000)
    run.clock.sleep(40)
    measured = watched.look()
    assert measured.bytes_left == 1_600_000
    assert measured.bytes_per_second == 400_000 / 40
    run.clock.sleep(200)
    assert watch(run).look().bytes_per_second is None


def test_a_failed_step_and_what_a_batch_is_held_for_are_why_it_waits(reassignment, cluster):
    run = reassignment(FIRST)
    cluster.alter_reassignments({ORDERS[3]: (6, 2)})
    with pytest.raises(StillWaiting) as waits:
        run.do("admit")
    held = watch(run).look()
    assert held.doing == "it holds batch 1 of 1 back"
    assert held.waits
    assert all(reason in str(waits.value) for reason in held.waits)
    cluster.catch_up_all()
    run.do_all("admit", "set_throttle")
    with pytest.raises(NotSubmittedError):
        run.do("sense_isr_catch_up")
    failed = watch(run).look()
    assert failed.doing == "it stands at batch 1 of 1"
    assert failed.waits[0].startswith("sense_isr_catch_up of batch 1 has failed: NotSubmittedError")


def test_a_red_step_of_the_run_itself_is_said_to_be_of_no_batch(reassignment):
    run = reassignment(FIRST)
    run.run_batches()
    with pytest.raises(RecordUnavailableError), run.context.audited("verify"):
        raise RecordUnavailableError("The store is away")
    look = watch(run).look()
    assert look.doing == "it stands at verify"
    assert look.waits[0].startswith("verify has failed: RecordUnavailableError")


def test_a_replica_that_does_not_get_on_is_why_it_waits(reassignment, cluster):
    run = reassignment(FIRST)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(4)
    assert watch(run).look().waits == ("orders-1 on 4: broker 4 is down (stuck)",)


def test_there_has_to_be_something_to_watch(reassignment):
    run = reassignment(FIRST)
    with pytest.raises(RecordError, match="There is no record of reassignment mistyped"):
        watch(run, "mistyped").look()
    run.store.release(run.cluster_id, "r")
    with pytest.raises(
        RecordError, match="Nothing is in flight in cluster fake-cluster, and no reassignment has locked"
    ):
        watch(run).look()


def test_moves_of_another_client_are_watched_until_they_are_over(cluster):
    cluster.alter_reassignments({ORDERS[0]: (1, 3)})
    watched = Watch(cluster, None)
    moving = watched.look()
    assert (moving.in_flight, moving.bytes_left, moving.is_over) == (1, 1_000_000, False)
    assert moving.doing == "1 partitions are in flight for another client"
    cluster.catch_up_all()
    over = watched.look()
    assert (over.is_over, over.is_done, str(over)) == (True, True, "nothing is in flight")


@pytest.fixture
def command(cluster, monkeypatch):
    """The command, which goes on at once where it would sleep; ``steps`` are what happens meanwhile."""
    monkeypatch.setattr(adapters, "open_cluster", lambda _settings: cluster)

    def run_it(run, *options, steps=()):
        meanwhile = iter(steps)
        monkeypatch.setattr("time.sleep", lambda _seconds: next(meanwhile)())
        return CliRunner().invoke(
            app, ["watch", "--bootstrap-server", "fake:1", "--record-uri", str(run.store._base), *options]
        )

    return run_it


def test_piped_it_is_a_line_per_change_and_a_cluster_that_is_away_for_a_while_is_no_end(
    reassignment, cluster, command, monkeypatch
):
    run = reassignment(FIRST)
    run.do_all("admit", "set_throttle", "submit_batch")
    describe = cluster.describe_cluster

    def away():
        def fail():
            monkeypatch.setattr(cluster, "describe_cluster", describe)
            raise ClusterUnavailableError("no broker answers")

        monkeypatch.setattr(cluster, "describe_cluster", fail)

    def to_the_end():
        cluster.catch_up_all()
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
        run.finish()

    ended = command(run, steps=[lambda: None, away, to_the_end])
    assert ended.exit_code == ExitCode.DONE, ended.stderr
    first, last = ended.stdout.splitlines()
    assert "batch 1 of 1: 0 of 2 partitions in sync; 2.0 MB left" in first
    assert last.endswith("r is finished")
    assert "no broker answers. Trying again" in ended.stderr


def test_programs_get_an_object_per_look_and_a_stopped_one_is_not_finished(reassignment, command):
    run = reassignment(FIRST)
    ended = command(run, "--json", steps=[lambda: run.store.release(run.cluster_id, "r")])
    looks = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [look["status"] for look in looks] == ["active", "ended"]
    assert (looks[0]["over"], looks[1]["over"], ended.exit_code) == (False, True, ExitCode.NOT_SO)


def test_one_look_is_enough_where_it_is_asked_for(reassignment, command):
    ended = command(reassignment(FIRST), "--once")
    assert (ended.exit_code, len(ended.stdout.splitlines())) == (ExitCode.DONE, 1)


def test_a_terminal_shows_the_same_figures(reassignment, cluster):
    run = reassignment(FIRST)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(4)
    terminal = Console(width=100, record=True, file=StringIO())
    terminal.print(drawn(watch(run).look()))
    shown = terminal.export_text()
    assert "now batch 1 of 1: 0 of 2 partitions in sync" in [" ".join(line.split()) for line in shown.splitlines()]
    for text in ("r, cluster fake-cluster", "2.0 MB of 2.0 MB", "10.0 MB/s", "orders-1 on 4: broker 4 is down"):
        assert text in shown
