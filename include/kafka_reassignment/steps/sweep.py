"""Paying what reassignments that are over still owe to the cluster's configs (KIP-179).

A throttle may outlive its reassignment: a broker was down when it was cleared, a run was deleted in the middle. The
journals have each value that is ours and what was there before, so it is put back whenever that can be done.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_reassignment.errors import (
    ReassignmentError,
    ReassignmentInProgressError,
    RecordDamagedError,
    ThrottleInUseError,
)
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.throttle import throttle_in_words
from kafka_reassignment.steps.throttling.kept_throttle import restore_or_raise
from kafka_reassignment.steps.throttling.restore import adopt_debts

LONGEST_HELD = timedelta(hours=1)
"""A step that needs the lock for some seconds, and has had it for so long, died with it: nobody else releases it."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """By reassignment: what became of its debts, in words; ``left`` are those that still owe something.

    ``for_a_person`` are the errors that no later sweep gets over: objects that cannot be read (what is owed by them is
    not known, or its payment not recorded), moves that Kafka never completes, which keep a throttle in place, and the
    lock of a step that died with it.
    """

    summaries: dict[str, str]
    left: tuple[str, ...] = ()
    for_a_person: tuple[ReassignmentError, ...] = ()


def sweep(run: RunContext, *, by: str) -> Sweep:
    """Restore the throttle configs of every reassignment of this cluster that is over and still owes some.

    The cluster is locked during the sweep, so that no reassignment begins in between; where one is at work nothing is
    restored, because it pays the debts of earlier ones itself. They are taken over for it where it has not done so. What
    that one has in flight is made sure to be throttled: its last task may have failed, or been stopped, and then nobody
    else looks. What still copies because of
    an earlier one keeps its throttle. A damaged object of one reassignment, or a move that never ends, keeps none of
    the others waiting.

    Raises:
        RecordDamagedError: the lock of the cluster is not readable.
        ReassignmentInProgressError: another one has locked the cluster since the look.
    """
    journals = run.store.open_journals(run.record.cluster_id)
    for error in journals.damaged:
        run.log.warning("Its debts are not known: %s", error)
    owing = [record for record, journal in journals.found if not journal.is_over]
    if not owing:
        run.release_lock()  # of a try that died when all was paid
        return Sweep({}, for_a_person=journals.damaged)
    if (lock_owner := run.lock_of_another()) is not None:
        busy = f"the cluster is locked by {lock_owner.reassignment_id} since {lock_owner.since:%Y-%m-%d %H:%M} UTC"
        dead = _died_with_the_lock(run, lock_owner)
        summaries = {r.reassignment_id: busy for r in owing}
        own = replace(run, record=run.store.record(run.record.cluster_id, lock_owner.reassignment_id))
        if _has_taken_over(own) or lock_owner.reassignment_id in summaries:
            summaries[lock_owner.reassignment_id] = busy + throttle_in_words(own, RecordView(own.record))
        return Sweep(summaries, for_a_person=(*journals.damaged, *dead))
    for record in owing:
        with suppress(RecordDamagedError):  # named below, where it is paid
            throttle_in_words(replace(run, record=record), RecordView(record))
    summaries = {}
    for_a_person: list[ReassignmentError] = list(journals.damaged)
    run.take_lock(requested_by=by)
    try:
        for record in owing:
            try:
                summaries[record.reassignment_id] = _pay(run, record)
            except (RecordDamagedError, ThrottleInUseError) as error:
                for_a_person.append(error)
    finally:
        run.release_lock()
    left = tuple(r.reassignment_id for r in owing if not r.journal().is_settled)
    return Sweep(summaries, left, tuple(for_a_person))


def _has_taken_over(own: RunContext) -> bool:
    """Take over what is owed for the reassignment that has the lock, and return whether that was anything.

    Its preflight may have died before it did. Then nobody else looks after what copies of the one that it supersedes.
    """
    with suppress(RecordDamagedError):  # its own tasks name it
        return own.record.exists and not own.request.validate_only and bool(adopt_debts(own))
    return False


def _died_with_the_lock(run: RunContext, owner: ClusterLock) -> tuple[ReassignmentError, ...]:
    """What is to be done where the owner of the lock is no reassignment, and has had it for too long."""
    cluster_id = run.record.cluster_id
    if run.store.is_locked_for_long(cluster_id, owner) or run.now() - owner.since <= LONGEST_HELD:
        return ()
    locked = run.store.locked_by(owner, cluster_id)
    return (ReassignmentInProgressError(locked.problem, *locked.advice),)  # no retry outlasts it


def _pay(run: RunContext, record: Record) -> str:
    """Restore what one reassignment owes, and say what is left.

    Raises:
        ThrottleInUseError: a move that Kafka never completes keeps some of it in place, whoever's it is. What still
            copies, or waits for a broker that is down, is waited for.
    """
    own = replace(run, record=record)
    with own.audited("sweep_throttle") as event:
        restored = restore_or_raise(own, event)
        if restored.stuck:
            problem = (
                f"What reassignment {record.reassignment_id} owes is not restored as a whole: {restored.hung_in_words}"
            )
            raise ThrottleInUseError(problem, *restored.advice)
        event.summary = str(restored)
        return event.summary
