"""A new target over moves in flight (KIP-236): cancel them where that is safe, then the usual steps begin."""

from __future__ import annotations

from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.decisions.supersede import SupersedeAction, supersede
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.steps.context import AuditDraft, RunContext
from kafka_reassignment.steps.moves import as_texts, cancel
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
    for _ in range(LOOKS):
        run.sleep(CONFIRM_SECONDS)
        view = observe(run.cluster, batch.partitions)
        if not cancelled & set(view.in_flight):
            break
    return view, {**kept, **{p: str(refusal) for p, refusal in refused.items()}}


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
