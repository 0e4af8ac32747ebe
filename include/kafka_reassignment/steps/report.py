"""The report at the end of a reassignment that is verified; with it the cluster is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_reassignment.advice import SWEEP_DAG_ID, Rerun
from kafka_reassignment.errors import VerificationError, name_some
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.record.models import FINAL_REPORT, FinishedBatch
from kafka_reassignment.steps.base.context import RunContext, refuse_stopped
from kafka_reassignment.steps.base.finished import is_finished_reassignment
from kafka_reassignment.steps.left.left_out import left_out_for_good
from kafka_reassignment.steps.supersede import left_half_way
from kafka_reassignment.steps.throttling.restore import split_owed


def write_report(run: RunContext, not_done: Sequence[str] = (), failed: Sequence[str] = ()) -> str:
    """Write the report, release the cluster's lock, and return the report's text.

    Args:
        run: the reassignment.
        not_done: steps of its run before this one that have not succeeded, in their order: the first one is to be rerun
            where it is not verified.
        failed: tasks of its run before this one that have failed, in their order: what the record has of this id is
            then not what this run was to do.

    Raises:
        StoppedError: it was stopped since, and may be rolled back.
        VerificationError: ``verify`` has not succeeded, or a batch is not finished; a person who marks a task does not
            make the end as planned. Or a task has failed.
    """
    if failed and run.record.is_reported:
        raise _not_all_done(run, failed)
    if is_finished_reassignment(run, "report"):
        # An earlier try may have died before it released the lock.
        run.release_lock()
        return (run.record.read_file(FINAL_REPORT) or b"").decode()
    with run.audited("report") as event:
        refuse_stopped(run.record)
        recorded, plan = run.recorded, run.plan()
        _require_verified(run, not_done)
        finished = {n: run.record.finished(n) for n in range(1, plan.batches + 1)}
        if run.has_task("clear_throttle") or run.has_task("start_batches"):  # else no step finishes a batch
            _require_finished(run, finished)
        if failed:
            raise _not_all_done(run, failed)
        batches = [b for b in finished.values() if b is not None]
        elapsed = run.now() - recorded.started_at
        moved = sum(b.bytes_copied for b in batches)
        owed, owed_by_down = split_owed(run.cluster, run.record)
        lines = [
            f"Reassignment {recorded.reassignment_id} of cluster {recorded.cluster_id}",
            f"asked for by {recorded.requested_by}: {recorded.request.job}",
            (
                f"batches: {len(batches)}, steps of partitions: {sum(b.partitions for b in batches)}, copied: {moved / 1e9:.3f} GB; "
                f"it ends {elapsed.total_seconds() / 60:.1f} min after it was asked for"
            ),
            *(f"left out on the way: {partition}: {reason}" for partition, reason in left_out_for_good(run).items()),
            *(f"withdrawn: {partition}" for partition in sorted(run.record.withdrawn_partitions())),
            *(f"left as what was superseded has left it: {p}: {why}" for p, why in left_half_way(run).items()),
            *(f"still owed, and restored by {SWEEP_DAG_ID}: {text}" for text in owed),
            *owed_by_down,
        ]
        text = "\n".join(lines)
        refuse_stopped(run.record)  # also since the look
        run.record.write_file(FINAL_REPORT, text.encode())
        run.release_lock()
        event.summary = lines[2]
        return text


def _require_verified(run: RunContext, not_done: Sequence[str]) -> None:
    latest = run.record.audit.latest(LATEST_EVENTS)
    # Of before a stop that was lifted since: others may have changed anything in between.
    last = next((e for e in latest if e.step == "verify" or (e.step, e.outcome) == ("resume", "succeeded")), None)
    outcome = last.outcome if last is not None and last.step == "verify" else None
    order = run.record.run_commands.last_number()
    if last is not None and last.facts.get("run_command", order) != order:  # the event of a resume may be missing
        outcome = None
    if outcome != "succeeded":
        raise VerificationError(
            f"Reassignment {run.record.reassignment_id} is not verified: its latest verify "
            + ("has not run" if outcome is None else outcome)
            + ", so there is nothing to report as done",
            Rerun(next(iter(not_done), "verify")),
        )


def _require_finished(run: RunContext, finished: Mapping[int, FinishedBatch | None]) -> None:
    if unfinished := [number for number, batch in finished.items() if batch is None]:
        raise VerificationError(
            f"Reassignment {run.record.reassignment_id} is not done: batch {name_some(unfinished)} of {len(finished)} is not "
            "finished, so there is nothing to report as done",
            Rerun(run.locking_task),
        )


def _not_all_done(run: RunContext, failed: Sequence[str]) -> VerificationError:
    return VerificationError(
        f"Not all of the run of reassignment {run.record.reassignment_id} is done: {name_some(failed, 10)} failed",
        Rerun(next(iter(failed))),
    )
