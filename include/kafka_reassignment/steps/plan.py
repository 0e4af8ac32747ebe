"""The plan step: snapshot, plan on Spark, freeze."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import ConfigResource, ConfigValue
from kafka_reassignment.plan.inverse import BegunBatch, invert
from kafka_reassignment.plan.reassignment_json import write_reassignment_json
from kafka_reassignment.plan.report import plan_page
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.planner.snapshot import TopicFacts, write_snapshot
from kafka_reassignment.record.models import REPORT, FrozenPlan
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.view import MIN_ISR, REMOTE_STORAGE, log_dirs_and_cordons

SHOWN_BROKERS = 30
"""Rows of the table that people approve by; the record has all of them."""


TOPIC_KEYS = (MIN_ISR, REMOTE_STORAGE)


def make_plan(run: RunContext, *, master: str) -> str:
    """Take a snapshot, plan on Spark, write the JSON files and the report, freeze; return the plan in words.

    A frozen plan is kept as it is. When there can be no plan, the cluster is given back: nothing was
    started.

    Raises:
        InvalidRequestError: no plan meets the request; the message says why.
    """
    with run.audited("plan") as event:
        if run.record.frozen_plan() is None:
            run.require_go_ahead()
            try:
                _plan_and_freeze(run, master)
            except InvalidRequestError:
                run.store.release(run.record.cluster_id, run.record.reassignment_id)
                raise
        summary = read_summary(run.record.plan_uri)
        event.summary = headline(summary)
        event.facts = {"plan_uri": run.record.plan_uri, "assumptions": list(summary.assumptions)}
        return in_words(summary)


def headline(summary: PlanSummary) -> str:
    """Return a plan in one line."""
    if summary.is_empty:
        return f"{summary.job}: nothing to do, the cluster is as asked for"
    return (
        f"{summary.job}: {summary.partitions} of {summary.partitions_in_cluster} partitions in {len(summary.batches)} "
        f"batches, {summary.bytes_to_copy / 1e9:.3f} GB to copy (lower bound {summary.lower_bound_bytes / 1e9:.3f} GB)"
    )


def in_words(summary: PlanSummary) -> str:
    """Return a plan as Markdown, for the person who approves it."""
    lines = [headline(summary), ""]
    if summary.seconds_at_rate is not None:
        lines += [f"About {timedelta(seconds=summary.seconds_at_rate)} at the asked rate.", ""]
    lines += [
        (
            f"Brokers outside the tolerance of {summary.tolerance:.0%}: {summary.outside_before} now, "
            f"{summary.outside_after} after; {summary.leader_changes} preferred leaders change."
        ),
        "",
        "| broker | rack | GB now | GB after | replicas now | after | leaders now | after |",
        "|-|-|-|-|-|-|-|-|",
    ]
    changed = sorted(summary.brokers, key=lambda b: -abs(b.bytes_after - b.bytes_before))[:SHOWN_BROKERS]
    lines += [
        f"| {b.broker}{'' if b.alive else ' (down)'} | {b.rack or '-'} | {b.bytes_before / 1e9:.3f} | {b.bytes_after / 1e9:.3f} "
        f"| {b.replicas_before} | {b.replicas_after} | {b.leaders_before} | {b.leaders_after} |"
        for b in sorted(changed, key=lambda b: b.broker)
    ]
    if len(summary.brokers) > SHOWN_BROKERS:
        lines.append(f"\nThe {SHOWN_BROKERS} brokers that change most of {len(summary.brokers)}.")
    lines += ["", *(f"* Assumed: {text}" for text in summary.assumptions)]
    lines += [f"* Left unbalanced: {text}" for text in summary.left_unbalanced]
    return "\n".join(lines).strip()


def _plan_and_freeze(run: RunContext, master: str) -> None:
    # Imported here, so that the other steps need neither PySpark nor Java.
    from kafka_reassignment.planner.pipeline import plan  # noqa: PLC0415
    from kafka_reassignment.planner.session import planner_session  # noqa: PLC0415

    request = run.request
    if request.job is Job.ROLL_BACK:
        summary = _roll_back(run, request)
    else:
        take_snapshot(run, as_if_cancelled=request.supersede)
        run.log.info("Snapshot written to %s; planning on Spark master %s", run.record.snapshot_uri, master)
        with planner_session(master) as spark:
            summary = plan(spark, run.record.snapshot_uri, request, run.record.plan_uri)
    write_reassignment_json(run.record.plan_uri, str(run.record.root / "reassignment.json"), "target")
    write_reassignment_json(run.record.plan_uri, str(run.record.root / "rollback.json"), "current")
    _write_report(run, summary, request)
    run.record.freeze_plan(FrozenPlan(plan_hash=summary.plan_hash, batches=len(summary.batches), frozen_at=run.now()))


def _write_report(run: RunContext, summary: PlanSummary, request: ReassignmentRequest) -> None:
    title = f"Plan of reassignment {run.record.reassignment_id} of cluster {run.record.cluster_id}"
    page = plan_page(summary, title=title, bytes_per_second=request.throttle_bytes_per_second)
    run.log.info("Report for people: %s", run.record.write_file(REPORT, page.encode()))


def _roll_back(run: RunContext, request: ReassignmentRequest) -> PlanSummary:
    """The batches of an earlier reassignment that were begun, inverted, newest first (KIP-455)."""
    earlier = run.store.record(run.record.cluster_id, str(request.roll_back_of))
    plan = earlier.plan_in_force()
    begun = [
        BegunBatch(number, earlier.plan_uri_of(number), frozenset(submitted.left_out))
        for number in range(plan.batches if plan else 0, 0, -1)
        if (submitted := earlier.submitted(number)) is not None
    ]
    return invert(begun, request, run.record.plan_uri)


def take_snapshot(run: RunContext, *, as_if_cancelled: bool = False) -> None:
    """Write what the planner needs to know of the cluster into the record.

    With ``as_if_cancelled`` a partition in flight counts as being where a cancel leaves it (KIP-236): that is where
    the reassignment that supersedes the move will find it.
    """
    description = run.cluster.describe_cluster()
    partitions = run.cluster.describe_partitions()
    for partition, flight in run.cluster.list_reassignments().items() if as_if_cancelled else ():
        if partition in partitions:
            partitions[partition] = replace(partitions[partition], replicas=flight.original)
    run.log.info("%d partitions on %d live brokers", len(partitions), len(description.live_brokers))
    log_dirs = log_dirs_and_cordons(run.cluster, sorted(description.live_brokers))
    topics = sorted({p.topic for p in partitions})
    configs = run.cluster.describe_configs([ConfigResource.topic(t) for t in topics], TOPIC_KEYS)
    facts = {resource.name: _topic_facts(values) for resource, values in configs.items()}
    write_snapshot(description, partitions, log_dirs, facts, run.record.snapshot_uri)


def _topic_facts(values: Mapping[str, ConfigValue]) -> TopicFacts:
    minimum, remote = values.get(MIN_ISR), values.get(REMOTE_STORAGE)
    return TopicFacts(
        min_insync_replicas=int(minimum.value) if minimum and minimum.value else None,
        remote_storage=remote.value == "true" if remote else None,
    )
