"""In the place of the Spark planner: random valid moves, cut into steps and batches by the product's pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from tests.simulation.caches import once
from tests.simulation.tables import SNAPSHOTS

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.batching import batches_of
from kafka_reassignment.errors import InfeasiblePlanError, InvalidReplicationFactorError
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.plan.schemas import STEPS, TARGET
from kafka_reassignment.plan.steps import batching_columns, steps_table
from kafka_reassignment.plan.store import clear_plan, write_batches, write_summary, write_target
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries, summary_of_batches
from kafka_reassignment.request import Job, ReassignmentRequest


def plan(_session: object, snapshot_dir: str, request: ReassignmentRequest, out_dir: str) -> PlanSummary:
    """Plan as ``kafka_reassignment.planner.pipeline.plan`` does, with random moves where the job leaves a choice."""
    from tests.simulation.seam import PRESENT

    snapshot = SNAPSHOTS[snapshot_dir]
    current = {p: state.replicas for p, state in snapshot.partitions.items()}
    live = snapshot.description.live_brokers
    kept = current | {
        p: _of_size(current[p], n, sorted(live), PRESENT.world.planner_rng)
        for p, n in snapshot.factors.items()
        if p in current
    }
    wanted = _targets(request, kept, live, snapshot.facts, PRESENT.world.planner_rng)
    sizes = _sizes(snapshot.log_dirs)
    changes = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "current": list(current[p]),
            "target": list(target),
            "size_bytes": sizes.get(p, 0),
        }
        for p, target in sorted(wanted.items())
        if p in current and tuple(target) != tuple(current[p])
    ]
    dead = tuple(sorted({b for replicas in current.values() for b in replicas}.difference(live)))
    return write_plan(pa.Table.from_pylist(changes, schema=TARGET), request, len(current), out_dir, dead)


def write_plan(
    changes: pa.Table, request: ReassignmentRequest, partitions: int, out_dir: str, dead: tuple[int, ...] = ()
) -> PlanSummary:
    """Write the plan's tables and its summary, as the pipeline does."""
    steps, columns, numbers = _cut(changes, request.limits, dead)
    clear_plan(out_dir)
    write_target(out_dir, changes)
    hashes = write_batches(out_dir, steps, numbers)
    batches = batch_summaries(columns, numbers, hashes) if len(steps) else ()
    summary = summary_of_batches(request, batches, changes, partitions_in_cluster=partitions)
    write_summary(out_dir, summary)
    return summary


def _in_batches(changes: pa.Table, limits: Any, dead: tuple[int, ...]) -> tuple[pa.Table, Any, Any]:
    movements = limits.replica_movements
    steps = steps_table(changes, movements, dead_brokers=dead) if len(changes) else STEPS.empty_table()
    columns = batching_columns(steps, dead)
    return steps, columns, batches_of(columns, limits)


_cut = once(_in_batches)


def _sizes(log_dirs: Any) -> dict[TopicPartition, int]:
    report = log_dirs[0] if isinstance(log_dirs, tuple) else log_dirs
    sizes: dict[TopicPartition, int] = {}
    for replica in getattr(report, "replicas", ()):
        sizes[replica.partition] = max(sizes.get(replica.partition, 0), replica.size_bytes)
    return sizes


def _targets(
    request: ReassignmentRequest, current: Mapping[TopicPartition, Replicas], live: Any, facts: Any, rng: Any
) -> dict[TopicPartition, Replicas]:
    asked = {p: r for p, r in sorted(current.items()) if request.asks_about(p.topic)}
    if request.job is Job.APPLY_JSON:
        return dict(parse_plan(str(request.reassignment_json)))
    allowed = sorted(set(live) - set(request.exclude_brokers))
    if request.job is Job.DECOMMISSION:
        left = [b for b in allowed if b not in request.brokers]
        return {p: _without(r, set(request.brokers), left, rng) for p, r in asked.items()}
    if request.job is Job.REPLICATION_FACTOR:
        return {p: _of_size(r, _factor(request, asked, facts), allowed, rng) for p, r in asked.items()}
    if request.job is Job.LEADERS:
        return {p: tuple(rng.sample(r, len(r))) for p, r in asked.items()}
    if request.job in (Job.MOVE_TOPICS, Job.ADD_BROKERS):
        to = [b for b in allowed if b in request.brokers]
        return {p: _moved(r, to if len(to) >= len(r) else allowed, rng) for p, r in asked.items()}
    return {p: _moved(r, allowed, rng) if rng.random() < 0.7 else r for p, r in asked.items()}


def _factor(request: ReassignmentRequest, asked: Mapping[TopicPartition, Replicas], facts: Any) -> int:
    """Return the factor that is asked for; as in the product's planner, none below min.insync.replicas."""
    factor = int(request.replication_factor or 1)
    for topic in sorted({p.topic for p in asked}):
        least = facts[topic].min_insync_replicas if topic in facts else None
        if least is not None and factor < least:
            raise InvalidReplicationFactorError(f"replication_factor is {factor}, topic '{topic}' needs {least}")
    return factor


def _without(replicas: Replicas, gone: set[int], left: list[int], rng: Any) -> Replicas:
    kept = list(replicas)
    for index, broker in enumerate(kept):
        if broker in gone:
            free = [b for b in left if b not in kept]
            if not free:
                raise InfeasiblePlanError(
                    f"no broker is left for a replica of broker {broker}",
                    Correct("add a broker, as the product's planner says"),
                )
            kept[index] = rng.choice(free)
    return tuple(kept)


def _of_size(replicas: Replicas, size: int, allowed: list[int], rng: Any) -> Replicas:
    if len(replicas) >= size:
        kept = sorted(replicas, key=lambda b: b not in allowed)[:size]  # those on live brokers first
        return tuple(b for b in replicas if b in kept)
    free = [b for b in allowed if b not in replicas]
    return (*replicas, *rng.sample(free, min(size - len(replicas), len(free))))


def _moved(replicas: Replicas, allowed: list[int], rng: Any) -> Replicas:
    if len(allowed) < len(replicas):
        return replicas
    return tuple(rng.sample(allowed, len(replicas)))
