"""What a person should know before a plan is approved: where it comes near a limit, and what it does not protect."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_reassignment.errors import name_some
from kafka_reassignment.plan.summary import LogDirSummary, PlanSummary
from kafka_reassignment.request import Job, ReassignmentRequest

NEARLY_FULL = 0.2
"""A log dir that has less free than this share at the peak is named."""

MANY_LEADERS = 0.25
"""Preferred leaders that change, as a share of the cluster's partitions, from which on it is said."""

SHOWN_DISKS = 5


def risks(summary: PlanSummary, request: ReassignmentRequest) -> tuple[str, ...]:
    """Return sentences, the worst first; none where nothing stands out.

    Args:
        summary: of the plan.
        request: that it was made for.
    """
    return (*_of_min_insync(summary), *_of_disks(summary), *_of_brokers(summary), *_of_request(summary, request))


def _of_min_insync(summary: PlanSummary) -> Iterator[str]:
    if summary.producers_wait:
        yield (
            "Producers wait: those with acks=all stop from the submission until the new replicas are in sync, for as long as the copy "
            f"takes, where a topic has fewer replicas than min.insync.replicas: {name_some(summary.producers_wait)}. Lower "
            "min.insync.replicas of these for that time"
        )
    if summary.below_min_insync:
        yield (
            "Not moved: what would have fewer replicas than min.insync.replicas stays where it is, and the end is red: "
            f"{name_some(summary.below_min_insync)}. First lower min.insync.replicas of these, or raise their replication factor"
        )


def _of_disks(summary: PlanSummary) -> Iterator[str]:
    taking = [(share, log_dir) for log_dir in summary.log_dirs if (share := _free_share(log_dir)) is not None]
    full = sorted(((s, d) for s, d in taking if s < NEARLY_FULL), key=lambda pair: (pair[0], pair[1].broker))
    for share, log_dir in full[:SHOWN_DISKS]:
        free = log_dir.free_at_peak or 0
        left = f"{share:.0%} free ({free / 1e9:.0f} GB)" if free > 0 else f"{-free / 1e9:.0f} GB too little"
        yield f"Disk nearly full: {log_dir.path} of broker {log_dir.broker} has {left} at the peak, before old replicas go"
    if len(full) > SHOWN_DISKS:
        yield f"Disk nearly full: {len(full) - SHOWN_DISKS} more log dirs have less than {NEARLY_FULL:.0%} free at the peak"
    yield from _of_shared_volumes(summary)
    unknown = sorted({d.broker for d in summary.log_dirs if d.bytes_to_take and d.free_bytes is None})
    if unknown:
        yield f"Disks not known: brokers {', '.join(map(str, unknown[:10]))} do not report their free space"


def _of_shared_volumes(summary: PlanSummary) -> Iterator[str]:
    """Name log dirs that would be nearly full if they were on one volume: Kafka reports the bytes of the volume for each (KIP-827).

    Nobody can tell them from equal disks that are filled alike, so nothing is refused for it.
    """
    alike: dict[tuple[int, int, int], list[LogDirSummary]] = {}
    for log_dir in summary.log_dirs:
        if log_dir.bytes_to_take and log_dir.total_bytes and log_dir.free_bytes is not None:
            alike.setdefault((log_dir.broker, log_dir.total_bytes, log_dir.free_bytes), []).append(log_dir)
    for (broker, total, free), log_dirs in sorted(alike.items()):
        taken = sum(d.bytes_to_take for d in log_dirs)
        if len(log_dirs) > 1 and free - taken < NEARLY_FULL * total:
            paths = name_some(sorted(d.path for d in log_dirs))
            yield (
                f"Perhaps one volume: {paths} of broker {broker} report the same bytes, and are counted as a volume each. If they share "
                f"one, it gets {taken / 1e9:.0f} GB and has {free / 1e9:.0f} GB free now"
            )


def _free_share(log_dir: LogDirSummary) -> float | None:
    """The share that is free at the peak; None where nothing is copied there or it is not known."""
    if not log_dir.bytes_to_take or not log_dir.total_bytes or log_dir.free_at_peak is None:
        return None
    return log_dir.free_at_peak / log_dir.total_bytes


def _of_brokers(summary: PlanSummary) -> Iterator[str]:
    down = [b.broker for b in summary.brokers if not b.alive and b.replicas_before]
    if down:
        yield f"Brokers down: {', '.join(map(str, down))}; their partitions have a replica less until theirs are copied"
    fewer = [text for text in summary.factor_changes if "(fewer)" in text]
    if fewer:
        yield f"Fewer replicas: {len(fewer)} topics lose replicas, which is less protection"
    if summary.fewer_racks:
        yield (
            f"Fewer racks: the replicas of {summary.fewer_racks} partitions will be in fewer racks than now, so that one rack that "
            "fails takes more of them"
        )
    if summary.leader_changes > MANY_LEADERS * summary.partitions_in_cluster:
        yield (
            f"Many leaders: {summary.leader_changes} of {summary.partitions_in_cluster} preferred leaders change; each change "
            "lets producers of its partition wait for a moment"
        )


def _of_request(summary: PlanSummary, request: ReassignmentRequest) -> Iterator[str]:
    if request.unthrottled and summary.bytes_to_copy:
        yield "No throttle: the copies may take all the bandwidth of the brokers"
    if request.supersede:
        yield "Supersedes: moves in flight that are in the way are cancelled, and a running reassignment is replaced"
    if request.allowed_unhealthy_partitions:
        yield f"Unhealthy cluster: it starts with up to {request.allowed_unhealthy_partitions} unhealthy partitions"
    if request.job is Job.APPLY_JSON:
        yield "A plan of your own: racks and balance are as the file has them"
