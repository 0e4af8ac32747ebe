"""KIP-179's change of a topic's partition count, on real brokers: racks and load decide, not the turn."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest
from tests.contract.lab import HELD_BYTES, eventually, set_rates
from tests.kafka_fixtures import CreateTopic, fresh_topic_name
from tests.partition_count_lab import Growing
from tests.steps_lab import WallClock
from upath import UPath

from kafka_lab import data
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import fill_topics
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InfeasiblePlanError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    ReassignmentInProgressError,
    StalePlanError,
    is_worth_a_retry,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka


@pytest.fixture
def cluster(kafka: LocalCluster) -> Iterator[ClusterPort]:
    with open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="kips")) as opened:
        yield opened


@pytest.fixture
def growing(cluster: ClusterPort, tmp_path) -> Callable[..., Growing]:
    numbers = itertools.count(1)

    def make(topic: str, partitions: int, **request: object) -> Growing:
        run_id = f"g-{next(numbers)}"
        folder, clock = UPath(tmp_path), WallClock()
        return Growing(cluster, folder, run_id, clock=clock, topic=topic, partitions=partitions, **request)

    return make


def test_new_partitions_are_placed_by_racks_and_load_and_not_round_robin(kafka, create_topic: CreateTopic, growing):
    # Brokers 1 and 4 are in rack a, 2 and 5 in b, 3 and 6 in c; 4, 5 and 6 hold 60 MB more than 1, 2 and 3.
    heavy = create_topic({0: (4, 5, 6)})
    fill_topics(kafka.bootstrap_servers, [heavy], 60_000_000)
    topic = create_topic({0: (1, 2, 3), 1: (5, 6, 4)}, configs={"min.insync.replicas": "2"})
    run = growing(topic, 6)
    run.do_all()
    after = run.replicas(topic)
    assert (after[0], after[1]) == ((1, 2, 3), (5, 6, 4)), "what was there is not touched"
    for replicas in after.values():
        assert len({(b - 1) % 3 for b in replicas}) == 3, "one replica in each rack"
    assert set(Counter(b for r in after.values() for b in r).values()) == {3}, "the topic is even over the brokers"
    assert set(after[2]) == {1, 2, 3}, "the first new one is where there is less"
    assert max(Counter(r[0] for r in after.values()).values()) == 1, "each leads one"


def test_a_rerun_of_every_step_finds_the_count_there_and_says_so(create_topic: CreateTopic, growing):
    topic = create_topic({0: (1, 2)})
    run = growing(topic, 3)
    run.do_all()
    after = run.replicas(topic)
    (run.record.root / "added.json").unlink()  # as after a crash between the request and its note
    run.do_all()
    assert run.replicas(topic) == after
    assert (
        f"nothing left to add, an earlier try or another client has done it: {topic} has at least 3 now"
        in run.summaries()[6]
    )


def test_validate_only_says_exactly_what_would_be_added(create_topic: CreateTopic, growing):
    topic = create_topic({0: (1, 2)})
    run = growing(topic, 3, validate_only=True, exclude_brokers=[1, 2])
    text = run.do_all("preflight", "plan_placement")
    planned = run.kept.require_planned().assignments
    assert list(planned) == [1, 2]
    for number, replicas in planned.items():
        assert f"| {topic}-{number} | {','.join(map(str, replicas))} |" in text
        assert not {1, 2} & set(replicas)
    assert run.do("create_partitions") is False
    assert run.replicas(topic) == {0: (1, 2)}


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (4, "has 6 partitions, asked for 4: Kafka cannot lower the count"),
        (6, "has 6 partitions already, expected fewer than the 6 asked for"),
    ],
)
def test_a_count_that_is_no_increase_is_invalid(create_topic: CreateTopic, growing, count: int, message: str):
    topic = create_topic(dict.fromkeys(range(6), (1, 2)))
    with pytest.raises(InvalidPartitionsError, match=message):
        growing(topic, count).do("preflight")


def test_a_topic_that_somebody_grows_meanwhile_is_never_grown_beyond_the_count(
    cluster, create_topic: CreateTopic, growing
):
    topic = create_topic({0: (1, 2)})
    run = growing(topic, 3)
    run.do_all("preflight", "plan_placement")
    assert cluster.create_partitions(topic, {1: (5, 6)}) is None
    eventually(lambda: run.replicas(topic), lambda seen: len(seen) == 2)
    with pytest.raises(StalePlanError, match="another client has added some"):
        run.do("create_partitions")
    assert run.replicas(topic) == {0: (1, 2), 1: (5, 6)}


def test_a_topic_in_a_reassignment_waits_until_it_has_landed(kafka, cluster, create_topic: CreateTopic, growing):
    held = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
    topic = create_topic({0: (1, 2)}, configs=held)
    fill_topics(kafka.bootstrap_servers, [topic], HELD_BYTES)
    moving = TopicPartition(topic, 0)
    run = growing(topic, 2)
    run.do_all("preflight", "plan_placement")
    set_rates(cluster, "1")
    try:
        assert cluster.alter_reassignments({moving: (3, 4)}) == {moving: None}
        message = rf"1 of 1 partitions of topic {topic} are being reassigned \({topic}-0\)"
        with pytest.raises(ReassignmentInProgressError, match=message):
            growing(topic, 2, exclude_brokers=[5]).do("preflight")
        with pytest.raises(ReassignmentInProgressError, match=message):
            run.do("create_partitions")
    finally:
        set_rates(cluster, None)
    eventually(lambda: cluster.list_reassignments([moving]), lambda listed: listed == {})
    eventually(lambda: run.replicas(topic), lambda seen: seen == {0: (3, 4)})
    run.do_all("create_partitions", "verify")
    assert len(run.replicas(topic)) == 2


def test_partitions_that_differ_in_replicas_are_reported_or_refused_by_the_controllers_own_choice(
    cluster, create_topic: CreateTopic, growing
):
    """Kafka 4.3.1 demands the number of a partition that its hash table names; most have two here."""
    outcomes = set()
    for odd in range(3):
        topic = create_topic({0: (1,), 1: (1,), 2: (1,)})
        wide = {TopicPartition(topic, n): (1, 2) for n in range(3) if n != odd}
        cluster.alter_reassignments(wide, allow_replication_factor_change=True)
        eventually(
            lambda of=topic: cluster.describe_partitions([of]),
            lambda seen: sorted(len(s.replicas) for s in seen.values()) == [1, 2, 2],
        )
        eventually(lambda of=wide: cluster.list_reassignments(of), lambda listed: listed == {})
        run = growing(topic, 4)
        run.do("preflight")
        try:
            assert "differ in replicas: the new ones get 2" in str(run.do("plan_placement"))
            outcomes.add("accepted")
        except InvalidReplicationFactorError as refused:
            assert "consistent with previous partitions, which have 1 replica(s)" in str(refused)  # noqa: PT017
            outcomes.add("refused")
    assert outcomes == {"accepted", "refused"}


def test_a_controller_whose_quota_is_used_up_is_asked_again_later(kafka, create_topic: CreateTopic):
    """KIP-599: the answer is no, for now; nothing is added, and Airflow's retry comes back."""
    topic = create_topic({0: (1, 2)})
    extra = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "hurried"}
    settings = ClusterSettings.of(extra, name="hurried")
    refused, present = None, 1
    with open_cluster(settings) as hurried, mutation_rate(settings, "hurried", 0.1):
        while refused is None and present < 30:  # the first go through on credit
            try:
                assert hurried.create_partitions(topic, {present: (1, 2)}) is None
                present += 1
            except ClusterUnavailableError as error:
                refused = error
        assert refused is not None
        assert is_worth_a_retry(refused)
        message = f"quota for mutations (KIP-599) is used up; adding 1 partitions to topic {topic} was not done. Try again later"
        assert message in str(refused)
        eventually(lambda: hurried.describe_partitions([topic]), lambda seen: len(seen) == present)


@contextmanager
def mutation_rate(settings: ClusterSettings, client_id: str, per_second: float) -> Iterator[None]:
    """Let the controller take no more partitions of this client."""
    row = AlterClientQuotasRequest.EntryData

    def alter(*, remove: bool) -> None:
        entity = row.EntityData(entity_type="client-id", entity_name=client_id)
        change = row.OpData(key="controller_mutation_rate", value=per_second, remove=remove)
        with ProtocolConversation(settings) as conversation:
            asked = AlterClientQuotasRequest(entries=[row(entity=[entity], ops=[change])], validate_only=False)
            assert conversation.ask_controller(asked, seconds=10).entries[0].error_code == 0

    alter(remove=False)
    time.sleep(1)  # until the controller has heard of it
    try:
        yield
    finally:
        alter(remove=True)


def test_a_dead_broker_gets_nothing_and_too_few_live_ones_are_infeasible(
    create_topic: CreateTopic, breakable_kafka: LocalCluster, growing
):
    # Fixtures in this order: the broker is back before the topic is deleted, which may need just that one.
    topic = create_topic({0: (1, 2, 3)})
    breakable_kafka.kill(4)
    breakable_kafka.wait_until_live({1, 2, 3, 5, 6})
    run = growing(topic, 4)
    text = run.do_all("preflight", "plan_placement")
    assert "* Broker 4 gets none: it is down." in str(text)
    run.do_all("create_partitions", "verify")
    assert all(4 not in replicas for replicas in run.replicas(topic).values())
    few = growing(topic, 5, exclude_brokers=[3, 5, 6])
    few.do("preflight")
    with pytest.raises(
        InfeasiblePlanError, match=r"need 3 brokers; found 2 that may take new ones: 1,2 \(left out: 3: the"
    ):
        few.do("plan_placement")


def test_a_cluster_below_2_4_is_grown_the_same_way(tmp_path):
    with ZooKeeperCluster(brokers=3, version="2.3.1") as kafka:
        extra = {"bootstrap.servers": kafka.bootstrap_servers, "zookeeper": {"connect": kafka.zookeeper_connect}}
        topic = fresh_topic_name()
        data.create_topic(kafka.bootstrap_servers, topic, [(1, 2)], None)
        with open_cluster(ClusterSettings.of(extra, name="old")) as cluster:
            run = Growing(cluster, UPath(tmp_path), clock=WallClock(), topic=topic, partitions=3)
            run.do_all()
            after = run.replicas(topic)
    assert Counter(b for r in after.values() for b in r) == {1: 2, 2: 2, 3: 2}
