"""Partitions between two of their steps (KIP-435): finished batches have made the first ones, and not the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from kafka_reassignment.model import Reassignment, Step, TopicPartition, View
from kafka_reassignment.plan.store import read_steps_of_several
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.view import observe_replicas, observe_twice
from kafka_reassignment.text import format_brokers


@dataclass(frozen=True, slots=True)
class Begun:
    """The last step of a partition that finished batches have made, and that is not its last.

    ``order`` is the number of the last order to stop or to go on when it was submitted. It has left the partition at the
    target of ``move``, unless a cancel may have taken it back since (``is_kept``).
    """

    order: int
    move: Reassignment
    is_kept: bool


def begun_partitions(recorded: RecordView) -> dict[TopicPartition, Begun]:
    """Return the partitions whose first steps are in finished batches, and whose last one is not.

    A step that its batch has left out, or that was withdrawn before its batch, was not made, unless another client has
    made something else of the partition. Nor was one whose batch has found the partition at its target. One that was
    withdrawn before its batch had ended may have been taken back since it was submitted, so its last step does not
    count as made.
    """
    finished = sorted(recorded.finished_batches())
    withdrawn = _withdrawn_at(recorded.record) if finished else {}
    ended: dict[TopicPartition, bool] = {}
    made: dict[TopicPartition, Begun] = {}
    for plan, numbers in groupby(finished, recorded.plan_refs()) if finished else ():
        first, *others = numbers
        begun = [str(p) for p in ended]
        for number, move, is_last in read_steps_of_several(plan, first, others[-1] if others else first, begun):
            partition = move.partition
            submitted = recorded.submitted(number)
            if submitted is None:  # all of the batch was withdrawn
                continue
            if str(partition) in submitted.done_before:  # another client has moved it there
                continue
            if str(partition) in submitted.made:
                at = withdrawn.get(str(partition))
                is_kept = at is None or not _had_not_ended(recorded.record, number, at)
                ended[partition] = is_last and is_kept
                made[partition] = Begun(submitted.order, move, is_kept)
            elif str(partition) in submitted.changed_by_others:
                ended[partition] = True
    return {p: made[p] for p, is_over in ended.items() if not is_over}


def _withdrawn_at(record: Record) -> dict[str, datetime]:
    """When each partition was withdrawn first."""
    return {p: command.at for command in reversed(record.withdraw_commands.all()) for p in command.partitions}


def _had_not_ended(record: Record, batch: int, at: datetime) -> bool:
    """Whether a batch that is finished had not ended at a moment."""
    done = record.finished(batch)
    return done is not None and at <= done.finished_at


def as_they_were_left(
    run: RunContext, begun: Mapping[TopicPartition, Begun], wholes: Mapping[TopicPartition, Reassignment]
) -> list[Step]:
    """Return those between two of their steps, without what another client has changed since the last one that was made.

    Nothing of ours has been asked for since, but for what takes them to an end.
    """

    def is_changed(partition: TopicPartition, view: View) -> bool:
        seen, flight = view.partitions.get(partition), view.in_flight.get(partition)
        its, whole = begun[partition], wholes[partition]
        last = its.move
        if flight is not None:  # ours is a late request of the last step, or what takes it to an end, and adds nothing
            adds = run.controller.lists_adding and bool(flight.adding)
            return adds and flight.target not in {last.expanded, last.target}
        if seen is None or (not its.is_kept and set(seen.replicas) <= set(last.expanded)):
            return False
        return not any(set(seen.replicas) == set(ours) for ours in (last.target, whole.current, whole.target))

    def changed(view: View) -> list[TopicPartition]:
        return [p for p in sorted(begun) if is_changed(p, view)]

    if not begun:
        return []
    view = observe_twice(run.cluster, [*begun], lambda view: bool(changed(view)), run.sleep, look=observe_replicas)
    of_others = changed(view)
    for partition in of_others:
        run.log.warning(
            "%s stays: another client has changed it since its last step left it at %s",
            partition,
            format_brokers(begun[partition].move.target),
        )
    return [Step(wholes[p]) for p in sorted(begun.keys() - {*of_others})]
