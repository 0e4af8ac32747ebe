"""The notes of what a cancel or a successor has found settled: whose they are, and with which order to stop they come."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.model import Reassignment, Replicas, TopicPartition
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext


@dataclass(frozen=True, slots=True)
class Stopped:
    """The record of a reassignment that was stopped, with the number of the order: what is seen of it then is noted with that."""

    record: Record
    number: int


def orders_to_note(run: RunContext, recorded: RecordView, scope: CancelScope) -> tuple[Stopped, ...]:
    """Return whose settled partitions a cancel notes, as ``superseded_by``: of a whole one its own, and what it has superseded.

    A damaged record of another one must not keep this one from being stopped.
    """
    if not (scope.is_whole and run.record.exists):
        return ()
    own = Stopped(run.record, recorded.numbered_run_command()[0])
    try:
        return (own, *superseded_by(run.record))
    except RecordDamagedError as error:
        run.log.warning("What is settled of what was superseded is not noted: %s", error)
        return (own,)


def superseded_by(record: Record) -> tuple[Stopped, ...]:
    """Return the reassignments that one has superseded, and those that had been superseded before; read before a look at them."""
    return tuple(
        stopped
        for earlier in record.superseded()
        for stopped in (Stopped(earlier, earlier.run_commands.last_number()), *superseded_by(earlier))
    )


def note_settled(
    run: RunContext,
    recorded: RecordView,
    scope: CancelScope,
    stopped: Iterable[Stopped],
    ends: Mapping[TopicPartition, Replicas],
    of_others: Collection[TopicPartition],
) -> None:
    """Note where a cancel has found partitions settled, and what it leaves to others, of this reassignment and of those that it has superseded."""
    if scope.is_whole:
        note_settled_of(run, stopped, ends, of_others)
        return
    withdrawn = recorded.withdrawn_partitions()
    ours = {p: replicas for p, replicas in ends.items() if str(p) in withdrawn}
    theirs = [p for p in of_others if str(p) in withdrawn]
    run.record.settled.note(ours, stop=None, at=run.now(), left_to_others=theirs)


def note_settled_of(
    run: RunContext,
    stopped: Iterable[Stopped],
    ends: Mapping[TopicPartition, Replicas],
    of_others: Collection[TopicPartition],
) -> None:
    """Note where partitions of reassignments are settled, and which are left to others; void where one was resumed since its order was read."""
    for each in stopped:
        each.record.settled.note(ends, stop=each.number, at=run.now(), left_to_others=of_others)


def note_taken_back(
    run: RunContext,
    stopped: Iterable[Stopped],
    wholes: Mapping[TopicPartition, Reassignment],
    to_submit: Mapping[TopicPartition, Replicas],
) -> None:
    """Note, before it is submitted, what goes back to its original replicas though first steps of it may be finished: a resume moves it from the start."""
    taken_back = [p for p, replicas in to_submit.items() if p in wholes and replicas == wholes[p].current]
    for each in stopped:
        each.record.settled.note_taken_back(taken_back, stop=each.number, at=run.now())
