"""What preflight says of a cluster before anything is planned."""

from __future__ import annotations

from dataclasses import replace
from re import escape

import pytest
from tests.counted_disk import CountedDisk
from tests.fakes.cluster import FakeCluster
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place
from tests.steps_lab import Clock, Run, move
from upath import UPath

from kafka_reassignment.advice import CANCEL_DAG_ID, Correct, Trigger
from kafka_reassignment.errors import InvalidRequestError, RecordError
from kafka_reassignment.plan import tables
from kafka_reassignment.record import objects
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.quick

REQUEST = {"job": "rebalance", "throttle_mb_per_second": 10}


def summary_of(cluster: FakeCluster, folder: UPath, *, instance: str = "", **request: object) -> str:
    run = Run(cluster, folder, [], reassignment_id="before")
    run.store.release(run.cluster_id, "before")
    run.record = run.store.record(run.cluster_id, "r")
    preflight(replace(run.context, instance=instance), REQUEST | request, "ann")
    return list(run.record.audit)[-1].summary


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({}, "waiting for about 1.1 s"),
        ({"replica.fetch.backoff.ms": "50", "replica.fetch.wait.max.ms": "100"}, "waiting for about 0.2 s"),
    ],
)
def test_it_says_how_long_producers_may_wait(tmp_path, configs, said):
    cluster = FakeCluster(static_configs=dict.fromkeys(range(1, 7), configs))
    cluster.create_topic("orders", [(1, 2)])
    assert said in summary_of(cluster, UPath(tmp_path))


def test_it_asks_few_of_many_brokers_for_that(tmp_path):
    cluster = FakeCluster(dict.fromkeys(range(1, 201), "a"))
    cluster.create_topic("orders", [(1, 2)])
    asked = []
    describe = cluster.describe_configs
    cluster.describe_configs = lambda resources, keys: asked.append(len(resources)) or describe(resources, keys)
    summary_of(cluster, UPath(tmp_path))
    assert max(asked) == 20


@pytest.mark.parametrize(
    ("store", "instance", "warns"),
    [("memory://records", "", True), ("memory://records", "https://airflow.example", False), ("file://", "", False)],
)
def test_an_airflow_without_a_name_is_warned_where_another_one_may_share_its_records(
    tmp_path, caplog, store, instance, warns
):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)])
    summary_of(cluster, UPath(f"{store}{tmp_path}"), instance=instance)
    assert ("This Airflow has no name" in caplog.text) is warns


def test_a_topic_that_is_excluded_and_is_not_there_is_told(tmp_path, caplog):
    cluster = FakeCluster()
    cluster.create_topic("payments", [(1, 2)])
    said = summary_of(cluster, UPath(tmp_path), exclude_topics=["pay*", "paymnets", "audit*"])
    told = "'exclude_topics' names 'paymnets', 'audit*', which no topic of the cluster matches: correct it if another one is meant"
    assert said.endswith(told)
    assert told in caplog.text


def test_a_broker_that_died_and_hosts_nothing_is_excluded_and_an_id_that_is_not_there_is_told(tmp_path, caplog):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)])
    cluster.add_broker(7)
    cluster.kill(7)
    said = summary_of(cluster, UPath(tmp_path), exclude_brokers=[7, 17])
    told = "'exclude_brokers' names broker 17, which is not alive and hosts nothing: correct it if another one is meant"
    assert said.endswith(told)
    assert told in caplog.text


@pytest.mark.parametrize("ended", ["finished", "stopped"])
def test_the_id_of_what_has_ended_is_refused_to_another_request(tmp_path, ended):
    """It would pass for done, or the advice would lead to a resume of what was asked for before: nothing new is moved."""
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)])
    run = Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (1, 3))]])
    if ended == "finished":
        run.run_batches()
        run.finish()
    else:
        run.record.run_commands.append(RunCommand(at=run.clock.now, by="bob", stopped=True))
    with pytest.raises(RecordError, match="Reassignment r was begun at .* with another request") as refused:
        preflight(run.context, REQUEST | {"throttle_mb_per_second": 5}, "ann")
    assert refused.value.advice == (Correct("trigger a new run, with another run id, for the new one"),)
    assert list(run.record.audit)[-1].outcome == "failed"


@pytest.mark.parametrize("run_id", ["hold.json", "lock.json", "lock", "audit-heads"])
def test_a_run_id_that_is_a_name_of_the_record_is_opened_carried_out_and_leaves_the_cluster_free(tmp_path, run_id):
    """C8: preflight failed, and the cluster stayed locked."""
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)])
    before = Run(cluster, UPath(tmp_path), [], reassignment_id="before")
    before.store.release(before.cluster_id, "before")
    preflight(before.context_of(before.store.record(before.cluster_id, run_id)), REQUEST, "ann")
    assert before.store.lock_owner(before.cluster_id).reassignment_id == run_id
    run = Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (1, 3))]], reassignment_id=run_id)
    run.when_waiting = cluster.catch_up_all
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (1, 3)
    assert run.store.lock_owner(run.cluster_id) is None
    assert {record.reassignment_id for record in run.store.records(run.cluster_id)} == {"before", run_id}


SCHEDULED = "scheduled__2026-01-10T21:00:00+00:00"


def of_cluster(name: str, folder: UPath, clock: Clock) -> tuple[Run, RunContext]:
    """Return a reassignment of the schedule on a cluster of its own, begun by its preflight, and its context."""
    cluster = FakeCluster(cluster_id=name)
    cluster.create_topic("orders", [(1, 2)])
    before = Run(cluster, folder, [], reassignment_id=f"before-{name}", clock=clock)
    before.store.release(name, before.reassignment_id)
    before.record = before.store.record(name, SCHEDULED)
    return before, before.context


def test_two_clusters_do_not_share_a_run_id_while_their_batches_are_runs(tmp_path):
    """Airflow would clear the batch of the one for that of the other, and the second one would wait for ever."""
    clock, folder = Clock(), UPath(tmp_path)
    (a, to_a), (b, to_b) = (of_cluster(name, folder, clock) for name in "ab")
    asked = REQUEST | {"kafka_conn_id": "kafka_a"}
    preflight(to_a, asked, "ann")
    preflight(a.context, asked, "ann")
    clock.sleep(1)
    with pytest.raises(InvalidRequestError, match=f"{escape(SCHEDULED)} was begun on cluster a .* kafka_a") as refused:
        preflight(to_b, REQUEST, "ann")
    assert isinstance(refused.value.advice[-1], Correct)
    assert not b.record.exists
    assert b.store.lock_owner("b") is None
    preflight(replace(to_b, has_task=lambda task: task != "start_batches"), REQUEST, "ann")  # all in one run
    assert b.record.exists


def test_two_clusters_share_a_run_id_where_their_batches_are_runs_of_two_dags(tmp_path):
    clock, folder = Clock(), UPath(tmp_path)
    (_, to_a), (b, to_b) = (of_cluster(name, folder, clock) for name in "ab")
    preflight(to_a, REQUEST, "ann")
    clock.sleep(1)
    preflight(to_b, REQUEST, "ann", batch_dag_id="batches_of_b")
    assert b.record.exists


def test_a_validation_on_another_cluster_takes_no_run_id_away(tmp_path):
    clock, folder = Clock(), UPath(tmp_path)
    (_, to_a), (b, to_b) = (of_cluster(name, folder, clock) for name in "ab")
    preflight(to_a, REQUEST | {"validate_only": True}, "ann")
    clock.sleep(1)
    preflight(to_b, REQUEST, "ann")
    assert b.record.exists


def test_the_same_id_in_two_airflows_is_no_matter(tmp_path):
    (_, to_a), (_, to_b) = (of_cluster(name, UPath(tmp_path), Clock()) for name in "ab")
    preflight(replace(to_a, instance="one"), REQUEST, "ann")
    preflight(replace(to_b, instance="another"), REQUEST, "ann")


def test_of_two_clusters_that_begin_one_run_id_at_one_moment_the_later_one_starts_no_batch(tmp_path):
    clock, cluster = Clock(), FakeCluster(cluster_id="a")
    cluster.create_topic("orders", [(1, 2)])
    moves = [[move("orders", 0, (1, 2), (1, 3))]]
    a = Run(cluster, UPath(tmp_path), moves, reassignment_id=SCHEDULED, clock=clock)
    other = FakeCluster(cluster_id="b")
    other.create_topic("orders", [(1, 2)])
    b = Run(other, UPath(tmp_path), moves, reassignment_id=SCHEDULED, clock=clock, kafka_conn_id="kafka_b")
    assert a.start() == 1
    with pytest.raises(InvalidRequestError, match="was begun on cluster a .* No batch was started") as refused:
        b.start()
    stop, again = refused.value.advice
    assert stop == Trigger(CANCEL_DAG_ID, {"kafka_conn_id": "kafka_b", "reassignment_id": SCHEDULED})
    assert isinstance(again, Correct)


def test_the_look_for_the_id_on_other_clusters_is_a_listing_and_a_read_of_each(tmp_path):
    disk = CountedDisk()
    with in_place([objects, tables]):
        folder = use(disk)
        for name in "abc":
            cluster = FakeCluster(cluster_id=name)
            run = Run(cluster, folder, [], reassignment_id=name)
        store = run.store
        with disk.counted() as calls:
            assert store.begun_elsewhere("c", "none") == []
    assert calls == {"list": 1, "read": 2}
