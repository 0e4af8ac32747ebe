"""The admission of a batch: it starts when there is no reason to wait."""

from __future__ import annotations

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
from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.decisions.windows import StartDecision, fits
from kafka_reassignment.decisions.windows.estimate import MAX_MEASURED_BATCHES, Finished, batch_seconds, measured_speed
from kafka_reassignment.errors import (
    BatchIncompleteError,
    InfeasiblePlanError,
    name_some,
)
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.health import cluster_health, leaving_brokers
from kafka_reassignment.steps.recorded_batch import whole_batch
from kafka_reassignment.steps.view import log_dirs_and_cordons, observe
from kafka_reassignment.steps.waiting import LONGEST_WAIT, Done, SizeSamples, Waiting, WaitResult, waiting_step

BETWEEN_SAMPLES_SECONDS = 2.0
"""How long the first look measures what producers write to a batch; later looks measure over all samples."""


@waiting_step
def admit(run: RunContext, number: int, samples: SizeSamples) -> WaitResult:
    """Let the batch in when there is no reason to wait; ``Waiting`` names every reason.

    ``Failed`` with:
        BatchIncompleteError: an earlier batch is not finished.
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
        InfeasiblePlanError, DeadlinePassedError: the maintenance windows never let it in.
    """
    batch = run.batch(number)
    if run.record.finished(number) is not None:
        return Done(f"batch {number} is finished already; its steps have nothing left to do")
    finished = run.record.finished_batches()
    earlier = [n for n in range(1, number) if n not in finished]
    if earlier:
        raise BatchIncompleteError(
            f"Batch {number} must wait for batch {name_some(earlier)}, which is not finished: steps of one partition "
            "run in order. Rerun the failed step of that batch; the chain reaches this one by itself"
        )
    run.require_go_ahead()
    reasons = reasons_to_wait(run, batch, samples)
    if not reasons:
        return Done(
            f"batch {number} admitted: {len(batch.steps)} partitions, {batch.bytes_to_copy / 1e6:.1f} MB to copy"
        )
    now = run.now()
    text = f"batch {number} waits: {'; '.join(reasons)}"
    run.record.write_progress(ProgressNote(batch=number, at=now, text=text))
    return Waiting(text, until=now + LONGEST_WAIT)


def reasons_to_wait(run: RunContext, batch: Batch, samples: SizeSamples) -> tuple[str, ...]:
    """Look at the batch, at moves of other clients, at disks, at what is written, and at the clock; return why it cannot start now.

    Raises:
        InfeasiblePlanError: it can never start within the request's maintenance windows.
        DeadlinePassedError: the time by which the request must end is over.
    """
    cluster, request = run.cluster, run.request
    view = observe(cluster, batch.partitions)
    is_moving = any(s.partition in view.in_flight and phase(s, view).ours for s in batch.steps)
    receivers = {b for s in batch.steps for b in s.reassignment.adding} & view.live_brokers
    return admission(
        batch,
        view,
        cluster_health=_health(run, view),
        foreign=_foreign(run, batch, view),
        log_dirs=log_dirs_and_cordons(cluster, sorted(receivers), []).log_dirs,
        keep_free_share=request.keep_free_share,
        allowed_unhealthy_partitions=request.allowed_unhealthy_partitions if request.pause_while_unhealthy else None,
        # What is moving already is completed, whatever the clock says.
        other_reasons=() if is_moving else (*_about_window(run, batch), *_about_rate(run, batch, view, samples)),
    ).reasons


def _health(run: RunContext, view: View) -> Health:
    if run.request.pause_while_unhealthy:
        return cluster_health(run.cluster, run.request)
    return health(view, leaving_brokers=leaving_brokers(run.request))


def _about_window(run: RunContext, batch: Batch) -> list[str]:
    rate = rate_in_force(run.request, run.record.journal())
    needed = batch_seconds(
        batch,
        asked_bytes_per_second=rate,
        measured_bytes_per_second=measured_speed(_earlier(run, batch.number), asked_bytes_per_second=rate),
    )
    fit = fits(run.request.maintenance, run.now(), needed)
    if fit.decision is StartDecision.NEVER:
        raise InfeasiblePlanError(f"Batch {batch.number} can never start: {fit.reason}")
    return [] if fit.decision is StartDecision.START else [fit.reason]


def _about_rate(run: RunContext, batch: Batch, view: View, samples: SizeSamples) -> tuple[str, ...]:
    rate = rate_in_force(run.request, run.record.journal())
    due = expansions_to_submit(batch, view).to_submit
    if rate is None or not due:
        return ()
    leaders = {s.leader for s in view.partitions.values() if s.leader is not None}
    if not samples.seen:
        samples.take(run.cluster, leaders, batch.partitions)
        run.sleep(BETWEEN_SAMPLES_SECONDS)
    samples.take(run.cluster, leaders, batch.partitions)
    starting = Batch(batch.number, tuple(s for s in batch.steps if s.partition in due))
    inbound = inbound_bytes_per_second(starting, view, samples.seen)
    return throttle_can_finish(starting, view, inbound, asked_bytes_per_second=rate)


def _earlier(run: RunContext, number: int) -> list[Finished]:
    """The latest finished batches before this one."""
    numbers = sorted(n for n in run.record.finished_batches() if n < number)[-2 * MAX_MEASURED_BATCHES :]
    rate = run.request.throttle_bytes_per_second
    return [
        Finished(whole_batch(run.record, n), (done.finished_at - done.started_at).total_seconds(), rate)
        for n in numbers
        if (done := run.record.finished(n)) is not None
    ]


def _foreign(run: RunContext, batch: Batch, view: View) -> list[TopicPartition]:
    """Moves of other clients, anywhere in the cluster, but for those that this reassignment is to supersede."""
    ours = {s.partition for s in batch.steps if phase(s, view).ours}
    foreign = [p for p in run.cluster.list_reassignments() if p not in ours]
    if foreign and run.request.supersede:
        planned = {move.partition for move in read_target(run.record.plan_uri)}
        foreign = [p for p in foreign if p not in planned]
    return foreign
