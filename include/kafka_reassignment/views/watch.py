"""One look after the other at a reassignment: what it does, what is left, how fast, until when, and why it waits.

The record says what Airflow has seen and decided; replicas are measured in the cluster. So it goes on while Airflow is
down. Only reads, as ``describe``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.progress import HELD_UP, Progress, progress
from kafka_reassignment.decisions.rate import rate_in_force, rates_in_force
from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, Sample
from kafka_reassignment.errors import RecordDamagedError, RecordError
from kafka_reassignment.model import Batch, Step
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.catalogue import ReassignmentStatus, RecordedReassignment, find_reassignment
from kafka_reassignment.record.models import FinishedBatch, ProgressNote
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import utc_now
from kafka_reassignment.steps.base.estimates import LONGEST_BETWEEN_LOOKS
from kafka_reassignment.steps.base.view import observe, tiered_topics
from kafka_reassignment.text import format_bytes, format_seconds
from kafka_reassignment.views.current_batch import CurrentBatch
from kafka_reassignment.views.describe import sample_steps
from kafka_reassignment.views.failure import step_in_words
from kafka_reassignment.views.overview import Overview
from kafka_reassignment.views.selection import no_records_error
from kafka_reassignment.views.work import Work, work_of

MOST_ENDS = 120
"""Latest finished batches whose ends are read, for what they have copied; earlier ones count as planned."""

AT_WORK = frozenset({ReassignmentStatus.ACTIVE, ReassignmentStatus.UNLOCKED, ReassignmentStatus.UNKNOWN})
"""What goes on, or may: what is submitted copies on without the lock."""


@dataclass(frozen=True, slots=True)
class Look:
    """A reassignment at one moment; without one it is all that is in flight. Bytes, bytes per second, seconds.

    ``batch`` is None before there is a plan and after the last batch. ``progress`` is of its replicas, None while
    nothing is submitted. ``waits`` says why it does not get on, empty while it does. ``unreadable`` says what of that
    cannot be read. ``ends_at`` is the expected end of all batches.
    """

    at: datetime
    cluster_id: str
    in_flight: int
    reassignment: RecordedReassignment | None
    finished: int
    batches: int
    batch: int | None
    progress: Progress | None
    bytes_per_second: float | None
    seconds_left: float | None
    work: Work | None
    rates: tuple[int, int] | None
    ends_at: datetime | None
    waits: tuple[str, ...]
    doing: str
    unreadable: tuple[str, ...] = ()

    @property
    def status(self) -> ReassignmentStatus | None:
        """Of the reassignment; None without one."""
        return self.reassignment.status if self.reassignment else None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to watch."""
        return self.status not in AT_WORK if self.reassignment else not self.in_flight

    @property
    def is_done(self) -> bool:
        """Whether it is over and was carried out."""
        return self.is_over and self.status in {None, ReassignmentStatus.FINISHED}

    @property
    def bytes_left(self) -> int | None:
        """Of the batch; None while nothing of it is submitted."""
        return self.progress.bytes_left if self.progress else None

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "at": self.at.isoformat(),
            "cluster_id": self.cluster_id,
            "reassignment_id": self.reassignment.reassignment_id if self.reassignment else None,
            "status": None if self.status is None else str(self.status),
            "over": self.is_over,
            "doing": self.doing,
            "waits": list(self.waits),
            "unreadable": list(self.unreadable),
            "batch": self.batch,
            "batches": self.batches,
            "batches_finished": self.finished,
            "partitions_in_flight": self.in_flight,
            "bytes_left": self.bytes_left,
            "bytes_per_second": self.bytes_per_second,
            "seconds_left": self.seconds_left,
            "bytes_left_of_all_batches": self.work.bytes_left if self.work else None,
            "bytes_to_copy_of_all_batches": self.work.bytes_to_copy if self.work else None,
            "rates_bytes_per_second": list(self.rates) if self.rates else None,
            "ends_at": self.ends_at.isoformat() if self.ends_at else None,
        }

    def __str__(self) -> str:
        """Return one line, without the time."""
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        yield self.doing
        if self.progress is not None and not self.is_over:
            left = f"{format_bytes(self.progress.bytes_left)} left"
            left += f" at {format_bytes(self.bytes_per_second)}/s" if self.bytes_per_second is not None else ""
            left += f", about {format_seconds(self.seconds_left)}" if self.seconds_left is not None else ""
            yield left
        if self.work is not None and self.batches > 1:
            yield f"{format_bytes(self.work.bytes_left)} of {format_bytes(self.work.bytes_to_copy)} left of all batches"
        if self.ends_at is not None:
            yield f"all over about {self.ends_at:%Y-%m-%d %H:%M} UTC"
        if self.waits:
            yield f"waits: {', '.join(self.waits)}"
        yield from self.unreadable


class Watch:
    """Looks at one reassignment, whose id is known from the first look on; keeps what speeds are measured by.

    Args:
        cluster: the cluster.
        store: the records; without them all that is in flight is watched.
        reassignment_id: by default the one that has locked the cluster or, where none has, all that is in flight.
        now: the time, in UTC.

    Raises:
        InvalidRequestError: a reassignment is named without records to find it in.
    """

    def __init__(
        self,
        cluster: ClusterPort,
        store: RecordStore | None,
        reassignment_id: str | None = None,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if store is None and reassignment_id:
            raise no_records_error(reassignment_id, Correct("give --record-uri"))
        self._cluster = cluster
        self._store = store
        self._id = reassignment_id
        self._now = now
        self._cluster_id = ""
        self._batch: int | None = None
        self._samples: list[Sample] = []
        self._plan: PlanSummary | None = None
        self._ends: dict[int, FinishedBatch] = {}

    def look(self) -> Look:
        """Look once.

        Raises:
            RecordError: there is no such reassignment or, at the first look, nothing to watch.
            ClusterUnavailableError: no broker answers.
        """
        is_first = not self._cluster_id
        cluster_id = self._cluster.describe_cluster().cluster_id
        found = None
        if self._store is not None and (self._id or is_first):
            found = find_reassignment(self._store, cluster_id, self._id)
        in_flight = self._cluster.list_reassignments()
        if found is None and is_first and not in_flight:
            raise RecordError(f"Nothing is in flight in cluster {cluster_id}, and no reassignment has locked it")
        self._cluster_id = cluster_id
        if found is not None:
            self._id = found.reassignment_id
            return self._look_at(found, len(in_flight))
        seen = self._measure(None, tuple(Step(f.as_reassignment(p)) for p, f in in_flight.items()), None)
        return Look(
            at=self._now(),
            cluster_id=cluster_id,
            in_flight=len(in_flight),
            reassignment=None,
            finished=0,
            batches=0,
            batch=None,
            progress=seen,
            bytes_per_second=seen.bytes_per_second if seen else None,
            seconds_left=seen.seconds_left if seen else None,
            work=None,
            rates=None,
            ends_at=None,
            waits=_held_up(seen),
            doing=f"{len(in_flight)} partitions are in flight for another client"
            if in_flight
            else "nothing is in flight",
        )

    def _look_at(self, found: RecordedReassignment, in_flight: int) -> Look:
        record, request = found.record, found.recorded_request.request
        current = CurrentBatch.of(record)
        batch = current.batch.number if current.batch else None
        is_active = found.status is ReassignmentStatus.ACTIVE
        at_a_glance = Overview(found, current, {}, None)
        note = at_a_glance.note if is_active else None
        failed = at_a_glance.failed
        journal = record.journal()
        seen = None
        if found.status in AT_WORK and not current.is_to_submit:
            seen = self._measure(batch, current.steps, rate_in_force(request, journal))
        known = _from_note(seen, note, self._now())
        plan, done = self._plan_of(found), record.finished_batches()
        waits: tuple[str, ...] = note.waits if note else ()
        if found.lock.error:
            waits = (str(found.lock.error),)
        elif failed and found.status in AT_WORK:
            waits = (f"{step_in_words(failed)} has failed: {failed.summary}",)
        return Look(
            at=self._now(),
            cluster_id=self._cluster_id,
            in_flight=in_flight,
            reassignment=found,
            finished=current.finished,
            batches=current.batches,
            batch=batch,
            progress=seen,
            bytes_per_second=known[0],
            seconds_left=known[1],
            work=work_of(
                plan, done, self._ends_of(record, done), batch=batch, bytes_left=seen.bytes_left if seen else None
            )
            if plan
            else None,
            rates=rates_in_force(request, journal),
            ends_at=note.ends_at if note and note.ends_at and note.ends_at > self._now() else None,
            waits=waits or _held_up(seen),
            doing=_doing(found, current, failed, note, seen),
            unreadable=at_a_glance.unreadable,
        )

    def _measure(self, batch: int | None, steps: tuple[Step, ...], rate: int | None) -> Progress | None:
        if batch != self._batch:
            self._batch, self._samples = batch, []
        if not steps:
            return None
        view = observe(self._cluster, [s.partition for s in steps])
        self._samples.append(sample_steps(self._cluster, steps, view, self._now))
        latest = self._samples[-1].at_seconds
        self._samples = [s for s in self._samples if s.at_seconds >= latest - 2 * SPEED_WINDOW_SECONDS]
        tiered = tiered_topics(self._cluster, {s.partition.topic for s in steps})
        return progress(Batch(1, steps), view, self._samples, asked_bytes_per_second=rate, remote_storage_topics=tiered)

    def _plan_of(self, found: RecordedReassignment) -> PlanSummary | None:
        plan = found.record.plan_in_force()
        if plan is None or not plan.batches:
            return None
        if self._plan is None or self._plan.plan_hash != plan.plan_hash:
            self._plan = read_summary(found.record.plan_refs()(plan.batches))
        return self._plan

    def _ends_of(self, record: Record, finished: Collection[int]) -> Collection[FinishedBatch]:
        """Return the ends of the latest batches that are finished; each is read once."""
        for number in sorted(finished)[-MOST_ENDS:]:
            with suppress(RecordDamagedError):  # it counts as planned
                if number not in self._ends and (end := record.finished(number)) is not None:
                    self._ends[number] = end
        return self._ends.values()


def _from_note(seen: Progress | None, note: ProgressNote | None, now: datetime) -> tuple[float | None, float | None]:
    """Return speed and seconds left: of the looks here or, until these are long enough, as Airflow has noted them last."""
    if seen is None:
        return None, None
    speed, seconds = seen.bytes_per_second, seen.seconds_left
    if note is None or (now - note.at).total_seconds() > LONGEST_BETWEEN_LOOKS:
        return speed, seconds
    if note.partitions_blocked:  # the batch waits for these, however little is left to copy
        return note.bytes_per_second if speed is None else speed, None
    if speed is None:
        return note.bytes_per_second, note.seconds_left if note.seconds_left is not None else seconds
    return speed, seconds


def _held_up(seen: Progress | None) -> tuple[str, ...]:
    return tuple(f"{r} ({r.motion})" for motion in HELD_UP for r in seen.of(motion)) if seen else ()


def _doing(
    found: RecordedReassignment,
    current: CurrentBatch,
    failed: AuditEvent | None,
    note: ProgressNote | None,
    seen: Progress | None,
) -> str:
    if found.status is ReassignmentStatus.ENDED and failed is not None:
        return f"{found.reassignment_id} is ended: {step_in_words(failed)} has failed: {failed.summary}"
    if found.status is not ReassignmentStatus.ACTIVE:
        return {
            ReassignmentStatus.UNLOCKED: f"{found.reassignment_id} is not over, and has not the lock of the cluster",
            ReassignmentStatus.UNKNOWN: f"whether {found.reassignment_id} is at work is not known",
        }.get(found.status, f"{found.reassignment_id} is {found.status}")
    if (stop := found.record.stopped()) is not None:
        return f"it settles its moves: stopped by {stop.by}"
    if failed is not None and failed.batch is None:
        return f"it stands at {failed.step}"
    if current.batch is None:
        return "all batches are finished: it verifies and reports" if current.batches else "it makes the plan"
    return _at_batch(f"batch {current.batch.number} of {current.batches}", failed, note, seen)


def _at_batch(which: str, failed: AuditEvent | None, note: ProgressNote | None, seen: Progress | None) -> str:
    if failed:
        return f"it stands at {which}"
    if note is not None and note.waits:
        return f"it holds {which} back"
    if seen is None:
        return f"it has not submitted {which}"
    return f"{which}: {seen.partitions_in_sync} of {seen.partitions} partitions in sync"
