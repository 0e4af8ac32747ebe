"""A plan's summary, from its columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_reassignment.decisions.batching.columns import ABSENT, NOBODY, Flags, Longs, StepColumns
from kafka_reassignment.decisions.brokers import excluded_in_vain
from kafka_reassignment.errors import name_some
from kafka_reassignment.plan.columns import longs, replica_matrix
from kafka_reassignment.plan.hash import plan_hash
from kafka_reassignment.plan.steps import adding
from kafka_reassignment.plan.summary import (
    BatchSummary,
    BrokerSummary,
    MoveSummary,
    PlanSummary,
    factor_changes,
    fewer_racks,
    seconds_at_rate,
    short_of_min_insync,
)
from kafka_reassignment.planner.goals import LEADER_TOLERANCE, leader_room
from kafka_reassignment.planner.resolve import ResolvedRequest
from kafka_reassignment.planner.rounds import Assignment
from kafka_reassignment.planner.senders import sent_alone
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.planner.space import log_dirs_at_peak

MAX_BIGGEST_MOVES = 20
"""Moves that the summary lists one by one."""


def summarize(
    resolved: ResolvedRequest,
    assignment: Assignment,
    snapshot: Snapshot,
    steps: StepColumns,
    batches: tuple[BatchSummary, ...],
) -> PlanSummary:
    """Return the plan's summary."""
    changes, fleet, request = assignment.changes, resolved.fleet, resolved.request
    current, target = replica_matrix(changes["current"]), replica_matrix(changes["target"])
    size = longs(changes["size_bytes"])
    new = fleet.index_of(adding(current, target))
    copies = new != ABSENT
    received = np.zeros(fleet.size, dtype=np.int64)
    np.add.at(received, new[copies], np.broadcast_to(size[:, None], copies.shape)[copies])
    sent = np.zeros(fleet.size, dtype=np.int64)
    sends = steps.sender != NOBODY
    np.add.at(sent, fleet.index_of(steps.sender[sends]), steps.bytes_to_copy[sends])
    alone = sent_alone(changes, fleet)
    before, after, share = assignment.before, assignment.after, assignment.band.share
    racks = snapshot.brokers["rack"].to_pylist()
    brokers = tuple(
        BrokerSummary(
            broker=int(fleet.ids[b]),
            rack=racks[b],
            alive=bool(fleet.alive[b]),
            share_bytes=round(share[b]) if resolved.takes_part[b] else None,
            bytes_before=int(before.bytes[b]),
            bytes_after=int(after.bytes[b]),
            replicas_before=int(before.replicas[b]),
            replicas_after=int(after.replicas[b]),
            leaders_before=int(before.leaders[b]),
            leaders_after=int(after.leaders[b]),
            bytes_received=int(received[b]),
            bytes_sent=int(sent[b]),
            bytes_sent_alone=min(int(alone[b]), int(sent[b])),
        )
        for b in range(fleet.size)
    )
    copied = size * copies.sum(axis=1)
    producers_wait, below_min_insync = short_of_min_insync(changes, snapshot.min_insync_replicas)
    return PlanSummary(
        job=request.job,
        mode=request.mode,
        tolerance=request.tolerance,
        plan_hash=plan_hash(b.steps_hash for b in batches),
        partitions_in_cluster=assignment.measures.partitions,
        partitions=len(changes),
        bytes_to_copy=int(copied.sum()),
        lower_bound_bytes=assignment.lower_bound,
        leader_changes=int((current[:, 0] != target[:, 0]).sum()),
        outside_before=int(_outside(assignment, resolved, before.bytes).sum()),
        outside_after=int(_outside(assignment, resolved, after.bytes).sum()),
        seconds_at_rate=seconds_at_rate(batches, request.throttle_bytes_per_second),
        brokers=brokers,
        batches=batches,
        log_dirs=log_dirs_at_peak(snapshot.log_dirs, dict(zip(fleet.ids.tolist(), received.tolist(), strict=True))),
        biggest_moves=_biggest(changes, copied),
        assumptions=snapshot.assumptions + _assumptions(assignment, resolved),
        factor_changes=factor_changes(changes),
        producers_wait=producers_wait,
        below_min_insync=below_min_insync,
        fewer_racks=fewer_racks(changes, dict(zip(fleet.ids.tolist(), racks, strict=True))),
        left_unbalanced=_outside_tolerance(resolved, assignment) + _leading_too_much(resolved, assignment),
    )


def _biggest(changes: pa.Table, copied: Longs) -> tuple[MoveSummary, ...]:
    most = np.argsort(-copied, kind="stable")[:MAX_BIGGEST_MOVES]
    rows = changes.take(most[copied[most] > 0])
    return tuple(
        MoveSummary(
            topic=row["topic"],
            partition=row["partition"],
            current=tuple(row["current"]),
            target=tuple(row["target"]),
            bytes_to_copy=bytes_,
        )
        for row, bytes_ in zip(rows.to_pylist(), copied[most].tolist(), strict=False)
    )


def _outside(assignment: Assignment, resolved: ResolvedRequest, load: Longs) -> Flags:
    band = assignment.band
    outside: Flags = resolved.takes_part & ((load > band.high) | (load < band.low))
    return outside


def _assumptions(assignment: Assignment, resolved: ResolvedRequest) -> tuple[str, ...]:
    unknown = assignment.measures.unknown_sizes
    sizes = f"{unknown} partitions have no known size (no broker that hosts them reported one): they count as empty."
    excluded = excluded_in_vain(resolved.request.exclude_brokers, resolved.fleet.ids.tolist())
    return (*([sizes] if unknown else []), *([f"{excluded}."] if excluded else []))


def _outside_tolerance(resolved: ResolvedRequest, assignment: Assignment) -> tuple[str, ...]:
    outside = np.flatnonzero(_outside(assignment, resolved, assignment.after.bytes))
    if not len(outside):
        return ()
    if resolved.balances_bytes:
        why = "there is no replica of the right size that racks, free space and the request's topics allow to move"
    else:
        why = f"job '{resolved.request.job}' in mode '{resolved.request.mode}' moves only what has to move"
    part = assignment.after.bytes / np.maximum(assignment.band.share, 1.0)
    worst = sorted(outside.tolist(), key=lambda b: (-abs(part[b] - 1), b))
    few = ", ".join(f"broker {resolved.fleet.ids[b]} at {part[b]:.2f} of its fair share" for b in worst[:3]) + (
        f" and {len(worst) - 3} more" if len(worst) > 3 else ""
    )
    return (f"{len(worst)} brokers stay outside the tolerance ({few}): {why}.",)


def _leading_too_much(resolved: ResolvedRequest, assignment: Assignment) -> tuple[str, ...]:
    leaders = assignment.after.leaders
    total = assignment.measures.partitions - int(leaders[~resolved.takes_part].sum())
    too_many = np.flatnonzero(resolved.takes_part & (leader_room(leaders, resolved.takes_part, total) < 0))
    if not resolved.request.balances_leaders or not len(too_many):
        return ()
    worst = too_many[np.argsort(-leaders[too_many], kind="stable")].tolist()
    leading = name_some(f"broker {resolved.fleet.ids[b]} leads {leaders[b]}" for b in worst)
    asked = "" if resolved.topics is None else " of the topics that the request is about"
    hosts_dead = bool((~resolved.fleet.alive & (assignment.after.replicas > 0)).any())
    or_dead = ", or partitions have a replica on a dead broker and are not reordered" if hosts_dead else ""
    return (
        (
            f"{len(worst)} brokers still lead more than {1 + LEADER_TOLERANCE:.2f} times the mean ({leading}): no "
            f"reorder of current replicas{asked} helps, because the brokers that could lead more have too few of them{or_dead}."
        ),
    )
