"""What a trigger sees when it looks at a batch: whether waking the task is worth it, and how far things are."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_reassignment.execution.batch_steps import reasons_to_wait, taking_part
from kafka_reassignment.execution.context import StillWaiting, utc_now
from kafka_reassignment.execution.observing import observe
from kafka_reassignment.planning.moves import catch_up
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.store import ProgressNote, Record
from kafka_reassignment.spark.plan_io import read_batch


@dataclass(frozen=True)
class Watch:
    """One batch, looked at through an open cluster and its record."""

    cluster: ClusterPort
    record: Record
    number: int


def watch_admission(watch: Watch) -> str:
    """Return when nothing speaks against starting the batch any more.

    Raises:
        StillWaiting: something does.
    """
    reasons = reasons_to_wait(watch.cluster, read_batch(watch.record.plan_uri, watch.number))
    if reasons:
        raise StillWaiting(f"batch {watch.number} waits: {'; '.join(reasons)}")
    return f"nothing speaks against batch {watch.number} any more"


def watch_catch_up(watch: Watch) -> str:
    """Return when the batch has caught up, or needs a decision; keep the record's progress note up to date.

    Raises:
        StillWaiting: replicas are catching up.
    """
    batch = taking_part(watch.record, read_batch(watch.record.plan_uri, watch.number))
    seen = catch_up(batch, observe(watch.cluster, batch.partitions), submitted=True)
    if seen.complete:
        return f"batch {watch.number} has caught up"
    if not seen.waiting:
        return f"batch {watch.number} needs a decision"
    text = f"batch {watch.number}: {len(seen.in_sync)} of {len(batch.steps)} partitions in sync"
    watch.record.write_progress(ProgressNote(batch=watch.number, at=utc_now(), text=text))
    raise StillWaiting(text)
