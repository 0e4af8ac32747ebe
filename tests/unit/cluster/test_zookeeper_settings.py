"""The ``zookeeper`` section of a connection."""

from __future__ import annotations

import pytest

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.zookeeper.settings import ZookeeperSettings
from kafka_reassignment.errors import InvalidRequestError

pytestmark = pytest.mark.quick


def read(section: object) -> ZookeeperSettings:
    return ZookeeperSettings.of(
        section, "Kafka connection 'old'", Correct("edit the connection in Airflow (Admin, Connections)")
    )


@pytest.mark.parametrize("connect", ["z:2181", "z1:2181,z2:2181/kafka/a", "10.0.0.1", "z1,z2:2182/x"])
def test_a_connect_string_is_enough(connect: str) -> None:
    assert read(connect) == read({"connect": connect})
    assert str(read(connect)) == connect
    assert not read(connect).tls


@pytest.mark.parametrize(("value", "meant"), [("false", False), ("True", True), (False, False), (True, True)])
def test_a_flag_that_is_written_as_a_text_says_what_it_says(value: object, meant: bool) -> None:
    settings = read({"connect": "z:2181", "tls": value, "verify.hostname": value})
    assert (settings.tls, settings.verify_hostname) == (meant, meant)


def test_tls_sasl_and_acls_are_read() -> None:
    settings = read(
        {
            "connect": "z:2281",
            "tls": True,
            "ca.location": "ca.pem",
            "verify.hostname": False,
            "sasl.mechanism": "DIGEST-MD5",
            "sasl.username": "mover",
            "sasl.password": "hunter2",
            "digest": "mover:hunter3",
            "acl": "creator",
            "session.timeout.ms": 4000,
        }
    )
    assert (settings.tls, settings.ca_location, settings.verify_hostname, settings.verify_certificate) == (
        True,
        "ca.pem",
        False,
        True,
    )
    assert (settings.sasl_mechanism, settings.sasl_username) == ("DIGEST-MD5", "mover")
    assert (settings.acl, settings.session_timeout_seconds) == ("creator", 4.0)
    assert "hunter" not in repr(settings)
    assert settings.redact("hunter2 and mover:hunter3") == "*** and ***"


def test_a_password_that_is_a_number_is_a_text() -> None:
    section = {"connect": "z:2181", "sasl.mechanism": "DIGEST-MD5", "sasl.username": 7, "sasl.password": 12345678}
    settings = read(section | {"key.password": 87654321, "session.timeout.ms": 4000})
    assert (settings.sasl_username, settings.sasl_password, settings.session_timeout_seconds) == ("7", "12345678", 4.0)
    assert settings.redact("12345678 and 87654321") == "*** and ***"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (7, "'zookeeper' expected to be an object with 'connect'"),
        ({}, "'connect' expected host:port,host:port/chroot"),
        ({"connect": "z 1:2181"}, "'connect' expected host:port,host:port/chroot"),
        ({"connect": "z:2181", "user": "x"}, "'user' expected to be one of acl, ca.location"),
        ({"connect": "z:2181", "sasl.mechanism": "PLAIN"}, "'sasl.mechanism' expected DIGEST-MD5 or GSSAPI"),
        ({"connect": "z:2181", "sasl.mechanism": "DIGEST-MD5"}, "'sasl.username' expected to be given with"),
        ({"connect": "z:2181", "acl": "none"}, "'acl' expected 'open' or 'creator'"),
        ({"connect": "z:2181", "digest": "nopassword"}, "'digest' expected user:password"),
        ({"connect": "z:2181", "session.timeout.ms": "10s"}, "'session.timeout.ms' expected a whole number of"),
        ({"connect": "z:2181", "acl": ["open"]}, "'acl' expected a text"),
        ({"connect": "z:2181", "key.password": True}, "'key.password' expected a text"),
        ({"connect": "z:2181", "tls": "no"}, "'tls' expected true or false"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused_by_key(section: object, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(section)
    assert str(refused.value).startswith(f"Kafka connection 'old', section 'zookeeper': {message}")
    assert str(refused.value).endswith("Edit the connection in Airflow (Admin, Connections)")
