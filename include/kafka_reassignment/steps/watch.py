"""What a trigger sees when it looks at a batch: whether waking the task is worth it, and how far things are."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_reassignment.decisions.moves import catch_up
from kafka_reassignment.decisions.progress import Progress, progress
from kafka_reassignment.decisions.samples import Sample, sample_of
from kafka_reassignment.model import Batch, View
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.admission import Gate, record_wait, why_not_admitted
from kafka_reassignment.steps.context import StillWaiting, utc_now
from kafka_reassignment.steps.go_ahead import stopped_text
from kafka_reassignment.steps.rate import look_at_health, rate_in_force
from kafka_reassignment.steps.recorded_batch import planned_batch, taking_part
from kafka_reassignment.steps.single_batch_controller import controller_not_finished
from kafka_reassignment.steps.view import observe, tiered_topics

SPEED_WINDOW_SECONDS = 120
"""Samples kept: speeds are those of the last minute or two."""


class BatchWatch:
    """Looks at one batch again and again, through whatever connection is open at the time.

    Keeps the sizes it saw, from which speeds and the time left are told.
    """

    def __init__(self, number: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._number = number
        self._clock = clock
        self._samples: list[Sample] = []
        self._tiered: frozenset[str] | None = None
        self._gate = Gate(number, clock=clock)

    def admission(self, cluster: ClusterPort, record: Record) -> str:
        """Return when nothing speaks against starting the batch any more.

        Raises:
            StillWaiting: something does.
        """
        if stopped := stopped_text(record):
            return stopped
        reasons = self._gate.reasons(cluster, record)
        if reasons:
            raise record_wait(record, why_not_admitted(self._number, reasons), self._number, utc_now())
        return f"nothing speaks against batch {self._number} any more"

    def catch_up(self, cluster: ClusterPort, record: Record) -> str:
        """Return when the batch has caught up, or needs a decision; keep the record's progress note up to date.

        Raises:
            StillWaiting: replicas are catching up; the reason is the progress line.
        """
        if stopped := stopped_text(record):
            return stopped
        batch = taking_part(record, planned_batch(record, self._number))
        view = observe(cluster, batch.partitions)
        seen = catch_up(batch, view, submitted=True)
        told = self._progress(cluster, record, batch, view)
        record.write_progress(
            ProgressNote(
                batch=self._number,
                at=utc_now(),
                text=str(told),
                bytes_left=told.bytes_left,
                bytes_per_second=told.bytes_per_second,
                seconds_left=told.seconds_left,
            )
        )
        if seen.complete:
            if unfinished := controller_not_finished(cluster, view):
                raise StillWaiting(f"batch {self._number}: every target is in sync, but {unfinished}")
            return f"batch {self._number} has caught up"
        if not seen.waiting:
            return f"batch {self._number} needs a decision"
        if due := look_at_health(cluster, record):
            return f"another rate is due: {due.because}"
        raise StillWaiting(f"batch {self._number}: {told}")

    def _progress(self, cluster: ClusterPort, record: Record, batch: Batch, view: View) -> Progress:
        report = cluster.describe_log_dirs(sorted(batch.brokers & view.live_brokers), batch.partitions)
        now = self._clock()
        self._samples = [s for s in self._samples if s.at_seconds > now - SPEED_WINDOW_SECONDS]
        self._samples.append(sample_of(report, at_seconds=now))
        if self._tiered is None:
            self._tiered = tiered_topics(cluster, {p.topic for p in batch.partitions})
        return progress(
            batch,
            view,
            self._samples,
            asked_bytes_per_second=rate_in_force(record),
            remote_storage_topics=self._tiered,
        )
