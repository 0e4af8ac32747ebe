"""What the page of one reassignment shows, read from the record; no cluster is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Literal

from kafka_reassignment.advice import Advice, Rerun, advice_from_data
from kafka_reassignment.decisions.auto_rate import auto_rate_in_words
from kafka_reassignment.decisions.progress_shown import ProgressShown, SpeedPoint
from kafka_reassignment.decisions.rate import latest_change_in_words, rates_in_force
from kafka_reassignment.errors import RecordError
from kafka_reassignment.plan.reassignment_json import reassignment_json
from kafka_reassignment.plan.report import plan_page, title_of
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.catalogue import ReassignmentStatus, RecordedReassignment, find_reassignment
from kafka_reassignment.record.models import ClusterLock, FinishedBatch, SubmittedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.estimates import expected_end
from kafka_reassignment.steps.left.left_open import left_open_reasons
from kafka_reassignment.views.current_batch import shown_submission
from kafka_reassignment.views.failure import failure_of, latest_of_run
from kafka_reassignment.views.work import Work, work_of
from kafka_reassignment_airflow.runs import DAG_ID, batch_run_id, reassignment_of
from kafka_reassignment_airflow.web.drawn import Load, TimeChart, finished_numbers, loads, time_chart
from kafka_reassignment_airflow.web.figures import BrokerNow, brokers_now
from kafka_reassignment_airflow.web.kept import Audit, AuditQuery, ReadRecords
from kafka_reassignment_airflow.web.rows import Row, row_of

SHOWN_BATCHES = 20
"""Latest finished batches on the page."""

RETAKES = (Rerun("start_batches"), Rerun("preflight"))
"""How a reassignment takes the lock again, as its steps advise it."""

SHOWN_PARTITIONS = 50
"""Partitions that are left out, left open or withdrawn, on the page; the audit trail has all."""


@dataclass(frozen=True, slots=True)
class Page:
    """One reassignment with all that its page shows.

    ``failed`` is the step at which it stands, when it is red; ``advice`` is about that, with how the lock is taken
    again where it was lost, or about what holds up replicas. ``latest_of_run`` is the last event of the reassignment's
    own run, ``latest`` that of any step but those beside it. ``ends_at`` is when the last batch is expected to end;
    None where that is not known. ``bytes_per_second`` are the lowest and the highest rate that were asked for last;
    None when unthrottled. ``rate_changed`` says when and why that was, ``auto_rate`` how auto rate stands; both may be
    empty. ``left_out`` are partitions of the current batch with their reasons, ``left_open`` those that it or an
    earlier one goes on without: the first of ``left_open_number``. ``plan`` is None while there is none, or it cannot
    be read. ``dag_id`` is that of its run; ``is_in_one_run`` says that its batches are part of that, as in a DAG of
    one's own. ``retake`` is how it takes the lock again.
    """

    row: Row
    found: RecordedReassignment
    now: datetime
    lock: ClusterLock | None
    current: int | None
    submitted: SubmittedBatch | None
    failed: AuditEvent | None
    advice: tuple[Advice, ...]
    latest: AuditEvent | None
    latest_of_run: AuditEvent | None
    ends_at: datetime | None
    bytes_per_second: tuple[int, int] | None
    rate_changed: str
    auto_rate: str
    brokers: tuple[BrokerNow, ...]
    owed: tuple[str, ...]
    withdrawn: tuple[str, ...]
    left_out: dict[str, str]
    left_open: dict[str, str]
    left_open_number: int
    plan: PlanSummary | None
    work: Work | None
    chart: TimeChart | None
    finished: tuple[FinishedBatch, ...]
    audit: Audit
    problems: tuple[str, ...]
    dag_id: str
    is_in_one_run: bool
    retake: Rerun

    @property
    def loads(self) -> tuple[Load, ...]:
        """The load of brokers before and after; empty where the plan has none."""
        return loads(self.plan.brokers) if self.plan else ()

    @property
    def replicas(self) -> ProgressShown | None:
        """What was seen of the replicas that are copied; None while nothing is."""
        return self.row.note.shown if self.row.note else None

    @property
    def needs_approval(self) -> bool:
        """Whether a person is asked to approve the plan, as the last event of its run says."""
        return self.latest_of_run is not None and self.latest_of_run.asks_for_approval

    @property
    def batch_run(self) -> str:
        """The run of the current batch; empty when there is none yet, or none of its own."""
        if self.is_in_one_run:
            return ""
        begun = self.latest is not None and (self.latest.batch is not None or self.latest.step == "start_batches")
        return (
            batch_run_id(self.row.reassignment_id, self.current) if begun and self.current and self.row.batches else ""
        )


class Pages:
    """The pages of reassignments, as one process has seen them: what never changes is read once."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._kept = ReadRecords()

    def page(self, store: RecordStore, cluster_id: str, reassignment_id: str, query: AuditQuery | None = None) -> Page:
        """Return one reassignment with what its page shows.

        Raises:
            RecordError: there is no record of it, or it cannot be read.
        """
        found = found_in(store, cluster_id, reassignment_id)
        record, recorded, view = found.record, found.recorded_request, RecordView(found.record)
        row = row_of(record, str(recorded.request.job), recorded.requested_by, recorded.started_at, found.lock)
        done = record.finished_batches()
        journal = record.journal()
        problems = [str(found.lock.error)] if found.lock.error else []
        last = record.audit.last_number()
        current = next((n for n in range(1, (row.batches or 0) + 1) if n not in done), None)
        submitted = shown_submission(view, current) if current else None
        is_active = row.status is ReassignmentStatus.ACTIVE
        newest_first = self._kept.latest(record, last, problems)
        of_its_run = [e for e in newest_first if e.actor.run_id == reassignment_id]
        is_in_one_run = any(e.batch is not None for e in of_its_run)
        # A DAG of one's own that has no start_batches takes the lock in preflight.
        is_by_preflight = is_in_one_run and all(e.step != "start_batches" for e in of_its_run)
        retake = Rerun("preflight" if is_by_preflight else "start_batches")
        failed = None
        if row.status.may_stand:
            failed = failure_of(newest_first, current, row.note, view.last_run_command())
        plan = _plan_of(record, problems)
        ends = self._kept.ends(record, finished_numbers(done))
        now = self._clock()
        ends_at = row.note.ends_at if row.note else None
        if plan and newest_first and row.note is None and is_active:
            # As of the last event, so that a page on which nothing happens stays as it is.
            ends_at = expected_end(view, recorded.request, newest_first[0].finished_at, plan).at
        left_open = {p: f"{why} (batch {number})" for p, (number, why) in left_open_reasons(view).items()}
        left_open |= submitted.left_open if submitted else {}
        return Page(
            row=row,
            found=found,
            now=now,
            lock=found.lock.owner,
            current=current,
            submitted=submitted,
            failed=failed,
            advice=_way_on(store, found, failed, retake)
            if failed
            else advice_from_data(row.note.advice if row.note else None),
            latest=next(iter(newest_first), None),
            latest_of_run=latest_of_run(newest_first),
            ends_at=ends_at,
            bytes_per_second=rates_in_force(recorded.request, journal),
            rate_changed=latest_change_in_words(journal),
            auto_rate=auto_rate_in_words(
                recorded.request.auto, recorded.request.throttle_bytes_per_second or 0, journal
            ),
            brokers=brokers_now(recorded.request, journal, row.note.shown if row.note else None),
            owed=journal.owed_texts(),
            withdrawn=tuple(sorted(record.withdrawn_partitions())),
            left_out=_first(submitted.left_out) if submitted else {},
            left_open=_first(left_open),
            left_open_number=len(left_open),
            plan=plan,
            work=work_of(
                plan,
                done,
                ends,
                batch=row.note.batch if row.note else None,
                bytes_left=row.note.bytes_left if row.note else None,
            )
            if plan
            else None,
            chart=time_chart(
                ends,
                plan.batches,
                current=(current, submitted.submitted_at, _history(row))
                if current and submitted and is_active
                else None,
                now=now,
                expected_end=ends_at,
            )
            if plan
            else None,
            finished=tuple(self._kept.ends(record, sorted(done)[: -SHOWN_BATCHES - 1 : -1])),
            audit=self._kept.audit(record, query or AuditQuery(), last, problems),
            problems=tuple(dict.fromkeys(problems)),
            dag_id=next((e.actor.dag_id for e in of_its_run if e.actor.dag_id), DAG_ID),
            is_in_one_run=is_in_one_run,
            retake=retake,
        )


def audit_lines(store: RecordStore, cluster_id: str, reassignment_id: str) -> Iterator[str]:
    """Return the audit trail as JSON lines, oldest first; an event that cannot be read has a line that says so.

    Raises:
        RecordError: there is no record of it.
    """
    trail = found_in(store, cluster_id, reassignment_id).record.audit
    return (event.model_dump_json() + "\n" for event in trail.each())


def plan_report(store: RecordStore, cluster_id: str, reassignment_id: str, nonce: str) -> str:
    """Return the plan's report, made from its numbers: HTML that was stored is never served.

    Raises:
        RecordError: there is no plan yet, or it cannot be read, or it was altered.
    """
    found = found_in(store, cluster_id, reassignment_id)
    return plan_page(
        read_summary(found.record.plan_ref()),
        title=title_of(found.reassignment_id, cluster_id),
        bytes_per_second=found.recorded_request.request.throttle_bytes_per_second,
        nonce=nonce,
    )


def plan_json(
    store: RecordStore, cluster_id: str, reassignment_id: str, side: Literal["target", "current"]
) -> Iterator[bytes]:
    """Return the plan as ``kafka-reassign-partitions`` reads it, or its rollback, made from the frozen plan.

    Raises:
        RecordError: there is no plan yet, or it cannot be read, or it was altered.
    """
    return reassignment_json(found_in(store, cluster_id, reassignment_id).record.plan_ref(), side)


def find(store: RecordStore, run_id: str) -> list[tuple[str, str]]:
    """Return cluster and reassignment that a run of ``kafka_reassignment``, or of one of its batches, belongs to.

    Several where clusters have reassignments of the same id, such as those of two Airflows or of two DAGs of your own.
    """
    names = [name for name in (run_id, reassignment_of(run_id)) if name]
    found = ((c, next((n for n in names if store.record(c, n).exists), None)) for c in store.clusters())
    return [(cluster_id, name) for cluster_id, name in found if name is not None]


def _plan_of(record: Record, problems: list[str]) -> PlanSummary | None:
    plan = record.plan_in_force()
    if plan is None:
        return None
    try:
        return read_summary(record.plan_refs()(plan.batches) if plan.batches else record.plan_ref())
    except RecordError as error:
        problems.append(str(error))
        return None


def _way_on(store: RecordStore, found: RecordedReassignment, failed: AuditEvent, retake: Rerun) -> tuple[Advice, ...]:
    """What the failed step advises; before it, how the lock is taken again where it was lost: without it, each step is refused."""
    advised = advice_from_data(failed.facts.get("advice"))
    if found.status is not ReassignmentStatus.UNLOCKED or any(item in RETAKES for item in advised):
        return advised
    owner, cluster_id = found.lock.owner, found.record.cluster_id
    waits = store.locked_by(owner, cluster_id).advice if owner else ()
    return (*waits, retake, *advised)


def _history(row: Row) -> Sequence[SpeedPoint]:
    return row.note.shown.history if row.note and row.note.shown else ()


def _first(reasons: Mapping[str, str]) -> dict[str, str]:
    return dict(islice(reasons.items(), SHOWN_PARTITIONS))


def found_in(store: RecordStore, cluster_id: str, reassignment_id: str) -> RecordedReassignment:
    """Return a reassignment.

    Raises:
        RecordError: there is no record of it, or its id is empty.
    """
    found = find_reassignment(store, cluster_id, reassignment_id)
    if found is None:
        raise RecordError(
            "No run id of a reassignment is given, expected one in the address. Choose a reassignment from the list"
        )
    return found
