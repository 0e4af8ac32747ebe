"""The plan step: snapshot, plan on Spark, freeze."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.execution.context import StepContext
from kafka_reassignment.execution.opening import require_hold
from kafka_reassignment.model import Broker, ClusterDescription, ConfigResource, ConfigValue, PartitionState
from kafka_reassignment.planning.plan_files import render_plan
from kafka_reassignment.record.store import FrozenPlan
from kafka_reassignment.spark.pipeline import PlanSummary, plan
from kafka_reassignment.spark.plan_io import plan_hash, read_summary, read_target
from kafka_reassignment.spark.session import planner_session
from kafka_reassignment.spark.snapshot import TopicFacts, write_snapshot

TOPIC_KEYS = ("min.insync.replicas", "remote.storage.enable")


def make_plan(step: StepContext, *, master: str) -> str:
    """Take a snapshot, plan on Spark, write the JSON files, freeze; return the plan in words.

    A frozen plan is kept as it is. When there can be no plan, the cluster is given back: nothing was
    started.

    Raises:
        InvalidRequestError: no plan meets the request; the message says why.
    """
    with step.audited("plan") as event:
        if step.record.frozen_plan() is None:
            require_hold(step)
            try:
                _plan_and_freeze(step, master)
            except InvalidRequestError:
                step.store.release(step.record.cluster_id, step.record.reassignment_id)
                raise
        summary = read_summary(step.record.plan_uri)
        event.summary = summary.headline()
        event.facts = {"plan_uri": step.record.plan_uri, "assumptions": list(summary.assumptions)}
        return summary.text()


def _plan_and_freeze(step: StepContext, master: str) -> None:
    request = step.record.opening().request
    take_snapshot(step)
    step.log.info("Snapshot written to %s; planning on Spark master %s", step.record.snapshot_uri, master)
    with planner_session(master) as spark:
        summary: PlanSummary = plan(spark, step.record.snapshot_uri, request, step.record.plan_uri)
    moves = list(read_target(step.record.plan_uri))
    step.record.write_file("reassignment.json", render_plan({m.partition: m.target for m in moves}).encode())
    step.record.write_file("rollback.json", render_plan({m.partition: m.current for m in moves}).encode())
    step.record.freeze_plan(
        FrozenPlan(plan_hash=plan_hash(step.record.plan_uri), batches=summary.batches, frozen_at=step.now())
    )


def take_snapshot(step: StepContext) -> None:
    """Write what the planner needs to know of the cluster into the record."""
    description = step.cluster.describe_cluster()
    partitions = step.cluster.describe_partitions()
    step.log.info("%d partitions on %d live brokers", len(partitions), len(description.live_brokers))
    described = with_dead_brokers(description, partitions.values())
    log_dirs = step.cluster.describe_log_dirs(sorted(description.live_brokers))
    topics = sorted({p.topic for p in partitions})
    configs = step.cluster.describe_configs([ConfigResource.topic(t) for t in topics], TOPIC_KEYS)
    facts = {resource.name: _topic_facts(values) for resource, values in configs.items()}
    write_snapshot(described, partitions, log_dirs, facts, step.record.snapshot_uri)


def with_dead_brokers(description: ClusterDescription, states: Iterable[PartitionState]) -> ClusterDescription:
    """Return the description with the brokers that host replicas but are not alive."""
    hosting = {broker for state in states for broker in state.replicas}
    dead = {b: Broker(b, rack=None, alive=False) for b in sorted(hosting - description.brokers.keys())}
    return replace(description, brokers={**description.brokers, **dead})


def _topic_facts(values: Mapping[str, ConfigValue]) -> TopicFacts:
    minimum, remote = values.get("min.insync.replicas"), values.get("remote.storage.enable")
    return TopicFacts(
        min_insync_replicas=int(minimum.value) if minimum and minimum.value else None,
        remote_storage=remote.value == "true" if remote else None,
    )
