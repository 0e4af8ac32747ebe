"""The last step of a cancel: where everything is, partition by partition, and the cluster's lock."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_reassignment.advice import Advice, StartBrokers, advice_as_data, sentence
from kafka_reassignment.decisions.admission import hung_moves
from kafka_reassignment.decisions.cancel import Settling
from kafka_reassignment.decisions.moves import Phase
from kafka_reassignment.errors import InvalidRequestError, UnsafeDropError, name_some, overtaken
from kafka_reassignment.model import TopicPartition, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.moves import DOUBTFUL, confirmed_view, format_reasons
from kafka_reassignment.steps.left.left_over import to_end_moves, to_replace_brokers
from kafka_reassignment.steps.stopped.settle import ending, refuse_resumed, to_free_controller
from kafka_reassignment.steps.stopped.settled_notes import note_settled, orders_to_note
from kafka_reassignment.steps.stopped.stopped_steps import stopped_steps
from kafka_reassignment.text import format_brokers

RELEASE_TRIES = 3
"""How often the lock is released that a late task takes again."""


def report_stop(run: RunContext, scope: CancelScope) -> str:
    """Say where everything is now, release the cluster's lock when the whole was stopped, and return the text.

    Raises:
        InvalidRequestError: the reassignment was resumed; the lock is its own.
        UnsafeDropError: something is not settled; the lock is kept.
    """
    with run.audited("report_stop") as event:
        lock = run.lock_number if run.record.exists else 0
        recorded = RecordView(run.record)
        refuse_resumed(run, recorded, scope)
        lines = [f"Reassignment {run.record.reassignment_id} of cluster {run.record.cluster_id}"]
        each: list[str] = []
        about_hung: list[str] = []
        about_down: list[str] = []
        advice: tuple[Advice, ...] = ()
        if run.record.exists:
            orders = orders_to_note(run, recorded, scope)
            stopped = stopped_steps(run, recorded, scope)
            view = confirmed_view(run, stopped.seen_steps, DOUBTFUL - {Phase.NOT_SUBMITTED})
            decided = ending(run, recorded, stopped, view, scope)
            _require_settled(run, decided, scope)
            note_settled(run, recorded, scope, orders, decided.ends(view), decided.of_others)
            if scope.is_whole and not decided.left and not decided.cancels.foreign:
                run.record.settled.note_all(recorded.numbered_run_command()[0])
            each = _each(decided, view)
            lines += _where_it_stands(run, scope, decided)
            about_hung, advice = _hung(run, decided, view)
            about_down = _down(run, scope, decided, view)
        else:
            left = run.cluster.list_reassignments()
            lines.append(
                f"{len(left)} moves are in flight in the cluster" + (f": {name_some(sorted(left))}" if left else "")
            )
        if scope.is_whole and run.record.exists:
            _refuse_resumed_since(run, recorded, scope)
            _release_lock(run, recorded, scope, lock)
            owner = run.lock_of_another()
            lines.append(
                "the cluster is free for another reassignment"
                if owner is None
                else f"reassignment {owner.reassignment_id} has the cluster"
            )
        lines += [*about_hung, *about_down]
        event.summary = "; ".join(lines[1:])
        event.facts = {"not_as_before": each} | ({"advice": advice_as_data(advice)} if advice else {})
        return "\n".join((*lines, *each))


def _release_lock(run: RunContext, recorded: RecordView, scope: CancelScope, seen: int) -> None:
    """Release the lock that was seen when the look began; one that a late task has taken again since only where nothing was resumed.

    Raises:
        InvalidRequestError: it was resumed.
        OvertakenError: a task takes the lock again and again.
    """
    for _ in range(RELEASE_TRIES):
        if run.release_lock(seen=seen) or not run.is_own(run.store.lock_owner(run.record.cluster_id)):
            return
        seen = run.lock_number
        _refuse_resumed_since(run, recorded, scope)
    raise overtaken("the lock of the cluster was taken again while it was released")


def _refuse_resumed_since(run: RunContext, recorded: RecordView, scope: CancelScope) -> None:
    """Make sure that it was not resumed since the look began, also where it is stopped again: the lock is the later stop's to release.

    Raises:
        InvalidRequestError: it was.
    """
    refuse_resumed(run, RecordView(run.record), scope)
    first, commands = recorded.numbered_run_command()[0] + 1, run.record.run_commands
    if not all(command.stopped for command in commands.between(first, commands.last_number())):
        raise InvalidRequestError(
            f"Reassignment {run.record.reassignment_id} was resumed and stopped again while this task looked, so the lock of "
            "the cluster is not released here",
            scope.again(run.record),
        )


def _require_settled(run: RunContext, decided: Settling, scope: CancelScope) -> None:
    if decided.complete:
        return
    waiting = decided.waiting or dict.fromkeys(decided.to_submit, "between two assignments")
    raise UnsafeDropError(
        f"{len(waiting)} partitions are not settled: {format_reasons(waiting)}. The lock of the cluster stays",
        *to_free_controller(run, waiting),
        scope.again(run.record),
    )


def _where_it_stands(run: RunContext, scope: CancelScope, decided: Settling) -> list[str]:
    plan = run.record.plan_in_force()
    finished = run.record.finished_batches()
    counts = [
        f"{len(those)} partitions {what}"
        for those, what in (
            (decided.left, "stay between two assignments"),
            (decided.above, "have more replicas than before the reassignment"),
            (decided.cancels.foreign, "are moved by others, and left to them"),
        )
        if those
    ]
    if owed := run.record.journal().owed_texts() if scope.is_whole else ():
        counts.append(
            f"throttle configs still owed, which kafka_throttle_sweep restores as soon as it can: {name_some(owed)}"
        )
    if not scope.is_whole:
        return [f"{len(run.record.withdrawn_partitions())} partitions take no further part; the rest goes on", *counts]
    return [
        f"stopped after {len(finished)} of {plan.batches if plan else 0} batches",
        *counts,
        (
            "its finished batches stay as they are, unless a roll back was asked for with this stop: it begins by itself. "
            "To move them back later, trigger kafka_reassignment with the job roll_back and roll_back_of "
            f"{run.record.reassignment_id}"
        ),
    ]


def _hung(run: RunContext, decided: Settling, view: View) -> tuple[list[str], tuple[Advice, ...]]:
    """A line about moves of others that do not end by themselves, and what ends them: the stop waits for none of them."""
    foreign = {p: flight for p, flight in view.in_flight.items() if p in decided.cancels.foreign}
    hung = {p: why for p, why in hung_moves(view).items() if p in foreign}
    if not hung:
        return [], ()
    advice = run.for_this_cluster(to_end_moves(view, foreign))
    what = f"moves of others do not end by themselves, and keep what they need of the throttle: {format_reasons(hung)}"
    return [f"{what}. {sentence(advice)}"], advice


def _down(run: RunContext, scope: CancelScope, decided: Settling, view: View) -> list[str]:
    """A line about partitions that stay half-way because a broker is down, and what ends that."""
    waiting = decided.left.keys() & decided.without_brokers.keys()
    if not waiting:
        return []
    down = sorted({b for p in waiting for b in view.partitions[p].replicas} - view.live_brokers)
    back = sentence((StartBrokers(tuple(down)), *run.for_this_cluster((scope.again(run.record),))))
    (never,) = run.for_this_cluster((to_replace_brokers(run, down),))
    where = (
        f"{len(waiting)} partitions wait for broker {format_brokers(down)}, which is down: {name_some(sorted(waiting))}"
    )
    factor = f"the job {Job.REPLICATION_FACTOR}, for the topics that have more replicas than before"
    return [f"{where}. {back}. If it never comes back, {never}, and then {factor}"]


def _each(decided: Settling, view: View) -> list[str]:
    """One line for each partition that is not as before the reassignment or as it was to become."""

    def notes(partition: TopicPartition) -> Iterable[str]:
        if partition in decided.cancels.foreign:
            yield decided.cancels.foreign[partition]
        if partition in decided.left:
            yield decided.left[partition]
        elif partition in view.partitions:
            yield f"replicas {','.join(map(str, view.partitions[partition].replicas))}"
        if partition in decided.above:
            yield decided.above[partition]

    concerned = sorted({*decided.left, *decided.above, *decided.cancels.foreign})
    return [f"{partition}: {'; '.join(notes(partition))}" for partition in concerned]
