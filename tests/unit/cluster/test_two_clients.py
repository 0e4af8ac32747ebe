"""Decision 0021 says which client does which call, and the code does as it says."""

import inspect
import re

import pytest

from kafka_lab.airflow import PROJECT
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.quick

ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+)[^|]* \| (confluent-kafka|kafka-python)[^|]* \|", re.MULTILINE)
CLIENTS = {
    "confluent-kafka": re.compile(r"_ask_admin|_by_admin|_by_canary"),
    "kafka-python": re.compile(r"_ask_protocol|ProtocolConversation\("),
}


def by_the_table() -> dict[str, set[str]]:
    [page] = (PROJECT / "docs/decisions").glob("0021-*.md")
    found: dict[str, set[str]] = {}
    for names, client in ROW.findall(page.read_text()):
        for name in re.findall(r"`(\w+)`", names):
            found.setdefault(name, set()).add(client)
    return found


def by_the_code(name: str) -> set[str]:
    methods = [name, "describe_configs_once"] if name == "describe_configs" else [name]
    source = "".join(inspect.getsource(getattr(KafkaCluster, method)) for method in methods)
    return {client for client, asked in CLIENTS.items() if asked.search(source)}


def test_the_table_has_every_call_of_the_port_and_its_clients():
    calls = {name for name, found in vars(ClusterPort).items() if inspect.isfunction(found) and name[0] != "_"}
    assert by_the_table() == {name: by_the_code(name) for name in calls - {"close"}}
