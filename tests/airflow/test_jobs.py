"""Every job, carried out by the DAGs on real brokers: with all of them alive, with one dead, in a window, and as a dry run.

``roll_back`` is in test_companions.py, and so is a ``decommission`` with producers in test_reassignment.py.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.airflow.lab import move_json, replicas
from tests.airflow.reassignments import Reassignments
from tests.kafka_fixtures import topics_of

from kafka_lab.airflow import kafka_connection
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import fill_topics
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource
from kafka_reassignment.plan.store import read_summary

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.slow]

CONNECTION = "kafka_jobs"
DEAD = 5


@pytest.fixture(scope="module")
def cluster():
    """Five brokers on racks a, b, c, a, b: jobs plan for whole clusters, so they have one of their own."""
    with LocalCluster(brokers=5, racks=3) as running:
        yield running


@pytest.fixture(scope="module")
def port(cluster):
    with open_cluster(ClusterSettings.of({"bootstrap.servers": cluster.bootstrap_servers}, name="tests")) as opened:
        yield opened


@pytest.fixture
def create_topic(cluster):
    with topics_of(cluster.bootstrap_servers) as create:
        yield create


@pytest.fixture(scope="module")
def jobs(airflow, cluster):
    connection = kafka_connection(cluster.bootstrap_servers)
    airflow.post("/connections", connection | {"connection_id": CONNECTION, "extra": json.dumps(connection["extra"])})
    yield Reassignments(airflow, cluster.cluster_id)
    airflow.delete(f"/connections/{CONNECTION}")


@pytest.fixture
def carry_out(cluster, jobs):
    """Trigger a job for one topic and wait for its green end; return the id."""

    def carried_out(run_id: str, topic: str, **conf: object) -> str:
        fill_topics(cluster.bootstrap_servers, [topic], 6_000_000)
        asked = {"kafka_conn_id": CONNECTION, "topics": [topic], "throttle_mb_per_second": 20, **conf}
        run = jobs.trigger(run_id, **asked)
        assert jobs.wait(run) == "success", jobs.story(run)
        jobs.record(run).audit.verify()
        return run

    return carried_out


def hosted(port, topic) -> Counter[int]:
    """Replicas of the topic by broker."""
    return Counter(b for assigned in replicas(port, topic).values() for b in assigned)


def leaders(port, topic) -> Counter[int]:
    return Counter(state.leader for state in port.describe_partitions([topic]).values())


def test_new_brokers_are_filled(port, create_topic, carry_out):
    topic = create_topic({i: (1 + i % 4, 1 + (i + 1) % 4) for i in range(8)})
    carry_out("add-brokers", topic, job="add_brokers", brokers=[5])
    assert hosted(port, topic)[5] >= 2


def test_a_skewed_topic_is_balanced(port, create_topic, carry_out):
    topic = create_topic(dict.fromkeys(range(10), (1, 2)))
    carry_out("rebalance", topic, job="rebalance")
    assert set(hosted(port, topic)) == {1, 2, 3, 4, 5}
    assert max(leaders(port, topic).values()) < 10


def test_the_replication_factor_is_raised(port, create_topic, carry_out):
    topic = create_topic({i: (1 + i % 5, 1 + (i + 1) % 5) for i in range(3)})
    carry_out("rf-up", topic, job="replication_factor", replication_factor=3)
    assert all(len(set(assigned)) == 3 for assigned in replicas(port, topic).values())


def test_a_topic_is_moved_to_other_brokers(port, create_topic, carry_out):
    topic = create_topic(dict.fromkeys(range(3), (1, 2)))
    carry_out("move-topics", topic, job="move_topics", brokers=[3, 4, 5])
    assert set(hosted(port, topic)) <= {3, 4, 5}


def test_replicas_are_spread_over_racks(cluster, port, create_topic, carry_out):
    topic = create_topic({0: (1, 4), 1: (2, 5), 2: (4, 1)})
    carry_out("racks", topic, job="restore_racks")
    assert all(len({cluster.rack(b) for b in assigned}) == 2 for assigned in replicas(port, topic).values())


def test_leaders_are_balanced_without_a_copy(port, create_topic, carry_out, jobs):
    topic = create_topic({i: (1, 2 + i % 4) for i in range(8)})
    before = hosted(port, topic)
    run = carry_out("leaders", topic, job="leaders")
    assert hosted(port, topic) == before
    assert leaders(port, topic)[1] < 8
    assert read_summary(jobs.record(run).plan_uri).bytes_to_copy == 0
    assert all(state.leader == state.replicas[0] for state in port.describe_partitions([topic]).values())


def test_a_dry_run_plans_and_moves_nothing(port, create_topic, carry_out, jobs):
    topic = create_topic(dict.fromkeys(range(4), (1, 2)))
    resources = [ConfigResource.topic(topic), *(ConfigResource.broker(b) for b in range(1, 6))]
    before, configs = replicas(port, topic), port.describe_configs(resources, THROTTLE_KEYS)
    run = carry_out("dry", topic, job="move_topics", brokers=[3, 4], validate_only=True)
    assert replicas(port, topic) == before
    assert port.describe_configs(resources, THROTTLE_KEYS) == configs
    assert jobs.lock_owner() is None
    assert jobs.record(run).frozen_plan() is not None
    assert jobs.record(run).finished_batches() == frozenset()
    assert {t: jobs.state(run, t) for t in ("plan", "start_batches", "report")} == {
        "plan": "success",
        "start_batches": "skipped",
        "report": "skipped",
    }


def test_a_batch_waits_for_its_window_and_goes_on_by_itself(cluster, port, create_topic, jobs):
    topic = create_topic({0: (1, 2)})
    fill_topics(cluster.bootstrap_servers, [topic], 2_000_000)
    opens = (datetime.now(UTC) + timedelta(seconds=45)).replace(second=0, microsecond=0) + timedelta(minutes=1)
    run = jobs.trigger(
        "in-window",
        kafka_conn_id=CONNECTION,
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 3)}),
        throttle_mb_per_second=20,
        windows=[f"cron {opens.minute} {opens.hour} * * * for 30 min"],
    )
    jobs.wait_for_task(run, "admit", "deferred", batch=1)
    note = jobs.record(run).progress()
    assert note is not None
    assert "batch 1 waits" in note.text
    assert f"{opens:%H:%M}" in note.text
    assert replicas(port, topic) == {0: (1, 2)}
    assert jobs.wait(run, seconds=420) == "success", jobs.story(run)
    assert replicas(port, topic) == {0: (1, 3)}
    submitted = next(e for e in jobs.record(run).audit if e.step == "submit_batch")
    assert opens <= submitted.started_at


class TestWithADeadBroker:
    """The main reason to reassign: what the dead broker hosted goes elsewhere, and nothing waits for it."""

    @pytest.fixture
    def orphaned(self, cluster, create_topic):
        """Make a topic with replicas on a broker that is dead when this returns, and back after the test."""

        def make(assignment: dict[int, tuple[int, ...]]) -> str:
            topic = create_topic(assignment)
            fill_topics(cluster.bootstrap_servers, [topic], 6_000_000)
            cluster.kill(DEAD)
            cluster.wait_until_live(set(cluster.brokers) - {DEAD})
            return topic

        yield make
        cluster.heal()

    @pytest.mark.parametrize(
        ("job", "conf"),
        [
            ("decommission", {"brokers": [DEAD]}),
            ("move_topics", {"brokers": [1, 2, 3, 4]}),
            ("restore_racks", {}),
        ],
    )
    def test_its_replicas_are_moved(self, port, orphaned, jobs, job, conf):
        topic = orphaned({0: (5, 2), 1: (2, 5), 2: (3, 1)})
        asked = {"kafka_conn_id": CONNECTION, "topics": [topic], "throttle_mb_per_second": 20, "job": job, **conf}
        run = jobs.trigger(f"dead-{job}", allowed_unhealthy_partitions=100, **asked)
        assert jobs.wait(run) == "success", jobs.story(run)
        assert hosted(port, topic)[DEAD] == 0
        states = port.describe_partitions([topic])
        assert all(set(state.replicas) == state.isr for state in states.values())

    @pytest.mark.parametrize(("job", "conf"), [("rebalance", {}), ("add_brokers", {"brokers": [4]})])
    def test_a_job_that_leaves_them_there_moves_the_others_and_waits_for_nothing(self, port, orphaned, jobs, job, conf):
        topic = orphaned({0: (5, 2), 1: (2, 5), 2: (2, 1), 3: (2, 1), 4: (2, 3)})
        asked = {"kafka_conn_id": CONNECTION, "topics": [topic], "throttle_mb_per_second": 20, "job": job, **conf}
        run = jobs.trigger(f"dead-{job}", allowed_unhealthy_partitions=100, **asked)
        assert jobs.wait(run) == "success", jobs.story(run)
        assert hosted(port, topic)[4] > 0
        states = port.describe_partitions([topic])
        assert all(set(state.replicas) - {DEAD} == state.isr for state in states.values())

    def test_a_lower_replication_factor_drops_the_dead_replica(self, port, orphaned, jobs):
        topic = orphaned({0: (5, 1, 2), 1: (2, 5, 3), 2: (3, 4, 5)})
        run = jobs.trigger(
            "dead-rf",
            kafka_conn_id=CONNECTION,
            topics=[topic],
            job="replication_factor",
            replication_factor=2,
            throttle_mb_per_second=20,
            allowed_unhealthy_partitions=100,
        )
        assert jobs.wait(run) == "success", jobs.story(run)
        assert hosted(port, topic)[DEAD] == 0
        assert read_summary(jobs.record(run).plan_uri).bytes_to_copy == 0

    def test_a_plan_of_a_persons_own_moves_them_too(self, port, orphaned, jobs):
        topic = orphaned({0: (5, 1), 1: (2, 5), 2: (3, 4)})
        run = jobs.trigger(
            "dead-json",
            kafka_conn_id=CONNECTION,
            job="apply_json",
            reassignment_json=move_json(topic, {0: (1, 2), 1: (2, 3)}),
            throttle_mb_per_second=20,
            allowed_unhealthy_partitions=100,
        )
        assert jobs.wait(run) == "success", jobs.story(run)
        assert replicas(port, topic) == {0: (1, 2), 1: (2, 3), 2: (3, 4)}

    def test_a_roll_back_copies_what_it_can_and_names_what_would_go_back_to_it(self, cluster, port, create_topic, jobs):
        topic = create_topic({0: (1, 2), 1: (5, 2)})
        fill_topics(cluster.bootstrap_servers, [topic], 6_000_000)
        asked = {"kafka_conn_id": CONNECTION, "throttle_mb_per_second": 20}
        targets = move_json(topic, {0: (3, 2), 1: (4, 2)})
        run = jobs.trigger("dead-forward", job="apply_json", reassignment_json=targets, **asked)
        assert jobs.wait(run) == "success", jobs.story(run)
        cluster.kill(DEAD)
        cluster.wait_until_live(set(cluster.brokers) - {DEAD})
        try:
            again = {"allowed_unhealthy_partitions": 100, "catch_up_timeout_minutes": 1}
            back = jobs.trigger("dead-back", job="roll_back", roll_back_of=run, **asked, **again)
            assert jobs.wait(back) == "failed", jobs.story(back)
            assert replicas(port, topic) == {0: (1, 2), 1: (4, 2)}
            told = [event for event in jobs.record(back).audit if event.outcome == "failed"][-1]
            assert (told.step, f"{topic}-1" in told.summary) == ("verify", True), told.summary
            assert jobs.lock_owner() is None
        finally:
            cluster.heal()
