"""A connection's keys, for every client the same, and without its secrets."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from packaging.requirements import Requirement
from tests.unit.cluster.certificates import Certificates

from kafka_lab.airflow import PROJECT
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.kafka.tokens import OidcTokens, TokensOfCallback
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import InvalidRequestError

pytestmark = pytest.mark.quick

SERVERS = {"bootstrap.servers": "a:9092,b:9093"}
SCRAM = {
    **SERVERS,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "mover",
    "sasl.password": "hunter2",
}
OIDC = {
    **SERVERS,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "mover",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
}


def refused(extra: dict[str, Any]) -> str:
    with pytest.raises(InvalidRequestError) as problem:
        ClusterSettings.of(extra, name="my_kafka")
    assert "hunter2" not in str(problem.value)
    return str(problem.value)


def test_servers_alone_make_a_plaintext_connection() -> None:
    settings = ClusterSettings.of(SERVERS)
    assert settings.kafka_python_config() == {
        "bootstrap_servers": ["a:9092", "b:9093"],
        "client_id": "kafka-reassignment",
        "security_protocol": "PLAINTEXT",
        "receive_message_max_bytes": 500_000_000,
        "request_timeout_ms": 15_000,
        "socket_connection_setup_timeout_ms": 5_000,
        "socket_connection_setup_timeout_max_ms": 5_000,
    }
    assert str(settings) == "connection 'kafka_default' (a:9092,b:9093, PLAINTEXT)"


def test_timeouts_of_the_connection_win_over_ours() -> None:
    settings = ClusterSettings.of(
        {**SERVERS, "socket.timeout.ms": 3000, "socket.connection.setup.timeout.ms": "1500", "client.id": "ops"}
    )
    config = settings.kafka_python_config()
    assert settings.request_seconds == 3.0
    assert config["request_timeout_ms"] == 3_000
    assert config["socket_connection_setup_timeout_ms"] == 1_500
    assert config["client_id"] == "ops"
    assert settings.confluent_config()["socket.timeout.ms"] == 3000


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("spelling", ["sasl.mechanism", "sasl.mechanisms"])
def test_passwords_reach_both_clients(spelling: str, mechanism: str) -> None:
    extra = {key: value for key, value in SCRAM.items() if key != "sasl.mechanism"} | {spelling: mechanism.lower()}
    settings = ClusterSettings.of(extra)
    config = settings.kafka_python_config()
    assert config["security_protocol"] == "SASL_PLAINTEXT"
    assert config["sasl_mechanism"] == mechanism
    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == ("mover", "hunter2")
    AdminClient(settings.confluent_config())
    assert settings.confluent_config()["sasl.mechanism"] == mechanism
    assert settings.confluent_config()["sasl.password"] == "hunter2"


def test_what_confluent_kafka_gets_is_a_client_it_can_make() -> None:
    """Our own section and callbacks that concern others are taken out, and a logger given against lines on stderr."""
    settings = ClusterSettings.of(
        {**SCRAM, "error_cb": "some.module.f", "group.id": "g", "zookeeper": {"connect": "z:2181"}}
    )
    config = settings.confluent_config()
    assert {"zookeeper", "error_cb"}.isdisjoint(config)
    assert config["group.id"] == "g"
    assert config["logger"].name == "kafka_reassignment.librdkafka"
    AdminClient(config)
    assert settings.zookeeper is not None
    assert settings.zookeeper.connect == "z:2181"


@pytest.mark.parametrize("key", ["https.ca.location", "https.ca.pem"])
def test_the_lowest_confluent_kafka_that_is_allowed_knows_whom_to_trust_at_a_token_endpoint(
    tmp_path: Path, key: str
) -> None:
    """2.10 calls these keys unknown. This file runs on the lowest too: `make bounds`."""
    authority = Certificates.make(tmp_path).ca
    value = str(authority) if key.endswith("location") else authority.read_text()
    AdminClient(ClusterSettings.of({**OIDC, key: value}).confluent_config())
    for file in ("pyproject.toml", "lab/pyproject.toml"):
        project = tomllib.loads((PROJECT / file).read_text())["project"]
        [needed] = (r for r in map(Requirement, project["dependencies"]) if r.name == "confluent-kafka")
        assert [version for version in ("2.10.0", "2.11.0") if version in needed.specifier] == ["2.11.0"], file


@pytest.mark.parametrize("extra", [SCRAM, OIDC], ids=["password", "client secret"])
def test_nothing_that_prints_a_connection_shows_its_secrets(extra: dict[str, str]) -> None:
    settings = ClusterSettings.of(extra)
    assert "hunter2" not in f"{settings} {settings!r}"
    assert settings.redact("login mover/hunter2 refused") == "login mover/*** refused"


def test_a_password_that_is_a_number_is_the_text_that_librdkafka_makes_of_it() -> None:
    settings = ClusterSettings.of({**SCRAM, "sasl.username": 7, "sasl.password": 12345678})
    assert settings.confluent_config()["sasl.password"] == "12345678"
    config = settings.kafka_python_config()
    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == ("7", "12345678")
    assert settings.redact("bad password 12345678") == "bad password ***"


@pytest.mark.parametrize("change", [{"ssl.ca.location": 123}, {"ssl.cipher.suites": 5}], ids=str)
def test_a_number_that_is_no_file_and_no_cipher_is_refused_by_its_key(change: dict[str, Any]) -> None:
    assert "ssl." in refused({"bootstrap.servers": "k1:9093", "security.protocol": "SSL", **change})


def test_tls_with_files_and_inline_pem_give_the_same_identity(tmp_path: Path) -> None:
    pki = Certificates.make(tmp_path)
    inline = {
        "ssl.ca.pem": pki.ca.read_text(),
        "ssl.certificate.pem": pki.certificate.read_text(),
        "ssl.key.pem": pki.key.read_text(),
    }
    files = {
        "ssl.ca.location": str(pki.ca),
        "ssl.certificate.location": str(pki.certificate),
        "ssl.key.location": str(pki.key),
    }
    before = set(tmp_path.iterdir())
    for keys in (inline, files):
        settings = ClusterSettings.of({**SERVERS, "security.protocol": "SSL", **keys})
        context = settings.kafka_python_config()["ssl_context"]
        assert [c["subject"] for c in context.get_ca_certs()] == [((("commonName", "test ca"),),)]
        assert context.check_hostname
        AdminClient(settings.confluent_config())
    assert set(tmp_path.iterdir()) == before
    assert "PRIVATE KEY" not in repr(settings)


def test_tls_checks_can_be_relaxed_only_by_librdkafkas_own_keys() -> None:
    strict = ClusterSettings.of({**SERVERS, "security.protocol": "ssl"}).kafka_python_config()["ssl_context"]
    assert strict.check_hostname
    assert strict.verify_mode.name == "CERT_REQUIRED"
    nameless = ClusterSettings.of(
        {**SERVERS, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    ).kafka_python_config()["ssl_context"]
    assert not nameless.check_hostname
    assert nameless.verify_mode.name == "CERT_REQUIRED"
    trusting = ClusterSettings.of(
        {**SERVERS, "security.protocol": "SSL", "enable.ssl.certificate.verification": False}
    ).kafka_python_config()["ssl_context"]
    assert trusting.verify_mode.name == "CERT_NONE"


def test_an_encrypted_key_without_its_password_is_refused_and_never_asks_the_terminal(tmp_path: Path) -> None:
    pki = Certificates.make(tmp_path, key_password="hunter2")
    extra = {
        **SERVERS,
        "security.protocol": "SSL",
        "ssl.certificate.location": str(pki.certificate),
        "ssl.key.location": str(pki.key),
    }
    assert "ssl.certificate and ssl.key cannot be used" in refused(extra)
    ClusterSettings.of({**extra, "ssl.key.password": "hunter2"}).kafka_python_config()


def test_a_missing_certificate_file_is_reported_with_its_key() -> None:
    message = refused({**SERVERS, "security.protocol": "SSL", "ssl.ca.location": "/no/such/ca.pem"})
    assert message.startswith("Kafka connection 'my_kafka': ssl.ca.location or ssl.ca.pem cannot be used: No such file")
    assert "put the file where every worker and the triggerer see it" in message


def test_client_credentials_become_a_token_source() -> None:
    config = ClusterSettings.of(OIDC).kafka_python_config()
    assert config["sasl_mechanism"] == "OAUTHBEARER"
    assert isinstance(config["sasl_oauth_token_provider"], OidcTokens)


def test_an_oauth_function_becomes_a_token_source_and_is_given_its_config() -> None:
    asked: list[str] = []

    def tokens(config: str) -> tuple[str, float]:
        asked.append(config)
        return "the-token", 4_000_000_000.0

    extra = {
        **SERVERS,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "region=eu",
        "oauth_cb": tokens,
    }
    source = ClusterSettings.of(extra).kafka_python_config()["sasl_oauth_token_provider"]
    assert isinstance(source, TokensOfCallback)
    assert source.token() == "the-token"
    assert asked == ["region=eu"]


KERBEROS = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}


@pytest.mark.parametrize("missing", [None, ImportError("libgssapi_krb5.so.2"), OSError("no Kerberos")], ids=repr)
def test_kerberos_without_its_package_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: Exception | None
) -> None:
    """kafka-python would end with "RuntimeError: GSSAPI lib not found!", in the middle of a login."""

    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "gssapi" and missing is not None:
                raise missing

    monkeypatch.setitem(sys.modules, "gssapi", None)
    if missing is not None:
        monkeypatch.delitem(sys.modules, "gssapi")
        monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(InvalidRequestError) as refused:
        KafkaCluster(ClusterSettings.of(KERBEROS, name="my_kafka")).describe_cluster()
    assert str(refused.value).startswith(
        "Kafka connection 'my_kafka' asks for GSSAPI, for which this machine lacks the package gssapi: "
    )
    assert "install kafka-reassignment[kerberos]" in str(refused.value)


def test_kerberos_with_its_package_asks_for_the_service_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    config = ClusterSettings.of(KERBEROS).kafka_python_config()
    assert (config["sasl_mechanism"], config["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")


@pytest.mark.parametrize("extra", [{}, {"bootstrap.servers": " "}, {"bootstrap.server": "a:9092"}])
def test_a_connection_without_servers_is_refused_by_name_with_the_next_step(extra: dict[str, str]) -> None:
    message = refused(extra)
    assert message.startswith("Kafka connection 'my_kafka' has no 'bootstrap.servers', expected host:port")
    assert message.endswith("Edit the connection in Airflow (Admin, Connections)")


@pytest.mark.parametrize("servers", ["a", "a:", "a:port", ":9092", "a:0", "a:70000", "a:9092,", "a:9092;b:9092"])
def test_servers_that_are_no_host_and_port_are_refused(servers: str) -> None:
    assert "'bootstrap.servers' expects host:port, found" in refused({"bootstrap.servers": servers})


def test_ipv6_servers_are_taken() -> None:
    assert ClusterSettings.of({"bootstrap.servers": "[::1]:9092"}).bootstrap_servers == "[::1]:9092"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"security.protocol": "TLS"}, "'security.protocol' cannot be used here, found 'TLS': expected one of PLAINTEXT"),
        ({"sasl.mechanism": "MD5"}, "'sasl.mechanism' cannot be used here, found 'MD5': expected one of PLAIN,"),
        ({"sasl.password": ""}, "has no 'sasl.password', which SCRAM-SHA-512 needs"),
        ({"sasl.usrname": "x"}, "'sasl.usrname' cannot be used here, found 'x': it changes how brokers are reached"),
        ({"ssl.keystore.location": "k.p12"}, "'ssl.keystore.location' cannot be used here"),
        ({"sasl.kerberos.keytab": "k"}, "'sasl.kerberos.keytab' cannot be used here"),
        ({"broker.address.family": "v4"}, "'broker.address.family' cannot be used here"),
        ({"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}, "'client.dns.lookup' cannot be used here"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "expected 'oidc' (client credentials), or an oauth_cb function"),
        ({"oauth_cb": "os.system"}, "a name is made a function by Airflow alone"),
        ({"plugin.library.paths": "/x.so"}, "it loads native code into every process"),
        ({"sasl.password": ["hunter2"]}, "'sasl.password' cannot be used here: expected a text"),
        ({"sasl.username": {"a": 1}}, "'sasl.username' cannot be used here, found {'a': 1}: expected a text"),
        ({"sasl.username": True}, "'sasl.username' cannot be used here, found True: expected a text"),
        ({"socket.timeout.ms": "60s"}, "'socket.timeout.ms' cannot be used here, found '60s': expected a whole number"),
        ({"socket.connection.setup.timeout.ms": 0}, "found 0: expected a whole number of milliseconds"),
        ({"zookeeper": {"connect": "x y"}}, "section 'zookeeper': 'connect' expected host:port"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_to_every_client_is_refused(change: dict[str, Any], message: str) -> None:
    assert message in refused({**SCRAM, **change})


@pytest.mark.parametrize("missing", ["token.endpoint.url", "client.id", "client.secret"])
def test_client_credentials_have_to_be_complete(missing: str) -> None:
    key = f"sasl.oauthbearer.{missing}"
    message = refused({k: v for k, v in OIDC.items() if k != key})
    assert (
        message
        == f"Kafka connection 'my_kafka' has no '{key}', which OAUTHBEARER needs. Edit the connection in Airflow (Admin, Connections)"
    )
