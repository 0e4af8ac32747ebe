"""How a batch was found before its first request: what another client had made of its partitions is never ours.

A partition between the two ends of its step looks the same, whoever brought it there: another client has raised its replication
factor, or its topic was deleted and made anew. So what is half-way before anything of the batch was submitted is noted, once, and
left alone from then on.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka_reassignment.decisions.moves import changed_before, is_half_way
from kafka_reassignment.errors import overtaken
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.record.models import FoundBatch, SubmittedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.left_open import left_open_by
from kafka_reassignment.steps.moves import as_texts
from kafka_reassignment.steps.recorded_batch import without
from kafka_reassignment.steps.stopped_steps import left_by, steps_of_superseded, superseded_by, taken_up
from kafka_reassignment.steps.view import CONFIRM_SECONDS, observe


def changed_by_others(
    run: RunContext,
    recorded: RecordView,
    batch: Batch,
    view: View,
    found: FoundBatch | None,
    earlier: SubmittedBatch | None,
) -> tuple[View, dict[str, str]]:
    """Return which partitions of a batch others had made something of before anything of it was submitted, and what; with the view.

    What ``found`` has was judged already. Where a version before there was that note has submitted the batch, nobody can tell.

    Args:
        run: of the reassignment.
        recorded: what its record showed when the look began.
        batch: to submit.
        view: what is seen of it.
        found: how an earlier try has found it.
        earlier: what an earlier try has submitted.

    Raises:
        RecordDamagedError: nobody can tell what a superseded reassignment has left.
    """
    if found is None and earlier is not None:
        return view, {}
    judged = {*found.partitions, *found.changed_by_others, *(earlier.accepted if earlier else ())} if found else ()
    left = without(batch, judged)
    if not any(is_half_way(s, view) for s in left.steps):
        return view, {}
    run.sleep(CONFIRM_SECONDS)  # what has just been cancelled or dropped may be a broker's old news
    view = observe(run.cluster, batch.partitions)
    half_way = [s.partition for s in left.steps if is_half_way(s, view)]
    left = without(left, {str(p) for p in _left_by_earlier(run, recorded, batch.number, half_way, view)})
    return view, as_texts(changed_before(left, view))


def changed_already(batch: Batch, found: FoundBatch | None, earlier: SubmittedBatch | None) -> dict[str, str]:
    """Return which partitions of a batch it goes on without since an earlier try, because another client has changed them, and why."""
    before = {p: earlier.left_out[p] for p in earlier.changed_by_others} if earlier else {}
    ours = set(map(str, batch.partitions))
    return before | {p: why for p, why in (found.changed_by_others if found else {}).items() if p in ours}


def note_found(
    run: RunContext,
    batch: Batch,
    others: dict[str, str],
    found: FoundBatch | None,
    earlier: SubmittedBatch | None,
) -> None:
    """Note how a batch was found, right before its first request; does nothing where that is noted, or was submitted without.

    Args:
        run: of the reassignment.
        batch: what takes part in it.
        others: what it goes on without, because another client has changed it before, and why.
        found: how an earlier try has found it.
        earlier: what an earlier try has submitted.

    Raises:
        OvertakenError: another try has found it otherwise, as it has submitted something since.
    """
    if found is not None or earlier is not None:
        return
    found = FoundBatch(at=run.now(), partitions=tuple(map(str, batch.partitions)), changed_by_others=others)
    kept = run.record.keep_found(batch.number, found)
    if kept.changed_by_others.keys() != others.keys():
        raise overtaken(f"it began batch {batch.number} at {kept.at:%H:%M:%S} UTC; nothing is submitted")


def _left_by_earlier(
    run: RunContext, recorded: RecordView, number: int, half_way: Collection[TopicPartition], view: View
) -> set[TopicPartition]:
    """Return which partitions are half-way because of an earlier batch, or of a reassignment that the plan goes on from."""
    opened = {*left_open_by(recorded), *_begun_and_cut_again(recorded, number)}
    ours = {p for p in half_way if str(p) in opened}
    submitted = taken_up([run.record])
    rest = {p for p in half_way if p not in ours and str(p) not in submitted}
    if rest and run.request.supersede:
        ours |= rest & {s.partition for s in steps_of_superseded(run).steps}
        ours |= _settled_there([stopped.record for stopped in superseded_by(run.record)], rest, view)
    if rest and (undone := run.request.roll_back_of):
        rolled_back = run.store.record(run.record.cluster_id, undone)
        ours |= rest & {s.partition for s in left_by(run, rolled_back).steps}
        ours |= _settled_there([rolled_back], rest, view)
    return ours


def _begun_and_cut_again(recorded: RecordView, number: int) -> set[str]:
    """The partitions that an earlier batch had begun with, and has no more: it was cut again after a stop."""
    if recorded.last_revision() is None:
        return set()
    moved: set[str] = set()
    for earlier in range(1, number):
        found, submitted = recorded.record.found(earlier), recorded.submitted(earlier)
        if found is not None:
            ended = {*submitted.accepted, *submitted.left_out} if submitted else set[str]()
            moved |= {*found.partitions} - ended
    return moved


def _settled_there(
    records: Collection[Record], partitions: Collection[TopicPartition], view: View
) -> set[TopicPartition]:
    """Which partitions are where a stop of these reassignments has settled them."""
    ends = [record.settled.partitions() for record in records]
    return {p for p in partitions if any(end.get(str(p)) == view.partitions[p].replicas for end in ends)}
