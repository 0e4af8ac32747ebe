"""Each right of docs/connect.md is needed, all of them are enough, and an error names the one that is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType
from tests.contract.lab import eventually
from tests.kafka_fixtures import version_under_test
from tests.secured import SecuredCluster, right, rights, unsecured_token
from tests.token_endpoint import Endpoint, serving
from tests.unit.cluster.certificates import Certificates

from kafka_lab import data
from kafka_lab.airflow import PROJECT
from kafka_lab.releases import Release
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.errors import NotAuthorizedError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka

P = TopicPartition("orders", 0)
RATE, REPLICAS = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
CLUSTER = (ResourceType.BROKER, "kafka-cluster")
TOPICS = (ResourceType.TOPIC, "*")
TABLE: dict[str, AclBinding] = {
    "Alter on the cluster": right("mover", *CLUSTER, AclOperation.ALTER),
    "AlterConfigs on the cluster": right("mover", *CLUSTER, AclOperation.ALTER_CONFIGS),
    "Describe on all topics": right("mover", *TOPICS, AclOperation.DESCRIBE),
    "AlterConfigs on all topics": right("mover", *TOPICS, AclOperation.ALTER_CONFIGS),
}
"""The ACL of each right that every reassignment needs, in the words of the page."""

Ask = Callable[[ClusterPort], object]


@dataclass(frozen=True)
class Call:
    """A call of this project, and the rows of the table that it needs, with the right that its error names then."""

    ask: Ask
    needs: Mapping[str, str]


def _set(resource: ConfigResource, key: str, value: str) -> Ask:
    return lambda cluster: cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)])


ALTER = {"Alter on the cluster": "Alter on the cluster"}
DESCRIBE = {"Alter on the cluster": "Describe on the cluster (Alter includes it)"}
# Before KIP-860 the partitions and what is in flight are looked at first.
GUARDED = Release.parse(version_under_test().release) >= Release(4, 1, 0)
ALTER_CONFIGS = {"AlterConfigs on the cluster": "AlterConfigs on the cluster"}
DESCRIBE_CONFIGS = {"AlterConfigs on the cluster": "DescribeConfigs on the cluster (AlterConfigs includes it)"}
DESCRIBE_TOPICS = {"Describe on all topics": "Describe on all topics"}
ALTER_TOPICS = {"AlterConfigs on all topics": "AlterConfigs on all topics"}
DESCRIBE_TOPIC_CONFIGS = {"AlterConfigs on all topics": "DescribeConfigs on all topics (AlterConfigs includes it)"}
SUBMIT = ALTER if GUARDED else DESCRIBE | DESCRIBE_TOPICS
CALLS = {
    "list reassignments": Call(lambda c: c.list_reassignments(), DESCRIBE),
    "log dirs": Call(lambda c: c.describe_log_dirs([1, 2], [P]), DESCRIBE | DESCRIBE_TOPICS),
    "submit moves": Call(lambda c: c.alter_reassignments({P: (1, 2)}), SUBMIT),
    "elect leaders": Call(lambda c: c.elect_preferred_leaders([P]), ALTER),
    "read rates": Call(lambda c: c.describe_configs([ConfigResource.broker(1)], [RATE]), DESCRIBE_CONFIGS),
    "set rates": Call(_set(ConfigResource.broker(1), RATE, "9000000"), ALTER_CONFIGS),
    "partitions": Call(lambda c: c.describe_partitions([P.topic]), DESCRIBE_TOPICS),
    "end offsets": Call(lambda c: c.end_offsets([P]), DESCRIBE_TOPICS),
    "read throttled replicas": Call(
        lambda c: c.describe_configs([ConfigResource.topic(P.topic)], [REPLICAS]), DESCRIBE_TOPIC_CONFIGS
    ),
    "set throttled replicas": Call(_set(ConfigResource.topic(P.topic), REPLICAS, "0:1"), ALTER_TOPICS),
}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def secured(pki: Certificates) -> Iterator[SecuredCluster]:
    with SecuredCluster(pki, brokers=2, users={}, super_users=()) as cluster:
        cluster.let_in({"mover": "hunter2"})
        data.create_topic(cluster.bootstrap_servers, P.topic, [(1, 2)])
        yield cluster


@pytest.fixture(scope="module")
def settings(secured: SecuredCluster) -> ClusterSettings:
    return ClusterSettings.of(
        {
            "bootstrap.servers": secured.servers(secured.secure_ports),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "mover",
            "sasl.password": "hunter2",
            "ssl.ca.location": secured.authority,
        }
    )


def refusal(cluster: ClusterPort, ask: Ask) -> str:
    """What a call is refused with for want of a right; empty when it is not."""
    try:
        ask(cluster)
    except NotAuthorizedError as refused:
        return str(refused)
    return ""


def test_the_table_of_the_page_is_what_is_tried() -> None:
    page = (PROJECT / "docs" / "connect.md").read_text()
    rows = re.findall(r"^\| (`.+?) \|", page[page.index("| Right |") : page.index("In Kafka, `Alter`")], re.MULTILINE)
    needed = {row.replace("`", "") for row in rows}
    assert needed - set(TABLE) == {"Alter on a topic", "Write on the canary topic", "Describe on the group"}
    assert set(TABLE) < needed


def works(cluster: ClusterPort, name: str) -> None:
    """Wait until a call is allowed: the brokers learn of an ACL a moment after the controller."""
    eventually(lambda: refusal(cluster, CALLS[name].ask), lambda refused: not refused)


def test_all_rights_of_the_table_are_enough(secured: SecuredCluster, settings: ClusterSettings) -> None:
    with rights(secured.bootstrap_servers, "mover", *TABLE.values()), KafkaCluster(settings) as cluster:
        for name in CALLS:
            works(cluster, name)


@pytest.fixture(params=["scram", "certificate", "token"])
def login(request: pytest.FixtureRequest, secured: SecuredCluster, pki: Certificates) -> Iterator[dict[str, str]]:
    """The keys of a connection for each way to log in; all of them are the user ``mover``."""
    tls = {"ssl.ca.location": secured.authority}
    sasl = tls | {"bootstrap.servers": secured.servers(secured.secure_ports), "security.protocol": "SASL_SSL"}
    if request.param == "scram":
        yield sasl | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "mover", "sasl.password": "hunter2"}
    elif request.param == "certificate":
        own = {"ssl.certificate.location": str(pki.certificate), "ssl.key.location": str(pki.key)}
        servers = secured.servers(secured.certificate_ports)
        yield tls | own | {"bootstrap.servers": servers, "security.protocol": "SSL"}
    else:
        endpoint = Endpoint()
        endpoint.reply = (200, {"access_token": unsecured_token("mover"), "expires_in": 3600})
        oidc = {"method": "oidc", "token.endpoint.url": endpoint.url, "client.id": "mover", "client.secret": "hunter2"}
        with serving(endpoint):
            yield sasl | {"sasl.mechanism": "OAUTHBEARER"} | {f"sasl.oauthbearer.{k}": v for k, v in oidc.items()}


def test_each_way_to_log_in_moves_a_replica_under_a_throttle_with_these_rights_alone(
    secured: SecuredCluster, login: dict[str, str]
) -> None:
    moved = TopicPartition(f"moved-by-{login.get('sasl.mechanism', 'certificate')}", 0)
    data.create_topic(secured.bootstrap_servers, moved.topic, [(1,)])
    with (
        rights(secured.bootstrap_servers, "mover", *TABLE.values()),
        open_cluster(ClusterSettings.of(login)) as cluster,
    ):
        for name in ("set rates", "set throttled replicas", "submit moves"):
            works(cluster, name)
        throttled = ConfigResource.topic(moved.topic)
        set_list = ConfigChange(throttled, REPLICAS, ConfigOperation.SET, "0:1")
        assert cluster.alter_configs([set_list]) == {throttled: None}
        assert cluster.alter_reassignments({moved: (2,)}) == {moved: None}
        eventually(
            lambda: cluster.describe_partitions([moved.topic])[moved], lambda p: (p.replicas, set(p.isr)) == ((2,), {2})
        )
        assert cluster.list_reassignments([moved]) == {}


@pytest.mark.parametrize("missing", TABLE)
def test_what_needs_a_missing_right_names_it_and_the_rest_works(
    secured: SecuredCluster, settings: ClusterSettings, missing: str
) -> None:
    others = [binding for name, binding in TABLE.items() if name != missing]
    with rights(secured.bootstrap_servers, "mover", *others), KafkaCluster(settings) as cluster:
        for name, call in CALLS.items():
            if missing not in call.needs:
                works(cluster, name)
        for call in CALLS.values():
            if missing in call.needs:
                named = f"Give the connection's principal the right {call.needs[missing]}"
                eventually(lambda ask=call.ask: refusal(cluster, ask), lambda text, named=named: named in text)


def test_log_dirs_show_what_the_user_may_not_describe_and_the_metadata_leaves_it_out(
    secured: SecuredCluster, settings: ClusterSettings
) -> None:
    """What the planner and the end of a decommission go by: Describe on the cluster is enough for log dirs."""
    secret = TopicPartition("secret", 0)
    data.create_topic(secured.bootstrap_servers, secret.topic, [(1, 2)])
    may_describe = [(*CLUSTER, AclOperation.DESCRIBE), (ResourceType.TOPIC, P.topic, AclOperation.DESCRIBE)]
    bindings = [right("mover", *what) for what in may_describe]
    with rights(secured.bootstrap_servers, "mover", *bindings), KafkaCluster(settings) as cluster:
        works(cluster, "partitions")
        works(cluster, "log dirs")
        assert {p.topic for p in cluster.describe_partitions()} == {P.topic}
        assert {r.broker for r in cluster.describe_log_dirs([1, 2]).replicas if r.partition == secret} == {1, 2}


def test_adding_partitions_names_the_right_on_the_topic(secured: SecuredCluster, settings: ClusterSettings) -> None:
    with rights(secured.bootstrap_servers, "mover", *TABLE.values()), KafkaCluster(settings) as cluster:
        add: Ask = lambda c: c.create_partitions(P.topic, {1: (1, 2)}, validate_only=True)  # noqa: E731
        assert "the right Alter on the topic" in refusal(cluster, add)
        with rights(secured.bootstrap_servers, "mover", right("mover", *TOPICS, AclOperation.ALTER)):
            eventually(lambda: refusal(cluster, add), lambda refused: not refused)
