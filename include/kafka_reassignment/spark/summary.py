"""The score card of a plan, as data: what people look at before anything moves, and what tools check."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.request import Job


class BrokerSummary(BaseModel):
    """One broker before and after; ``share_bytes`` is its fair share afterwards, None where it takes no part."""

    model_config = ConfigDict(frozen=True)

    broker: int
    rack: str | None
    alive: bool
    share_bytes: int | None
    bytes_before: int
    bytes_after: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_received: int
    bytes_sent: int


class BatchSummary(BaseModel):
    """One batch: how much it moves, and how level; ``busiest_…`` are of one broker in this batch."""

    model_config = ConfigDict(frozen=True)

    number: int
    steps: int
    bytes_to_copy: int
    leader_movements: int
    receivers: int
    senders: int
    busiest_receiver_bytes: int
    busiest_sender_bytes: int
    steps_hash: str


class LogDirSummary(BaseModel):
    """One log dir: its volume's size and free bytes now (None where not told), and what it takes at most."""

    model_config = ConfigDict(frozen=True)

    broker: int
    path: str
    total_bytes: int | None
    free_bytes: int | None
    bytes_to_take: int

    @property
    def free_at_peak(self) -> int | None:
        """Free bytes when every copy is complete and nothing has been deleted yet."""
        return None if self.free_bytes is None else self.free_bytes - self.bytes_to_take


class MoveSummary(BaseModel):
    """One partition that changes; ``bytes_to_copy`` counts all its new replicas."""

    model_config = ConfigDict(frozen=True)

    topic: str
    partition: int
    current: tuple[int, ...]
    target: tuple[int, ...]
    bytes_to_copy: int


class PlanSummary(BaseModel):
    """The plan in numbers; ``plan_hash`` identifies it.

    ``lower_bound_bytes``: no plan that reaches the goal copies less (racks and sizes left aside).
    ``biggest_moves``: those that copy most, most first.
    ``outside_before`` and ``outside_after`` count brokers outside the tolerance around their fair share.
    """

    model_config = ConfigDict(frozen=True)

    job: Job
    mode: str
    tolerance: float
    plan_hash: str
    partitions_in_cluster: int
    partitions: int
    bytes_to_copy: int
    lower_bound_bytes: int
    leader_changes: int
    outside_before: int
    outside_after: int
    seconds_at_rate: int | None
    brokers: tuple[BrokerSummary, ...]
    batches: tuple[BatchSummary, ...]
    log_dirs: tuple[LogDirSummary, ...]
    biggest_moves: tuple[MoveSummary, ...]
    assumptions: tuple[str, ...]
    left_unbalanced: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.batches
