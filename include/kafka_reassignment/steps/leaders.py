"""Preferred leaders after the last batch (KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_reassignment.decisions.tiering import too_cold_to_lead
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import TopicPartition, View
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import in_slices
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.moves import SLICE, as_texts, format_reasons
from kafka_reassignment.steps.view import observe, tiered_topics


def elect_leaders(run: RunContext) -> None:
    """Make the preferred leader of every planned partition lead where it does not and is in sync (KIP-460)."""
    with run.audited("elect_leaders") as event:
        elected: list[str] = []
        refused: dict[str, str] = {}
        cold: dict[TopicPartition, str] = {}
        for moves in in_slices(read_target(run.record.plan_uri), SLICE):
            view = observe(run.cluster, [m.partition for m in moves])
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
            keep = _too_cold(run, view, due)
            cold |= keep
            due = [p for p in due if p not in keep]
            if not due:
                continue
            for partition, refusal in run.cluster.elect_preferred_leaders(due).items():
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
                f"{format_reasons(cold)}"
            )
        event.facts = {"elected": elected, "refused": refused, "too_cold": as_texts(cold)}


def _too_cold(run: RunContext, view: View, due: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
    tiered = tiered_topics(run.cluster, {p.topic for p in due})
    partitions = [p for p in due if p.topic in tiered]
    if not partitions:
        return {}
    states = [view.partitions[p] for p in partitions]
    brokers = {b for s in states for b in (s.replicas[0], s.leader) if b is not None}
    report = run.cluster.describe_log_dirs(sorted(brokers), partitions)
    local = {(r.partition, r.broker): r.size_bytes for r in report.replicas if not r.is_future}
    return too_cold_to_lead(partitions, view, local)
