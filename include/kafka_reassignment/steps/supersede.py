"""A new target over moves in flight (KIP-236): cancel them where that is safe, then the usual steps begin.

What the superseded reassignment has in flight or half-way is settled before the first batch, to where the plan counts
on it: else it would complete meanwhile, and nobody would ever drop the replicas that are too many. What cannot be
settled then is asked for again where a batch would wait for it, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kafka_reassignment.advice import CANCEL_DAG_ID, RESUME_DAG_ID
from kafka_reassignment.decisions.cancel import Settling, settling
from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.decisions.supersede import SupersedeAction, supersede
from kafka_reassignment.errors import ClusterUnavailableError, name_some
from kafka_reassignment.model import Batch, Replicas, Step, TopicPartition, View
from kafka_reassignment.plan.store import read_targets_of
from kafka_reassignment.planner.snapshot import read_replicas, snapshot_of
from kafka_reassignment.ports import in_slices
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.moves import as_texts, cancel, confirmed_view, submit
from kafka_reassignment.steps.base.view import CONFIRM_SECONDS, observe
from kafka_reassignment.steps.stopped.settled_notes import note_settled_of, note_taken_back, superseded_by
from kafka_reassignment.steps.stopped.stopped_steps import StoppedSteps, known_steps_of_superseded, steps_of_superseded
from kafka_reassignment.text import format_brokers

LOOKS = 20
"""A cancelled move leaves the controller's list at once; brokers' metadata follows within a quarter of a second."""


def supersede_foreign(
    run: RunContext, batch: Batch, view: View, event: AuditDraft, check: Callable[[], None]
) -> tuple[View, dict[TopicPartition, str]]:
    """Cancel what others (or an earlier reassignment) are doing to this batch's partitions, if the request asks for it.

    A slice at a time, each decided on a look right before: to ask how far replicas are behind takes a while.

    Args:
        run: of the reassignment.
        batch: what takes part in it.
        view: what is seen of it.
        event: gets what was cancelled.
        check: called right before each request, raises where nothing may be submitted for the batch any more.

    Returns:
        What is seen then, and for each partition that stays as it is why a cancel would not be safe.

    Raises:
        OvertakenError: another try has carried the batch on since.
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
    """
    in_the_way = _in_the_way(batch.steps, view)
    if not in_the_way or not run.request.supersede:
        return view, {}
    lag = _bytes_behind(run, [s.partition for s in in_the_way], view)
    cancelled: dict[str, str] = {}
    kept: dict[TopicPartition, str] = {}
    event.facts["superseded"] = cancelled
    for part in in_slices(in_the_way, run.controller.slice_size):
        now = observe(run.cluster, [s.partition for s in part])
        to_cancel: dict[TopicPartition, str] = {}
        for s in _in_the_way(part, now):
            decided = supersede(s.partition, s.reassignment.target, now, lag=lag.get(s.partition))
            if decided.action is SupersedeAction.CANCEL:
                to_cancel[s.partition] = decided.reason
            elif decided.action is SupersedeAction.REFUSED:
                kept[s.partition] = decided.reason
                run.log.warning("Not superseded: %s: %s", s.partition, decided.reason)
        if not to_cancel:
            continue
        run.require_go_ahead()
        check()
        refused = cancel(run, to_cancel)
        cancelled |= as_texts({p: reason for p, reason in to_cancel.items() if p not in refused})
        kept |= {p: str(refusal) for p, refusal in refused.items()}
    view = _look_until(run, batch.partitions, lambda seen: not any(str(p) in cancelled for p in seen.in_flight))
    return view, kept


@dataclass(frozen=True, slots=True)
class LeftBetween:
    """What the superseded reassignment has left between two assignments: ``to`` which of these each goes.

    What can reach neither stays so: ``factors`` has the number of replicas that it had before.
    """

    to: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    factors: Mapping[TopicPartition, int] = field(default_factory=dict)


def left_between(run: RunContext) -> LeftBetween:
    """Return what the superseded reassignment has left between two assignments, and where each goes.

    To the target where that is safe, so that no copy is lost, else back. What can reach neither now is logged.

    Raises:
        RecordDamagedError: nobody can tell what it has left.
    """
    left = steps_of_superseded(run)
    if not left.steps:
        return LeftBetween()
    view = confirmed_view(run, left.steps)
    decided = _settling(left, view)
    _log_what_stays(run, decided)
    wholes = {s.partition: left.wholes.get(s.partition, s.reassignment) for s in left.steps}
    staying = [p for p in (*decided.stranded, *decided.left) if p in view.partitions]
    # What another client has made of a partition has the number of replicas that it is to have.
    ours = [p for p in staying if p not in decided.of_others]
    return LeftBetween(decided.to_submit, {p: len(wholes[p].current) for p in ours})


def give_back(run: RunContext) -> tuple[str, str]:
    """Release the lock of a reassignment that ends before its first batch; return what the superseded one has left, and its id.

    That one is stopped, and nobody else would say that its moves are still in flight or half-way. Both are empty where
    nothing is.
    """
    left = _left_by_superseded(run)
    run.release_lock()
    return left


def _left_by_superseded(run: RunContext) -> tuple[str, str]:
    left = known_steps_of_superseded(run)
    if not left.steps:
        return "", ""
    try:
        decided = settling(left.steps, observe(run.cluster, [s.partition for s in left.steps]), wholes=left.wholes)
    except ClusterUnavailableError as error:
        run.log.warning("What is left half-way is not known: %s", error)
        found = "partitions that may be"
    else:
        there = {*decided.unsettled, *decided.left}
        if not there:
            return "", ""
        found = f"{len(there)} partitions ({name_some(sorted(there))})"
    whose = run.record.superseded()[0].reassignment_id
    return (
        (
            f"Reassignment {whose}, which was superseded, is stopped with {found} in flight or half-way. Let it go on with "
            f"{RESUME_DAG_ID}, or settle them with {CANCEL_DAG_ID}, reassignment_id {whose}"
        ),
        whose,
    )


def settle_superseded(
    run: RunContext, event: AuditDraft, *, among: Collection[TopicPartition] | None = None
) -> Mapping[TopicPartition, str]:
    """Settle what the superseded reassignment has left: nobody else would. Return what cannot be settled now, and why.

    Each partition goes to where the plan counts on it, else to either end of its reassignment: moves in flight are
    cancelled where that is safe, and what is between two assignments goes to one of them; nothing is copied. A slice at
    a time, each right after a look at its ISR, as drops are. A move in flight that is planned again, and that no cancel
    brings to where it is planned from, is left to its batch. So is, before the first batch, what is half-way and
    planned from elsewhere than the end that it would go to: there its steps would be stale. From the slice on before
    which it has lost the lock of the cluster, or was stopped, this only looks.

    Args:
        run: of the reassignment that has superseded it.
        event: gets what was done; nothing where nothing was.
        among: only these partitions, at each look of what waits for them; what stays of them is not logged. None for
            all.

    Raises:
        RecordDamagedError: nobody can tell what it has left.
    """
    superseded = superseded_by(run.record)
    left = steps_of_superseded(run)
    if among is not None:
        left = left.only(among)
    if not left.steps:
        return {}
    partitions = [s.partition for s in left.steps]
    planned = read_targets_of(run.record.plan_ref(), partitions)
    counted_on = _replicas_in_snapshot(run, partitions) | {p: move.current for p, move in planned.items()}
    may_act = True
    done: dict[str, str] = {}
    unsettled: dict[TopicPartition, str] = {}
    ends: dict[TopicPartition, Replicas] = {}
    of_others: set[TopicPartition] = set()
    on_the_way: dict[TopicPartition, str] = {}
    for part in in_slices(left.steps, run.controller.slice_size):
        view = observe(run.cluster, [s.partition for s in part])
        # Read after the look: another try may have settled it, and a batch may have been submitted since.
        is_begun = run.record.submitted(1) is not None
        decided = _settling(steps_of_superseded(run).only({s.partition for s in part}), view, counted_on)
        if among is None:
            _log_what_stays(run, decided)
        to_cancel = {
            p: why
            for p, why in decided.cancels.to_cancel.items()
            if p not in planned or view.in_flight[p].original == counted_on[p]
        }
        to_submit = {
            p: replicas
            for p, replicas in decided.to_submit.items()
            if is_begun or p not in planned or set(replicas) == set(counted_on[p])
        }
        unsettled |= {p: why for p, why in decided.unsettled.items() if p not in planned}
        ends |= decided.ends(view)
        of_others |= decided.of_others - planned.keys()  # what is planned is for its batch
        may_act = may_act and run.may_act
        if not may_act:
            continue
        note_taken_back(run, superseded, left.wholes, to_submit)
        refused = {**cancel(run, to_cancel, view), **submit(run, view, to_submit, None)}
        unsettled |= {p: str(refusal) for p, refusal in refused.items() if p in unsettled}
        done |= {str(p): f"cancelled: {why}" for p, why in to_cancel.items() if p not in refused}
        done |= {str(p): f"to {format_brokers(r)}" for p, r in to_submit.items() if p not in refused}
    if done:
        event.facts["settled_of_superseded"] = done
        settled = [TopicPartition.parse(p) for p in done]
        view = _look_until(run, settled, lambda view: not view.in_flight)
        ends |= settling([s for s in left.steps if str(s.partition) in done], view, wholes=left.wholes).ends(view)
        run.note_replicas_after(event, settled)
        on_the_way = {p: "in flight to where it settles" for p in view.in_flight if p not in planned}
    if may_act:
        note_settled_of(run, superseded, ends, of_others)
    return {p: why for p, why in unsettled.items() if str(p) not in done} | on_the_way


def left_half_way(run: RunContext) -> dict[TopicPartition, str]:
    """Return what the superseded reassignment has left between two assignments for good: either would take copies; and why."""
    left = known_steps_of_superseded(run)
    if not left.seen_steps:
        return {}
    view = observe(run.cluster, [s.partition for s in left.seen_steps])
    return dict(settling(left.steps, view, wholes=left.wholes, theirs=left.left_to_others).left)


def _replicas_in_snapshot(run: RunContext, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Replicas]:
    """Where the frozen plan was made from; nothing where it was made without a snapshot, as a roll back is."""
    try:
        return read_replicas(snapshot_of(run.record.plan_uri), partitions)
    except FileNotFoundError:
        return {}


def _settling(left: StoppedSteps, view: View, counted_on: Mapping[TopicPartition, Replicas] | None = None) -> Settling:
    return settling(
        left.steps,
        view,
        wholes=left.wholes,
        onward=True,
        ends={**(counted_on or {}), **left.back},
        steps_unknown=left.back,
    )


def _log_what_stays(run: RunContext, decided: Settling) -> None:
    for partition, why in {**decided.cancels.carry_on, **decided.stranded, **decided.left}.items():
        run.log.warning("%s stays as the superseded reassignment has left it: %s", partition, why)


def _look_until(run: RunContext, partitions: Collection[TopicPartition], is_so: Callable[[View], bool]) -> View:
    for _ in range(LOOKS):
        run.sleep(CONFIRM_SECONDS)
        view = observe(run.cluster, tuple(partitions))
        if is_so(view):
            break
    return view


def _in_the_way(steps: Iterable[Step], view: View) -> list[Step]:
    """Return the steps whose partitions are in flight to somewhere else, or never get there."""
    return [s for s in steps if phase(s, view).phase in {Phase.FOREIGN, Phase.STUCK}]


def _bytes_behind(
    run: RunContext, partitions: list[TopicPartition], view: View
) -> dict[TopicPartition, dict[int, int]]:
    """By partition and broker, how much less there is than on the fullest replica."""
    brokers = {b for p in partitions for b in view.partitions[p].replicas} & view.live_brokers
    report = run.cluster.describe_log_dirs(sorted(brokers), partitions)
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for replica in report.replicas:
        if not replica.is_future:
            sizes.setdefault(replica.partition, {})[replica.broker] = replica.size_bytes
    return {p: {b: max(s.values()) - size for b, size in s.items()} for p, s in sizes.items()}
