"""What the page's list and its first screen say, and what they cost, in process."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from tests.airflow.file_calls import file_calls
from tests.airflow.test_web import client_of
from tests.browser.night import AT_WORK, CLUSTER, begin, event, night
from tests.steps_lab import StillWaiting
from upath import UPath

from kafka_reassignment.advice import Rerun, StartBrokers
from kafka_reassignment.errors import (
    RecordDamagedError,
    RecordUnavailableError,
    StoppedError,
    UnsafeDropError,
    VerificationError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.store import forget_read_plans
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import ClusterLock, FinishedBatch, ProgressNote, SubmittedBatch
from kafka_reassignment.record.operator_commands import LimitsCommand, RunCommand
from kafka_reassignment.request import Limits
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.approval import answered, approval
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.verify import verify
from kafka_reassignment.views.watch import Watch
from kafka_reassignment_airflow.web.answers import answers
from kafka_reassignment_airflow.web.drawn import STROKES, finished_numbers, time_chart
from kafka_reassignment_airflow.web.forms import forms_of
from kafka_reassignment_airflow.web.kept import AuditQuery
from kafka_reassignment_airflow.web.rows import ListQuery, Rows, Shown
from kafka_reassignment_airflow.web.views import Pages, found_in

pytestmark = pytest.mark.longer


@pytest.fixture
def run(two_batches):
    return two_batches(reassignment_id="r")


def words(run, *, after=timedelta()):
    """The five answers of the page of a reassignment, by question."""
    page = Pages(lambda: run.clock.now + after).page(run.store, run.cluster_id, "r", AuditQuery())
    return {it.question: it.words for it in answers(page)}, {it.question: it.more for it in answers(page)}


def test_while_it_copies_the_first_screen_says_what_is_left_and_that_nothing_is_to_be_done(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    run.cluster.hold_back(TopicPartition("orders", 0), 3)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    said, _ = words(run)
    assert said["What is it doing?"].startswith("It copies batch 1 of 2: ")
    assert said["Is it safe to stop?"] == "Yes: batch 1 goes back"
    assert said["Why does it wait?"] == "It does not wait"
    assert said["What do I do now?"] == "Nothing: it goes on by itself"


@pytest.mark.parametrize("maintenance", [{}, {"windows": ("mon-sun 00:00-23:00",)}, {"blackouts": ("2030-12-24",)}])
def test_the_end_is_said_to_be_with_the_windows_where_there_are_any(two_batches, maintenance):
    run = two_batches(reassignment_id="r", maintenance=maintenance)
    run.do_all("admit", "set_throttle", "submit_batch")
    ends_at = run.clock.now + timedelta(hours=1)
    run.record.write_progress(ProgressNote(batch=1, at=run.clock.now, text="it copies", ends_at=ends_at))
    said, more = words(run)
    assert said["When is it done?"] == "in 1 h"
    assert ("With the maintenance windows." in more["When is it done?"]) is bool(maintenance)


def test_when_a_broker_dies_the_first_screen_says_which_and_what_to_do(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    run.cluster.kill(3)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    said, more = words(run)
    assert said["Why does it wait?"] == "1 new replica does not get on"
    assert more["Why does it wait?"] == (
        "orders-0 to broker 3, stuck: broker 3 is down",
        "From 12:10:12 UTC on it goes on without these, if that helps",
    )
    assert said["What is it doing?"] == "It waits for 1 new replica of batch 1 of 2"
    assert said["What do I do now?"] == "Bring broker 3 back"
    assert said["When is it done?"] == "Not known, because replicas do not get on"


def test_no_end_is_told_while_a_replica_that_stays_holds_the_batch_up(run):
    run.do_all()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    run.cluster.catch_up_all()
    run.cluster.fall_behind(TopicPartition("orders", 1), 3)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up", batch=2)
    said, _ = words(run)
    assert said["When is it done?"] == "Not known, because replicas do not get on"


def test_when_nobody_looks_any_more_the_first_screen_says_so(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    run.cluster.hold_back(TopicPartition("orders", 0), 3)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    run.record.write_progress(
        run.record.progress().model_copy(update={"ends_at": run.clock.now + timedelta(minutes=2)})
    )
    said, more = words(run, after=timedelta(minutes=12))
    assert said["What do I do now?"] == "See whether Airflow's triggerer runs"
    assert more["What do I do now?"][0].startswith("The last look was 12 min ago")
    assert said["When is it done?"] == "Not known, because nobody has looked for 12 min"
    assert said["Why does it wait?"] == "Not known: nobody has looked for 12 min"
    now = run.clock.now + timedelta(minutes=12)
    assert Watch(run.cluster, run.store, "r", now=lambda: now).look().ends_at is None, "it is over by now"


@pytest.fixture
def asking(two_batches):
    """A plan that two people have to approve; its task has asked the first."""
    run = two_batches(reassignment_id="r", require_approval=True, second_approver=True)
    event(run.record, "plan", None, run.clock.now, "planned")
    assert "Approve or reject the plan" not in words(run, after=timedelta(minutes=4))[0].values(), "it is not asked yet"
    assert approval(run.context) == "ask"
    return run


def test_a_plan_that_waits_for_a_person_says_so_until_the_last_has_approved(asking):
    """Half a minute after the last answer it said so again, while the next task waited for a worker."""
    approve = "What do I do now?", "Approve or reject the plan"
    assert approve in words(asking, after=timedelta(days=1))[0].items()
    assert not answered(asking.context, approved=True, by="ann").may_run
    assert approve in words(asking)[0].items()
    assert answered(asking.context, approved=True, by="bob").may_run
    said, _ = words(asking, after=timedelta(minutes=4))
    assert said["What is it doing?"] == "It starts batch 1 of 2"
    assert said["What do I do now?"] == "Nothing: it goes on by itself"


@pytest.mark.parametrize("step", ["keep_throttle", "reinstate_throttle", "change_rate", "change_limits", "stop"])
def test_a_look_at_the_throttle_or_an_order_does_not_hide_that_a_plan_waits_for_a_person(asking, step):
    event(asking.record, step, None, asking.clock.now, "the throttle was missing, or as ann has asked")
    assert words(asking, after=timedelta(minutes=1))[0]["What do I do now?"] == "Approve or reject the plan"


def test_while_a_stop_settles_nobody_is_advised_to_resume(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob")
    with pytest.raises(StoppedError):
        run.do("sense_isr_catch_up")
    said, _ = words(run)
    assert said["What do I do now?"] == "Nothing: it settles by itself"
    assert said["Why does it wait?"] == "For what is in flight or half-way to be settled"
    assert said["When is it done?"] == "When its moves are settled"
    assert said["Is it safe to stop?"] == "It was stopped already"
    with pytest.raises(UnsafeDropError):
        report_stop(run.context, CancelScope())
    said, _ = words(run)
    assert said["What is it doing?"] == "It stands: report_stop has failed"
    assert said["Why does it wait?"] == "A step has failed"
    assert said["What do I do now?"].startswith("Trigger kafka_reassignment_cancel")


def links(run, question="What do I do now?"):
    """The links of one answer: words, DAG, run and task."""
    page = Pages(lambda: run.clock.now).page(run.store, run.cluster_id, "r", AuditQuery())
    return [
        (link.words, link.dag_id, link.run_id, link.task_id)
        for it in answers(page)
        if it.question == question
        for link in it.links
    ]


def test_a_red_task_of_a_cancel_is_found_in_the_run_of_the_cancel(run):
    actor = Actor(dag_id="kafka_reassignment_cancel", run_id="cancel-1", task_id="settle_moves")
    cancel.stop(run.context, CancelScope(), by="bob")
    with pytest.raises(RecordUnavailableError), replace(run.context, actor=actor).audited("settle_moves"):
        raise RecordUnavailableError("The store is away")
    assert words(run)[0]["What do I do now?"] == "Rerun settle_moves and what follows"
    assert links(run) == [("settle_moves", "kafka_reassignment_cancel", "cancel-1", "settle_moves")]


def test_a_red_step_whose_advice_is_followed_by_hand_leads_to_its_task_and_to_no_batch(run):
    run.run_batches()
    actor = Actor(dag_id="kafka_reassignment", run_id="r", task_id="verify")
    with pytest.raises(VerificationError), replace(run.context, actor=actor).audited("verify"):
        raise VerificationError("orders-0 is elsewhere", StartBrokers((4,)))
    assert words(run)[0]["What do I do now?"] == "Bring broker 4 back"
    assert links(run) == [("verify", "kafka_reassignment", "r", "verify")]


def test_what_runs_in_a_dag_of_ones_own_leads_to_the_run_that_is_there(run, monkeypatch):
    """Its links led to a run of kafka_reassignment_batch, and to one of kafka_reassignment, which never were."""
    actor = Actor(dag_id="my/dag", run_id="r", task_id="drop_old_replicas")
    with pytest.raises(UnsafeDropError), replace(run.context, actor=actor).audited("drop_old_replicas", 1):
        raise UnsafeDropError("not in sync", Rerun("submit_batch", batch=1), Rerun("start_batches"))
    assert links(run) == [
        ("submit_batch of batch 1", "my/dag", "r", "submit_batch"),
        ("start_batches", "my/dag", "r", "start_batches"),
    ]
    html = client_of(run, monkeypatch).get("/reassignment", params={"cluster": run.cluster_id, "id": "r"}).text
    assert 'href="../dags/my%2Fdag/runs/r"' in html
    assert "kafka_reassignment_batch/runs" not in html
    with pytest.raises(UnsafeDropError), replace(run.context, actor=actor).audited("drop_old_replicas", 1):
        raise UnsafeDropError("not in sync", Rerun("submit_batch", batch=1))
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="ann", stopped=False))
    run.store.release(run.cluster_id, "r")
    assert [it[3] for it in links(run)] == ["preflight", "submit_batch"], "it has no start_batches"


def test_a_red_step_of_the_run_itself_is_shown_with_its_advice(run):
    run.run_batches()
    run.cluster.alter_reassignments({TopicPartition("orders", 0): (1, 2)})
    run.cluster.catch_up_all()
    with pytest.raises(VerificationError):
        verify(run.context)
    said, more = words(run)
    assert said["What is it doing?"] == "Nothing: it has ended, and verify has failed"
    assert "orders-0" in more["What is it doing?"][0]
    assert said["What do I do now?"].startswith("Trigger kafka_reassignment")
    run.store.acquire(run.cluster_id, ClusterLock(reassignment_id="r", since=run.clock.now, requested_by="ann"))
    assert words(run)[0]["What is it doing?"] == "It stands: verify has failed"


def test_what_has_ended_red_and_was_rolled_back_since_does_not_advise_what_the_red_step_did(run):
    event(run.record, "verify", None, run.clock.now, "orders-0 is elsewhere", outcome="failed")
    run.store.release(run.cluster_id, "r")
    assert words(run)[0]["What is it doing?"] == "Nothing: it has ended, and verify has failed"
    begin_roll_back(run, "back").write_file("report.txt", b"verified")
    said, _ = words(run)
    assert said["What is it doing?"] == "Nothing: back has rolled it back"
    assert said["What do I do now?"] == "Look at the roll back"


def test_a_plan_that_waits_for_a_person_says_how_long_it_takes_once_it_is_approved(asking):
    for minutes in (1, 90):
        said, _ = words(asking, after=timedelta(minutes=minutes))
        assert said["When is it done?"] == "1 min after the approval"


def test_between_two_looks_a_batch_is_said_to_copy_and_then_to_be_completed(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    said, _ = words(run)
    assert said["What is it doing?"] == "It copies batch 1 of 2"
    assert said["When is it done?"].startswith("in ")
    event(run.record, "sense_isr_catch_up", 1, run.clock.now, "in sync")
    assert words(run)[0]["What is it doing?"] == "It completes batch 1 of 2"


def begin_roll_back(run, name):
    run.record.note_roll_back(name)
    other = run.store.record(run.cluster_id, name)
    other.write_submitted(1, SubmittedBatch(submitted_at=run.clock.now, accepted=(), left_out={}))
    return other


def forms(run):
    page = Pages(lambda: run.clock.now).page(run.store, run.cluster_id, "r", AuditQuery())
    return list(forms_of(page.found, page.row.roll_back))


@pytest.fixture
def finished(run):
    run.record.write_file("report.txt", b"verified")
    run.store.release(run.cluster_id, "r")
    return run


def test_what_was_rolled_back_does_not_pass_for_finished(finished):
    finished.record.note_roll_back("back")
    assert words(finished)[0]["What is it doing?"] == "Nothing: it is finished", "nothing was moved back yet"
    begin_roll_back(finished, "back").write_file("report.txt", b"verified")
    said, _ = words(finished)
    assert said["What is it doing?"] == "Nothing: back has rolled it back"
    assert said["What do I do now?"] == "Look at the roll back"
    assert forms(finished) == []
    begin_roll_back(finished, "of the rest")
    assert finished.record.rolled_back_by() == "of the rest", "the first may have been of a part"


def test_a_roll_back_that_was_rolled_back_itself_leaves_what_was_there_before_it(finished):
    """The page said that its replicas are not where it has put them, where they are there again."""
    back = begin_roll_back(finished, "back")
    back.write_file("report.txt", b"verified")
    back.note_roll_back("forth")
    begin(finished.store, finished.cluster_id, "forth", finished.clock.now)
    forth = finished.store.record(finished.cluster_id, "forth")
    forth.write_submitted(1, SubmittedBatch(submitted_at=finished.clock.now, accepted=(), left_out={}))
    assert words(finished)[0]["What is it doing?"] == "Nothing: back has rolled it back", "the other has not ended"
    forth.write_file("report.txt", b"verified")
    assert words(finished)[0]["What is it doing?"] == "Nothing: it is finished"
    assert forms(finished) == ["roll-back"]
    forth.note_roll_back("last")
    begin(finished.store, finished.cluster_id, "last", finished.clock.now, topics=["orders"])
    last = finished.store.record(finished.cluster_id, "last")
    last.write_submitted(1, SubmittedBatch(submitted_at=finished.clock.now, accepted=(), left_out={}))
    last.write_file("report.txt", b"verified")
    assert finished.record.rolled_back_by() is None, "only a part of that was rolled back"


def test_a_roll_back_that_began_before_a_resume_says_nothing_of_what_was_moved_since(run):
    begin_roll_back(run, "back")
    run.clock.sleep(1)
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="ann", stopped=False))
    assert run.record.rolled_back_by() is None
    run.clock.sleep(1)
    begin_roll_back(run, "again")
    assert run.record.rolled_back_by() == "again"


def test_a_roll_back_that_runs_is_not_to_be_asked_for_again(finished):
    begin_roll_back(finished, "back")
    lock = ClusterLock(reassignment_id="back", since=finished.clock.now, requested_by="ann")
    finished.store.acquire(finished.cluster_id, lock)
    assert words(finished)[0]["What is it doing?"] == "Nothing: back rolls it back now"
    assert words(finished)[0]["What do I do now?"] == "Look at the roll back"
    assert forms(finished) == []


def test_a_roll_back_that_stands_half_way_is_said_so_and_another_one_may_move_back_the_rest(finished):
    half_way = begin_roll_back(finished, "back")
    assert words(finished)[0]["What is it doing?"] == "Nothing: back began to roll it back, and has ended"
    half_way.run_commands.append(RunCommand(at=finished.clock.now, by="bob", stopped=True))
    said, _ = words(finished)
    assert said["What is it doing?"] == "Nothing: back began to roll it back, and was stopped"
    assert said["What do I do now?"] == "Look at the roll back, or roll back what is left"
    assert forms(finished) == ["roll-back"]
    finished.record.note_roll_back("rest")
    assert finished.record.rolled_back_by() == "back", "the next one has not begun"
    begin_roll_back(finished, "rest").write_file("report.txt", b"verified")
    assert words(finished)[0]["What is it doing?"] == "Nothing: rest has rolled it back"


def test_the_list_says_how_the_roll_back_of_a_finished_one_stands_and_looks_again(finished):
    now = [0.0]
    rows = Rows(clock=lambda: now[0])

    def roll_back():
        now[0] += 61
        (row,) = [row for row in rows.page(finished.store).rows if row.reassignment_id == "r"]
        return row.roll_back and str(row.roll_back)

    assert roll_back() is None
    other = begin_roll_back(finished, "back")
    assert roll_back() == "back began to roll it back, and has ended"
    other.write_file("report.txt", b"verified")
    assert roll_back() == "back has rolled it back"
    begin_roll_back(finished, "of the rest")
    assert roll_back() == "of the rest began to roll it back, and has ended"


def test_all_that_is_left_open_is_counted(run, monkeypatch):
    run.do_all("admit", "set_throttle", "submit_batch")
    left = {f"big-{n}": "broker 3 is down" for n in range(200)}
    run.record.write_submitted(1, run.record.submitted(1).model_copy(update={"left_open": left}))
    assert words(run)[0]["Why does it wait?"] == "It goes on without 200 partitions"
    html = client_of(run, monkeypatch).get("/reassignment", params={"cluster": run.cluster_id, "id": "r"}).text
    assert "at the end: 200</summary>" in html


def test_before_its_submission_a_stop_takes_nothing_back(run):
    assert words(run)[0]["Is it safe to stop?"] == "Yes: nothing is submitted yet"


def test_what_was_stopped_can_be_resumed_or_rolled_back(run):
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob", reason="too slow")
    assert words(run)[0]["What is it doing?"] == "It settles its moves: stopped by bob: too slow"
    run.store.release(run.cluster_id, "r")
    said, _ = words(run)
    assert said["What do I do now?"] == "Resume it, or roll it back"
    assert list(forms_of(found_in(run.store, run.cluster_id, "r"))) == ["resume", "roll-back"]
    begin(run.store, run.cluster_id, "other", run.clock.now)
    lock = ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="ann")
    run.store.acquire(run.cluster_id, lock)
    assert words(run)[0]["What do I do now?"] == "Wait until other has ended, then resume it, or roll it back"
    assert forms(run) == ["roll-back"], "a resume is refused"


def test_what_was_stopped_before_there_is_a_plan_can_be_resumed_and_has_nothing_to_roll_back(run):
    """Both were offered, both were refused, and the page to which the refusal led had neither."""
    (Path(run.record.root.path) / "frozen.json").unlink()
    cancel.stop(run.context, CancelScope(), by="bob")
    run.store.release(run.cluster_id, "r")
    assert words(run)[0]["What do I do now?"] == "Resume it"
    assert [it[0] for it in links(run)] == ["Resume…"]
    assert forms(run) == ["resume"]
    resume(run.context, by="ann")


def test_a_roll_back_keeps_to_the_limits_that_were_asked_for_last(finished):
    asked = Limits(partition_movements=2, leader_movements=1)
    finished.record.limits_commands.append(LimitsCommand(at=finished.clock.now, by="bob", limits=asked))
    params = forms_of(found_in(finished.store, finished.cluster_id, "r"))["roll-back"].params
    assert (params["partition_movements"], params["leader_movements"]) == (2, 1)


def test_what_was_superseded_is_not_to_be_resumed_once_its_successor_has_moved_something(run):
    stop = RunCommand(at=run.clock.now, by="bob", stopped=True, superseded_by="next")
    run.record.run_commands.append(stop)
    run.store.release(run.cluster_id, "r")
    assert words(run)[0]["What do I do now?"] == "Resume it, or roll it back"
    run.store.record(run.cluster_id, "next").write_submitted(
        1, SubmittedBatch(submitted_at=run.clock.now, accepted=(), left_out={})
    )
    said, more = words(run)
    assert said["What do I do now?"] == "Ask again for what is still wanted of it, or roll it back"
    assert more["What do I do now?"][0].startswith(
        "Wait until reassignment next, which took its place, has ended, then ask for"
    )
    assert [it[0] for it in links(run)] == ["next", "Roll back…"]
    assert list(forms_of(found_in(run.store, run.cluster_id, "r"))) == ["roll-back"]


def test_forms_have_the_values_of_the_reassignment_and_its_rate(run, monkeypatch):
    client = client_of(run, monkeypatch)
    asked = {"cluster": run.cluster_id, "id": "r"}
    rate = client.get("/form", params=asked | {"do": "rate"}).text
    assert "&#34;throttle_mb_per_second&#34;: 10.0" in rate
    assert "&#34;reassignment_id&#34;: &#34;r&#34;" in client.get("/form", params=asked | {"do": "stop"}).text
    refused = client.get("/form", params=asked | {"do": "resume"})
    assert refused.status_code == 404
    assert "Reassignment r is active" in refused.text


def test_the_form_that_a_failed_step_advises_is_filled_in_with_what_it_advises(run, monkeypatch):
    client = client_of(run, monkeypatch)
    asked = {"cluster": run.cluster_id, "id": "r"}
    Path(run.record.plan_uri, "steps").rename(Path(run.record.plan_uri, "away"))
    forget_read_plans()
    with pytest.raises(RecordDamagedError) as failed:
        run.do("submit_batch")
    (advised,) = failed.value.advice
    said, more = words(run)
    (why,) = more["Why does it wait?"]
    assert why.endswith(failed.value.problem.rstrip(".") + ".")
    assert str(advised) not in why
    assert said["What do I do now?"].casefold() == str(advised).casefold()
    (link,) = re.findall(r'form\?([^"]+do=advised-1)"', client.get("/reassignment", params=asked).text)
    shown = client.get(f"/form?{unescape(link)}").text
    (copied,) = re.findall(r'data-copy="([^"]+)"', shown)
    assert json.loads(unescape(copied)) == {"kafka_conn_id": "kafka_default", **advised.params}
    assert advised.params["supersede"] is True
    assert client.get("/form", params=asked | {"do": "advised-2"}).status_code == 404


def test_an_update_that_changes_nothing_sends_nothing(run, monkeypatch):
    client = client_of(run, monkeypatch)
    asked = {"cluster": run.cluster_id, "id": "r", "part": "live"}
    first = client.get("/reassignment", params=asked)
    assert "<script" not in first.text
    again = client.get("/reassignment", params=asked, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.text) == (304, "")


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    """A thousand reassignments in two clusters: one at work, one held, one stopped, the others over."""
    store = night(UPath(tmp_path_factory.mktemp("records")), done=3)
    record = store.record(CLUSTER, AT_WORK)
    at = record.recorded_request().started_at
    root = Path(record.root.path)
    request = json.loads((root / "request.json").read_text())
    for n in range(993):
        folder = root.with_name(f"r{n:04d}")
        folder.mkdir()
        asked = request | {"reassignment_id": folder.name, "started_at": str(at - timedelta(hours=n + 1))}
        (folder / "request.json").write_text(json.dumps(asked))
        if n != 500:
            (folder / "report.txt").write_text("verified")
    store.record(CLUSTER, "r0500").run_commands.append(RunCommand(at=at, by="bob", stopped=True))
    return store


def test_the_list_is_filtered_by_state_cluster_and_words(thousand):
    rows = Rows()

    def names(**query):
        return [row.reassignment_id for row in rows.page(thousand, ListQuery(**query)).rows]

    assert names(state=Shown.RUNNING) == [AT_WORK]
    assert names(state=Shown.HELD) == ["rebalance-2026-w47", "r0500"]
    assert names(cluster_id="prod-us", state=Shown.HELD) == ["rebalance-2026-w47"]
    assert names(text="R0500") == ["r0500"]
    past = rows.page(thousand, ListQuery(state=Shown.PAST, number=20))
    assert (past.found, past.pages, past.query.number) == (997, 20, 20)


def test_what_is_at_work_is_listed_first(thousand):
    page = Rows().page(thousand)
    assert [row.reassignment_id for row in page.rows[:2]] == [AT_WORK, "rebalance-2026-w47"]
    assert (page.found, page.pages) == (1_000, 20)


def test_a_filter_reads_each_record_once_and_again_only_what_has_had_the_lock_since(thousand):
    rows, query = Rows(), ListQuery(state=Shown.HELD)
    rows.page(thousand, query)
    root = str(thousand.record(CLUSTER, AT_WORK).root.parent.parent)
    with file_calls(root) as calls:
        rows.page(thousand, query)
    assert len(calls) < 40
    lock = ClusterLock(reassignment_id="r0500", since=thousand.lock_owner(CLUSTER).since, requested_by="ann")
    before = thousand.lock_owner(CLUSTER)
    thousand.acquire(CLUSTER, lock, instead_of=before)
    thousand.record(CLUSTER, "r0500").run_commands.append(RunCommand(at=lock.since, by="bob", stopped=False))
    thousand.acquire(CLUSTER, before, instead_of=lock)
    assert [row.reassignment_id for row in rows.page(thousand, query).rows] == ["rebalance-2026-w47"]
    thousand.record(CLUSTER, "r0500").run_commands.append(RunCommand(at=lock.since, by="bob", stopped=True))


@pytest.mark.parametrize("count", [1, STROKES, STROKES + 1, 1_000])
def test_the_ends_of_batches_that_are_read_are_bounded_and_have_the_first_and_the_last(count):
    numbers = finished_numbers(range(1, count + 1))
    assert len(numbers) <= STROKES + 2
    assert (numbers[0], numbers[-1]) == (1, count)


def test_strokes_of_several_batches_follow_each_other_without_a_gap(run):
    at = run.clock.now

    def end(n):
        began = at + timedelta(minutes=n)
        return FinishedBatch(
            number=n,
            partitions=1,
            bytes_copied=60,
            started_at=began,
            finished_at=began + timedelta(minutes=1),
            left_out={},
        )

    batches = [type("B", (), {"bytes_to_copy": 60})() for _ in range(8)]
    chart = time_chart([end(n) for n in (1, 2, 4, 8)], batches, current=None, now=at, expected_end=None)
    assert [(s.first, s.last, s.bytes_per_second) for s in chart.strokes] == [
        (1, 1, 1.0),
        (2, 2, 1.0),
        (3, 4, 1.0),
        (5, 8, 1.0),
    ]
    assert [round(s.x) for s in chart.strokes] == [0, 125, 250, 500]
    assert chart.strokes[-1].x + chart.strokes[-1].width == pytest.approx(1_000)


def test_a_filter_of_the_audit_trail_finds_what_is_far_back_and_says_how_far_it_looked(run):
    event(run.record, "submit_batch", 1, run.clock.now, "the needle", "failed")
    for n in range(120):
        event(run.record, "sense_isr_catch_up", 2, run.clock.now, f"look {n}", "waiting")
    found = Pages().page(run.store, run.cluster_id, "r", AuditQuery(outcome="problems")).audit
    assert [e.summary for e in found.events] == ["the needle"]
    assert found.older == 1
    assert (
        Pages().page(run.store, run.cluster_id, "r", AuditQuery(text="LOOK 29", before=100)).audit.events[0].summary
        == "look 29"
    )
