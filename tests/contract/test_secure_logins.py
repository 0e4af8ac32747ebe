"""The other ways to log in, on real brokers: client certificates and tokens of an endpoint, with no secret in any message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.secured import SecuredCluster, unsecured_token
from tests.token_endpoint import Endpoint, serving
from tests.unit.cluster.certificates import Certificates

from kafka_lab import data
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    NotAuthorizedError,
    ReassignmentError,
)
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka

P = TopicPartition("orders", 0)
LOOKS = 6


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def secured(pki: Certificates) -> Iterator[SecuredCluster]:
    with SecuredCluster(pki, brokers=2, users={"mover": "hunter2"}, super_users=("mover",)) as cluster:
        data.create_topic(cluster.bootstrap_servers, P.topic, [(1, 2)])
        yield cluster


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.reply = (200, {"access_token": unsecured_token("mover"), "expires_in": 3600})
    with serving(endpoint):
        yield endpoint


@pytest.fixture
def by_certificate(secured: SecuredCluster) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.servers(secured.certificate_ports),
        "security.protocol": "SSL",
        "ssl.ca.location": secured.authority,
    }


@pytest.fixture
def by_token(secured: SecuredCluster, endpoint: Endpoint) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.servers(secured.secure_ports),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.oauthbearer.client.id": "mover",
        "sasl.oauthbearer.client.secret": "hunter2",
        "ssl.ca.location": secured.authority,
    }


def look(cluster: ClusterPort) -> None:
    """Ask what a trigger asks, of both clients and of every broker."""
    assert cluster.describe_cluster().live_brokers == {1, 2}
    assert cluster.describe_partitions([P.topic]).keys() == {P}
    assert cluster.list_reassignments([P]) == {}
    assert cluster.describe_configs([ConfigResource.topic(P.topic)], ["min.insync.replicas"])
    assert {r.partition for r in cluster.describe_log_dirs([1, 2], [P]).replicas} == {P}


def test_a_client_certificate_as_text_is_enough_for_every_client(
    by_certificate: dict[str, Any], pki: Certificates
) -> None:
    inline = {"ssl.certificate.pem": pki.certificate.read_text(), "ssl.key.pem": pki.key.read_text()}
    with open_cluster(ClusterSettings.of(by_certificate | inline)) as cluster:
        look(cluster)


def test_an_encrypted_key_with_its_password_is_taken_by_every_client(
    by_certificate: dict[str, Any], pki: Certificates
) -> None:
    encrypted = pki.encrypted_key("hunter5")
    certificate = {"ssl.certificate.pem": pki.certificate.read_text()}
    for key in ({"ssl.key.pem": encrypted.read_text()}, {"ssl.key.location": str(encrypted)}):
        extra = by_certificate | certificate | key | {"ssl.key.password": "hunter5"}
        with open_cluster(ClusterSettings.of(extra)) as cluster:
            look(cluster)
        with pytest.raises(InvalidRequestError) as refused:
            ClusterSettings.of(extra | {"ssl.key.password": "hunter6"})
        assert "ssl.key.password" in str(refused.value)
        assert "hunter" not in str(refused.value)
        assert encrypted.read_text().splitlines()[1] not in str(refused.value)


def test_no_certificate_and_one_of_a_stranger_are_refused_without_a_word_of_the_key(
    by_certificate: dict[str, Any], tmp_path: Path
) -> None:
    stranger = Certificates.make(tmp_path)
    inline = {"ssl.certificate.pem": stranger.certificate.read_text(), "ssl.key.pem": stranger.key.read_text()}
    for extra in (by_certificate, by_certificate | inline):
        with pytest.raises(ClusterUnavailableError) as refused:
            open_cluster(ClusterSettings.of(extra, name="my_kafka"))
        assert "No broker of connection 'my_kafka'" in str(refused.value)
        assert not [line for line in stranger.key.read_text().splitlines() if line in str(refused.value)]


def test_one_token_of_the_endpoint_serves_all_looks(by_token: dict[str, Any], endpoint: Endpoint) -> None:
    with open_cluster(ClusterSettings.of(by_token)) as cluster:
        look(cluster)
        first = len(endpoint.asked)
        for _ in range(LOOKS):
            look(cluster)
        assert len(endpoint.asked) == first
    assert 1 <= first <= 2  # one for each of the two clients


def test_one_login_serves_all_looks_as_the_brokers_count_them(
    secured: SecuredCluster, by_token: dict[str, Any]
) -> None:
    with open_cluster(ClusterSettings.of(by_token)) as before:
        look(before)  # brokers know a logger by its first line
    with secured.counting_logins() as logins, open_cluster(ClusterSettings.of(by_token)) as cluster:
        look(cluster)
        first = logins()
        for _ in range(LOOKS):
            look(cluster)
        assert (
            logins() <= first + 1
        )  # one client knows both brokers at once, and connects to the second one when it likes
    assert first > 1


def test_a_refused_client_secret_is_in_no_message_though_the_endpoint_repeats_it(
    by_token: dict[str, Any], endpoint: Endpoint
) -> None:
    for status in (401, 500, 200):
        endpoint.reply = (status, {"error": "invalid_client", "error_description": "client secret hunter2 is wrong"})
        with pytest.raises(ReassignmentError) as refused:
            open_cluster(ClusterSettings.of(by_token))
        assert isinstance(refused.value, NotAuthorizedError if status == 401 else ClusterUnavailableError)
        assert endpoint.url in str(refused.value)
        assert "hunter2" not in str(refused.value)


def test_a_refused_token_names_the_keys_that_made_it(by_token: dict[str, Any], endpoint: Endpoint) -> None:
    endpoint.reply = (200, {"access_token": "no token at all", "expires_in": 3600})
    with pytest.raises(ReassignmentError) as refused:
        open_cluster(ClusterSettings.of(by_token))
    assert "sasl.oauthbearer.client.secret" in str(refused.value)
    assert "sasl.password" not in str(refused.value)
    assert "no token at all" not in str(refused.value)
