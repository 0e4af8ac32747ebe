"""The gates: what has to be well before a reassignment is planned, and before each of its batches starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from kafka_reassignment.errors import InfeasiblePlanError, UnhealthyClusterError, name_some
from kafka_reassignment.execution.batches import planned_batch, whole_batch
from kafka_reassignment.execution.context import StillWaiting, utc_now
from kafka_reassignment.execution.observing import log_dirs_and_cordons, min_insync_replicas, observe
from kafka_reassignment.execution.throttling import rate_in_force
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.planning.admission import (
    Health,
    admission,
    health,
    inbound_bytes_per_second,
    throttle_can_finish,
)
from kafka_reassignment.planning.moves import expansions_to_submit, phase
from kafka_reassignment.planning.samples import WINDOW_SECONDS, Sample, sample_of
from kafka_reassignment.planning.windows import Verdict, fits
from kafka_reassignment.planning.windows.estimate import LATEST, Finished, batch_seconds, measured_speed
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.record import Record
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.spark.plan_io import read_target

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
        request, batch = record.opening().request, planned_batch(record, self._number)
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
            tolerated_unwell=request.tolerate_unwell if request.pause_when_unwell else None,
            # What is moving already is brought to its end, whatever the clock says.
            others=()
            if under_way
            else (*self._about_window(record, batch), *self._about_rate(cluster, record, batch, view)),
        ).reasons

    def _health(self, cluster: ClusterPort, request: ReassignmentRequest, view: View) -> Health:
        if request.pause_when_unwell:
            return cluster_health(cluster, request)
        return health(view, leaving_brokers=_leaving(request))

    def _about_window(self, record: Record, batch: Batch) -> list[str]:
        request = record.opening().request
        rate = rate_in_force(record)
        needed = batch_seconds(
            batch,
            asked_bytes_per_second=rate,
            measured_bytes_per_second=measured_speed(_earlier(record, batch.number), asked_bytes_per_second=rate),
        )
        fit = fits(request.maintenance, self._now(), needed)
        if fit.verdict is Verdict.NEVER:
            raise InfeasiblePlanError(f"Batch {batch.number} can never start: {fit.reason}")
        return [] if fit.verdict is Verdict.START else [fit.reason]

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
        self._samples = [s for s in self._samples if s.at_seconds > now - WINDOW_SECONDS]
        self._samples.append(sample_of(report, at_seconds=now))


def why_not_admitted(number: int, reasons: Sequence[str]) -> str:
    """Return what speaks against starting a batch, as one text."""
    return f"batch {number} waits: {'; '.join(reasons)}"


def waits(record: Record, told: str, number: int, now: datetime) -> StillWaiting:
    """Return that a batch waits, after noting why where the progress page looks."""
    record.write_progress(ProgressNote(batch=number, at=now, text=told))
    return StillWaiting(told)


def cluster_health(cluster: ClusterPort, request: ReassignmentRequest) -> Health:
    """Return every partition of the cluster that is not well, but for what the request itself is to mend."""
    states = cluster.describe_partitions()
    view = View(
        live_brokers=cluster.describe_cluster().live_brokers,
        partitions=states,
        in_flight=cluster.list_reassignments(),
        min_insync_replicas=min_insync_replicas(cluster, {p.topic for p in states}),
    )
    return health(view, leaving_brokers=_leaving(request))


def check_health(cluster: ClusterPort, request: ReassignmentRequest) -> None:
    """Refuse a request for a cluster that is less well than it tolerates.

    Raises:
        UnhealthyClusterError: more partitions are offline, under min ISR or under-replicated.
    """
    found = cluster_health(cluster, request)
    kinds = (
        ("offline", found.offline),
        ("under min.insync.replicas", found.under_min_isr),
        ("under-replicated", found.under_replicated),
    )
    count = sum(len(those) for _, those in kinds)
    if count > request.tolerate_unwell:
        told = "; ".join(f"{len(those)} {kind} ({name_some(those)})" for kind, those in kinds if those)
        raise UnhealthyClusterError(
            f"{count} partitions are not well, expected at most {request.tolerate_unwell} ('tolerate_unwell'): {told}. Moving "
            "replicas would make it worse: bring their brokers back first, or raise 'tolerate_unwell' if you know why"
        )


def _leaving(request: ReassignmentRequest) -> tuple[int, ...]:
    return request.brokers if request.job is Job.DECOMMISSION else ()


def _earlier(record: Record, number: int) -> list[Finished]:
    """The latest finished batches before this one."""
    numbers = sorted(n for n in record.finished_batches() if n < number)[-2 * LATEST :]
    rate = record.opening().request.throttle_bytes_per_second
    return [
        Finished(whole_batch(record, n), (done.finished_at - done.started_at).total_seconds(), rate)
        for n in numbers
        if (done := record.finished(n)) is not None
    ]


def _foreign(cluster: ClusterPort, record: Record, batch: Batch, view: View) -> list[TopicPartition]:
    """Other people's moves, anywhere in the cluster, but for those that this reassignment is to supersede."""
    ours = {s.partition for s in batch.steps if phase(s, view).ours}
    foreign = [p for p in cluster.list_reassignments() if p not in ours]
    if foreign and record.opening().request.supersede:
        planned = {move.partition for move in read_target(record.plan_uri)}
        foreign = [p for p in foreign if p not in planned]
    return foreign
