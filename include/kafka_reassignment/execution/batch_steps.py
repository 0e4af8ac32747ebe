"""The steps of one batch: admit, throttle, submit, sense, drop, clear, next. Each may run again at any time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from kafka_reassignment.errors import (
    BatchIncompleteError,
    CancelledByOtherError,
    CatchUpTimeoutError,
    NotSubmittedError,
    PartialRefusalError,
    ReassignmentError,
    ReassignmentInProgressError,
    StalePlanError,
    ThrottleInUseError,
    UnsafeDropError,
    error_of,
    name_some,
)
from kafka_reassignment.execution.batches import taking_part, whole_batch
from kafka_reassignment.execution.context import Event, StepContext, StillWaiting
from kafka_reassignment.execution.gates import Gate, waits, why_not_admitted
from kafka_reassignment.execution.holding import require_go_ahead
from kafka_reassignment.execution.moving import (
    DOUBTFUL,
    as_texts,
    cancel,
    confirmed_view,
    left_to_copy,
    slices_of,
    submit,
    told,
    wait_until_settled,
)
from kafka_reassignment.execution.observing import observe
from kafka_reassignment.execution.schedule import revise
from kafka_reassignment.execution.slowing import follow_health
from kafka_reassignment.execution.superseding import supersede_foreign
from kafka_reassignment.execution.taking_turns import busy_with, controller_not_finished, takes_turns
from kafka_reassignment.execution.throttling import adopt_debts, ensure_throttle, restore_configs
from kafka_reassignment.model import Batch, Refusal, Replicas, TopicPartition, View
from kafka_reassignment.planning.cancelling import hung_drops
from kafka_reassignment.planning.moves import (
    Phase,
    catch_up,
    drops_to_submit,
    expansions_to_submit,
    phase,
)
from kafka_reassignment.planning.one_at_a_time import that_can_complete
from kafka_reassignment.record.models import FinishedBatch, SubmittedBatch


def admit(step: StepContext, number: int, started_at: datetime, gate: Gate | None = None) -> None:
    """Let the batch in when nothing speaks against it; the gate is kept between looks by who looks more than once.

    Raises:
        StillWaiting: something does that may pass; the reason says what.
        BatchIncompleteError: an earlier batch is not finished.
        ReassignmentInProgressError: another reassignment has the cluster.
        InfeasiblePlanError, DeadlinePassedError: the maintenance windows never let it in.
    """
    with step.audited("admit", number, started_at=started_at) as event:
        batch = step.batch(number)
        if step.record.finished(number) is not None:
            event.summary = f"batch {number} is finished already; its steps have nothing left to do"
            return
        finished = step.record.finished_batches()
        earlier = [n for n in range(1, number) if n not in finished]
        if earlier:
            raise BatchIncompleteError(
                f"Batch {number} must wait for batch {name_some(earlier)}, which is not finished: steps of one partition "
                "run in order. Rerun the failed step of that batch; the chain reaches this one by itself"
            )
        require_go_ahead(step)
        gate = gate or Gate(number, sleep=step.sleep, now=step.now)
        reasons = gate.reasons(step.cluster, step.record)
        if reasons:
            raise waits(step.record, why_not_admitted(number, reasons), number, step.now())
        event.summary = (
            f"batch {number} admitted: {len(batch.steps)} partitions, {batch.bytes_to_copy / 1e6:.1f} MB to copy"
        )


def set_throttle(step: StepContext, number: int) -> None:
    """Put the batch's throttle in place, journal first; nothing to do when nothing is left to copy."""
    with step.audited("set_throttle", number) as event:
        require_go_ahead(step)
        batch = step.batch(number)
        left = left_to_copy(batch, observe(step.cluster, batch.partitions))
        if not left.steps:
            event.summary = f"batch {number} has nothing left to copy; no throttle is set"
            return
        ensure_throttle(step, left, event)
        event.summary = f"throttle of batch {number} in place"


def submit_batch(step: StepContext, number: int) -> None:
    """Submit the expansions the controller has not been told of yet, under the throttle.

    Stale partitions and those the controller refuses are left out of the batch and reported; the rest
    goes on.

    Raises:
        PartialRefusalError, or the error of the one kind: the controller refused every partition.
        ReassignmentInProgressError: the controller takes one batch at a time, and has another.
        ThrottleMissingError: the throttle could not be put in place.
    """
    with step.audited("submit_batch", number) as event:
        require_go_ahead(step)
        batch = step.batch(number)
        view = confirmed_view(step, batch.steps, DOUBTFUL - {Phase.NOT_SUBMITTED})
        view, kept = supersede_foreign(step, batch, view, event)
        wanted = expansions_to_submit(batch, view)
        if wanted.to_submit:
            ensure_throttle(step, left_to_copy(batch, view), event)
        to_submit = wanted.to_submit
        if to_submit and takes_turns(step.cluster):
            to_submit = that_can_complete(batch, view, to_submit)
        refused = submit(step, view, to_submit)
        if busy := busy_with(refused):
            raise ReassignmentInProgressError(f"Batch {number} was not submitted: {busy} Then rerun this step")
        left_out = as_texts({**wanted.stale, **wanted.foreign, **kept, **wanted.waiting, **refused})
        step.record.write_submitted(
            number,
            SubmittedBatch(
                submitted_at=step.now(),
                accepted=tuple(str(p) for p in batch.partitions if str(p) not in left_out),
                left_out=left_out,
                comes_again=tuple(str(p) for p in (*wanted.waiting, *wanted.foreign)),
            ),
        )
        event.facts |= {
            "submitted": {str(p): list(r) for p, r in to_submit.items()},
            "replicas_before": {str(p): list(s.replicas) for p, s in sorted(view.partitions.items())},
            "left_out": left_out,
        }
        event.summary = f"{len(to_submit) - len(refused)} expansions submitted" + (
            f"; left out {len(left_out)}: {name_some(f'{p}: {r}' for p, r in left_out.items())}" if left_out else ""
        )
        if refused and len(refused) == len(batch.steps):
            raise _all_refused(batch, refused)
        for partition, reason in left_out.items():
            step.log.warning("Left out of batch %d: %s: %s", number, partition, reason)


def sense_isr_catch_up(step: StepContext, number: int, started_at: datetime) -> None:
    """Return when the ISR of every partition of the batch holds its whole target.

    Raises:
        StillWaiting: some replicas are still catching up.
        NotSubmittedError: the batch was never submitted.
        CancelledByOtherError: somebody cancelled a move of ours.
        CatchUpTimeoutError: the time the request allows is over.
    """
    with step.audited("sense_isr_catch_up", number, started_at=started_at) as event:
        require_go_ahead(step)
        batch = taking_part(step.record, step.batch(number))
        view = confirmed_view(step, batch.steps)
        seen = catch_up(batch, view, submitted=step.record.submitted(number) is not None)
        if seen.not_submitted:
            raise NotSubmittedError(
                f"Batch {number}: {name_some(seen.not_submitted)} of {len(batch.steps)} partitions were never submitted. "
                "Rerun submit_batch first"
            )
        if seen.cancelled_by_other:
            raise CancelledByOtherError(
                f"Batch {number}: the reassignment of {name_some(seen.cancelled_by_other)} is gone though the adding "
                "replicas are not there: somebody else cancelled it. Find out who (Cruise Control does so when it starts, "
                "unless auto.stop.external.agent is false), then rerun submit_batch and what follows"
            )
        if seen.stale:
            raise StalePlanError(
                f"Batch {number}: {told(seen.stale)}. Somebody else has moved these partitions meanwhile. Rerun "
                "submit_batch and what follows: it leaves them out and goes on with the rest"
            )
        if seen.complete:
            if unfinished := controller_not_finished(step.cluster, view):
                raise StillWaiting(f"batch {number}: every target is in sync, but {unfinished}")
            event.summary = f"batch {number}: {len(seen.in_sync)} partitions have their whole target in sync"
            return
        follow_health(step)
        ensure_throttle(step, left_to_copy(batch, view), event)
        if step.now() >= deadline(step, started_at):
            raise CatchUpTimeoutError(
                f"Batch {number}: {len(seen.waiting)} of {len(batch.steps)} partitions did not catch up within "
                f"{step.record.opening().request.catch_up_timeout_minutes} min: {told(seen.waiting)}. They go on under the "
                "throttle. Raise the rate or mend the broker, then rerun this step"
            )
        raise waits(step.record, _waiting_text(number, batch, seen.waiting, seen.blocked), number, step.now())


def drop_old_replicas(step: StepContext, number: int) -> None:
    """Submit the targets of the batch, each slice right after a look at its ISR.

    Raises:
        UnsafeDropError: some partitions cannot be dropped now; those that could were.
        NotSubmittedError: the batch was never submitted.
    """
    with step.audited("drop_old_replicas", number) as event:
        require_go_ahead(step)
        batch = taking_part(step.record, step.batch(number))
        if step.record.submitted(number) is None:
            raise NotSubmittedError(
                f"Batch {number} was never submitted: nothing can be dropped. Rerun submit_batch first"
            )
        view = _freed(step, batch, confirmed_view(step, batch.steps), event)
        if view.in_flight:
            ensure_throttle(step, left_to_copy(batch, view), event)
        dropped: dict[TopicPartition, Replicas] = {}
        kept: dict[TopicPartition, str] = {}
        refused: dict[TopicPartition, Refusal] = {}
        for part in slices_of(batch):
            now = observe(step.cluster, part.partitions)
            wanted = drops_to_submit(part, now)
            kept |= wanted.waiting
            refused |= submit(step, now, wanted.to_submit)
            dropped |= wanted.to_submit
            if busy_with(refused):
                break
        event.facts |= {
            "submitted": {str(p): list(r) for p, r in dropped.items()},
            "replicas_before": {str(p): list(s.replicas) for p, s in sorted(view.partitions.items())},
            "refused": as_texts(refused),
            "kept": as_texts(kept),
        }
        if refused:
            raise PartialRefusalError(len(dropped) - len(refused), refused, "Mend the cause and rerun this step")
        if kept:
            raise UnsafeDropError(
                f"Batch {number}: old replicas of {len(kept)} partitions were kept: {told(kept)}. The other "
                f"{len(dropped)} are dropped. Rerun sense_isr_catch_up and what follows"
            )
        wait_until_settled(step, batch)
        event.summary = f"batch {number}: {len(dropped)} partitions brought to their target"


def _freed(step: StepContext, batch: Batch, view: View, event: Event) -> View:
    """Cancel earlier drops of ours that hang for ever, so that their targets can be submitted again."""
    hung = hung_drops(batch.steps, view)
    if not hung:
        return view
    step.log.warning("Kafka never completes these, as somebody else's move was under way: cancelled: %s", told(hung))
    event.facts["freed"] = as_texts(hung)
    cancel(step, list(hung))
    return confirmed_view(step, batch.steps)


def clear_throttle(step: StepContext, number: int) -> None:
    """Restore what the throttle replaced; refuse while our moves are in flight, fail when the batch is not done.

    Raises:
        ThrottleInUseError: moves of ours are in flight; nothing was cleared.
        BatchIncompleteError: cleared, but the batch is not at its target.
    """
    with step.audited("clear_throttle", number) as event:
        whole = whole_batch(step.record, number)
        view = confirmed_view(step, whole.steps)
        ours = [s.partition for s in whole.steps if s.partition in view.in_flight and phase(s, view).ours]
        if ours:
            raise ThrottleInUseError(
                f"Refusing to clear the replication throttle: {len(ours)} of {len(whole.steps)} partitions of batch "
                f"{number} are still reassigning ({name_some(ours)}). Without the throttle they would copy at full speed. "
                "Rerun the failed step: the batch goes on from where it is, and this task with it"
            )
        if step.record.opening().request.supersede:
            event.facts["debts_taken_over"] = list(adopt_debts(step))
        owed = restore_configs(step, event)
        taking = taking_part(step.record, step.batch(number))
        at = {s.partition: phase(s, view) for s in taking.steps}
        undone = {p: f"{now.phase}: {now.reason}" for p, now in at.items() if now.phase not in {Phase.DONE, Phase.GONE}}
        event.summary = "earlier throttle values restored" + (f"; still owed: {name_some(owed)}" if owed else "")
        if undone:
            raise BatchIncompleteError(
                f"The throttle is cleared, but batch {number} is not done: {len(undone)} of {len(taking.steps)} partitions "
                f"are not at their target: {told(undone)}. Rerun submit_batch and what follows: they do what is left, and "
                "leave out what somebody else has moved meanwhile"
            )
        submitted = step.record.submitted(number)
        step.record.write_finished(
            FinishedBatch(
                number=number,
                partitions=len(taking.steps),
                bytes_copied=taking.bytes_to_copy,
                started_at=submitted.submitted_at if submitted else step.now(),
                finished_at=step.now(),
                left_out=submitted.left_out if submitted else {},
            )
        )


def next_batch(step: StepContext, number: int) -> int | None:
    """Return the number of the batch to start next, or None after the last.

    Raises:
        BatchIncompleteError: this batch is not finished.
    """
    with step.audited("start_next_batch", number) as event:
        if step.record.finished(number) is None:
            raise BatchIncompleteError(
                f"Batch {number} is not finished, so batch {number + 1} must not start. Clear the failed tasks of this run"
            )
        revise(step, number, event)
        if number >= step.plan().batches:
            event.outcome, event.summary = "skipped", f"batch {number} was the last one"
            return None
        event.summary = f"starting batch {number + 1} of {step.plan().batches}"
        return number + 1


def deadline(step: StepContext, started_at: datetime) -> datetime:
    """Return when a wait that began then is over."""
    return started_at + timedelta(minutes=step.record.opening().request.catch_up_timeout_minutes)


def _all_refused(batch: Batch, refused: Mapping[TopicPartition, Refusal]) -> ReassignmentError:
    """The error of the one kind there is (KIP-179), else of all of them together."""
    next_step = "Nothing of this batch was started; mend the cause and rerun this step"
    if len({refusal.code for refusal in refused.values()}) > 1:
        return PartialRefusalError(0, refused, next_step)
    doing = f"every one of the {len(refused)} partitions of batch {batch.number} ({name_some(sorted(refused))})"
    return error_of(next(iter(refused.values())), doing, next_step)


def _waiting_text(
    number: int, batch: Batch, waiting: Mapping[TopicPartition, object], blocked: Mapping[TopicPartition, str]
) -> str:
    done = len(batch.steps) - len(waiting)
    text = f"batch {number}: {done} of {len(batch.steps)} partitions in sync"
    return text + (f"; blocked: {told(blocked)}" if blocked else "")
