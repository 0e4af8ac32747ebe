"""The end of a reassignment: green only when all that was asked is done; else red, with advice that leads on."""

import json

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import OWN_STEPS, Run, move
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1, ORDERS_2
from tests.unit.steps.verify_lab import failed, leader, set_min_insync
from upath import UPath

from kafka_reassignment.advice import Correct, Rerun, StartBrokers, Trigger, WaitUntil
from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.decisions.throttle import throttle_for
from kafka_reassignment.errors import StoppedError, VerificationError
from kafka_reassignment.model import (
    Batch,
    PartitionState,
    Reassignment,
    Refusal,
    TopicPartition,
)
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.planner.snapshot import snapshot_of
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.request import Job, parse_request
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.left.left_over import LEFT
from kafka_reassignment.steps.plan import take_snapshot
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.throttle import put_in_place
from kafka_reassignment.steps.verify import verify
from kafka_reassignment.views.verification import verify_reassignment

pytestmark = pytest.mark.longer

LEADERS = [move("orders", 0, (1, 2), (2, 1)), move("orders", 1, (2, 3), (3, 2))]


class RefusingCluster(FakeCluster):
    """Its controller refuses some elections."""

    refusals = 0

    def elect_preferred_leaders(self, partitions):
        if self.refusals:
            self.refusals -= 1
            return dict.fromkeys(partitions, Refusal("PREFERRED_LEADER_NOT_AVAILABLE", "not now"))
        return super().elect_preferred_leaders(partitions)


class RefusingConfigsCluster(FakeCluster):
    """Its brokers refuse every change of a config."""

    def alter_configs(self, changes):
        return {c.resource: Refusal("POLICY_VIOLATION", "not now") for c in changes}


class KeepingTheLastCluster(FakeCluster):
    """Without eligible leader replicas (KIP-966): the last replica of a partition stays in the ISR while its broker is down."""

    def describe_partitions(self, topics=None):
        seen = super().describe_partitions(topics)
        return {
            p: PartitionState(s.replicas, frozenset(s.replicas[:1]), None) if s.leader is None else s
            for p, s in seen.items()
        }


@pytest.fixture
def refusing(cluster):
    cluster.__class__ = RefusingCluster
    return cluster


# What is left


def test_what_another_client_cancelled_is_named_and_the_advice_carried_out_leads_to_the_end(
    reassignment, cluster, tmp_path
):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: None})
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    error = failed(run)
    assert "replica set is 1,2 rather than 1,3 (left out: another client cancelled its reassignment: at 1,2)" in str(
        error
    )
    assert run.store.lock_owner(run.cluster_id) is None
    again, wait, rerun = error.advice
    assert isinstance(again, Trigger)
    assert parse_plan(run.record.read_file(LEFT)) == {ORDERS_0: (1, 3)}
    request = parse_request(dict(again.params))
    targets = parse_plan(request.reassignment_json)
    moves = [move(p.topic, p.partition, run.replicas()[str(p)], t) for p, t in targets.items()]
    second = Run(cluster, UPath(tmp_path), [moves], reassignment_id="second", **again.params)
    second.when_waiting = cluster.catch_up_all
    second.run_batches()
    second.finish()
    assert isinstance(wait, WaitUntil)
    assert rerun == Rerun("verify")
    verify(run.context)
    write_report(run.context)


def test_no_more_partitions_are_named_in_the_advice_than_a_request_should_have(reassignment, cluster):
    cluster.create_topic("large", [(1, 2)] * 600)
    run = reassignment([move("large", n, (1, 2), (1, 3), 0) for n in range(600)])
    with pytest.raises(VerificationError) as error:
        verify(run.context)
    assert len(json.loads(error.value.advice[0].params["reassignment_json"])["partitions"]) == 500
    assert len(parse_plan(run.record.read_file(LEFT))) == 600
    assert len(str(error.value)) < 1_500


def test_a_broker_of_the_target_that_is_down_is_to_be_started_first(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.kill(4)
    run.do_all()
    assert failed(run).advice[0] == StartBrokers((4,))


def test_a_failed_log_dir_of_a_live_broker_is_to_be_repaired(reassignment, cluster):
    """The advice was to wait until its broker is in sync, for ever."""
    run = reassignment([MOVES[0]])
    run.run_batches()
    cluster.fail_log_dir(3)
    repair, wait, rerun = failed(run).advice
    assert repair == Correct(
        "repair the log dirs of broker 3 that have failed, /data (KAFKA_STORAGE_ERROR), and restart it"
    )
    assert (wait, rerun) == (WaitUntil("broker 3 is in sync"), Rerun("verify"))
    cluster.repair_log_dir(3)
    cluster.catch_up_all()
    verify(run.context)


def test_a_run_whose_every_partition_was_withdrawn_is_no_success(reassignment):
    run = reassignment(MOVES)
    cancel.stop(run.context, CancelScope(topics=("orders",)), by="bob")
    run.run_batches()
    error = failed(run)
    assert "every planned partition was withdrawn, and 2 are not at their target" in str(error)
    assert isinstance(error.advice[0], Trigger)
    assert run.store.lock_owner(run.cluster_id) is None


def test_once_what_was_withdrawn_is_moved_as_advised_the_run_is_a_success(reassignment, cluster):
    run = reassignment(MOVES)
    cancel.stop(run.context, CancelScope(topics=("orders",)), by="bob")
    run.run_batches()
    targets = parse_plan(failed(run).advice[0].params["reassignment_json"])
    cluster.alter_reassignments({ORDERS_0: targets[ORDERS_0]})
    cluster.catch_up_all()
    with pytest.raises(VerificationError, match="1 are not at their target"):
        verify(run.context)
    assert parse_plan(run.record.read_file(LEFT)) == {ORDERS_1: (4, 3)}
    cluster.alter_reassignments({ORDERS_1: targets[ORDERS_1]})
    cluster.catch_up_all()
    verify(run.context)
    write_report(run.context)


def test_a_run_some_of_whose_partitions_were_withdrawn_is_a_success(reassignment):
    run = reassignment(MOVES)
    cancel.stop(run.context, CancelScope(partitions=("orders-0",)), by="bob")
    run.run_batches()
    run.finish()


EMPTY_3 = {"job": Job.DECOMMISSION, "brokers": (3,), "topics": ("o*",)}
FROM_3 = [move("orders", 1, (2, 3), (2, 4)), move("orders", 2, (3, 1), (4, 1))]


def test_a_decommission_that_got_new_partitions_releases_the_lock_and_advises_the_same_again(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3, exclude_topics=("old*",), exclude_brokers=(5,))
    run.do_all()
    cluster.create_topic("orphans", [(3, 4)])
    _, again, *_ = failed(run).advice
    assert again.params == {
        "job": "decommission",
        "brokers": [3],
        "topics": ["o*"],
        "exclude_topics": ["old*"],
        "exclude_brokers": [5],
        "throttle_mb_per_second": 10.0,
    }
    assert run.store.lock_owner(run.cluster_id) is None


def while_it_waits(run, cluster, act):
    """Let something happen in the first wait of verify, which orders-1 is the reason for."""
    happened = []

    def once():
        if not happened:
            happened.append(True)
            act()
            cluster.catch_up_all()

    follower = cluster.describe_partitions(["orders"])[ORDERS_1].replicas[1]
    cluster.fall_behind(ORDERS_1, follower)
    run.clock.on_sleep.append(once)


FROM_3_WITH_T = [*FROM_3, move("ones", 0, (3, 2), (4, 2))]


def test_a_topic_that_was_made_again_on_the_leaving_broker_while_others_were_waited_for_is_seen(reassignment, cluster):
    cluster.create_topic("ones", [(3, 2)])
    run = reassignment(FROM_3_WITH_T, **EMPTY_3)
    run.run_batches()
    cluster.delete_topic("ones")
    while_it_waits(run, cluster, lambda: cluster.create_topic("ones", [(3, 2)]))
    error = failed(run)
    assert str(error).count("partition ones-0, but replica set is 3,2 rather than 4,2") == 1
    assert parse_plan(error.advice[0].params["reassignment_json"]) == {TopicPartition("ones", 0): (4, 2)}
    facts = next(e for e in run.record.audit if e.step == "verify").facts
    assert (facts["at_target"], facts["gone"], facts["came_back"]) == (2, 0, [])


def test_what_another_client_moved_back_to_the_leaving_broker_while_others_were_waited_for_is_seen(
    reassignment, cluster
):
    run = reassignment(FROM_3, **EMPTY_3)
    run.run_batches()
    while_it_waits(run, cluster, lambda: cluster.alter_reassignments({ORDERS_2: (3, 1)}))
    error = failed(run)
    assert "partition orders-2, but replica set is 3,1 rather than 4,1" in str(error)
    assert next(e for e in run.record.audit if e.step == "verify").facts["at_target"] == 1
    cluster.alter_reassignments({ORDERS_2: (4, 1)})
    cluster.catch_up_all()
    verify(run.context)


def test_what_is_on_its_way_back_to_the_leaving_broker_is_told_once(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3)
    run.run_batches()
    seen = cluster.describe_partitions

    def moved_before_the_look_at_the_broker(topics=None):
        if topics is None and not cluster.list_reassignments():
            cluster.alter_reassignments({ORDERS_2: (3, 1)})
        return seen(topics)

    cluster.describe_partitions = moved_before_the_look_at_the_broker
    error = failed(run)
    assert str(error).count("orders-2 is still being reassigned") == 1
    assert "came after the plan" not in str(error)
    assert WaitUntil("the moves of other clients have ended") in error.advice


def test_old_news_of_the_leaving_broker_does_not_fail_the_run(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3)
    before = cluster.describe_partitions()
    run.run_batches()
    seen = cluster.describe_partitions
    cluster.describe_partitions = lambda topics=None: before if topics is None else seen(topics)
    run.finish()
    facts = next(e for e in run.record.audit if e.step == "verify").facts
    assert (facts["at_target"], facts["came_back"]) == (2, ["orders-1", "orders-2"])


def test_a_decommission_is_not_done_while_the_broker_hosts_what_was_withdrawn(reassignment, cluster, tmp_path):
    """Who shuts it down because the run is green would shut it down with them."""
    run = reassignment(FROM_3, **EMPTY_3)
    cancel.stop(run.context, CancelScope(partitions=("orders-2",)), by="bob")
    run.run_batches()
    error = failed(run)
    assert "broker 3 still hosts 1 partitions that were withdrawn (orders-2): do not shut it down" in str(error)
    again, *_, rerun = error.advice
    assert again.params["job"] == "decommission"
    assert rerun == Rerun("verify")
    assert run.store.lock_owner(run.cluster_id) is None
    second = Run(
        cluster, UPath(tmp_path), [[move("orders", 2, (3, 1), (5, 1))]], reassignment_id="second", **again.params
    )
    second.when_waiting = cluster.catch_up_all
    second.run_batches()
    second.finish()
    verify(run.context)
    write_report(run.context)


def test_a_decommission_names_what_was_withdrawn_beside_what_came_since(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3)
    cancel.stop(run.context, CancelScope(partitions=("orders-2",)), by="bob")
    run.run_batches()
    cluster.create_topic("orphans", [(3, 4)])
    error = failed(run)
    assert "1 partitions that came after the plan (orphans-0) and 1 partitions that were withdrawn (orders-2)" in str(
        error
    )
    assert error.advice[0].what.startswith("cordon the log dirs of broker 3")


ADDED = {
    "replication_factor": (
        {"replication_factor": 3},
        move("orders", 0, (1, 2), (1, 2, 3)),
        [(4, 5), (4, 5, 6)],
        move("orders", 4, (4, 5), (4, 5, 6)),
        "orders-4 has 2 replicas rather than 3",
    ),
    "move_topics": (
        {"brokers": [1, 3, 4]},
        move("orders", 0, (1, 2), (1, 3)),
        [(4, 5), (4, 3)],
        move("orders", 4, (4, 5), (4, 1)),
        "orders-4 is at broker 4,5",
    ),
    "restore_racks": (
        {"exclude_topics": ["others"]},
        move("orders", 0, (1, 2), (1, 3)),
        [(1, 4), (1, 5)],
        move("orders", 4, (1, 4), (1, 3)),
        "orders-4 has several replicas in one rack (broker 1,4)",
    ),
}
"""By job: what it asks for, its move, partitions that are added meanwhile, the move that is to follow, and why."""


@pytest.mark.parametrize("job", ADDED)
def test_what_was_added_to_an_asked_topic_since_the_plan_is_not_done_before_it_is_asked_for_again(
    reassignment, cluster, tmp_path, job
):
    """It kept its old factor or place, and the run was green."""
    asked, planned, added, then, why = ADDED[job]
    run = reassignment([planned], job=job, topics=["orders"], **asked)
    take_snapshot(run.context, snapshot_of(run.record.plan_uri))
    cluster.create_topic("others", [(5,)])
    cluster.add_partitions("orders", added)
    run.run_batches()
    error = failed(run)
    assert f"but 1 partitions came after the plan and are not as was asked for: {why}" in str(error)
    again, wait, rerun = error.advice
    assert again.params == {"job": job, "topics": ["orders"], **asked, "throttle_mb_per_second": 10}
    assert (wait, rerun) == (WaitUntil("that reassignment has ended"), Rerun("verify"))
    assert verify_reassignment(cluster, run.store, "r").wrong == {"orders-4": why}
    second = Run(cluster, UPath(tmp_path), [[then]], reassignment_id="second", **again.params)
    take_snapshot(second.context, snapshot_of(second.record.plan_uri))
    second.when_waiting = cluster.catch_up_all
    second.run_batches()
    second.finish()
    verify(run.context)
    write_report(run.context)
    cluster.add_partitions("orders", added[:1])
    assert verify_reassignment(cluster, run.store, "r").is_complete, "what came after its end is no matter of it"


def test_what_was_not_as_asked_before_the_plan_is_no_matter_of_what_came_since(reassignment, cluster):
    """Nor can anybody tell what came since where no snapshot was kept."""
    asked, planned, added, *_ = ADDED["replication_factor"]
    run = reassignment([planned], job="replication_factor", topics=["orders"], **asked)
    cluster.add_partitions("orders", added)
    run.run_batches()
    verify(run.context)
    take_snapshot(run.context, snapshot_of(run.record.plan_uri))
    run.finish()


@pytest.mark.parametrize(("excluded", "is_down"), [((3, 6), False), ((), True)], ids=["excluded", "down"])
def test_what_was_added_may_share_a_rack_where_no_other_rack_can_take_it(reassignment, cluster, excluded, is_down):
    """As the planner has it: the advised reassignment would move nothing, and be advised again."""
    asked = {"job": "restore_racks", "topics": ["orders"], "exclude_brokers": excluded}
    run = reassignment([move("orders", 0, (1, 2), (1, 5))], **asked)
    take_snapshot(run.context, snapshot_of(run.record.plan_uri))
    cluster.add_partitions("orders", [(1, 2, 4)])
    run.run_batches()
    if is_down:
        assert "orders-4 has several replicas in one rack (broker 1,2,4)" in str(failed(run))
        cluster.kill(3)
        cluster.kill(6)
    verify(run.context)


def test_a_decommission_all_of_which_was_withdrawn_is_done_when_the_broker_is_empty_wherever_the_rest_went(
    reassignment, cluster
):
    """Else the same decommission, as advised, would be followed by a second copy to where this one had planned it."""
    run = reassignment(FROM_3, **EMPTY_3)
    cancel.stop(run.context, CancelScope(topics=("orders",)), by="bob")
    run.run_batches()
    assert "broker 3 still hosts 2 partitions that were withdrawn" in str(failed(run))
    cluster.alter_reassignments({ORDERS_1: (2, 6), ORDERS_2: (6, 1)})
    cluster.catch_up_all()
    verify(run.context)


def test_a_decommission_is_not_done_while_the_broker_hosts_topics_that_nobody_may_describe(reassignment, cluster):
    """Metadata leaves them out without a word: the broker would be shut down with the last copy of them."""
    cluster.create_topic("secret", [(3, 2)], size_bytes=1)
    run = reassignment(FROM_3, **EMPTY_3 | {"topics": ()})
    seen = cluster.describe_partitions

    def allowed(topics=None):
        return {p: state for p, state in seen(topics).items() if p.topic != "secret"}

    run.run_batches()
    cluster.describe_partitions = allowed
    with pytest.raises(
        VerificationError, match=r"still hosts 1 partitions of topics that .* may not describe \(secret-0\)"
    ):
        verify(run.context)


def test_a_decommission_is_not_done_while_the_broker_does_not_tell_what_is_on_its_disks(reassignment, cluster):
    """It is up, and may be the only one that has a topic which the metadata does not show."""
    run = reassignment(FROM_3, **EMPTY_3)
    run.run_batches()
    cluster.kill(3, fenced=False)
    with pytest.raises(
        VerificationError, match=r"broker 3 does not tell what is on its disks .*do not shut it"
    ) as error:
        verify(run.context)
    assert error.value.advice == (WaitUntil("broker 3 answers"), Rerun("verify"))
    cluster.restart(3)
    verify(run.context)


def test_a_broker_that_does_not_tell_for_a_moment_is_asked_again(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3)
    run.run_batches()
    cluster.kill(3, fenced=False)
    run.clock.on_sleep.append(lambda: cluster.restart(3))
    verify(run.context)


def test_a_topic_that_is_made_on_the_leaving_broker_while_it_is_asked_again_is_seen(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3)
    run.run_batches()
    cluster.kill(3, fenced=False)

    def back_with_a_topic():
        cluster.restart(3)
        if "opened" not in {p.topic for p in cluster.describe_partitions()}:
            cluster.create_topic("opened", [(3, 2)])

    run.clock.on_sleep.append(back_with_a_topic)
    with pytest.raises(VerificationError, match=r"1 partitions that came after the plan \(opened-0\)"):
        verify(run.context)


def test_a_decommission_that_the_planner_would_refuse_is_not_advised_without_what_makes_room(reassignment, cluster):
    run = reassignment(FROM_3, **EMPTY_3, exclude_brokers=(6,))
    run.do_all()
    cluster.create_topic("orphans", [(3, 4), (1, 2, 3, 4, 5)])
    _, room, again, *_ = failed(run).advice
    assert room == Correct(
        "start or add 1 brokers, or lower the replication factor (job replication_factor): topic orphans has 5 replicas of a "
        "partition, and only 4 brokers stay that may take them"
    )
    assert isinstance(again, Trigger)


# What may pass


def test_a_replica_that_leaves_the_isr_for_a_moment_does_not_fail_the_run(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all()
    cluster.fall_behind(ORDERS_0, 3)
    run.clock.on_sleep.append(cluster.catch_up_all)
    run.finish()


def test_what_another_client_changes_while_others_are_waited_for_is_seen(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all()
    while_it_waits(run, cluster, lambda: cluster.alter_reassignments({ORDERS_0: (1, 2)}))
    with pytest.raises(VerificationError, match="orders-0, but replica set is 1,2 rather than 1,3"):
        verify(run.context)


def test_a_broker_that_stays_down_is_named_after_a_minute(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all()
    cluster.kill(3)
    began = run.clock.now
    with pytest.raises(VerificationError, match="orders-0 is under-replicated: 3 out of sync") as error:
        verify(run.context)
    assert error.value.advice == (StartBrokers((3,)), Rerun("verify"))
    assert 60 <= (run.clock.now - began).total_seconds() < 70
    cluster.restart(3)
    cluster.catch_up_all()
    verify(run.context)


def test_a_partition_whose_only_replica_is_down_is_not_as_planned_though_the_isr_names_it(reassignment, cluster):
    cluster.__class__ = KeepingTheLastCluster
    run = reassignment(
        [move("orders", 0, (1, 2), (1,))], job="replication_factor", replication_factor=1, topics=("orders",)
    )
    run.run_batches()
    cluster.kill(1)
    error = failed(run)
    assert "orders-0 has no leader: 1 out of sync" in str(error)
    assert error.advice == (StartBrokers((1,)), Rerun("verify"))
    cluster.restart(1)
    verify(run.context)


def test_what_gets_no_leader_by_itself_any_more_is_for_a_person(reassignment, cluster):
    """F19: its broker was killed after the last batch, and min.insync.replicas was changed meanwhile."""
    cluster.create_topic("lone", [(5,)])
    run = reassignment([move("lone", 0, (5,), (2,))])
    run.do_all()
    cluster.kill(2)
    set_min_insync(cluster, "lone", "2")
    set_min_insync(cluster, "lone", "1")
    cluster.restart(2)
    correct, *_, rerun = failed(run).advice
    assert correct.what.startswith("give lone-0 a leader")
    assert rerun.task in {"start_batches", "verify"}


# Leaders


def test_an_election_that_is_refused_for_a_moment_is_tried_again(reassignment, refusing):
    run = reassignment(LEADERS, job=Job.LEADERS)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    refusing.refusals = 3
    run.do_all("drop_old_replicas", "clear_throttle")
    run.finish()
    assert [leader(refusing, p) for p in (ORDERS_0, ORDERS_1)] == [2, 3]


def test_a_job_whose_elections_are_refused_is_not_green_and_a_rerun_elects(reassignment, refusing):
    run = reassignment(LEADERS, job=Job.LEADERS)
    refusing.refusals = 1_000
    run.do_all()
    error = failed(run)
    assert "orders-0 is led by broker 1 rather than its preferred leader 2" in str(error)
    assert error.advice == (Rerun("start_batches"),)
    refusing.refusals = 0
    assert run.start() is None
    run.finish()
    assert [leader(refusing, p) for p in (ORDERS_0, ORDERS_1)] == [2, 3]
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_partition_whose_order_alone_was_changed_is_led_by_its_preferred_leader_too(reassignment, cluster):
    """A broker came back meanwhile: the balance of leaders that was asked for is not there, whichever broker led at first."""
    run = reassignment([move("orders", 0, (1, 2), (1, 2)), *LEADERS[1:]], job=Job.LEADERS)
    run.do_all()
    cluster.kill(1)
    cluster.restart(1)
    cluster.catch_up_all()
    with pytest.raises(
        VerificationError, match="orders-0 is led by broker 2 rather than its preferred leader 1"
    ) as error:
        verify(run.context)
    assert error.value.advice == (Rerun("start_batches"),)


def test_a_preferred_leader_that_is_down_is_named_with_what_helps(reassignment, cluster):
    run = reassignment(LEADERS, job=Job.LEADERS)
    run.do_all()
    cluster.kill(2)
    error = failed(run)
    assert "orders-0 is led by broker 1 rather than its preferred leader 2" in str(error)
    assert error.advice == (StartBrokers((2,)), Rerun("start_batches"))


def test_a_preferred_leader_that_the_plan_did_not_change_does_not_fail_the_run(reassignment, refusing):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all()
    refusing.kill(1)
    refusing.restart(1)
    refusing.catch_up_all()
    assert leader(refusing, ORDERS_0) == 3
    refusing.refusals = 1_000
    run.finish()


def test_leaders_of_partitions_that_another_client_has_moved_are_left_alone(reassignment, refusing):
    run = reassignment(MOVES)
    refusing.alter_reassignments({ORDERS_1: (5, 2)})
    refusing.catch_up_all()
    before = leader(refusing, ORDERS_1)
    run.do_all()
    assert before == 2
    elect_leaders(run.context)
    assert leader(refusing, ORDERS_1) == before


def test_the_new_leader_leads_when_its_step_is_done(reassignment, cluster):
    """KIP-435: it is added alone and elected in the first step, to unload the current leader."""
    cluster.create_topic("wide", [(1, 2, 3)])
    wide = TopicPartition("wide", 0)
    steps = steps_for(Reassignment(wide, (1, 2, 3), (4, 5, 6)), replica_movements=2)
    run = reassignment(*([s] for s in steps))
    run.do_all()
    assert run.replicas()["wide-0"] == (4, 1, 2, 3)
    assert leader(cluster, wide) == 4
    dropped = [e for e in run.record.audit if e.step == "drop_old_replicas"][-1]
    assert dropped.facts["elected"] == ["wide-0"]


def test_a_report_needs_every_batch_finished_so_that_marking_the_wait_makes_no_run_green(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    elect_leaders(run.context)
    verify(run.context)
    with pytest.raises(VerificationError, match="r is not done: batch 1 of 1 is not finished") as refused:
        write_report(run.context)
    assert refused.value.advice == (Rerun("start_batches"),)
    assert not run.record.is_reported
    run.run_batches()
    run.finish()
    assert run.record.is_reported


def test_the_verify_of_a_partition_count_in_the_same_run_is_not_that_of_the_reassignment(reassignment, growing):
    """One DAG adds partitions to a topic and moves others; then verify of the moves is marked."""
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.run_batches()
    grown = growing()
    grown.record = run.record
    grown.do_all()
    with pytest.raises(VerificationError, match="is not verified: its latest verify has not run"):
        write_report(run.context)


def test_a_report_needs_a_verify_that_succeeded_so_that_marking_the_task_makes_no_run_green(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.run_batches()
    with pytest.raises(VerificationError, match="is not verified: its latest verify has not run.*Rerun verify"):
        write_report(run.context)
    cluster.alter_reassignments({TopicPartition("orders", 0): (1, 2)})
    cluster.catch_up_all()
    with pytest.raises(VerificationError):
        verify(run.context)
    with pytest.raises(VerificationError, match="its latest verify failed"):
        write_report(run.context)
    assert not run.record.has_file("report.txt")


def test_what_was_stopped_since_it_was_verified_is_not_reported_as_done(reassignment):
    """It may be rolled back meanwhile, by another Airflow."""
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.run_batches()
    verify(run.context)
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="ann", stopped=True))
    with pytest.raises(StoppedError):
        write_report(run.context)
    assert not run.record.has_file("report.txt")


@pytest.mark.parametrize(
    ("is_in_flight", "awaited"),
    [(True, "the moves of orders-2 have ended"), (False, "all replicas of orders-2 are in sync")],
)
def test_a_throttle_that_a_superseded_reassignment_needs_is_waited_for_and_then_restored(
    reassignment, cluster, is_in_flight, awaited
):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all()
    copying = Batch(1, (move("orders", 2, (3, 1), (3, 4)),))
    put_in_place(run.context, lambda _: throttle_for(copying, asked_bytes_per_second=5_000_000), AuditDraft())
    cluster.alter_reassignments({ORDERS_2: (3, 1, 4)}, allow_replication_factor_change=True)
    if not is_in_flight:
        cluster.catch_up_all()
        cluster.fall_behind(ORDERS_2, 4)
    error = failed(run)
    assert error.advice[0] == WaitUntil(awaited)
    assert error.advice[1:] == (Trigger("kafka_throttle_sweep"), Rerun("verify"))
    cluster.catch_up_all()
    verify(run.context)
    assert run.configs("orders") == before


def test_a_throttle_that_a_move_which_never_ends_needs_is_not_waited_for_before_that_is_ended(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all()
    copying = Batch(1, (move("orders", 2, (3, 1), (4, 5)),))
    put_in_place(run.context, lambda _: throttle_for(copying, asked_bytes_per_second=5_000_000), AuditDraft())
    cluster.alter_reassignments({ORDERS_2: (4, 5)})
    cluster.alter_reassignments({ORDERS_2: (1, 4)})
    params = {"reassignment_id": "running", "partitions": ["orders-2"], "foreign": True}
    assert failed(run).advice == (
        Trigger("kafka_reassignment_cancel", params),
        WaitUntil("the moves of orders-2 have ended"),
        Trigger("kafka_throttle_sweep"),
        Rerun("verify"),
    )


def test_what_a_broker_that_is_gone_still_has_of_the_throttle_is_told_and_left_to_the_sweep(reassignment, cluster):
    """It was emptied and shut down before the throttle was cleared: no advice would end that, and all that was asked is done."""
    run = reassignment([move("orders", 0, (1, 2), (1, 4))])
    before = run.configs("orders")
    run.do_all(*OWN_STEPS[:-1])
    cluster.kill(2)
    run.do("clear_throttle")
    run.finish()
    told = (
        "broker 2 is down and still has our leader.replication.throttled.rate; kafka_throttle_sweep restores what was there "
        "before as soon as the broker is back"
    )
    verified = [e for e in run.record.audit if e.step == "verify"][-1]
    assert verified.outcome == "succeeded"
    assert verified.summary == f"1 partitions at their target; {told}"
    assert verified.facts["throttle_owed_by_down_brokers"] == [told]
    assert told in run.record.read_file("report.txt").decode()
    cluster.restart(2)
    sweeping = run.context_of(run.store.record(run.cluster_id, "sweep"))
    assert sweep(sweeping, by="cron").left == ()
    assert run.configs("orders") == before


def test_what_a_live_broker_still_has_of_the_throttle_is_not_as_planned(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 4))])
    run.do_all(*OWN_STEPS[:-1])
    cluster.kill(2)
    cluster.__class__ = RefusingConfigsCluster
    run.do("clear_throttle")
    error = failed(run)
    assert "broker 4: follower.replication.throttled.rate" in str(error)
    assert "broker 2" not in str(error)
    assert error.advice == (Trigger("kafka_throttle_sweep"), Rerun("verify"))
