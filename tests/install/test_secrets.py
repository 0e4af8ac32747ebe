"""What an Airflow has written while it did a reassignment, and while one was refused, has no secret in it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psutil
import pytest
from tests.install.conftest import KEPT, Walked
from tests.install.leaks import found_in, pages_from, texts_below, texts_of
from tests.install.world import password
from tests.kafka_fixtures import wait_until

from kafka_reassignment_airflow.plugin import PAGE
from kafka_reassignment_airflow.runs import DAG_ID

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.kafka, pytest.mark.timeout(3600)]

WRONG = password()
OF_AIRFLOW_ITSELF = ("airflow.cfg", "simple_auth_manager_passwords.json.generated")
"""Files in which Airflow keeps its own secrets, in the open."""

REFUSED = "wrong-password"


@pytest.fixture(scope="module")
def refused(walked: Walked) -> str:
    """A run whose connection has a wrong password; the log of its first task."""
    file = walked.world.directory / "wrong.json"
    words = walked.world.words
    extra = {
        "bootstrap.servers": words["broker-1:9092"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "mover",
        "sasl.password": WRONG,
        "ssl.ca.location": words["/etc/kafka/ca.pem"],
    }
    file.write_text(json.dumps({"wrong": {"conn_type": "kafka", "extra": extra}}))
    walked.shell.run("airflow connections import wrong.json")
    file.unlink()
    client = walked.client()
    conf = {"kafka_conn_id": "wrong", "job": "decommission", "brokers": [1], "throttle_mb_per_second": 5}
    client.trigger(DAG_ID, conf, REFUSED)
    wait_until(lambda: client.run_state(DAG_ID, REFUSED) in {"failed", "success"}, 300)
    assert client.run_state(DAG_ID, REFUSED) == "failed"
    last = client.tasks(DAG_ID, REFUSED)["preflight"]["try_number"]
    return client.task_log(DAG_ID, REFUSED, "preflight", last)


def secrets_of(walked: Walked) -> dict[str, str]:
    words = walked.world.words
    return {
        "the password of the Kafka user": json.loads(f'"{words["MOVER_PASSWORD"]}"'),
        "the wrong password": WRONG,
        "the key of the bucket": words["SECRET_KEY"],
    }


def written(walked: Walked) -> Iterator[tuple[str, bytes]]:
    """All that Airflow's processes, the steps and the terminal have written, and what their processes show to others."""
    yield from ((place, text) for place, text in texts_below(walked.home) if not place.endswith(OF_AIRFLOW_ITSELF))
    yield from texts_below(walked.world.directory.parent / "tmp")
    yield "what was printed", KEPT.read_bytes()
    for name, content in walked.world.objects().items():
        yield from texts_of(f"object {name}", content)
    for arguments in walked.arguments_of_triggers():
        yield "arguments of a trigger", json.dumps(arguments).encode()
    for process in walked.shell.processes():
        with psutil.Process(process.pid).oneshot():
            yield f"process {process.name()}", "\0".join([*process.cmdline(), *process.environ().values()]).encode()


def shown(walked: Walked) -> Iterator[tuple[str, bytes]]:
    """All pages of the plugin, and what Airflow's API tells of connections."""
    client = walked.client()
    yield from pages_from(client.page, f"{PAGE}/")
    yield "connections", client.page("/api/v2/connections").content


def test_a_wrong_password_is_refused_by_a_message_that_names_the_connection(refused: str) -> None:
    assert "refused the credentials of connection 'wrong'" in refused


def test_no_secret_is_in_anything_that_was_written(walked: Walked, refused: str) -> None:
    places = list(written(walked))
    assert found_in(places, secrets_of(walked)) == []
    # Not a search of nothing: the run, its user and its trigger are found where they should be.
    run = {"the run": "first-decommission", "the wrong connection": "refused the credentials of connection"}
    seen = found_in(places, run)
    for kind in ("logs/", "airflow.db, table xcom", "airflow.db, table log", "object ", "what was printed"):
        assert any(found.startswith(kind) for found in seen), f"nothing of the run in {kind}"
    assert any("the wrong connection" in found for found in seen)
    assert "kafka_default" in json.dumps(walked.arguments_of_triggers())


def test_the_keys_of_airflow_itself_are_nowhere_else(walked: Walked, refused: str) -> None:
    keys = walked.of_airflow()
    assert "core fernet_key" in keys
    assert found_in(written(walked), keys) == []


def test_no_secret_is_on_any_page(walked: Walked, refused: str) -> None:
    pages = dict(shown(walked))
    assert found_in(pages.items(), secrets_of(walked)) == []
    cluster = walked.world.cluster.cluster_id
    views = [name for name, text in pages.items() if cluster.encode() in text]
    for view in ("reassignment?", "plan?", "audit.jsonl?", "form?"):
        assert any(view in name for name in views), f"no page {view} among {list(pages)}"
    assert b"kafka_default" in pages["connections"]
