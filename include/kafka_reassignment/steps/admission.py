"""The admission of a batch: it starts when there is no reason to wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import ceil
from typing import Literal

from kafka_reassignment.advice import CANCEL_DAG_ID, THROTTLE_DAG_ID, Advice, Correct, Rerun, Trigger
from kafka_reassignment.decisions.admission import (
    Health,
    admission,
    hung_moves,
    inbound_bytes_per_second,
    new_writes,
    outpaced,
)
from kafka_reassignment.decisions.auto_rate import reachable_rate
from kafka_reassignment.decisions.moves import (
    expansions_to_submit,
    never_completes,
    phase,
    to_begin,
)
from kafka_reassignment.decisions.rate import healthy, rate_of_all_brokers
from kafka_reassignment.decisions.throttle import listed_in, needed_replicas, partition_of
from kafka_reassignment.decisions.windows import StartDecision, fits, past_deadline
from kafka_reassignment.decisions.windows.estimate import MEASUREMENT_KEPT, OVERHEAD_SECONDS
from kafka_reassignment.errors import (
    BatchIncompleteError,
    DeadlinePassedError,
    InfeasiblePlanError,
    InvalidThrottleError,
    ReassignmentInProgressError,
    name_some,
)
from kafka_reassignment.model import Batch, InFlight, TopicPartition, View
from kafka_reassignment.plan.store import read_targets_of
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.request.rate import HIGHEST_RATE_MB
from kafka_reassignment.steps.blocked import WAITED, may_go_without, wait_is_over
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.estimates import estimate_of, expected_end
from kafka_reassignment.steps.finished import finished_batch
from kafka_reassignment.steps.health import cluster_health, planned_targets
from kafka_reassignment.steps.inbound import take_sizes
from kafka_reassignment.steps.left_open import without_left_open
from kafka_reassignment.steps.left_over import to_end_moves
from kafka_reassignment.steps.moves import format_reasons, left_to_copy
from kafka_reassignment.steps.recorded_batch import planned_batch, without
from kafka_reassignment.steps.throttle import keep_throttled
from kafka_reassignment.steps.throttle_configs import observe_listed
from kafka_reassignment.steps.view import log_dirs_and_cordons, observe
from kafka_reassignment.steps.waiting import (
    LONGEST_WAIT,
    Done,
    SizeSamples,
    Waiting,
    WaitResult,
    deadline_of,
    waiting_step,
)


@waiting_step
def admit(run: RunContext, number: int, samples: SizeSamples, started_at: datetime | None = None) -> WaitResult:
    """Let the batch in when there is no reason to wait; ``Waiting`` names every reason.

    A batch of which no partition can be moved now is let in all the same while a later one can move on: its partitions are
    left for the end. When none can, it waits for as long as a batch may take, from ``started_at`` (by default now), and is
    let in then.

    ``Failed`` with:
        BatchIncompleteError: an earlier batch is not finished.
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
        InfeasiblePlanError, DeadlinePassedError: the maintenance windows never let it in.
        ReassignmentInProgressError: another client's move does not end by itself, or copies under this reassignment's throttle,
            and the time that a batch may take is over.
        InvalidThrottleError: producers write faster than the rate, and that time is over.
    """
    if done := finished_batch(run, number):
        return done
    recorded = RecordView(run.record)
    batch = planned_batch(recorded, number)
    about_throttle = keep_throttled(run, recorded, batch, Rerun("admit", batch=number))
    finished = recorded.finished_batches()
    earlier = [n for n in range(1, number) if n not in finished]
    if earlier:
        raise BatchIncompleteError(
            f"Batch {number} must wait for batch {name_some(earlier)}, which is not finished: steps of one partition "
            "run in order",
            Rerun("admit", batch=earlier[0]),
        )
    run.require_go_ahead(recorded)
    began = started_at or run.now()
    since = partial(_since, run, recorded, number, began)
    held = why_held(
        run,
        recorded,
        batch,
        samples,
        goes_without_blocked=lambda: may_go_without(run, recorded, number, batch.partitions, since("blocked_since")),
    )
    if not held.reasons:
        return Done(
            f"batch {number} admitted: {len(batch.steps)} partitions, {batch.bytes_to_copy / 1e6:.1f} MB to copy",
            {WAITED: True} if held.goes_without and wait_is_over(run, recorded, number, since("blocked_since")) else {},
        )
    now = run.now()
    hung_since = since("hung_since") if held.hung or held.throttled else None
    if hung_since is not None and now >= deadline_of(run, hung_since):
        raise _hung_too_long(run, recorded, batch, held)
    outpaced_since = since("outpaced_since") if held.outpaced and held.reasons == held.outpaced else None
    if outpaced_since is not None and now >= deadline_of(run, outpaced_since):
        raise _outpaced_too_long(run, recorded, batch, held)
    text = f"batch {number} waits: {'; '.join(held.reasons)}{about_throttle}"
    end = expected_end(recorded, run.request, now)
    text += f"; {end.words}" if end.words else ""
    run.record.write_progress(
        ProgressNote(
            batch=number,
            at=now,
            text=text,
            ends_at=end.at,
            waits=held.reasons,
            outpaced_since=outpaced_since,
            hung_since=hung_since,
            blocked_since=since("blocked_since") if held.is_blocked else None,
        )
    )
    return Waiting(text, until=now + LONGEST_WAIT)


@dataclass(frozen=True, slots=True)
class Held:
    """Why a batch cannot start now: every reason, and the moves of other clients among them that do not end by themselves.

    ``is_blocked``: none of its partitions can be moved now; ``goes_without``: and that is no reason. ``outpaced`` has the reasons why the rate
    can never finish, and ``new_writes`` what the busiest broker would have to copy of new writes alone, in bytes per second.
    ``throttled`` are moves of other clients that copy what this reassignment began: its rate decides how long they take.
    """

    reasons: tuple[str, ...]
    outpaced: tuple[str, ...]
    new_writes: float
    is_blocked: bool
    goes_without: bool
    hung: Mapping[TopicPartition, str]
    foreign: Mapping[TopicPartition, InFlight]
    throttled: tuple[TopicPartition, ...]
    live_brokers: frozenset[int]


def why_held(
    run: RunContext,
    recorded: RecordView,
    batch: Batch,
    samples: SizeSamples,
    *,
    goes_without_blocked: Callable[[], bool] = lambda: False,
) -> Held:
    """Look at the batch, at moves of other clients, at disks, at what is written, and at the clock; return why it cannot start now.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        batch: to start.
        samples: of earlier looks.
        goes_without_blocked: whether to start although none of its partitions can be moved now; asked only then.

    Raises:
        InfeasiblePlanError: it can never start within the request's maintenance windows.
        DeadlinePassedError: the time by which the request must end is over.
    """
    cluster, request = run.cluster, run.request
    view = observe(cluster, batch.partitions)
    is_moving = any(s.partition in view.in_flight and phase(s, view).ours for s in batch.steps)
    foreign = _foreign(run, recorded, batch, view)
    hung = hung_moves(foreign, view.live_brokers)
    throttled = _throttled(run, recorded, foreign.keys() - hung.keys())
    is_blocked = expansions_to_submit(batch, view).none_can_move
    goes_without = is_blocked and goes_without_blocked()
    receivers = {b for s in batch.steps for b in s.reassignment.adding} & view.live_brokers
    beginning = to_begin(batch, view, supersede=request.supersede)
    if is_moving and (submitted := recorded.submitted(batch.number)):
        beginning = without(beginning, submitted.changed_by_others)
    # What is moving already is completed, whatever the clock says; what begins beside it has to fit.
    has_only_begun = is_moving and not beginning.steps
    about_window = () if has_only_begun else _about_window(run, recorded, beginning if beginning.steps else batch, view)
    about_rate, written = _about_rate(run, recorded, batch, beginning, view, samples)
    reasons = admission(
        batch,
        view,
        cluster_health=_health(run, recorded),
        foreign=foreign,
        hung=hung,
        throttled=throttled,
        log_dirs=log_dirs_and_cordons(cluster, sorted(receivers), []).log_dirs,
        keep_free_share=request.keep_free_share,
        goes_without_blocked=goes_without,
        allowed_unhealthy_partitions=request.allowed_unhealthy_partitions if request.pause_while_unhealthy else None,
        other_reasons=(*about_window, *about_rate),
    ).reasons
    return Held(reasons, about_rate, written, is_blocked, goes_without, hung, foreign, throttled, view.live_brokers)


def _health(run: RunContext, recorded: RecordView) -> Health:
    if not run.request.pause_while_unhealthy:
        return Health()
    return cluster_health(run.cluster, run.request, lambda: planned_targets(recorded))


def _about_window(run: RunContext, recorded: RecordView, batch: Batch, view: View) -> list[str]:
    spec = run.request.maintenance
    stop = Trigger(CANCEL_DAG_ID, {"reassignment_id": run.record.reassignment_id})
    if late := past_deadline(spec, run.now()):
        if _has_only_to_drop(recorded, batch, view):
            return []
        raise DeadlinePassedError(late, stop, Correct("ask for what is left in a new request with a later time"))
    expected = estimate_of(run, recorded, batch)
    fit = fits(spec, run.now(), expected.seconds, expected.least_seconds)
    if fit.decision is StartDecision.START or _has_only_to_drop(recorded, batch, view):
        return []
    if fit.decision is StartDecision.NEVER:
        other_windows = Correct("ask for what is left in a new request with other maintenance windows")
        raise InfeasiblePlanError(
            f"Batch {batch.number} can never start: {fit.reason}",
            *(_raise_rate(run, recorded, batch, expected.least_seconds, fit.longest_seconds) or (stop, other_windows)),
        )
    if fit.starts is None:
        held = (
            f"{fit.reason}, by the pace of the latest batches; at its whole rate it would fit. It waits until that measurement "
            f"is {MEASUREMENT_KEPT.days} days old, or the rate is raised with kafka_throttle"
        )
        return [held]
    return [fit.reason]


def _has_only_to_drop(recorded: RecordView, batch: Batch, view: View) -> bool:
    """Whether all of a batch that has begun is copied: the rest is done whatever the clock says."""
    return recorded.submitted(batch.number) is not None and not left_to_copy(batch, view).steps


def _raise_rate(
    run: RunContext, recorded: RecordView, batch: Batch, least_seconds: float, longest: float | None
) -> tuple[Advice, ...]:
    """The rate at which the batch would fit, where there is one."""
    rate = rate_of_all_brokers(run.request, recorded.journal())
    left = (longest or 0.0) - OVERHEAD_SECONDS
    if rate is None or left <= 0 or (needed := ceil(1.05 * rate * least_seconds / left / MEGABYTE)) > HIGHEST_RATE_MB:
        return ()
    return _at_rate(run, needed), Rerun("admit", batch.number)


def _about_rate(
    run: RunContext, recorded: RecordView, batch: Batch, beginning: Batch, view: View, samples: SizeSamples
) -> tuple[tuple[str, ...], float]:
    """Return why the rate can never finish, and the bytes per second of new writes that the busiest broker would have to copy."""
    rate = reachable_rate(run.request, recorded.journal())
    if rate is None or not beginning.steps:
        return (), 0.0
    leaders = {s.leader for s in view.partitions.values() if s.leader is not None}
    take_sizes(run, batch, leaders, samples)
    load = new_writes(beginning, view, inbound_bytes_per_second(beginning, view, samples.seen))
    return outpaced(load, rate), max(load.values(), default=0.0)


def _throttled(
    run: RunContext, recorded: RecordView, foreign: Collection[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Moves of other clients that copy under the throttle in place: each took over a partition while this reassignment moved it."""
    listed = listed_in(recorded.journal())
    if reachable_rate(run.request, recorded.journal()) is None or not any(
        TopicPartition(r.topic, partition_of(e)) in foreign for r in listed for e in r.entries
    ):
        return ()
    copying = needed_replicas(listed, observe_listed(run, listed)).copying
    return tuple(p for p in copying if p in foreign)


def _hung_too_long(run: RunContext, recorded: RecordView, batch: Batch, held: Held) -> ReassignmentInProgressError:
    """The batch waits for another client's move that a person has to help; a healthy one may take its time."""
    hung = dict(held.hung)
    hung |= dict.fromkeys(held.throttled, "it copies under the throttle of this reassignment")
    rate = reachable_rate(run.request, healthy(recorded.journal()))  # twice a lowered one would replace the higher one
    # Replicas in sync use up a leader's rate as well: at twice the rate what copies may end.
    higher = (_at_rate(run, min(ceil(2 * rate / MEGABYTE), HIGHEST_RATE_MB)),) if held.throttled and rate else ()
    never = [str(p) for p in hung if never_completes(held.foreign[p])]
    planned = {str(p) for p in read_targets_of(run.record.plan_ref(), list(hung))} & set(never)
    return ReassignmentInProgressError(
        f"Batch {batch.number} waited {run.request.catch_up_timeout_minutes} min for moves of another client that have not "
        f"ended: {format_reasons(hung)}"
        + (
            f". A cancel with 'foreign' ends that move alone: this reassignment still moves {name_some(sorted(planned))} after it"
            if planned
            else ""
        ),
        *to_end_moves({p: held.foreign[p] for p in hung}, held.live_brokers),
        *higher,
        Rerun("admit", batch=batch.number),
    )


def _at_rate(run: RunContext, rate_mb: float) -> Trigger:
    params = {"reassignment_id": run.record.reassignment_id, "throttle_mb_per_second": rate_mb}
    return Trigger(THROTTLE_DAG_ID, params)


def _foreign(run: RunContext, recorded: RecordView, batch: Batch, view: View) -> dict[TopicPartition, InFlight]:
    """Moves of other clients, anywhere in the cluster, but for those that this reassignment is to supersede."""
    ours = {s.partition for s in batch.steps if phase(s, view).ours}
    in_flight = run.cluster.list_reassignments()
    foreign = without_left_open(recorded, {p: flight for p, flight in in_flight.items() if p not in ours})
    if foreign and run.request.supersede:
        planned = read_targets_of(run.record.plan_ref(), list(foreign))
        foreign = {p: flight for p, flight in foreign.items() if p not in planned}
    return foreign


def _since(
    run: RunContext,
    recorded: RecordView,
    number: int,
    began: datetime,
    what: Literal["outpaced_since", "hung_since", "blocked_since"],
) -> datetime:
    """Return since when every look has found that: a batch may have waited for weeks for other reasons."""
    before = recorded.progress()
    known: datetime | None = getattr(before, what) if before is not None and before.batch == number else None
    return run.now() if known is None else max(known, began)


def _outpaced_too_long(run: RunContext, recorded: RecordView, batch: Batch, held: Held) -> InvalidThrottleError:
    """The batch waits for producers to write less, which they may never do: a person has to choose."""
    # Half of the rate is left for what is behind. It replaces a slow-down, and is no lower than what was asked for before that.
    usual = reachable_rate(run.request, healthy(recorded.journal())) or 0
    needed = ceil(max(2 * held.new_writes, usual) / MEGABYTE)
    return InvalidThrottleError(
        f"Batch {batch.number} waited {run.request.catch_up_timeout_minutes} min in vain: {'; '.join(held.outpaced)}",
        _at_rate(run, needed),
        Rerun("admit", batch=batch.number),
    )
