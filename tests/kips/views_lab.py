"""Reassignments of ours and of other clients on real brokers, held in flight, for the command line to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kips.moving_lab import MovingLab
from tests.steps_lab import Run
from typer.testing import CliRunner, Result

from kafka_lab.cluster import LocalCluster
from kafka_reassignment.cli import app
from kafka_reassignment.model import Step

SUBMITTED = ("admit", "set_throttle", "submit_batch")


class ViewsLab(MovingLab):
    """Moves with records, ``kafka-reassignment`` to show them, and Kafka's own tool to compare."""

    def __init__(self, kafka: LocalCluster, create_topic, folder: Path) -> None:
        super().__init__(kafka, create_topic, folder)
        self.kafka = kafka

    def submitted(self, *batches: list[Step], mb_per_second: float | None = None, reassignment_id: str = "r") -> Run:
        """A reassignment of ours whose first batch is submitted; held topics need no throttle of its own."""
        rate = {"throttle_mb_per_second": mb_per_second, "unthrottled": mb_per_second is None}
        run = self.run(*batches, reassignment_id=reassignment_id, **rate)
        run.do_all(*SUBMITTED)
        return run

    def cli(self, *arguments: str, records: bool = True) -> Result:
        """Run ``kafka-reassignment``; its stdout and stderr stay apart."""
        where = ["--bootstrap-server", self.kafka.bootstrap_servers]
        if records:
            where += ["--record-uri", str(self.folder / "records")]
        result = CliRunner().invoke(app, [*arguments, *where], env={"AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI": ""})
        assert result.exit_code == 0, result.stderr
        return result

    def json(self, *arguments: str, records: bool = True) -> Any:
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


@contextmanager
def open_views_lab(kafka: LocalCluster, create_topic, folder: Path) -> Iterator[ViewsLab]:
    """A lab that leaves nothing behind."""
    lab = ViewsLab(kafka, create_topic, folder)
    try:
        yield lab
    finally:
        lab.clean_up()
