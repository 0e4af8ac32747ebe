"""What steps that move replicas share: looking twice, submitting and cancelling in slices, and reasons in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from kafka_reassignment.decisions.cancel import to_free
from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.decisions.submitted import distorted
from kafka_reassignment.errors import (
    LEFT_ISR,
    RACED,
    OvertakenError,
    ReassignmentError,
    RecordUnavailableError,
    name_some,
    overtaken,
)
from kafka_reassignment.model import Batch, InFlight, PartitionState, Refusal, Replicas, Step, TopicPartition, View
from kafka_reassignment.ports import in_slices, refusals
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.finished import require_unfinished
from kafka_reassignment.steps.base.recorded_batch import taken_up
from kafka_reassignment.steps.base.view import CONFIRM_SECONDS, Observe, observe, observe_twice
from kafka_reassignment.text import format_brokers

SLICE = Controller.slice_size
"""Partitions whose ISR is looked at together before they are dropped, and of one cancel."""

DOUBTFUL = frozenset({Phase.NOT_SUBMITTED, Phase.PARTIALLY_EXPANDED, Phase.STALE})
"""Phases to be seen twice before they are believed: brokers' metadata lags the controller's list, and right after
a move completes it is neither listed nor at its target (up to 0.25 s on Kafka 4.3.1)."""

NOT_IN_FLIGHT = "NO_REASSIGNMENT_IN_PROGRESS"
"""The controller's answer to a cancel of what is not in flight (any more)."""

NO_REPLICA_IN_SYNC = "NO_REPLICA_IN_SYNC"
"""Our own refusal of a cancel after which no replica would be in sync."""


def left_to_copy(batch: Batch, view: View) -> Batch:
    """Return the steps that may still copy: those the throttle is for."""
    over = {Phase.DONE, Phase.GONE, Phase.STALE, Phase.FOREIGN, Phase.CAUGHT_UP}

    def copies(step: Step) -> bool:
        at, adding = phase(step, view).phase, step.reassignment.adding
        # The target may have been submitted itself, with nothing copied yet (``SingleBatchController.submissions``).
        if at is Phase.DROPPING:
            return not view.in_sync(step.partition).issuperset(adding)
        return bool(adding) and at not in over

    return replace(batch, steps=tuple(filter(copies, batch.steps)))


def confirmed_view(
    run: RunContext, steps: Collection[Step], doubtful: frozenset[Phase] = DOUBTFUL, *, look: Observe = observe
) -> View:
    """Look, and look again when a step shows a phase that may only be a broker's old news."""
    return observe_twice(
        run.cluster,
        [s.partition for s in steps],
        lambda view: any(phase(s, view).phase in doubtful for s in steps),
        run.sleep,
        look=look,
    )


@dataclass(frozen=True, slots=True)
class Submitting:
    """What is submitted of a batch.

    ``go_ahead`` is called right before each request with what that asks for, and raises where nothing may be submitted any more.
    """

    batch: Batch
    go_ahead: Callable[[Collection[TopicPartition]], None]


def submit(
    run: RunContext, view: View, targets: Mapping[TopicPartition, Replicas], of: Submitting | None
) -> dict[TopicPartition, Refusal]:
    """Submit in slices and return the refusals.

    KIP-860's guard is on for each partition whose number of replicas stays the same; not where the controller takes one
    request at a time: Kafka has no guard there, and the second request would meet the first. What has no guard is
    looked at right before its slice: where another client has added a replica since the view, or the target has left
    the ISR, nothing is submitted, and ``RACED`` or ``LEFT_ISR`` is the refusal. When the controller stays busy with an
    earlier submission, that is the refusal, and the remaining slices are not submitted. After each slice what is in
    flight is compared with what was meant: where another client's move made something else of it, ours is
    cancelled at once, and ``RACED`` is the refusal.

    Args:
        run: of the reassignment.
        view: on the ground of which it was decided.
        targets: to submit.
        of: the batch. None settles a reassignment that was stopped, and does not wait for a busy controller: its next
            look tries again.

    Raises:
        OvertakenError: another try has carried the batch on since; what was submitted after that is cancelled.
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now; as above.
    """
    refused: dict[TopicPartition, Refusal] = {}
    guarded = run.controller.takes_several
    for changes in (False, True):
        due = {
            p: t for p, t in targets.items() if (not guarded or len(t) != len(view.partitions[p].replicas)) is changes
        }
        for part in in_slices(due, run.controller.slice_size) if due else ():
            asked = {p: due[p] for p in part}
            if changes and guarded:
                changed = _changed_since(run, view, asked)
                asked = {p: target for p, target in asked.items() if p not in changed}
                refused |= changed
                if not asked:
                    continue
            refused |= _submit_when_free(run, view, asked, changes=changes, of=of)
            refused |= _undo_raced(run, view, {p: t for p, t in asked.items() if p not in refused}, of)
            if run.controller.busy_message(refused):
                return refused
    return refused


def _changed_since(
    run: RunContext, view: View, targets: Mapping[TopicPartition, Replicas]
) -> dict[TopicPartition, Refusal]:
    """Return what must not be submitted any more: another client has added a replica since the view, which would be dropped, or a target that was in sync is not."""

    def changed() -> dict[TopicPartition, Refusal]:
        now = run.cluster.describe_partitions(sorted({p.topic for p in targets}))
        found = {p: _change(view, p, target, now[p]) for p, target in targets.items() if p in now}
        return {p: refusal for p, refusal in found.items() if refusal is not None}

    if not changed():
        return {}
    run.sleep(CONFIRM_SECONDS)  # it may be a broker's old news of what was dropped or cancelled
    return changed()


def _change(view: View, partition: TopicPartition, target: Replicas, now: PartitionState) -> Refusal | None:
    if added := {*now.replicas} - {*view.partitions[partition].replicas}:
        what = f"another client has added broker {format_brokers(sorted(added))}"
        return Refusal(RACED, f"{what} since; nothing was submitted")
    left = {*target} - now.isr
    if left and view.in_sync(partition).issuperset(target):
        return Refusal(
            LEFT_ISR, f"broker {format_brokers(sorted(left))} of its target has left the ISR; nothing was submitted"
        )
    return None


def _submit_when_free(
    run: RunContext, view: View, targets: Mapping[TopicPartition, Replicas], *, changes: bool, of: Submitting | None
) -> dict[TopicPartition, Refusal]:
    until = run.now() + timedelta(seconds=run.controller.busy_seconds if of else 0)
    asked, expected = dict(targets), {p: view.partitions[p].replicas for p in targets}
    refused: dict[TopicPartition, Refusal] = {}
    while True:
        if of is not None:
            of.go_ahead(asked)
        replies = run.cluster.alter_reassignments(asked, allow_replication_factor_change=changes, expected=expected)
        refused = {p: r for p, r in refused.items() if p not in asked}
        refused |= refusals(replies)
        asked = {p: targets[p] for p, r in refused.items() if run.controller.is_busy(r)}
        if not asked or run.now() >= until:
            return refused
        run.sleep(0.5)


def _undo_raced(
    run: RunContext, before: View, accepted: Mapping[TopicPartition, Replicas], of: Submitting | None
) -> dict[TopicPartition, Refusal]:
    """Cancel accepted submissions that became something else than was meant; return them as refused.

    Those that came after the batch was finished, or this reassignment had lost the go-ahead, are cancelled, and so are
    those that copy again what was there. Another try has dropped that; where none has gone on, the topic was deleted
    and made anew.

    Raises:
        ReassignmentError: why they came too late.
    """
    if not (accepted and run.controller.can_cancel):
        return {}
    in_flight = run.cluster.list_reassignments(sorted(accepted))
    found = distorted(accepted, before, in_flight)
    error = _came_too_late(run, of) or (_overtaken_since(found.late, of) if found.late else None)
    late = set(found.late)
    if error is not None:
        late |= {p for p, f in in_flight.items() if f.adding and set(f.target) == set(accepted[p])}
        late -= _begun_by_owner(run)
    not_cancelled = cancel(run, {*found.to_cancel, *late})
    _put_in_order(run, in_flight, late - not_cancelled.keys(), of)
    if error is not None:
        raise error
    raced = {p: Refusal(RACED, f"{why}; left alone") for p, why in found.foreign.items()}
    made_anew = {p: f"another client made it anew at the same moment: {why}" for p, why in found.late.items()}
    for partition, why in {**found.to_cancel, **made_anew}.items():
        refusal = not_cancelled.get(partition)
        end = f"a cancel was refused ({refusal})" if refusal else "ours was cancelled, so that no replica is lost"
        raced[partition] = Refusal(RACED, f"{why}; {end}")
    for partition, refusal in raced.items():
        run.log.warning("%s: %s", partition, refusal)
    return raced


def _begun_by_owner(run: RunContext) -> frozenset[TopicPartition]:
    """Return the partitions that the reassignment which has the lock now has submitted: the same move may be its own."""
    owner = run.lock_of_another()
    if owner is None:
        return frozenset()
    return frozenset(
        map(TopicPartition.parse, taken_up([run.store.record(run.record.cluster_id, owner.reassignment_id)]))
    )


def _came_too_late(run: RunContext, of: Submitting | None) -> ReassignmentError | None:
    """Return why nothing of a batch may be submitted any more, as the record shows it right after a request."""
    if of is None:
        return None
    try:
        require_unfinished(run, of.batch.number)
    except RecordUnavailableError:
        return None  # the next look sees what is in flight
    except ReassignmentError as error:
        return error
    return None


def _overtaken_since(late: Mapping[TopicPartition, str], of: Submitting | None) -> ReassignmentError | None:
    """Return the error where another try may have dropped what is copied again; None where none has gone on since the look."""
    error = overtaken(f"what it submitted came too late, and was cancelled: {name_some(late.values())}")
    if of is None:
        return error
    try:
        of.go_ahead(())
    except (OvertakenError, RecordUnavailableError):
        return error
    except ReassignmentError as refusal:
        return refusal
    return None


def _put_in_order(
    run: RunContext,
    were_in_flight: Mapping[TopicPartition, InFlight],
    cancelled: Collection[TopicPartition],
    of: Submitting | None,
) -> None:
    """Give what was cancelled the order of its replicas back: that of the submission stays otherwise.

    Below Kafka 4.1 KIP-860's guard goes by metadata, which may show what was cancelled a moment ago: what it refuses is
    asked again.
    """
    ends = {s.partition: (s.reassignment.target, s.reassignment.current) for s in of.batch.steps} if of else {}
    due = {p: end for p in cancelled for end in ends.get(p, ()) if set(end) == set(were_in_flight[p].original)}
    refused = _refused(run, due)
    if refused:
        run.sleep(CONFIRM_SECONDS)
        refused = _refused(run, {p: due[p] for p in refused})
    for partition, refusal in refused.items():
        run.log.warning(
            "%s: the order %s of its replicas was not put back (%s)", partition, format_brokers(due[partition]), refusal
        )


def _refused(run: RunContext, targets: Mapping[TopicPartition, Replicas]) -> dict[TopicPartition, Refusal]:
    return refusals(run.cluster.alter_reassignments(targets)) if targets else {}


def cancel(
    run: RunContext, partitions: Collection[TopicPartition], seen: View | None = None
) -> dict[TopicPartition, Refusal]:
    """Cancel in slices and return the refusals; what is not in flight any more is none.

    The ISR is looked at right before: a controller with ZooKeeper cancels also what leaves no replica in sync (F15). So
    is the move itself, where ``seen`` is what was decided on: another client may have submitted its own since.
    """
    refused: dict[TopicPartition, Refusal] = {}
    for part in in_slices(dict.fromkeys(partitions), SLICE):
        lost = _lost_by_cancel(run, part, seen)
        refused |= lost
        if due := [p for p in part if p not in lost]:
            replies = run.cluster.alter_reassignments(dict.fromkeys(due))
            refused |= {p: r for p, r in refusals(replies).items() if r.code != NOT_IN_FLIGHT}
    return refused


def _lost_by_cancel(
    run: RunContext, partitions: Sequence[TopicPartition], seen: View | None
) -> dict[TopicPartition, Refusal]:
    states = run.cluster.describe_partitions(sorted({p.topic for p in partitions}))
    in_flight = run.cluster.list_reassignments(partitions)
    of_others = {
        p: Refusal(RACED, f"another client has moved it since: to {format_brokers(flight.target)}")
        for p, flight in in_flight.items()
        if seen is not None and p in seen.in_flight and flight.target != seen.in_flight[p].target
    }
    return of_others | {
        p: Refusal(
            NO_REPLICA_IN_SYNC,
            f"only broker {format_brokers(sorted(state.isr))} is in sync, and a cancel deletes its copy",
        )
        for p, flight in in_flight.items()
        if (state := states.get(p)) and state.isr and not state.isr - set(flight.adding)
    }


def freed(run: RunContext, steps: Collection[Step], view: View, event: AuditDraft, *, of: Batch | None = None) -> View:
    """Cancel moves of ours that lead nowhere (``to_free``), so that the step goes on; return what is seen then.

    Without the lock of the cluster, or once it was stopped, this only looks.

    Args:
        run: of the reassignment.
        steps: of which something was submitted: moves of others are not cancelled.
        view: on the ground of which it is decided.
        event: which says what was cancelled.
        of: what is looked at then; the steps where it is None.
    """
    stuck = to_free(steps, view) if run.controller.can_cancel else {}
    if not stuck or not run.may_act:
        return view
    run.log.warning("These lead nowhere, as something else was under way: cancelled: %s", format_reasons(stuck))
    event.facts["freed"] = as_texts(stuck)
    cancel(run, list(stuck), view)
    return confirmed_view(run, of.steps if of else steps)


def slices_of(batch: Batch) -> list[Batch]:
    """Cut a batch into parts that are submitted together."""
    return [replace(batch, steps=tuple(part)) for part in in_slices(batch.steps, SLICE)]


def format_reasons(reasons: Mapping[TopicPartition, object]) -> str:
    """Return the first few partitions, each with its reason."""
    return name_some(f"{p} ({reason})" for p, reason in reasons.items())


def as_texts(reasons: Mapping[Any, object]) -> dict[str, str]:
    """Return partitions or configs, and reasons, as an audit event or a result holds them."""
    return {str(what): str(reason) for what, reason in reasons.items()}
