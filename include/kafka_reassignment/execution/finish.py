"""After the last batch: leaders, verification, report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_reassignment.errors import VerificationError, name_some
from kafka_reassignment.execution.context import StepContext
from kafka_reassignment.execution.moving import as_texts, told
from kafka_reassignment.execution.observing import observe, tiered_topics
from kafka_reassignment.model import Reassignment, TopicPartition, View
from kafka_reassignment.planning.moves import verification
from kafka_reassignment.planning.tiering import too_cold_to_lead
from kafka_reassignment.request import Job
from kafka_reassignment.spark.plan_io import read_target

SLICE = 200
"""Partitions per election or look: each election stalls the producers of its partitions for a moment (F35)."""


def elect_leaders(step: StepContext) -> None:
    """Make the preferred leader of every planned partition lead where it does not and is in sync (KIP-460)."""
    with step.audited("elect_leaders") as event:
        elected: list[str] = []
        refused: dict[str, str] = {}
        cold: dict[TopicPartition, str] = {}
        for moves in _slices(read_target(step.record.plan_uri)):
            view = observe(step.cluster, [m.partition for m in moves])
            due = [
                m.partition
                for m in moves
                if (state := view.partitions.get(m.partition)) is not None
                and state.replicas
                and state.leader != state.replicas[0]
                and state.replicas[0] in state.isr
            ]
            if not due:
                continue
            keep = _too_cold(step, view, due)
            cold |= keep
            due = [p for p in due if p not in keep]
            if not due:
                continue
            for partition, refusal in step.cluster.elect_preferred_leaders(due).items():
                if refusal is None:
                    elected.append(str(partition))
                else:
                    refused[str(partition)] = str(refusal)
        event.summary = f"{len(elected)} preferred leaders elected" + (
            f", {len(refused)} refused: {name_some(f'{p} ({r})' for p, r in refused.items())}" if refused else ""
        )
        if cold:
            event.summary += (
                f"; {len(cold)} keep their leader until the new replica has more of their tiered topic on its own disk: "
                f"{told(cold)}"
            )
        event.facts = {"elected": elected, "refused": refused, "too_cold": as_texts(cold)}


def _too_cold(step: StepContext, view: View, due: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
    tiered = tiered_topics(step.cluster, {p.topic for p in due})
    partitions = [p for p in due if p.topic in tiered]
    if not partitions:
        return {}
    states = [view.partitions[p] for p in partitions]
    brokers = {b for s in states for b in (s.replicas[0], s.leader) if b is not None}
    report = step.cluster.describe_log_dirs(sorted(brokers), partitions)
    local = {(r.partition, r.broker): r.size_bytes for r in report.replicas if not r.is_future}
    return too_cold_to_lead(partitions, view, local)


def verify(step: StepContext) -> None:
    """Compare the cluster with the plan, and the throttle journal with what is still owed.

    Raises:
        VerificationError: something is not as planned; the message names it and the next step.
    """
    with step.audited("verify") as event:
        at_target = gone = 0
        wrong: list[str] = []
        withdrawn = step.record.withdrawn()
        planned: set[TopicPartition] = set()
        for moves in _slices(m for m in read_target(step.record.plan_uri) if str(m.partition) not in withdrawn):
            planned.update(m.partition for m in moves)
            result = verification(moves, observe(step.cluster, [m.partition for m in moves]))
            at_target += len(result.at_target)
            gone += len(result.gone)
            wrong += result.elsewhere.values()
            wrong += [f"{p} is still being reassigned" for p in result.in_flight]
            wrong += [f"{p} is under-replicated" for p in result.under_replicated]
        came_since = [p for p in _left_on_leaving(step) if p not in planned and str(p) not in withdrawn]
        owed = step.record.journal().owed_texts()
        event.summary = f"{at_target} partitions at their target" + (f", {gone} deleted meanwhile" if gone else "")
        event.summary += f", {len(withdrawn)} withdrawn" if withdrawn else ""
        event.facts = {
            "at_target": at_target,
            "gone": gone,
            "withdrawn": sorted(withdrawn),
            "wrong": wrong,
            "came_since": [str(p) for p in came_since],
            "throttle_owed": list(owed),
        }
        if wrong or owed:
            left_out = _left_out(step)
            raise VerificationError(
                f"The reassignment is not as planned: {name_some([*wrong, *owed], 5)}. "
                + (f"Left out on the way: {name_some(left_out, 3)}. " if left_out else "")
                + "Rerun the batch that moves them, or trigger a new reassignment for what is left; then rerun verify"
            )
        if came_since:
            brokers = name_some(step.record.opening().request.brokers, 10)
            raise VerificationError(
                f"All that was planned is done, but broker {brokers} still hosts {len(came_since)} partitions that came "
                f"after the plan ({name_some(came_since)}): do not shut it down. Give the cluster back with "
                "kafka_reassignment_cancel, cordon the broker's log dirs (cordoned.log.dirs, from Kafka 4.3) so that no "
                "more come, and trigger the same decommission again"
            )


def _left_on_leaving(step: StepContext) -> list[TopicPartition]:
    """What the brokers that were to be emptied host all the same: new topics land on them until they are cordoned."""
    request = step.record.opening().request
    if request.job is not Job.DECOMMISSION:
        return []
    leaving = set(request.brokers)
    everything = step.cluster.describe_partitions()
    return [p for p, s in sorted(everything.items()) if leaving & set(s.replicas) and request.asks_about(p.topic)]


def report(step: StepContext) -> str:
    """Write the report, give the cluster back, and return the report's text."""
    with step.audited("report") as event:
        opening, plan = step.record.opening(), step.plan()
        batches = [b for n in range(1, plan.batches + 1) if (b := step.record.finished(n)) is not None]
        elapsed = step.now() - opening.started_at
        moved = sum(b.bytes_copied for b in batches)
        lines = [
            f"Reassignment {opening.reassignment_id} of cluster {opening.cluster_id}",
            f"asked for by {opening.requested_by}: {opening.request.job}",
            (
                f"{len(batches)} batches, {sum(b.partitions for b in batches)} steps, {moved / 1e9:.3f} GB copied "
                f"in {elapsed.total_seconds() / 60:.1f} min"
            ),
            *(f"left out: {text}" for text in _left_out(step)),
            *(f"withdrawn: {partition}" for partition in sorted(step.record.withdrawn())),
        ]
        text = "\n".join(lines)
        step.record.write_file("report.txt", text.encode())
        step.store.release(step.record.cluster_id, step.record.reassignment_id)
        event.summary = lines[2]
        return text


def _left_out(step: StepContext) -> list[str]:
    plan = step.plan()
    told: dict[str, str] = {}
    for number in range(1, plan.batches + 1):
        submitted = step.record.submitted(number)
        if submitted is not None:
            told = {p: why for p, why in told.items() if p not in submitted.accepted} | submitted.left_out
    return [f"{partition}: {reason}" for partition, reason in told.items()]


def _slices(moves: Iterator[Reassignment]) -> Iterator[Sequence[Reassignment]]:
    part: list[Reassignment] = []
    for move in moves:
        part.append(move)
        if len(part) == SLICE:
            yield part
            part = []
    if part:
        yield part
