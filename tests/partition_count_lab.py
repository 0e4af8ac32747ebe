"""One run of a partition count change with its record, on any cluster, without Airflow."""

import logging
from collections.abc import Callable
from datetime import datetime

from tests.execution_lab import Clock
from upath import UPath

from kafka_reassignment.execution import partition_count
from kafka_reassignment.execution.context import StepContext, utc_now
from kafka_reassignment.model import Replicas
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.partition_count import PartitionCountRecord
from kafka_reassignment.record.store import RecordStore

STEPS = ("preflight", "plan_placement", "create_partitions", "verify")


class Growing:
    """Steps are run as Airflow would run them; on a fake cluster with a clock that only sleeping moves."""

    def __init__(self, cluster: ClusterPort, folder: UPath, run_id: str = "g", **request: object) -> None:
        self.cluster = cluster
        self.cluster_id = cluster.describe_cluster().cluster_id
        self.request = request
        self.store = RecordStore(folder)
        self.record = self.store.record(self.cluster_id, run_id)
        self.kept = PartitionCountRecord(self.record)
        self.clock: Clock | None = Clock()
        self.tries = 0

    def on_real_brokers(self) -> "Growing":
        """Take real time."""
        self.clock = None
        return self

    @property
    def step(self) -> StepContext:
        self.tries += 1
        times: dict[str, Callable[..., object]] = {}
        if self.clock is not None:
            times = {"now": self._now, "sleep": self.clock.sleep}
        return StepContext(
            cluster=self.cluster,
            store=self.store,
            record=self.record,
            actor=Actor(requested_by="ann", try_number=self.tries),
            log=logging.getLogger("tests"),
            **times,
        )

    def do(self, name: str) -> object:
        """Run one step once."""
        if name == "preflight":
            return partition_count.preflight(self.step, dict(self.request), "ann")
        return getattr(partition_count, name)(self.step)

    def do_all(self, *names: str) -> object:
        """Run steps in order, all by default; return what the last one returned."""
        return [self.do(name) for name in names or STEPS][-1]

    def replicas(self, topic: str) -> dict[int, Replicas]:
        return {p.partition: s.replicas for p, s in sorted(self.cluster.describe_partitions([topic]).items())}

    def summaries(self) -> list[str]:
        return [f"{e.step} {e.outcome}: {e.summary}" for e in self.record.audit]

    def _now(self) -> datetime:
        return self.clock.now if self.clock else utc_now()
