"""Stopping a reassignment, or some of its partitions: cancel what is in flight, settle all of it, clear the throttle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import chain

from kafka_reassignment.advice import Advice, Correct, WaitUntil
from kafka_reassignment.decisions.cancel import Settling
from kafka_reassignment.decisions.samples import sample_of
from kafka_reassignment.decisions.stuck import stuck_brokers
from kafka_reassignment.errors import (
    InvalidRequestError,
    RecordDamagedError,
    ThrottleInUseError,
    UnsafeDropError,
    name_some,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.record.operator_commands import RunCommand, WithdrawCommand
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.moves import confirmed_view, format_reasons
from kafka_reassignment.steps.base.view import observe
from kafka_reassignment.steps.base.waiting import Done, Waiting, WaitResult, waiting_step
from kafka_reassignment.steps.stopped.settle import (
    WAITS_FOR_BROKERS,
    CancelResult,
    act,
    ending,
    goes_without_at,
    refuse_resumed,
    to_free_controller,
    what_settles,
)
from kafka_reassignment.steps.stopped.settled_notes import note_settled, orders_to_note
from kafka_reassignment.steps.stopped.stopped_steps import moves_of_others, stopped_steps
from kafka_reassignment.steps.stuck import to_get_on
from kafka_reassignment.steps.throttle import throttle_in_words
from kafka_reassignment.steps.throttling.kept_throttle import restore_or_raise


def stop(run: RunContext, scope: CancelScope, *, by: str, reason: str = "", roll_back: bool = False) -> None:
    """Order that the reassignment does nothing more, or that some of its partitions take no further part.

    Safe at any time and to repeat. Steps of it that run at this moment end before their next submission. ``roll_back``
    says that it is rolled back afterwards.

    Raises:
        InvalidRequestError: there is no such reassignment, and nothing foreign is asked for, or a roll back; or this
            run has stopped it before, and it was resumed since; or moves of others are meant too, and the controller
            cannot cancel.
        UnknownTopicOrPartitionError: a name fits nothing.
    """
    known = run.record.exists
    if not known:
        _refuse_unknown(run, scope, roll_back=roll_back)
    with run.audited("stop") as event:
        event.facts = {
            "partitions": list(scope.partitions),
            "topics": list(scope.topics),
            "foreign": scope.foreign,
            "reason": reason,
        }
        if scope.foreign and not run.controller.can_cancel:
            raise _cannot_cancel_foreign(run.record)
        if roll_back and not scope.is_whole:
            raise InvalidRequestError(
                "'roll_back' is asked for together with 'partitions' or 'topics', expected it with neither: all of a reassignment is "
                "rolled back. Nothing was stopped",
                Correct(
                    "ask without 'roll_back', and trigger the job roll_back with these topics once the reassignment has ended"
                ),
            )
        planned = _planned(run.record, scope) if known else ()
        if not scope.is_whole:
            in_flight = run.cluster.list_reassignments()
            scope.check(
                [*planned, *filter(scope.has, in_flight)],
                lambda: chain(_planned(run.record, CancelScope(topics=("*",))) if known else (), in_flight),
            )
            if not planned and not scope.foreign:
                raise _moved_by_others_alone(sorted(filter(scope.has, in_flight)))
        if not known:
            event.summary = "only moves that were started elsewhere are meant; there is nothing to stop"
        elif scope.is_whole:
            _order_to_stop(run, scope, by=by, reason=reason)
            event.summary = f"stopped by {by}" + (f": {reason}" if reason else "")
        else:
            freed_before = _freed_before(run) if scope.foreign else set[str]()
            freed = _freed(run, scope, planned, freed_before)
            # Of a finished one, only moves of others can be meant.
            taken_out = [] if scope.foreign and run.record.is_reported else [p for p in planned if p not in freed]
            withdrawn = run.record.withdrawn_partitions()
            new = tuple(str(p) for p in taken_out if str(p) not in withdrawn)
            if new and run.record.is_reported:
                raise InvalidRequestError(
                    f"Reassignment {run.record.reassignment_id} is finished, so no partition of it can be withdrawn. Nothing was "
                    "changed",
                    Correct("trigger the job roll_back with these topics to move them back"),
                )
            newly_freed = {str(p) for p in freed} - freed_before
            if new or (newly_freed and not run.record.is_reported):
                command = WithdrawCommand(at=run.now(), by=by, partitions=new, freed=tuple(sorted(newly_freed)))
                run.record.withdraw_commands.append(command)
            event.facts["freed"] = [str(p) for p in sorted(freed)]
            event.summary = f"{len(taken_out)} partitions withdrawn by {by}: {name_some(taken_out)}"
            if freed:
                event.summary += (
                    f"; {len(freed)} keep their part and are freed of another client's move: {name_some(sorted(freed))}"
                )


def _freed(
    run: RunContext, scope: CancelScope, planned: Collection[TopicPartition], before: Collection[str]
) -> set[TopicPartition]:
    """Return the planned partitions that a cancel frees of another client's move: that is not to give up one's own.

    Those that an earlier call has freed are among them: the move may have ended since.
    """
    if not scope.foreign:
        return set()
    moved = moves_of_others(run, RecordView(run.record), scope)
    return {p for p in planned if p in moved or str(p) in before}


def _freed_before(run: RunContext) -> set[str]:
    """What earlier calls have freed, and no batch has begun with since."""
    freed_at = {p: command.at for command in run.record.withdraw_commands.all() for p in command.freed}
    recorded = RecordView(run.record)
    plan = recorded.plan_in_force() if freed_at else None
    for number in range(1, (plan.batches if plan else 0) + 1):
        if (note := recorded.found(number)) is not None:
            begun = {p for p in note.partitions if p in freed_at and note.at > freed_at[p]}
            freed_at = {p: at for p, at in freed_at.items() if p not in begun}
    return set(freed_at)


def _order_to_stop(run: RunContext, scope: CancelScope, *, by: str, reason: str) -> None:
    """Order the stop, unless it is ordered already; a run that has asked for it before stops nothing that was resumed since."""
    own = run.actor.run_id
    asked = any(command.stopped and command.is_of(run.actor) for command in run.record.run_commands.all())
    if asked or (own and run.record.has_joined_stop(own)):
        refuse_resumed(run, RecordView(run.record), scope)
    order = RunCommand(at=run.now(), by=by, run_id=own, stopped=True, reason=reason, notes_taken_back=True)

    def decide(last: RunCommand | None) -> tuple[RunCommand | None, bool]:
        # A second order would make void what was settled since the first one.
        is_stopped = last is not None and last.stopped
        return (None if is_stopped else order), is_stopped

    joined = run.record.run_commands.change(decide)
    if joined and own and not asked:
        run.record.note_joined_stop(own)


def _throttle_in_words(run: RunContext, recorded: RecordView) -> str:
    """As ``throttle_in_words``; a damaged journal must not keep a move from being cancelled."""
    try:
        return throttle_in_words(run, recorded)
    except RecordDamagedError as error:
        run.log.warning("%s", error)
        return f"; {error}"


def cancel_moves(run: RunContext, scope: CancelScope) -> CancelResult:
    """Cancel what is in flight where that is safe, and bring back what is in between; say what each leaves.

    Looks and acts once; ``settle_moves`` goes on until all is settled.

    Raises:
        InvalidRequestError: the reassignment was resumed; its moves are not for this step to cancel.
    """
    with run.audited("cancel_moves") as event:
        recorded = RecordView(run.record)
        refuse_resumed(run, recorded, scope)
        _throttle_in_words(run, recorded)
        result, *_ = act(run, recorded, scope)
        event.facts, event.summary = dict(vars(result)), result.in_words
        _note_replicas_after(run, event, result)
        return result


@waiting_step
def settle_moves(run: RunContext, scope: CancelScope, started_at: datetime) -> WaitResult:
    """Wait until everything in scope is settled, at its current or at its target replicas.

    Each look cancels and submits what can be settled now, with an audit event of its own. The last one notes where they
    are: what others make of them from then on is theirs. When nothing of a whole reassignment is left but what waits
    for brokers that are down, and none of that is in flight, it waits ``wait_for_broker_minutes`` more: that stays
    between two assignments then, so that another reassignment can replace these brokers.

    ``Failed`` with:
        InvalidRequestError: the reassignment was resumed; its moves are not for this step to cancel.
        UnsafeDropError: something is not settled at the deadline.
    """
    recorded = RecordView(run.record)
    refuse_resumed(run, recorded, scope)
    about_throttle = _throttle_in_words(run, recorded)
    orders = orders_to_note(run, recorded, scope)
    result, decided, view = act(run, recorded, scope)

    def done(settled: Settling) -> Done:
        if run.record.exists:
            # What has more replicas than before is noted when it is reported.
            ends = {p: r for p, r in settled.ends(view).items() if p not in settled.above}
            note_settled(run, recorded, scope, orders, ends, settled.of_others)
        return Done(_settled_text(settled), facts=vars(result))

    if decided.complete:
        return done(decided)
    if result.has_acted:
        event = AuditDraft(summary=result.in_words, facts=dict(vars(result)))
        _note_replicas_after(run, event, result)
        run.write_event("cancel_moves", None, run.now(), event)
    waiting = decided.unsettled
    deadline = started_at + _time_to_settle(run)
    ends_at = _goes_without_at(run, recorded, scope, decided) if run.record.exists else None
    if ends_at is not None:
        if run.now() >= ends_at:
            return done(decided.leaving())
        text = f"{_waiting_text(decided)}; they stay so from {ends_at:%H:%M:%S} UTC on{about_throttle}"
        return Waiting(text, until=ends_at)
    if run.now() >= deadline:
        raise UnsafeDropError(
            f"{len(waiting)} partitions did not settle in time: {format_reasons(waiting)}. They stay under the throttle",
            *_to_settle(run, recorded, scope, waiting),
            scope.again(run.record),
        )
    return Waiting(_waiting_text(decided) + about_throttle, until=deadline)


def _note_replicas_after(run: RunContext, event: AuditDraft, result: CancelResult) -> None:
    if result.has_acted:
        acted = (*result.cancelled, *result.settled)
        run.note_replicas_after(event, [TopicPartition.parse(p) for p in acted])


def _goes_without_at(run: RunContext, recorded: RecordView, scope: CancelScope, decided: Settling) -> datetime | None:
    """When a stop ends without what waits for brokers that are down; None where it waits for anything else, or is not of the whole."""
    if not (scope.is_whole and recorded.stopped() is not None and decided.waits_for_brokers_alone):
        return None
    known = goes_without_at(run, recorded)
    if known is not None:
        return known
    summary = f"only brokers that are down are waited for: {format_reasons(decided.stranded)}"
    run.write_event(WAITS_FOR_BROKERS, None, run.now(), AuditDraft(summary=summary))
    return goes_without_at(run, recorded)


def clear_after_stop(run: RunContext, scope: CancelScope) -> None:
    """Restore the throttle configs of a stopped reassignment that nothing needs any more.

    Raises:
        InvalidRequestError: the reassignment was resumed.
        ThrottleInUseError: partitions are not settled; those that copy keep their throttle.
    """
    with run.audited("clear_throttle") as event:
        recorded = RecordView(run.record)
        refuse_resumed(run, recorded, scope)
        if not scope.is_whole or not run.record.exists:
            event.outcome, event.summary = "skipped", "the rest of the reassignment goes on under its throttle"
            return
        _throttle_in_words(run, recorded)
        stopped = stopped_steps(run, recorded, scope)
        decided = ending(run, recorded, stopped, confirmed_view(run, stopped.seen_steps), scope)
        waiting = decided.unsettled
        restored = restore_or_raise(run, event)
        if waiting:
            raise ThrottleInUseError(
                f"The replication throttle is not cleared as a whole: {len(waiting)} of {len(stopped.steps)} partitions are not "
                f"settled: {format_reasons(waiting)}. What copies keeps its throttle",
                *_to_settle(run, recorded, scope, waiting),
                scope.again(run.record),
            )
        event.summary = str(restored)
        if theirs := [p for p in restored.copying if p in decided.cancels.foreign]:
            event.summary = f"another client moves {name_some(theirs)}; {event.summary}"


def _not_there(run: RunContext) -> str:
    """Say which reassignment is not there: that of this run's own id is meant where none is named."""
    if run.record.reassignment_id == run.actor.run_id:
        return f"No reassignment is named, and none has the lock of cluster {run.record.cluster_id}: there is none"
    return f"There is no reassignment {run.record.reassignment_id} of cluster {run.record.cluster_id}"


def _refuse_unknown(run: RunContext, scope: CancelScope, *, roll_back: bool) -> None:
    """Refuse what needs a reassignment that is there. No event says so: where a share is away, it would hide that."""
    if scope.foreign and roll_back:
        raise InvalidRequestError(
            f"{_not_there(run)} to roll back", Correct("name one as 'reassignment_id', or ask without 'roll_back'")
        )
    if scope.foreign:
        return
    record, text = run.record, f"{_not_there(run)} to stop"
    correction = "name one as 'reassignment_id', or set 'foreign' to cancel moves that were started elsewhere"
    if record.has_store:
        raise InvalidRequestError(text, Correct(correction))
    raise InvalidRequestError(
        f"{text}, nor any record of that cluster at {record.root.parent}",
        Correct(f"mount the share of the records again if there should be any, else {correction}"),
    )


def _cannot_cancel_foreign(record: Record) -> InvalidRequestError:
    return InvalidRequestError(
        f"'foreign' is asked for, expected a request without it: cluster {record.cluster_id} is below Kafka 2.4, whose controller "
        "cannot cancel what another client has submitted. Nothing was stopped",
        Correct("ask without 'foreign' where a reassignment of your own is to be stopped"),
        WaitUntil("the moves of other clients are done"),
        Correct("move back what they have moved, by a request of the job apply_json with the replicas of before"),
    )


def _moved_by_others_alone(partitions: Sequence[TopicPartition]) -> InvalidRequestError:
    return InvalidRequestError(
        f"This reassignment does not move {name_some(partitions)}; another client does. Nothing was stopped",
        Correct("set 'foreign' to cancel moves that were started elsewhere, or name partitions of this reassignment"),
    )


def _to_settle(
    run: RunContext, recorded: RecordView, scope: CancelScope, partitions: Collection[TopicPartition]
) -> tuple[Advice, ...]:
    """What partitions wait for that does not come by itself: brokers, min.insync.replicas not above the replicas of an end, a rate.

    Last of all the controller itself, where another client's batch keeps it busy.
    """
    seen = observe(run.cluster, tuple(partitions))
    advice = list(what_settles(stopped_steps(run, recorded, scope), seen))
    if not advice and run.record.exists:
        behind = {p: out for p, s in seen.partitions.items() if (out := tuple(b for b in s.replicas if b not in s.isr))}
        brokers = seen.live_brokers.intersection(b for out in behind.values() for b in out)
        sample = sample_of(run.cluster.describe_log_dirs(sorted(brokers), tuple(behind)), at_seconds=0.0)
        advice += to_get_on(run, recorded, behind, seen, stuck_brokers(behind, seen, sample))
    return (*advice, *to_free_controller(run, partitions))


def _settled_text(decided: Settling) -> str:
    text = f"{len(decided.settled)} partitions settled"
    for those, what in (
        (decided.left, "stay between two assignments"),
        (decided.cancels.foreign, "left to others, who move them"),
    ):
        text += f"; {len(those)} {what}: {format_reasons(those)}" if those else ""
    return text


def _time_to_settle(run: RunContext) -> timedelta:
    """As long as a batch may take."""
    return timedelta(minutes=run.request.catch_up_timeout_minutes if run.record.exists else 24 * 60)


def _waiting_text(decided: Settling) -> str:
    waiting = {**decided.cancels.carry_on, **decided.stranded}
    return f"{len(decided.settled)} partitions settled; waiting: {format_reasons(waiting) or 'to see what was submitted done'}"


def _planned(record: Record, scope: CancelScope) -> list[TopicPartition]:
    if scope.is_whole or record.frozen_plan() is None:
        return []
    return [move.partition for move in read_target(record.plan_ref()) if scope.has(move.partition)]
