"""What Airflow's own masker hides of a Kafka connection's extra, with the setting that the pages and the examples have."""

import re

import pytest
from airflow._shared.secrets_masker import DEFAULT_SENSITIVE_FIELDS, SecretsMasker

from kafka_lab.airflow import PROJECT

pytestmark = pytest.mark.quick

PLACES = ("docs/install.md", "docs/connect.md", "docs/zookeeper.md", "docker-compose.yml", "lab/kafka_lab/airflow.py")
SETTING = re.compile(r'SENSITIVE_VAR_CONN_NAMES(?:=|": "|: )([\w.,]+)')
EXTRA = {
    "bootstrap.servers": "broker-1:9092,broker-2:9092",
    "security.protocol": "SASL_SSL",
    "sasl.username": "mover",
    "sasl.password": "hidden",
    "sasl.oauthbearer.client.secret": "hidden",
    "sasl.oauthbearer.config": "hidden",
    "ssl.ca.location": "/etc/kafka/ca.pem",
    "ssl.certificate.pem": "certificate",
    "ssl.key.pem": "hidden",
    "ssl.key.password": "hidden",
    "zookeeper": {
        "connect": "zk-1:2181",
        "sasl.username": "mover",
        "sasl.password": "hidden",
        "key.password": "hidden",
        "digest": "hidden",
    },
}
"""Every secret that docs/connect.md and docs/zookeeper.md have a key for, beside what people want to read."""


def masked(extra):
    return {k: masked(v) if isinstance(v, dict) else "***" if v == "hidden" else v for k, v in extra.items()}


@pytest.mark.parametrize("place", PLACES)
def test_every_secret_of_an_extra_is_hidden_and_nothing_else(place):
    """Airflow 3.2 compares names of keys as they are, 3.3 with "_" in the place of what is no letter."""
    [names] = SETTING.findall((PROJECT / place).read_text())
    masker = SecretsMasker()
    masker.sensitive_variables_fields = [*DEFAULT_SENSITIVE_FIELDS, *names.split(",")]
    assert masker.redact(EXTRA) == masked(EXTRA)
    masker.sensitive_variables_fields = [*DEFAULT_SENSITIVE_FIELDS]
    assert masker.redact(EXTRA) != masked(EXTRA), "the setting is not needed any more"
