"""The batches of a reassignment as its record has them: re-batched or not, without the partitions that take no part."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import Batch, Step, TopicPartition, View
from kafka_reassignment.plan.store import read_batch, read_steps
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView

READ_TOGETHER = 50
"""Batches whose steps are read at once."""


def whole_batch(recorded: RecordView, number: int) -> Batch:
    """Return one batch as it was planned, withdrawn partitions included.

    Raises:
        RecordError: there is no plan yet, or it has no such batch.
        RecordsMissingError: the records of the cluster are away.
    """
    record = recorded.record
    plan = record.require_plan(recorded.plan_in_force())
    if not 1 <= number <= plan.batches:
        raise RecordError(
            f"Reassignment {record.reassignment_id} has batches 1 to {plan.batches}, asked for {number}",
            Correct("trigger the batch DAG with a number in that range"),
        )
    return read_batch(recorded.plan_refs()(number), number)


def later_steps(recorded: RecordView, number: int) -> Iterator[Step]:
    """Iterate over the steps of all batches after one, in order, without the partitions that were withdrawn.

    The plan is read as far as it is asked for.
    """
    plan = recorded.plan_in_force()
    if plan is None:
        return
    withdrawn = recorded.withdrawn_partitions()
    for ref, same in groupby(range(number + 1, plan.batches + 1), recorded.plan_refs()):
        for numbers in in_slices(same, READ_TOGETHER):
            steps = read_steps(ref, numbers[0], numbers[-1])
            yield from (s for s in steps if str(s.partition) not in withdrawn)


def planned_batch(recorded: RecordView, number: int) -> Batch:
    """Return one batch without the partitions that were withdrawn.

    Raises:
        RecordError: there is no plan yet, or it has no such batch.
    """
    return without(whole_batch(recorded, number), recorded.withdrawn_partitions())


def begun_batch(recorded: RecordView, number: int) -> Batch:
    """Return the part of a batch, withdrawn partitions included, of which something may have been submitted; none before its first request.

    What another client has brought half-way is no part of it, and nothing that a stop has settled before it was
    resumed.

    Raises:
        RecordError: there is no plan yet, or it has no such batch.
        RecordDamagedError: how it was found is not readable.
    """
    begun = begun_names(recorded, number)
    if begun is None:
        return whole_batch(recorded, number)
    if not begun:
        return Batch(number, ())
    whole = whole_batch(recorded, number)
    return replace(whole, steps=tuple(s for s in whole.steps if str(s.partition) in begun))


def begun_names(recorded: RecordView, number: int) -> frozenset[str] | None:
    """Return the partitions of which something may have been submitted with a batch, also before it was cut again.

    None where nobody can tell: an earlier version, which left no note, may have submitted any of them. It can only be the batch that
    was under way when that version was replaced.

    Raises:
        RecordDamagedError: how it was found is not readable.
    """
    found, submitted = recorded.found(number), recorded.submitted(number)
    if found is None:
        return frozenset() if submitted is None and _notes_are_kept(recorded, number) else None
    changed = {*(submitted.changed_by_others if submitted else ())}
    return frozenset(found.partitions) - changed - recorded.lifted_since(found.run_command)


def beyond_requests(recorded: RecordView, number: int, steps: Iterable[Step], view: View) -> set[TopicPartition]:
    """Return which partitions of a batch have replicas, or are to get some, that no request of it has asked for: another client's.

    Where it was cut again after a stop, a step may reach further than the one that was begun.
    """
    found = recorded.found(number)
    if found is None:
        return set()
    return {s.partition for s in steps if not found.reaches(str(s.partition), view.heading_for(s.partition))}


def _notes_are_kept(recorded: RecordView, number: int) -> bool:
    plan = recorded.plan_in_force()
    return plan is not None and (plan.notes_found or (number > 1 and recorded.found(number - 1) is not None))


def taken_up(records: Iterable[Record]) -> frozenset[str]:
    """Return the partitions that these reassignments have submitted: from their batch on they are theirs.

    Also where another client has changed one since, and where no record was written of what was submitted.
    """
    found: set[str] = set()
    for record in records:
        recorded = RecordView(record)
        plan = recorded.plan_in_force()
        for number in range(1, (plan.batches if plan else 0) + 1):
            if (submitted := recorded.submitted(number)) is not None:
                found.update(submitted.accepted, submitted.changed_by_others)
                continue
            found |= begun_names(recorded, number) or frozenset()
            if number not in recorded.finished_batches():
                break
    return frozenset(found)


def taking_part(recorded: RecordView, batch: Batch) -> Batch:
    """Return the batch without the partitions that were left out when it was submitted, or left open since."""
    submitted = recorded.submitted(batch.number)
    return without(batch, {**submitted.left_out, **submitted.left_open} if submitted else ())


def without(batch: Batch, partitions: Container[str]) -> Batch:
    """Return a batch without some partitions, by name."""
    return replace(batch, steps=tuple(s for s in batch.steps if str(s.partition) not in partitions))
