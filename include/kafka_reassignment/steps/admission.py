"""The gates: what has to be well before a reassignment is planned, and before each of its batches starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from kafka_reassignment.decisions.admission import (
    Health,
    admission,
    health,
    inbound_bytes_per_second,
    throttle_can_finish,
)
from kafka_reassignment.decisions.moves import (
    expansions_to_submit,
    phase,
)
from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, Sample, sample_of
from kafka_reassignment.decisions.windows import StartDecision, fits
from kafka_reassignment.decisions.windows.estimate import MAX_MEASURED_BATCHES, Finished, batch_seconds, measured_speed
from kafka_reassignment.errors import (
    BatchIncompleteError,
    InfeasiblePlanError,
    name_some,
)
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.record import Record
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.steps.context import RunContext, StillWaiting, utc_now
from kafka_reassignment.steps.go_ahead import require_go_ahead
from kafka_reassignment.steps.health import _leaving, cluster_health
from kafka_reassignment.steps.rate import rate_in_force
from kafka_reassignment.steps.recorded_batch import planned_batch, whole_batch
from kafka_reassignment.steps.view import log_dirs_and_cordons, observe

BETWEEN_SAMPLES_SECONDS = 2.0
"""How long what producers write is measured before a batch; later looks at the same batch measure longer."""


class Gate:
    """The gate of one batch: looked at until nothing speaks against starting it.

    Keeps the sizes it saw, from which is told what producers write meanwhile.
    """

    def __init__(
        self,
        number: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._number = number
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._samples: list[Sample] = []

    def reasons(self, cluster: ClusterPort, record: Record) -> tuple[str, ...]:
        """Look at the batch, at moves of others, at disks, at what is written, and at the clock; say what speaks against it.

        Raises:
            InfeasiblePlanError: it can never start within the request's maintenance windows.
            DeadlinePassedError: the time by which the request must end is over.
        """
        request, batch = record.recorded_request().request, planned_batch(record, self._number)
        view = observe(cluster, batch.partitions)
        under_way = any(s.partition in view.in_flight and phase(s, view).ours for s in batch.steps)
        receivers = {b for s in batch.steps for b in s.reassignment.adding} & view.live_brokers
        return admission(
            batch,
            view,
            cluster_health=self._health(cluster, request, view),
            foreign=_foreign(cluster, record, batch, view),
            log_dirs=log_dirs_and_cordons(cluster, sorted(receivers), []).log_dirs,
            keep_free_share=request.keep_free_share,
            allowed_unhealthy_partitions=request.allowed_unhealthy_partitions
            if request.pause_while_unhealthy
            else None,
            # What is moving already is brought to its end, whatever the clock says.
            other_reasons=()
            if under_way
            else (*self._about_window(record, batch), *self._about_rate(cluster, record, batch, view)),
        ).reasons

    def _health(self, cluster: ClusterPort, request: ReassignmentRequest, view: View) -> Health:
        if request.pause_while_unhealthy:
            return cluster_health(cluster, request)
        return health(view, leaving_brokers=_leaving(request))

    def _about_window(self, record: Record, batch: Batch) -> list[str]:
        request = record.recorded_request().request
        rate = rate_in_force(record)
        needed = batch_seconds(
            batch,
            asked_bytes_per_second=rate,
            measured_bytes_per_second=measured_speed(_earlier(record, batch.number), asked_bytes_per_second=rate),
        )
        fit = fits(request.maintenance, self._now(), needed)
        if fit.decision is StartDecision.NEVER:
            raise InfeasiblePlanError(f"Batch {batch.number} can never start: {fit.reason}")
        return [] if fit.decision is StartDecision.START else [fit.reason]

    def _about_rate(self, cluster: ClusterPort, record: Record, batch: Batch, view: View) -> tuple[str, ...]:
        rate = rate_in_force(record)
        due = expansions_to_submit(batch, view).to_submit
        if rate is None or not due:
            return ()
        if not self._samples:
            self._take_sample(cluster, batch, view)
            self._sleep(BETWEEN_SAMPLES_SECONDS)
        self._take_sample(cluster, batch, view)
        starting = Batch(batch.number, tuple(s for s in batch.steps if s.partition in due))
        inbound = inbound_bytes_per_second(starting, view, self._samples)
        return throttle_can_finish(starting, view, inbound, asked_bytes_per_second=rate)

    def _take_sample(self, cluster: ClusterPort, batch: Batch, view: View) -> None:
        leaders = {s.leader for s in view.partitions.values() if s.leader is not None}
        report = cluster.describe_log_dirs(sorted(leaders), batch.partitions)
        now = self._clock()
        self._samples = [s for s in self._samples if s.at_seconds > now - SPEED_WINDOW_SECONDS]
        self._samples.append(sample_of(report, at_seconds=now))


def why_not_admitted(number: int, reasons: Sequence[str]) -> str:
    """Return what speaks against starting a batch, as one text."""
    return f"batch {number} waits: {'; '.join(reasons)}"


def record_wait(record: Record, told: str, number: int, now: datetime) -> StillWaiting:
    """Return that a batch waits, after noting why where the progress page looks."""
    record.write_progress(ProgressNote(batch=number, at=now, text=told))
    return StillWaiting(told)


def _earlier(record: Record, number: int) -> list[Finished]:
    """The latest finished batches before this one."""
    numbers = sorted(n for n in record.finished_batches() if n < number)[-2 * MAX_MEASURED_BATCHES :]
    rate = record.recorded_request().request.throttle_bytes_per_second
    return [
        Finished(whole_batch(record, n), (done.finished_at - done.started_at).total_seconds(), rate)
        for n in numbers
        if (done := record.finished(n)) is not None
    ]


def _foreign(cluster: ClusterPort, record: Record, batch: Batch, view: View) -> list[TopicPartition]:
    """Other people's moves, anywhere in the cluster, but for those that this reassignment is to supersede."""
    ours = {s.partition for s in batch.steps if phase(s, view).ours}
    foreign = [p for p in cluster.list_reassignments() if p not in ours]
    if foreign and record.recorded_request().request.supersede:
        planned = {move.partition for move in read_target(record.plan_uri)}
        foreign = [p for p in foreign if p not in planned]
    return foreign


def admit(run: RunContext, number: int, started_at: datetime, gate: Gate | None = None) -> None:
    """Let the batch in when nothing speaks against it; the gate is kept between looks by who looks more than once.

    Raises:
        StillWaiting: something does that may pass; the reason says what.
        BatchIncompleteError: an earlier batch is not finished.
        ReassignmentInProgressError: another reassignment has the cluster.
        InfeasiblePlanError, DeadlinePassedError: the maintenance windows never let it in.
    """
    with run.audited("admit", number, started_at=started_at) as event:
        batch = run.batch(number)
        if run.record.finished(number) is not None:
            event.summary = f"batch {number} is finished already; its steps have nothing left to do"
            return
        finished = run.record.finished_batches()
        earlier = [n for n in range(1, number) if n not in finished]
        if earlier:
            raise BatchIncompleteError(
                f"Batch {number} must wait for batch {name_some(earlier)}, which is not finished: steps of one partition "
                "run in order. Rerun the failed step of that batch; the chain reaches this one by itself"
            )
        require_go_ahead(run)
        gate = gate or Gate(number, sleep=run.sleep, now=run.now)
        reasons = gate.reasons(run.cluster, run.record)
        if reasons:
            raise record_wait(run.record, why_not_admitted(number, reasons), number, run.now())
        event.summary = (
            f"batch {number} admitted: {len(batch.steps)} partitions, {batch.bytes_to_copy / 1e6:.1f} MB to copy"
        )
