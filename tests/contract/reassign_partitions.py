"""Kafka's own kafka-reassign-partitions, run on real brokers with the interface that the fake's has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Protocol

from tests.fakes.operators import OperatorError

from kafka_lab.base import EmbeddedCluster
from kafka_lab.errors import LocalClusterError
from kafka_reassignment.model import Replicas, TopicPartition

Targets = Mapping[TopicPartition, Replicas]

_numbers = count(1)


class ReassignPartitionsTool(Protocol):
    """What the tool can be asked for; it raises ``OperatorError`` where it ends with an error."""

    def execute(self, targets: Targets, *, throttle: int | None = None, additional: bool = False) -> None: ...

    def cancel(self, targets: Targets, *, preserve_throttles: bool = False) -> object: ...

    def verify(self, targets: Targets, *, preserve_throttles: bool = False) -> object: ...


class RealReassignPartitions:
    """The tool of the brokers' own release."""

    def __init__(self, kafka: EmbeddedCluster) -> None:
        self._kafka = kafka

    def execute(self, targets: Targets, *, throttle: int | None = None, additional: bool = False) -> None:
        options = [] if throttle is None else ["--throttle", str(throttle)]
        self._run("--execute", targets, *options, *(["--additional"] if additional else []))

    def cancel(self, targets: Targets, *, preserve_throttles: bool = False) -> str:
        return self._run("--cancel", targets, *(["--preserve-throttles"] if preserve_throttles else []))

    def verify(self, targets: Targets, *, preserve_throttles: bool = False) -> str:
        return self._run("--verify", targets, *(["--preserve-throttles"] if preserve_throttles else []))

    def _run(self, action: str, targets: Targets, *options: str) -> str:
        plan = {
            "version": 1,
            "partitions": [
                {"topic": p.topic, "partition": p.partition, "replicas": list(replicas)}
                for p, replicas in sorted(targets.items())
            ],
        }
        file = self._kafka.directory / f"tool-{next(_numbers)}.json"
        file.write_text(json.dumps(plan), encoding="utf-8")
        try:
            return self._kafka.tool(action, "--reassignment-json-file", str(file), *options)
        except LocalClusterError as failed:
            raise OperatorError(str(failed)) from failed
        finally:
            file.unlink()
