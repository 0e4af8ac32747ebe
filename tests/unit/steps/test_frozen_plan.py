"""What was approved is what runs: everything that is read of a plan is compared with what was frozen."""

import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace

import pytest
from tests.steps_lab import move, write_plan

from kafka_reassignment.advice import Correct, Rerun, Trigger
from kafka_reassignment.decisions.batching import BatchRates
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InfeasiblePlanError,
    NotAuthorizedError,
    RecordDamagedError,
    is_worth_a_retry,
)
from kafka_reassignment.plan.inverse import BegunBatch, invert
from kafka_reassignment.plan.store import forget_read_plans, read_target, read_targets_of
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps import plan as plan_step
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FROZEN = move("orders", 0, (1, 2), (1, 3))
OTHER = move("orders", 1, (2, 3), (5, 6))


@pytest.fixture(autouse=True)
def as_in_a_new_process():
    forget_read_plans()


def read_all(run):
    whole_batch(RecordView(run.record), 1)
    return list(read_target(run.record.plan_ref()))


def altered(error):
    assert not is_worth_a_retry(error.value)
    assert "was altered" in str(error.value)
    assert error.value.advice


def test_another_plan_in_the_same_place_is_not_run(reassignment, cluster):
    run = reassignment([FROZEN])
    write_plan(run.record.plan_uri, [[OTHER]], frozen_at=run.clock.now)
    for step in ("admit", "set_throttle", "submit_batch"):
        with pytest.raises(RecordDamagedError, match="expected the frozen plan, with the hash") as error:
            run.do(step)
        altered(error)
    assert cluster.altered == []


@pytest.mark.parametrize("what", ["steps", "target"])
def test_altered_tables_beside_their_summary_are_not_read(reassignment, what):
    run = reassignment([FROZEN])
    other = f"{run.record.root}/other"
    write_plan(other, [[OTHER]], frozen_at=run.clock.now)
    table = run.record.root / "plan" / what / "part-00000.parquet"
    table.write_bytes((run.record.root / "other" / what / "part-00000.parquet").read_bytes())
    with pytest.raises(RecordDamagedError) as error:
        read_all(run)
    altered(error)


@pytest.mark.parametrize("what", ["steps/part-00000.parquet", "target/part-00000.parquet", "summary.json"])
@pytest.mark.parametrize("content", [b"", b"{", None])
def test_damaged_and_missing_files_of_the_plan_are_final(reassignment, what, content):
    run = reassignment([FROZEN])
    file = run.record.root.joinpath("plan", *what.split("/"))
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(Exception, match=r"The plan at|is not readable") as error:
        read_all(run)
    assert not is_worth_a_retry(error.value)


def test_a_batch_that_was_checked_is_not_read_again(reassignment):
    run = reassignment([FROZEN])
    first = whole_batch(RecordView(run.record), 1)
    (run.record.root / "plan" / "steps" / "part-00000.parquet").unlink()
    assert whole_batch(RecordView(run.record), 1) is first


def rebatched(reassignment):
    run = reassignment([FROZEN], [move("orders", 1, (2, 3), (2, 4))], [move("orders", 2, (3, 1), (3, 4))])
    run.do_all(batch=1)
    change_limits(run.context, {"partition_movements": 5}, "ann")
    assert run.do("next_batch", 1) == 2
    assert run.record.plan_in_force().batches == 2
    return run


def test_a_revision_is_checked_against_its_own_hash(reassignment):
    run = rebatched(reassignment)
    assert {str(s.partition) for s in whole_batch(RecordView(run.record), 2).steps} == {"orders-1", "orders-2"}
    forget_read_plans()
    write_plan(run.record.uri_of(run.record.revisions.last()[1].place), [[FROZEN], [OTHER]], frozen_at=run.clock.now)
    with pytest.raises(RecordDamagedError) as error:
        whole_batch(RecordView(run.record), 2)
    altered(error)


def test_an_altered_plan_is_not_made_good_by_a_revision(reassignment):
    run = reassignment([FROZEN], [move("orders", 1, (2, 3), (2, 4))])
    run.do_all(batch=1)
    change_limits(run.context, {"partition_movements": 5}, "ann")
    forget_read_plans()
    write_plan(run.record.plan_uri, [[FROZEN], [OTHER]], frozen_at=run.clock.now)
    with pytest.raises(RecordDamagedError) as error:
        run.do("next_batch", 1)
    altered(error)
    with pytest.raises(RecordDamagedError) as error:
        change_limits(run.context, {"partition_movements": 6}, "ann")
    altered(error)
    assert run.record.revisions.last() == (0, None)


def test_two_tries_to_rebatch_write_at_two_places(reassignment):
    run = reassignment([FROZEN])
    places = {run.record.new_plan_place(run.clock.now, "ann") for _ in range(3)}
    assert len(places) == 3


def test_an_altered_plan_is_not_rolled_back(reassignment):
    run = reassignment([FROZEN])
    write_plan(run.record.plan_uri, [[OTHER]], frozen_at=run.clock.now)
    begun = [BegunBatch(1, run.record.plan_refs()(1), frozenset())]
    with pytest.raises(RecordDamagedError) as error:
        invert(
            begun,
            ReassignmentRequest(job=Job.ROLL_BACK, roll_back_of="r", unthrottled=True),
            f"{run.record.root}/inv",
            live_brokers=(1, 2, 3, 4),
            rates=BatchRates(),
            partitions_in_cluster=4,
            min_insync_replicas={},
        )
    altered(error)


class Planner:
    """Stands in for Spark: plans what it is given."""

    def __init__(self, monkeypatch, *plans):
        self.plans = list(plans)
        self.after = lambda: None
        pipeline, session = ModuleType("pipeline"), ModuleType("session")
        pipeline.plan = self.plan
        session.planner_session = lambda *_, **__: nullcontext()
        monkeypatch.setitem(sys.modules, "kafka_reassignment.planner.pipeline", pipeline)
        monkeypatch.setitem(sys.modules, "kafka_reassignment.planner.session", session)
        monkeypatch.setattr(plan_step, "plan_page", lambda summary, **_: f"page of {summary.plan_hash}")

    def plan(self, _session, _snapshot_uri, _request, out_uri):
        frozen = write_plan(out_uri, self.plans.pop(0), frozen_at=NOON)
        self.after()
        return SimpleNamespace(plan_hash=frozen.plan_hash, batches=[None] * frozen.batches)


@pytest.fixture
def unplanned(reassignment):
    run = reassignment([FROZEN])
    (run.record.root / "frozen.json").unlink()
    return run


def test_a_second_try_of_plan_changes_nothing_of_what_the_first_froze(unplanned, monkeypatch):
    """The second try was planning while the first one froze its plan: it ends later, with another result."""
    run, planner = unplanned, Planner(monkeypatch, [[OTHER]], [[FROZEN]])
    texts = []

    def the_other_try():
        planner.after = lambda: None
        texts.append(make_plan(run.context, master="local[*]"))

    planner.after = the_other_try
    texts.append(make_plan(run.context, master="local[*]"))

    frozen = run.record.frozen_plan()
    assert whole_batch(RecordView(run.record), 1).steps == (FROZEN,)
    assert texts[0] == texts[1]
    assert frozen.plan_hash in texts[0], "people approve the hash that is frozen"
    assert run.record.read_file("plan.html") == f"page of {frozen.plan_hash}".encode()
    assert b"[1,3]" in run.record.read_file("reassignment.json")
    assert make_plan(run.context, master="local[*]") == texts[0]


def test_what_people_read_is_written_even_if_the_first_try_died_after_it_froze(unplanned, monkeypatch):
    run = unplanned
    Planner(monkeypatch, [[FROZEN]])

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(plan_step, "_write_for_people", dies)
        with pytest.raises(KeyboardInterrupt):
            make_plan(run.context, master="local[*]")
    make_plan(run.context, master="local[*]")
    assert run.record.has_file("plan.html")
    assert run.record.has_file("rollback.json")


def overwrite_target(run, *moves):
    write_plan(f"{run.record.root}/other", [list(moves)], frozen_at=run.clock.now)
    table = run.record.root / "plan" / "target" / "part-00000.parquet"
    table.write_bytes((run.record.root / "other" / "target" / "part-00000.parquet").read_bytes())


def test_a_target_that_is_altered_after_it_was_read_is_found_by_the_next_reading(reassignment):
    run = reassignment([FROZEN])
    plan = run.record.plan_ref()
    assert [m.target for m in read_target(plan)] == [(1, 3)]
    overwrite_target(run, OTHER)
    with pytest.raises(RecordDamagedError) as error:
        list(read_target(plan))
    altered(error)
    with pytest.raises(RecordDamagedError):
        read_targets_of(plan, [FROZEN.partition])


def test_verify_compares_with_no_target_that_nobody_approved(reassignment):
    run = reassignment([FROZEN])
    run.run_batches()
    list(read_target(run.record.plan_ref()))
    overwrite_target(run, move("orders", 0, (1, 2), (3, 1)))
    with pytest.raises(RecordDamagedError) as error:
        verify(run.context)
    altered(error)


@pytest.mark.parametrize("what", ["steps/part-00000.parquet", "summary.json"])
@pytest.mark.parametrize("content", [b"{", None])
def test_the_advice_about_a_damaged_plan_is_the_same_request_in_every_step_and_leads_to_its_end(
    reassignment, monkeypatch, what, content
):
    target = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,3]}]}'
    run = reassignment([FROZEN], job="apply_json", reassignment_json=target, limits={"partition_movements": 7})
    file = run.record.root.joinpath("plan", *what.split("/"))
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    for step in ("admit", "set_throttle", "submit_batch"):
        with pytest.raises(RecordDamagedError) as error:
            run.do(step)
        asked = {"job": "apply_json", "reassignment_json": target, "throttle_mb_per_second": 10.0}
        params = asked | {"partition_movements": 7, "supersede": True}
        assert error.value.advice == (Trigger("kafka_reassignment", params),)
    run.record = run.store.record(run.cluster_id, "next")
    preflight(run.context, dict(error.value.advice[0].params), "ann")
    Planner(monkeypatch, [[FROZEN]])
    make_plan(run.context, master="local[*]")
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (1, 3)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (InfeasiblePlanError("no rack is left", Correct("add one")), (Correct("add one"),)),
        (NotAuthorizedError("no ACL", Correct("grant it")), (Correct("grant it"), Rerun("preflight"))),
    ],
)
def test_a_plan_that_fails_for_good_releases_the_lock_and_says_what_to_do(unplanned, monkeypatch, error, advice):
    run, planner = unplanned, Planner(monkeypatch, [[FROZEN]], [[FROZEN]])

    def fails():
        raise error

    planner.after = fails
    with pytest.raises(type(error)) as raised:
        make_plan(run.context, master="local[*]")
    assert raised.value.advice == advice
    assert all(str(each) in str(raised.value).lower() for each in advice)
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_plan_whose_error_may_pass_keeps_the_lock(unplanned, monkeypatch):
    run, planner = unplanned, Planner(monkeypatch, [[FROZEN]], [[FROZEN]])

    def fails():
        raise ClusterUnavailableError("no answer")

    planner.after = fails
    with pytest.raises(ClusterUnavailableError):
        make_plan(run.context, master="local[*]")
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"
    planner.after = lambda: None
    make_plan(run.context, master="local[*]")


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_frozen_plan_that_is_damaged_releases_the_lock_unless_a_batch_was_begun(reassignment, is_begun):
    run = reassignment([FROZEN], [move("orders", 1, (2, 3), (2, 4))])
    if is_begun:
        run.do_all(batch=1)
    (run.record.root / "plan" / "summary.json").unlink()
    forget_read_plans()
    with pytest.raises(RecordDamagedError) as error:
        make_plan(run.context, master="local[*]")
    altered(error)
    owner = run.store.lock_owner(run.cluster_id)
    assert (owner is not None) is is_begun
