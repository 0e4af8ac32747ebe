"""A new target over moves in flight (KIP-236): cancel them where that is safe, then the usual steps begin.

What the superseded reassignment has in flight is cancelled by the batch that moves it anew. What it has left between two
assignments, with old and new replicas in sync and nothing in flight, is brought to one of them before the first batch: else
nobody would ever drop the replicas that are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kafka_reassignment.decisions.cancel import settling
from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.decisions.supersede import SupersedeAction, supersede
from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.model import Batch, Replicas, TopicPartition, View
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.cancel_scope import CancelScope
from kafka_reassignment.steps.context import AuditDraft, RunContext
from kafka_reassignment.steps.moves import as_texts, cancel, confirmed_view, submit
from kafka_reassignment.steps.stopped_steps import stopped_steps
from kafka_reassignment.steps.view import CONFIRM_SECONDS, observe

LOOKS = 20
"""A cancelled move leaves the controller's list at once; brokers' metadata follows within a quarter of a second."""


def supersede_foreign(
    run: RunContext, batch: Batch, view: View, event: AuditDraft
) -> tuple[View, dict[TopicPartition, str]]:
    """Cancel what others (or an earlier reassignment) are doing to this batch's partitions, if the request asks for it.

    Returns what is seen then, and for each partition that stays as it is why a cancel would not be safe.
    """
    in_the_way = [s for s in batch.steps if s.partition in view.in_flight and _in_the_way(phase(s, view).phase)]
    if not in_the_way or not run.request.supersede:
        return view, {}
    lag = _bytes_behind(run, [s.partition for s in in_the_way], view)
    to_cancel: dict[TopicPartition, str] = {}
    kept: dict[TopicPartition, str] = {}
    for s in in_the_way:
        decided = supersede(s.partition, s.reassignment.target, view, lag=lag.get(s.partition))
        if decided.action is SupersedeAction.CANCEL:
            to_cancel[s.partition] = decided.reason
        elif decided.action is SupersedeAction.REFUSED:
            kept[s.partition] = decided.reason
            run.log.warning("Not superseded: %s: %s", s.partition, decided.reason)
    refused = cancel(run, to_cancel)
    event.facts["superseded"] = {p: r for p, r in as_texts(to_cancel).items() if p not in as_texts(refused)}
    cancelled = set(to_cancel) - set(refused)
    view = _look_until(run, batch.partitions, lambda seen: not cancelled & set(seen.in_flight))
    return view, {**kept, **{p: str(refusal) for p, refusal in refused.items()}}


def left_between(run: RunContext) -> dict[TopicPartition, Replicas]:
    """Return what the reassignment that this one supersedes has left between two assignments, and which of these each goes to.

    To the target where that is safe, so that no copy is lost, else back. What can reach neither now is not among them, and is
    logged.
    """
    earlier = _superseded(run)
    if earlier is None:
        return {}
    try:
        stopped = stopped_steps(run.cluster, RecordView(earlier), CancelScope())
    except RecordDamagedError as error:
        run.log.warning("Nobody can tell what %s has left between two assignments: %s", earlier.reassignment_id, error)
        return {}
    view = confirmed_view(run, stopped.steps)
    still = [s for s in stopped.steps if s.partition not in view.in_flight]
    decided = settling(still, view, wholes=stopped.wholes, onward=True)
    for partition, why in {**decided.stranded, **decided.left}.items():
        run.log.warning("%s stays between two assignments: %s", partition, why)
    return dict(decided.to_submit)


def settle_left_between(run: RunContext, event: AuditDraft) -> None:
    """Bring what the superseded reassignment has left between two assignments to one of them; nothing is copied.

    A slice at a time, each right after a look at its ISR, as drops are.
    """
    settled: dict[TopicPartition, Replicas] = {}
    for part in in_slices(sorted(left_between(run)), run.controller.slice_size):
        due = {p: r for p, r in left_between(run).items() if p in part}
        refused = submit(run, observe(run.cluster, tuple(due)), due, None)
        settled |= {p: r for p, r in due.items() if p not in refused}
    if settled:
        _look_until(run, settled, lambda view: not view.in_flight)
        event.facts["settled"] = {str(p): list(r) for p, r in settled.items()}


def _superseded(run: RunContext) -> Record | None:
    """The reassignment from which this one took the lock of the cluster, in one step."""
    series = run.store.lock(run.record.cluster_id)
    number, owner = series.last()
    before = series.owner_at(number - 1) if number > 1 and run.is_own(owner) else None
    if before is None or run.is_own(before):
        return None
    return run.store.record(run.record.cluster_id, before.reassignment_id)


def _look_until(run: RunContext, partitions: Collection[TopicPartition], is_so: Callable[[View], bool]) -> View:
    for _ in range(LOOKS):
        run.sleep(CONFIRM_SECONDS)
        view = observe(run.cluster, tuple(partitions))
        if is_so(view):
            break
    return view


def _in_the_way(at: Phase) -> bool:
    return at in {Phase.FOREIGN, Phase.STUCK}


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
