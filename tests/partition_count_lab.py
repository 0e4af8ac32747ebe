"""One run of a partition count change with its record, on any cluster, without Airflow."""

import logging

from tests.steps_lab import Clock, WallClock
from upath import UPath

from kafka_reassignment.model import Replicas
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.partition_count import PartitionCountRecord
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps import partition_count
from kafka_reassignment.steps.base.context import RunContext

STEPS = ("preflight", "plan_placement", "create_partitions", "verify")


class Growing:
    """Its steps are run as Airflow would run them, by default with a clock that only sleeping moves."""

    def __init__(
        self,
        cluster: ClusterPort,
        folder: UPath,
        run_id: str = "g",
        *,
        clock: Clock | WallClock | None = None,
        **request: object,
    ) -> None:
        self.cluster = cluster
        self.cluster_id = cluster.describe_cluster().cluster_id
        self.request = request
        self.store = RecordStore(folder)
        self.record = self.store.record(self.cluster_id, run_id)
        self.kept = PartitionCountRecord(self.record)
        self.clock = clock or Clock()
        self.tries = 0

    @property
    def context(self) -> RunContext:
        self.tries += 1
        return RunContext(
            cluster=self.cluster,
            store=self.store,
            record=self.record,
            actor=Actor(requested_by="ann", try_number=self.tries),
            log=logging.getLogger("tests"),
            now=lambda: self.clock.now,
            sleep=self.clock.sleep,
        )

    def do(self, name: str) -> object:
        """Run one step once."""
        if name == "preflight":
            return partition_count.preflight(self.context, dict(self.request), "ann")
        return getattr(partition_count, name)(self.context)

    def do_all(self, *names: str) -> object:
        """Run steps in order, all by default; return what the last one returned."""
        return [self.do(name) for name in names or STEPS][-1]

    def replicas(self, topic: str) -> dict[int, Replicas]:
        return {p.partition: s.replicas for p, s in sorted(self.cluster.describe_partitions([topic]).items())}

    def summaries(self) -> list[str]:
        return [f"{e.step} {e.outcome}: {e.summary}" for e in self.record.audit]
