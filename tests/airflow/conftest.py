"""A real Airflow with the shared brokers behind it, and the brokers seen by themselves."""

import json
from pathlib import Path

import pytest
from tests.airflow.lab import two_batches
from tests.airflow.mailbox import Mailbox
from tests.airflow.reassignments import Reassignments

from kafka_lab.airflow import PROJECT, LocalAirflow
from kafka_lab.airflow_client import AirflowClient
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource
from kafka_reassignment_airflow import example_dags

__all__ = ["two_batches"]

EXAMPLES = Path(example_dags.__file__).parent
"""DAGs of a user's own: a bundle beside the project's."""


@pytest.fixture(scope="module")
def dags():
    """The project's DAGs, as Airflow parses them."""
    from airflow.dag_processing.dagbag import DagBag  # after tests/conftest.py has configured Airflow

    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return bag.dags


@pytest.fixture(scope="module")
def examples():
    """DAGs of a user's own, as Airflow parses them."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(EXAMPLES))
    assert bag.import_errors == {}
    return bag.dags


@pytest.fixture(scope="package")
def mailbox():
    """What this Airflow tells people."""
    with Mailbox() as opened:
        yield opened


@pytest.fixture(scope="package")
def airflow(kafka, mailbox):
    """Shared by the modules of this folder, and ended after the last of them: it takes CPU time even when idle."""
    mail = {"from_email": "airflow@example.com", "disable_ssl": True, "disable_tls": True}
    connections = {
        "kafka_default": {"conn_type": "kafka", "extra": kafka.connection_extra},
        "smtp_default": {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": mail},
    }
    told = {
        "to": "kafka@example.com",
        "subject": "{{ told.subject }}",
        "html_content": "<pre>{{ told.text | e }}</pre> {{ told.link }}",
    }
    notifiers = [{"classpath": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "kwargs": told}]
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [
        {"name": "dags-folder", "classpath": local, "kwargs": {}},
        {"name": "examples", "classpath": local, "kwargs": {"path": str(EXAMPLES)}},
    ]
    environment = {
        "AIRFLOW__KAFKA_REASSIGNMENT__RETRY_DELAY_SECONDS": "3",
        "AIRFLOW__KAFKA_REASSIGNMENT__NOTIFIERS": json.dumps(notifiers),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,bob:admin",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
    }
    with LocalAirflow(connections=connections, environment=environment) as running:
        yield running


@pytest.fixture
def bob(airflow):
    """A second person, whose password Airflow has made."""
    passwords = json.loads((airflow.home / "passwords.json").read_text())
    client = AirflowClient(airflow.url, user="bob", password=passwords["bob"])
    yield client
    client.close()


@pytest.fixture
def reassignments(airflow, kafka):
    return Reassignments(airflow, kafka.cluster_id)


@pytest.fixture(scope="module")
def port(kafka):
    with open_cluster(ClusterSettings.of(kafka.connection_extra, name="tests")) as opened:
        yield opened


@pytest.fixture
def configs(port):
    """Every throttle config of every broker and of the given topics, with its source.

    Kafka 2.3 goes on listing a key that was set once, without a value.
    """

    def describe(*topics):
        brokers = [ConfigResource.broker(b) for b in sorted(port.describe_cluster().live_brokers)]
        shown = port.describe_configs([*brokers, *map(ConfigResource.topic, topics)], THROTTLE_KEYS)
        return {of: {key: v for key, v in configs.items() if v.value is not None} for of, configs in shown.items()}

    return describe
