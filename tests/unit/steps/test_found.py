"""What another client had made of a partition before its batch: it looks half-way, and is nobody's but that client's."""

import pytest
from tests.steps_lab import ProcessDiedError, Run, move
from upath import UPath

from kafka_reassignment.errors import RecordDamagedError, VerificationError, is_worth_a_retry
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.cancel_report import report_stop
from kafka_reassignment.steps.cancel_scope import CancelScope

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVES = [move("orders", 0, (1, 2), (3, 2)), move("orders", 1, (2, 3), (4, 3))]
RAISED = (1, 2, 3)
WHOLE = CancelScope()


@pytest.fixture
def raise_factor(cluster):
    """Another client gives a partition more replicas, all in sync."""

    def do(partition: TopicPartition = ORDERS_0, replicas: tuple[int, ...] = RAISED) -> None:
        cluster.another_client().alter_reassignments({partition: replicas}, allow_replication_factor_change=True)
        cluster.catch_up(partition)

    return do


def stop_all(run: Run) -> None:
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    run.until_settled(WHOLE)
    cancel.clear_after_stop(run.context, WHOLE)
    report_stop(run.context, WHOLE)


@pytest.mark.parametrize("done", [(), ("admit",), ("admit", "set_throttle")], ids=len)
@pytest.mark.parametrize("replicas", [(1, 2, 3), (2, 1, 3), (2, 3), (3, 2, 1)])
def test_what_another_client_has_changed_before_its_batch_is_left_out_and_named(
    reassignment, raise_factor, done, replicas
):
    run = reassignment(MOVES)
    run.do_all(*done) if done else None
    raise_factor(replicas=replicas)
    run.do_all()
    assert run.replicas()["orders-0"] == replicas
    assert run.replicas()["orders-1"] == (4, 3), "the rest goes on"
    why = run.record.finished(1).left_out["orders-0"]
    assert why.startswith("another client changed it: at ")
    assert why.endswith("expected 1,2: stale plan")
    with pytest.raises(VerificationError, match=r"orders-0[ ,].*left out: another client changed it"):
        run.finish()


def test_it_stays_left_out_when_the_submission_is_repeated(reassignment, raise_factor):
    run = reassignment(MOVES)
    raise_factor()
    run.do_all("admit", "set_throttle", "submit_batch", "submit_batch")
    assert run.record.submitted(1).accepted == ("orders-1",)
    assert run.record.submitted(1).changed_by_others == ("orders-0",)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == RAISED


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_try_that_dies_at_its_request_leaves_behind_what_is_its_own(reassignment, cluster, raise_factor, dies):
    run = reassignment(MOVES)
    raise_factor()
    run.do_all("admit", "set_throttle")
    request = cluster.alter_reassignments

    def die(*args, **options):
        if dies == "after":
            request(*args, **options)
        raise ProcessDiedError

    cluster.alter_reassignments = die
    with pytest.raises(ProcessDiedError):
        run.do("submit_batch")
    del cluster.alter_reassignments
    found = run.record.found(1)
    assert found.partitions == ("orders-1",)
    assert found.changed_by_others.keys() == {"orders-0"}
    cluster.catch_up_all()
    run.do_all()
    assert run.replicas()["orders-0"] == RAISED
    assert run.replicas()["orders-1"] == (4, 3), "what it had expanded goes on"
    assert run.record.found(1) == found, "it is written once"


@pytest.mark.parametrize("done", [("admit",), ("admit", "set_throttle"), ("admit", "set_throttle", "submit_batch")])
def test_a_stop_takes_back_nothing_that_another_client_has_added_before(reassignment, raise_factor, done):
    run = reassignment(MOVES)
    raise_factor()
    run.do_all(*done)
    stop_all(run)
    assert run.replicas()["orders-0"] == RAISED
    assert run.replicas()["orders-1"] == (2, 3)


def test_a_stop_takes_back_what_a_try_that_died_has_added(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    (run.record.root / "batches" / "0001.submitted.json").unlink()
    stop_all(run)
    assert run.replicas()["orders-0"] == (1, 2)


def test_what_a_batch_has_left_half_way_and_a_stop_has_left_is_still_ours_when_resumed(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=True))
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=False))
    run.do_all()
    assert run.replicas()["orders-0"] == (3, 2)


def test_a_record_of_a_version_before_goes_on_as_it_did(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    (run.record.root / "batches" / "0001.found.json").unlink()
    cluster.catch_up_all()
    run.do_all()
    assert run.record.found(1) is None
    assert run.replicas()["orders-0"] == (3, 2)


def test_what_is_at_its_target_in_order_needs_nothing_whoever_brought_it_there(reassignment, raise_factor):
    run = reassignment(MOVES)
    raise_factor(replicas=(3, 2))
    run.do_all()
    assert run.record.submitted(1).done_before == ("orders-0",)
    run.finish()


def test_a_later_step_is_judged_by_where_the_earlier_one_ends(cluster, tmp_path, raise_factor):
    steps = [move("orders", 0, (1, 2), (3, 2)), move("orders", 0, (3, 2), (3, 4))]
    run = Run(cluster, UPath(tmp_path), [[step] for step in steps])
    run.when_waiting = cluster.catch_up_all
    run.do_all(batch=1)
    raise_factor(replicas=(3, 2, 4))
    run.do_all(batch=2)
    assert run.replicas()["orders-0"] == (3, 2, 4)
    assert "before it was submitted" in run.record.finished(2).left_out["orders-0"]


@pytest.mark.parametrize("content", [b"", b'{"version": 2, "of_a_newer_version": 1}'])
def test_a_damaged_note_of_how_a_batch_was_found_is_final(reassignment, cluster, content):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    (run.record.root / "batches" / "0001.found.json").write_bytes(content)
    changed = len(cluster.altered)
    cancel.stop(run.context, WHOLE, by="bob")
    for step in (lambda: cancel.cancel_moves(run.context, WHOLE), lambda: report_stop(run.context, WHOLE)):
        with pytest.raises(RecordDamagedError, match="0001.found.json is not a readable FoundBatch") as error:
            step()
        assert not is_worth_a_retry(error.value)
        assert error.value.advice
    assert len(cluster.altered) == changed
