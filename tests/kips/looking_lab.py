"""Reassignments of ours and of others on real brokers, held in flight, to be looked at by the command line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.contract.lab import KafkaLab, eventually, set_rates
from tests.execution_lab import Run, WallClock
from typer.testing import CliRunner, Result
from upath import UPath

from kafka_reassignment.cli import app
from kafka_reassignment.errors import BatchIncompleteError
from kafka_reassignment.local.cluster import LocalCluster
from kafka_reassignment.model import Replicas, Step, TopicPartition

SUBMITTED = ("admit", "set_throttle", "submit_batch")


class LookingLab(KafkaLab):
    """Topics as in the contract suite, runs with records, and ``kafka-reassignment`` on both."""

    def __init__(self, kafka, create_topic, folder: Path) -> None:
        super().__init__(kafka, create_topic)
        self.kafka: LocalCluster = kafka
        self.records = folder / "records"
        self.folder = folder
        self.runs: list[Run] = []

    def submitted(self, *batches: list[Step], reassignment_id: str = "r", **request: object) -> Run:
        """A reassignment of ours whose first batch is submitted; without a throttle of its own unless asked for one."""
        asked = request or {"throttle_mb_per_second": None, "unthrottled": True}
        run = Run(
            self.cluster,
            UPath(self.records),
            list(batches),
            reassignment_id=reassignment_id,
            clock=WallClock(),
            keep_free_share=0,
            **asked,
        )
        self.runs.append(run)
        run.do_all(*SUBMITTED)
        return run

    def alter(self, partition: TopicPartition, target: Replicas | None) -> None:
        """Do as somebody else would."""
        replies = self.cluster.alter_reassignments({partition: target}, allow_replication_factor_change=True)
        assert replies == {partition: None}

    def replicas(self, partition: TopicPartition, expected: Replicas) -> None:
        """Wait until a partition is there and at rest."""
        eventually(lambda: self.cluster.list_reassignments([partition]), lambda listed: not listed)
        eventually(
            lambda: self.cluster.describe_partitions([partition.topic])[partition], lambda s: s.replicas == expected
        )

    def cli(self, *arguments: str, records: bool = True) -> Result:
        """Run ``kafka-reassignment``; its stdout and stderr stay apart."""
        where = ["--bootstrap-server", self.kafka.bootstrap_servers]
        if records:
            where += ["--record-uri", str(self.records)]
        result = CliRunner().invoke(app, [*arguments, *where], env={"AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI": ""})
        assert result.exit_code == 0, result.stderr
        return result

    def json(self, *arguments: str, records: bool = True):
        """Run it with ``--json``."""
        return json.loads(self.cli(*arguments, "--json", records=records).stdout)

    def file(self, content: str | bytes) -> str:
        """Write what was printed to a file, as a shell's ``>`` does."""
        path = self.folder / f"plan-{len(list(self.folder.iterdir()))}.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def tool(self, action: str, plan: str | bytes) -> str:
        """Run Kafka's own tool with a plan."""
        return self.kafka.tool(action, "--reassignment-json-file", self.file(plan), "--preserve-throttles")

    def clean_up(self) -> None:
        """Leave nothing in flight and no throttle on the shared brokers."""
        in_flight = self.cluster.list_reassignments()
        if in_flight:
            self.cluster.alter_reassignments(dict.fromkeys(in_flight))
        eventually(self.cluster.list_reassignments, lambda listed: not listed)
        for run in self.runs:
            with suppress(BatchIncompleteError):
                run.do("clear_throttle")
        set_rates(self.cluster, None)


@contextmanager
def looking_lab(kafka, create_topic, folder: Path) -> Iterator[LookingLab]:
    """A lab that leaves nothing behind."""
    lab = LookingLab(kafka, create_topic, folder)
    try:
        yield lab
    finally:
        lab.clean_up()
