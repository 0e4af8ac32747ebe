"""A plan in words: one line of it, and the card by which people approve it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafka_reassignment.plan.risks import risks
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.plan.time_bound import time_bound
from kafka_reassignment.request import ReassignmentRequest

SHOWN_TOPICS = 50
"""Topics whose replication factor changes, in the text that people approve by."""

SHOWN_BROKERS = 30
"""Rows of the table that people approve by; the record has all of them."""


def headline(summary: PlanSummary) -> str:
    """Return a plan in one line."""
    if summary.is_empty:
        return f"{summary.job}: nothing to do, the cluster is as asked for"
    return (
        f"{summary.job}: {summary.partitions} of {summary.partitions_in_cluster} partitions in "
        f"{len(summary.batches)} batch{'' if len(summary.batches) == 1 else 'es'}, {summary.bytes_to_copy / 1e9:.3f} GB to copy (lower bound {summary.lower_bound_bytes / 1e9:.3f} GB)"
    )


def score_card(summary: PlanSummary, request: ReassignmentRequest, ends: str = "") -> str:
    """Return a plan as Markdown, for the person who approves it: what, how long, what bounds it, risks, brokers, topics.

    Args:
        summary: of the plan.
        request: that it was made for.
        ends: when it is expected to be over if it is approved as soon as it is planned.
    """
    lines = [f"**{headline(summary)}**", ""]
    if summary.seconds_at_rate is not None:
        about = timedelta(seconds=summary.seconds_at_rate)
        lines.append(f"* Time: about {about} at {request.throttle_mb_per_second:g} MB/s for each broker")
    if ends:
        within = ", with the maintenance windows" if request.maintenance.has_windows else ""
        lines.append(f"* Approved as soon as it was planned{within}, {ends}")
    if bound := time_bound(summary, request.throttle_bytes_per_second):
        lines.append(f"* {' '.join(bound)}")
    lines += [
        f"* Leaders: {summary.leader_changes} preferred leaders change",
        *([_balance(summary)] if summary.brokers else []),
        *(f"* **Risk.** {text}" for text in risks(summary, request)),
        f"* Plan `{summary.plan_hash}`. Only this plan runs",
        "",
        *([*_brokers(summary), ""] if summary.brokers else []),
        *(f"* Replication factor: {text}" for text in summary.factor_changes[:SHOWN_TOPICS]),
    ]
    if (more := len(summary.factor_changes) - SHOWN_TOPICS) > 0:
        lines.append(f"* Replication factor: {more} more topics change, see the report's JSON")
    lines += [*(f"* Assumed: {text}" for text in summary.assumptions)]
    lines += [f"* Left unbalanced: {text}" for text in summary.left_unbalanced]
    return "\n".join(lines).strip()


def _balance(summary: PlanSummary) -> str:
    outside = f"{summary.outside_before} brokers are outside the tolerance of {summary.tolerance:.0%} now"
    return f"* Balance: {outside}, {summary.outside_after} after"


def _brokers(summary: PlanSummary) -> Iterator[str]:
    yield "| broker | rack | GB now | GB after | replicas now | after | leaders now | after |"
    yield "|-|-|-|-|-|-|-|-|"
    changed = sorted(summary.brokers, key=lambda b: -abs(b.bytes_after - b.bytes_before))[:SHOWN_BROKERS]
    for b in sorted(changed, key=lambda b: b.broker):
        yield (
            f"| {b.broker}{'' if b.alive else ' (down)'} | {b.rack or '-'} | {b.bytes_before / 1e9:.3f} | {b.bytes_after / 1e9:.3f} "
            f"| {b.replicas_before} | {b.replicas_after} | {b.leaders_before} | {b.leaders_after} |"
        )
    if len(summary.brokers) > SHOWN_BROKERS:
        yield f"\nThe {SHOWN_BROKERS} brokers that change most of {len(summary.brokers)}."
