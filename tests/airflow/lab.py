"""What the tests on a real Airflow share."""

import json


def replicas(port, topic):
    return {p.partition: s.replicas for p, s in sorted(port.describe_partitions([topic]).items())}


def move_json(topic, targets):
    entries = [{"topic": topic, "partition": p, "replicas": list(r)} for p, r in targets.items()]
    return json.dumps({"version": 1, "partitions": entries})
