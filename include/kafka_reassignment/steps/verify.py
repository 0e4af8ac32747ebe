"""After the last batch: verification and the report."""

from __future__ import annotations

from kafka_reassignment.decisions.moves import verification
from kafka_reassignment.errors import VerificationError, name_some
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import in_slices
from kafka_reassignment.request import Job
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.moves import SLICE
from kafka_reassignment.steps.view import observe


def verify(run: RunContext) -> None:
    """Compare the cluster with the plan, and the throttle journal with what is still owed.

    Raises:
        VerificationError: something is not as planned; the message names it and the next step.
    """
    with run.audited("verify") as event:
        at_target = gone = 0
        wrong: list[str] = []
        withdrawn = run.record.withdrawn_partitions()
        planned: set[TopicPartition] = set()
        for moves in in_slices(
            (m for m in read_target(run.record.plan_uri) if str(m.partition) not in withdrawn), SLICE
        ):
            planned.update(m.partition for m in moves)
            result = verification(moves, observe(run.cluster, [m.partition for m in moves]))
            at_target += len(result.at_target)
            gone += len(result.gone)
            wrong += result.elsewhere.values()
            wrong += [f"{p} is still being reassigned" for p in result.in_flight]
            wrong += [f"{p} is under-replicated" for p in result.under_replicated]
        came_since = [p for p in _left_on_leaving(run) if p not in planned and str(p) not in withdrawn]
        owed = run.record.journal().owed_texts()
        event.summary = f"{at_target} partitions at their target" + (f", {gone} deleted since the plan" if gone else "")
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
            left_out = _left_out(run)
            raise VerificationError(
                f"The reassignment is not as planned: {name_some([*wrong, *owed], 5)}. "
                + (f"Left out on the way: {name_some(left_out, 3)}. " if left_out else "")
                + "Rerun the batch that moves them, or trigger a new reassignment for what is left; then rerun verify"
            )
        if came_since:
            brokers = name_some(run.request.brokers, 10)
            raise VerificationError(
                f"All that was planned is done, but broker {brokers} still hosts {len(came_since)} partitions that came "
                f"after the plan ({name_some(came_since)}): do not shut it down. Give the cluster back with "
                "kafka_reassignment_cancel, cordon the broker's log dirs (cordoned.log.dirs, from Kafka 4.3) so that no "
                "more come, and trigger the same decommission again"
            )


def _left_on_leaving(run: RunContext) -> list[TopicPartition]:
    """What the brokers that were to be emptied host all the same: new topics land on them until they are cordoned."""
    request = run.request
    if request.job is not Job.DECOMMISSION:
        return []
    leaving = set(request.brokers)
    everything = run.cluster.describe_partitions()
    return [p for p, s in sorted(everything.items()) if leaving & set(s.replicas) and request.asks_about(p.topic)]


def write_report(run: RunContext) -> str:
    """Write the report, give the cluster back, and return the report's text."""
    with run.audited("report") as event:
        recorded, plan = run.recorded, run.plan()
        batches = [b for n in range(1, plan.batches + 1) if (b := run.record.finished(n)) is not None]
        elapsed = run.now() - recorded.started_at
        moved = sum(b.bytes_copied for b in batches)
        lines = [
            f"Reassignment {recorded.reassignment_id} of cluster {recorded.cluster_id}",
            f"asked for by {recorded.requested_by}: {recorded.request.job}",
            (
                f"{len(batches)} batches, {sum(b.partitions for b in batches)} steps, {moved / 1e9:.3f} GB copied "
                f"in {elapsed.total_seconds() / 60:.1f} min"
            ),
            *(f"left out: {text}" for text in _left_out(run)),
            *(f"withdrawn: {partition}" for partition in sorted(run.record.withdrawn_partitions())),
        ]
        text = "\n".join(lines)
        run.record.write_file("report.txt", text.encode())
        run.store.release(run.record.cluster_id, run.record.reassignment_id)
        event.summary = lines[2]
        return text


def _left_out(run: RunContext) -> list[str]:
    plan = run.plan()
    left_out: dict[str, str] = {}
    for number in range(1, plan.batches + 1):
        submitted = run.record.submitted(number)
        if submitted is not None:
            left_out = {p: why for p, why in left_out.items() if p not in submitted.accepted} | submitted.left_out
    return [f"{partition}: {reason}" for partition, reason in left_out.items()]
