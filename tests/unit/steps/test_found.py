"""What another client had made of a partition before its batch: it looks half-way, and is nobody's but that client's."""

from dataclasses import replace

import pytest
from tests.steps_lab import ProcessDiedError, Run, StillWaiting, move
from upath import UPath

from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.errors import (
    NotAuthorizedError,
    NothingSentError,
    ReassignmentError,
    RecordDamagedError,
    RecordUnavailableError,
    VerificationError,
    is_worth_a_retry,
)
from kafka_reassignment.model import Refusal, TopicPartition
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop

pytestmark = pytest.mark.longer

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


@pytest.fixture
def raised_now(cluster):
    """Another client gives orders-0 more replicas, which are being copied."""

    def do() -> None:
        refused = cluster.another_client().alter_reassignments({ORDERS_0: RAISED}, allow_replication_factor_change=True)
        assert refused[ORDERS_0] is None

    return do


def test_what_another_client_adds_when_its_batch_is_to_begin_is_waited_for_and_then_left_out(reassignment, raised_now):
    run = reassignment(MOVES)
    raised_now()
    with pytest.raises(StillWaiting, match="another client is reassigning orders-0: let it finish"):
        run.do("admit")
    run.do_all()
    assert run.replicas()["orders-0"] == RAISED
    assert run.record.finished(1).left_out.keys() == {"orders-0"}


@pytest.mark.parametrize("then", ["go on", "stop"])
def test_what_another_client_adds_when_its_batch_is_submitted_is_no_move_of_ours(
    reassignment, cluster, raised_now, then
):
    run = reassignment(MOVES, [move("orders", 2, (3, 1), (3, 4))])
    run.do_all("admit", "set_throttle")
    raised_now()
    run.do("submit_batch")
    assert run.record.submitted(1).left_out == {
        "orders-0": "in flight to 1,2,3 before it was submitted: another client's move"
    }
    if then == "stop":
        run.stop_all()
        assert ORDERS_0 in cluster.list_reassignments()
    run.cluster.catch_up_all()
    if then == "go on":
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
        for batch in (2, 3):
            assert next_batch(run.context, batch - 1) == batch
            run.do_all(batch=batch)
        with pytest.raises(VerificationError, match=r"orders-0[ ,].*left out: another client changed it"):
            run.finish()
    assert run.replicas()["orders-0"] == RAISED


def test_an_expansion_of_ours_that_nobody_recorded_goes_on(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    die_at_request(cluster, run)
    run.do_all()
    assert run.replicas()["orders-0"] == (3, 2)
    assert not run.record.finished(1).left_out


def test_what_another_client_adds_is_taken_over_where_a_request_supersedes(reassignment, raised_now):
    run = reassignment(MOVES, supersede=True)
    raised_now()
    run.do_all()
    assert run.replicas()["orders-0"] == (3, 2)


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
    cluster.fail("alter_reassignments", ProcessDiedError(), applied=None if dies == "after" else 0)
    with pytest.raises(ProcessDiedError):
        run.do("submit_batch")
    _, found = run.record.found_notes(1).last()
    assert found.partitions == ("orders-1",)
    assert found.changed_by_others.keys() == {"orders-0"}
    cluster.catch_up_all()
    run.do_all()
    assert run.replicas()["orders-0"] == RAISED
    assert run.replicas()["orders-1"] == (4, 3), "what it had expanded goes on"
    _, last = run.record.found_notes(1).last()
    assert (last.partitions, last.changed_by_others) == (found.partitions, found.changed_by_others)


def test_what_another_client_has_added_keeps_no_throttle_of_ours_when_it_falls_behind(
    reassignment, cluster, raise_factor
):
    """Its lists were set before anybody knew; nothing would raise their rates any more, and it may never catch up."""
    run = reassignment(MOVES)
    before = run.configs()
    run.do_all("admit", "set_throttle")
    raise_factor()
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    cluster.fall_behind(ORDERS_0, 3)
    run.do("clear_throttle")
    assert run.configs() == before
    assert run.record.journal().is_settled


@pytest.mark.parametrize("done", [("admit",), ("admit", "set_throttle"), ("admit", "set_throttle", "submit_batch")])
def test_a_stop_takes_back_nothing_that_another_client_has_added_before(reassignment, raise_factor, done):
    run = reassignment(MOVES)
    raise_factor()
    run.do_all(*done)
    run.stop_all()
    assert run.replicas()["orders-0"] == RAISED
    assert run.replicas()["orders-1"] == (2, 3)


def test_a_stop_takes_back_what_a_try_that_died_has_added(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    (run.record.root / "batches" / "0001.submitted.json").unlink()
    run.stop_all()
    assert run.replicas()["orders-0"] == (1, 2)


def test_what_a_batch_has_left_half_way_and_a_stop_has_left_is_still_ours_when_resumed(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=True))
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=False))
    run.do_all()
    assert run.replicas()["orders-0"] == (3, 2)


def die_at_request(cluster, run: Run, batch: int = 1) -> None:
    """The worker is killed once Kafka has taken the batch, and nothing of that is recorded."""
    cluster.fail("alter_reassignments", ProcessDiedError(), applied=None)
    with pytest.raises(ProcessDiedError):
        run.do("submit_batch", batch)


def as_an_earlier_version(run: Run) -> None:
    """The record is one of an earlier version, which left no notes."""
    for note in (run.record.root / "batches" / "0001.found").iterdir():
        note.unlink()
    frozen = run.record.root / "frozen.json"
    frozen.write_text(frozen.read_text().replace('"notes_found": true', '"notes_found": false'))


@pytest.fixture(params=["recorded", "not recorded"])
def submitted_by_an_earlier_version(request, reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    run.do("submit_batch") if request.param == "recorded" else die_at_request(cluster, run)
    as_an_earlier_version(run)
    return run


def test_what_an_earlier_version_has_submitted_goes_on(submitted_by_an_earlier_version, cluster):
    run = submitted_by_an_earlier_version
    cluster.catch_up_all()
    run.do_all()
    assert run.replicas()["orders-0"] == (3, 2)
    run.finish()


def test_a_stop_takes_back_what_an_earlier_version_has_submitted(submitted_by_an_earlier_version, cluster):
    run = submitted_by_an_earlier_version
    run.stop_all()
    assert not cluster.list_reassignments()
    assert run.replicas()["orders-0"] == (1, 2)


@pytest.fixture
def cut_again(cluster, tmp_path):
    """A reassignment whose first batch has other partitions since it was submitted, stopped and resumed; not submitted again yet."""
    cluster.create_topic("more", [(3, 1), (1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    later = [move("more", 0, (3, 1), (3, 5)), move("more", 1, (1, 2), (1, 6))]
    run = Run(cluster, UPath(tmp_path), [MOVES, later], limits={"partition_movements": 2})
    run.when_waiting = cluster.catch_up_all
    run.do_all("admit", "set_throttle", "submit_batch")
    run.stop_all()
    change_limits(run.context, {"partition_movements": 4}, by="ann")
    resume(run.context, by="bob")
    assert first_batch(run.context) == 1
    assert len(run.context.batch(1).partitions) == 4
    run.do_all("admit", "set_throttle")
    return run


def test_a_second_stop_takes_back_what_was_begun_after_the_batch_was_cut_again(cut_again, cluster):
    die_at_request(cluster, cut_again)
    cut_again.stop_all()
    assert not cluster.list_reassignments()
    assert cut_again.replicas()["more-0"] == (3, 1)


def test_what_was_begun_after_the_batch_was_cut_again_is_ours_in_a_rerun(cut_again, cluster):
    die_at_request(cluster, cut_again)
    cluster.catch_up_all()
    cut_again.do_all()
    assert cut_again.record.finished(1).left_out == {}
    cut_again.finish()


def test_what_was_begun_after_the_batch_was_cut_again_is_settled_when_it_is_withdrawn(cut_again, cluster, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Record, "write_submitted", store_is_away)
        with pytest.raises(RecordUnavailableError):
            cut_again.do("submit_batch")
    cut_again.stop_all(CancelScope(partitions=("more-1",)))
    cut_again.do_all()
    assert cut_again.replicas()["more-1"] == (1, 2)


def store_is_away(*_args: object) -> None:
    raise RecordUnavailableError("The store does not answer")


def test_what_others_make_of_a_partition_after_a_stop_has_settled_it_is_theirs_when_it_is_resumed(
    reassignment, raise_factor
):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    run.stop_all()
    raise_factor()
    resume(run.context, by="bob")
    assert first_batch(run.context) == 1
    run.do_all()
    assert run.replicas()["orders-0"] == RAISED
    assert run.replicas()["orders-1"] == (4, 3)
    assert "before it was submitted" in run.record.finished(1).left_out["orders-0"]


@pytest.mark.parametrize("kept_out_by", ["a move of another client", "a broker that is down"])
def test_a_stop_takes_back_nothing_of_what_was_left_out(reassignment, cluster, raise_factor, kept_out_by):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    if kept_out_by == "a broker that is down":
        cluster.kill(3)
        run.do("submit_batch")
        cluster.restart(3)
        raise_factor()
    else:
        cluster.another_client().alter_reassignments({ORDERS_0: (2, 1, 3)}, allow_replication_factor_change=True)
        run.do("submit_batch")
        cluster.catch_up(ORDERS_0)
    there = run.replicas()["orders-0"]
    assert "orders-0" in run.record.submitted(1).left_out
    run.stop_all()
    assert run.replicas()["orders-0"] == there
    assert len(there) == 3


def test_a_stop_takes_back_nothing_that_another_client_has_taken_over_since(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    other = cluster.another_client()
    other.alter_reassignments({ORDERS_0: None})
    other.alter_reassignments({ORDERS_0: (2, 1, 3)}, allow_replication_factor_change=True)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    assert run.record.submitted(1).changed_by_others == ("orders-0",)
    cluster.catch_up(ORDERS_0)
    run.stop_all()
    assert run.replicas()["orders-0"] == (2, 1, 3)


@pytest.mark.parametrize("answer", ["busy", "refused", "nothing sent", "not authorized"])
def test_what_another_client_makes_of_a_batch_that_was_not_taken_is_not_ours(
    reassignment, cluster, raise_factor, monkeypatch, answer
):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    old = replace(cluster.describe_cluster(), has_reassignment_api=False)

    def not_taken(targets, **_options):
        if answer == "nothing sent":
            raise NothingSentError("No broker answers. Nothing was sent. Try again.")
        if answer == "not authorized":
            raise NotAuthorizedError("The user may not alter the cluster")
        refusal = "REASSIGNMENT_IN_PROGRESS" if answer == "busy" else "INVALID_REPLICATION_FACTOR"
        return dict.fromkeys(targets, Refusal(refusal, "payments-0 is there"))

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "alter_reassignments", not_taken)
        if answer == "busy":
            patched.setattr(cluster, "describe_cluster", lambda: old)
        with pytest.raises(ReassignmentError):
            run.do("submit_batch")
    raise_factor(replicas=(2, 1, 3))
    run.do_all()
    assert run.replicas()["orders-0"] == (2, 1, 3)
    assert "before it was submitted" in run.record.finished(1).left_out["orders-0"]


@pytest.mark.parametrize("then", ["rerun", "stop"])
def test_what_no_request_was_sent_for_is_not_begun(cluster, tmp_path, then):
    count = Controller.slice_size + 1
    last = TopicPartition("big", count - 1)
    cluster.create_topic("big", [(1, 2)] * count, size_bytes=1_000)
    cluster.catch_up_all()
    moves = [move("big", n, (1, 2), (3, 2), 1_000) for n in range(count)]
    run = Run(cluster, UPath(tmp_path), [moves], limits={"partition_movements": 1_000})
    run.when_waiting = cluster.catch_up_all
    run.do_all("admit", "set_throttle")
    request = cluster.alter_reassignments

    def of_the_first_slice_alone(targets, **options):
        if last in targets:
            raise NothingSentError("No broker answers. Nothing was sent. Try again.")
        return request(targets, **options)

    cluster.alter_reassignments = of_the_first_slice_alone
    with pytest.raises(NothingSentError):
        run.do("submit_batch")
    del cluster.alter_reassignments
    cluster.another_client().alter_reassignments({last: RAISED}, allow_replication_factor_change=True)
    cluster.catch_up(last)
    run.do_all() if then == "rerun" else run.stop_all()
    assert run.replicas()[str(last)] == RAISED
    assert run.replicas()["big-0"] == ((3, 2) if then == "rerun" else (1, 2))


def test_what_another_try_has_submitted_meanwhile_stays_begun(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")

    def late(*_args, **_options):
        del cluster.alter_reassignments
        run.do("submit_batch")  # by the next try
        raise NothingSentError("No broker answers. Nothing was sent. Try again.")

    cluster.alter_reassignments = late
    with pytest.raises(NothingSentError):
        run.do("submit_batch")
    run.stop_all()
    assert not cluster.list_reassignments()
    cluster.catch_up_all()
    assert run.replicas()["orders-0"] == (1, 2)


def test_a_note_that_was_written_once_is_believed(reassignment, raise_factor):
    """So did one version: it noted how a batch was found in one object, and nothing in the frozen plan said so."""
    run = reassignment(MOVES[1:], MOVES[:1])
    run.do_all()
    note = run.record.found_notes(1).last()[1]
    as_an_earlier_version(run)
    (run.record.root / "batches" / "0001.found.json").write_text(note.model_dump_json(exclude={"run_command"}))
    assert next_batch(run.context, 1) == 2
    raise_factor()
    run.do_all(batch=2)
    assert run.replicas()["orders-0"] == RAISED
    assert "before it was submitted" in run.record.finished(2).left_out["orders-0"]


def test_what_is_at_its_target_in_order_needs_nothing_whoever_brought_it_there(reassignment, raise_factor):
    run = reassignment(MOVES)
    raise_factor(replicas=(3, 2))
    run.do_all()
    assert run.record.submitted(1).done_before == ("orders-0",)
    run.finish()


def test_what_another_client_makes_of_what_was_at_its_target_already_is_left_to_it(reassignment, raise_factor):
    """Seed 12570491: it adds what the expansion would have added, while the batch copies."""
    run = reassignment(MOVES)
    raise_factor(replicas=(3, 2))
    run.do_all("admit", "set_throttle", "submit_batch")
    raise_factor(replicas=(3, 2, 1))
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-0"] == (3, 2, 1)
    assert run.record.submitted(1).changed_by_others == ("orders-0",)


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
    (run.record.root / "batches" / "0001.found" / "000001.json").write_bytes(content)
    changed = len(cluster.altered)
    cancel.stop(run.context, WHOLE, by="bob")
    for step in (lambda: cancel.cancel_moves(run.context, WHOLE), lambda: report_stop(run.context, WHOLE)):
        with pytest.raises(RecordDamagedError, match=r"0001.found/000001.json is not a readable FoundBatch") as error:
            step()
        assert not is_worth_a_retry(error.value)
        assert error.value.advice
    assert len(cluster.altered) == changed
