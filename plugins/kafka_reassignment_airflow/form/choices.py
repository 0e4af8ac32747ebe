"""What the forms offer to choose from, in plain words."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from kafka_reassignment.request import PACES, Job
from kafka_reassignment_airflow.settings import setting

PREFIX = "AIRFLOW_CONN_"

WORDS: Mapping[str, Mapping[str, str]] = {
    "job": {
        Job.DECOMMISSION: "Empty brokers (decommission)",
        Job.ADD_BROKERS: "Fill new brokers (add_brokers)",
        Job.REBALANCE: "Even out the load of all brokers (rebalance)",
        Job.REPLICATION_FACTOR: "Change the number of replicas (replication_factor)",
        Job.MOVE_TOPICS: "Move topics to brokers (move_topics)",
        Job.RESTORE_RACKS: "Spread replicas over racks again (restore_racks)",
        Job.LEADERS: "Even out leaders, without copies (leaders)",
        Job.APPLY_JSON: "Carry out a plan of your own (apply_json)",
        Job.ROLL_BACK: "Move back what a reassignment has moved (roll_back)",
    },
    "mode": {"fewest_bytes": "Copy as few bytes as possible", "balanced": "Balance the brokers"},
    "side": {
        "both": "Both sides",
        "leader": "What brokers send (leader)",
        "follower": "What brokers receive (follower)",
    },
    "pace": {
        name: f"{name.capitalize()}: {p['batch_minutes']} min, {p['partition_movements']} partitions a batch, "
        f"{p['replica_movements']} new {'replica' if p['replica_movements'] == 1 else 'replicas'} each"
        for name, p in PACES.items()
    },
}
"""By field, what its values are called in the form."""


def known_connections() -> dict[str, str]:
    """Return Kafka connections by id with what they are for; empty words where nobody has said.

    Those of ``[kafka_reassignment] connections``, else those of type ``kafka`` in this process's environment. A DAG
    file cannot list the connections of Airflow's database, and reads nothing here that may be slow or away.
    """
    given = setting("connections")
    if given:
        pairs = (line.partition("=") for line in given.replace(";", "\n").splitlines() if line.strip())
        return {name.strip(): words.strip() for name, _, words in pairs}
    found = {}
    for name, value in sorted(os.environ.items()):
        if name.startswith(PREFIX) and (words := _words_of_kafka(value)) is not None:
            found[name.removeprefix(PREFIX).lower()] = words
    return found


def _words_of_kafka(value: str) -> str | None:
    """Return the description of a connection, None where it is of another type or cannot be read."""
    if value.startswith("kafka://"):
        return ""
    try:
        fields = json.loads(value)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("conn_type") != "kafka":
        return None
    return str(fields.get("description") or "")
