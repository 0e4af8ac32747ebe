"""After the last batch: what was asked for is done, or what is not, and what leads on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kafka_reassignment.advice import (
    CANCEL_DAG_ID,
    SWEEP_DAG_ID,
    Advice,
    Correct,
    Rerun,
    StartBrokers,
    Trigger,
    WaitUntil,
)
from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.decisions.verification import verification
from kafka_reassignment.errors import ReassignmentError, RecordDamagedError, VerificationError, name_some
from kafka_reassignment.model import InFlight, Reassignment, Replicas, TopicPartition
from kafka_reassignment.plan.store import read_target, read_targets_of
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job
from kafka_reassignment.steps.base.added import observe_added
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.failed_log_dirs import to_repair_log_dirs
from kafka_reassignment.steps.base.finished import is_finished_reassignment
from kafka_reassignment.steps.base.leaving import BETWEEN_LOOKS_SECONDS, LeavingBrokers, observe_leaving
from kafka_reassignment.steps.base.moves import SLICE, as_texts
from kafka_reassignment.steps.base.recorded_batch import taken_up
from kafka_reassignment.steps.base.view import observe, observe_replicas
from kafka_reassignment.steps.leaders import too_cold
from kafka_reassignment.steps.left.left_out import left_out_for_good
from kafka_reassignment.steps.left.left_over import (
    LEFT,
    MOST_AT_ONCE,
    keep_what_is_left,
    leaderless_though_up,
    split_by_factor,
    to_ask_again,
    to_decommission_again,
    to_elect,
    to_end_moves,
    to_move_what_is_left,
    to_withdraw,
    withdrawn_and_elsewhere,
)
from kafka_reassignment.steps.left.taken_out import left_open_not_settled
from kafka_reassignment.steps.stopped.settle import what_settles
from kafka_reassignment.steps.stopped.stopped_steps import known_steps_of_superseded, planned_by_owner
from kafka_reassignment.steps.supersede import settle_superseded
from kafka_reassignment.steps.throttle import throttle_in_words
from kafka_reassignment.steps.throttling.kept_throttle import restore_or_raise
from kafka_reassignment.steps.throttling.restore import Restored, split_owed
from kafka_reassignment.text import format_brokers

PASSING_SECONDS = 60
"""How long what may pass is looked at again."""


def verify(run: RunContext) -> None:
    """Compare the cluster with the plan, and the throttle journal with what is still owed.

    What may pass within a minute (a replica out of sync, an election that was refused, a move in flight) is looked at
    again until then; after that all is, since others may have changed the rest meanwhile. What brokers that are down
    still have of the throttle is told, and left to the sweep. A failure releases the cluster's lock when nothing of
    this reassignment is in flight, so that the reassignment that it advises can run.

    Raises:
        VerificationError: something is not as planned; the message names it and the next step.
        RecordDamagedError: nobody can tell what a superseded reassignment has left.
    """
    if is_finished_reassignment(run, "verify"):
        return
    with run.audited("verify") as event:
        lock = run.lock_number
        event.facts["run_command"] = run.record.run_commands.last_number()
        withdrawn = run.record.withdrawn_partitions()
        of_withdrawn = _settled_of_withdrawn(run)
        until = run.now() + timedelta(seconds=PASSING_SECONDS)
        _look_until_nothing_passes(run, withdrawn, until)
        # What the last batch had to keep, because a broker was away or a replica out of sync, can mostly go at this
        # point.
        restored, owed_by_down = Restored(()), tuple[str, ...]()
        if not run.record.journal().is_over:
            restored, owed_by_down = _restored(run, event)
        of_superseded, damage = _settled_of_superseded(run, event)
        # All of that takes time, in which others may change anything: what is reported is seen from here on.
        until = max(until, run.now() + timedelta(seconds=BETWEEN_LOOKS_SECONDS))
        leaving = observe_leaving(run.cluster, run.request, sleep=run.sleep, asks_again=lambda: run.now() < until)
        planned, found = _look_until_nothing_passes(run, withdrawn, until)
        came_back = [p for p in leaving.hosted if p in planned and p not in found.wrong]
        if came_back:
            _look_at_what_came_back(run, came_back, found)
        came_since = [p for p in leaving.hosted if p not in planned and str(p) not in withdrawn]
        withdrawn_there = [p for p in leaving.hosted if str(p) in withdrawn]
        added = observe_added(run.cluster, run.record, run.request)
        event.summary = f"{found.at_target} partitions at their target"
        event.summary += f", {len(found.gone)} deleted since the plan" if found.gone else ""
        event.summary += f", {len(withdrawn)} withdrawn" if withdrawn else ""
        event.summary += "".join(f"; {text}" for text in owed_by_down)
        event.facts |= {
            "at_target": found.at_target,
            "gone": len(found.gone),
            "withdrawn": sorted(withdrawn),
            "wrong": list(found.wrong.values()),
            "came_back": [str(p) for p in came_back],
            "came_since": [str(p) for p in came_since],
            "withdrawn_there": [str(p) for p in withdrawn_there],
            "added": as_texts(added),
            "hidden": [str(p) for p in sorted(leaving.hidden)],
            "silent": dict(leaving.silent),
            "throttle_owed": list(restored.owed),
            "throttle_owed_by_down_brokers": list(owed_by_down),
            "left_by_superseded": as_texts(of_superseded),
            "withdrawn_not_settled": as_texts(of_withdrawn),
        }
        # Brokers that are to be empty tell by what they host whether it is done, wherever the rest is.
        is_told = planned or not withdrawn or run.request.job is Job.DECOMMISSION
        unmoved = {} if is_told else withdrawn_and_elsewhere(run)
        event.facts["unmoved"] = [str(p) for p in unmoved]
        error: ReassignmentError | None = _what_is_wrong(
            run, found, restored, of_superseded, of_withdrawn, leaving, came_since, withdrawn_there, added, unmoved
        )
        if damage is not None:
            error = damage if error is None else _with_damage(error, damage)
        if error is not None:
            if not found.ours_in_flight and not {*of_withdrawn, *of_superseded}.intersection(restored.copying):
                run.release_lock(seen=lock)
            raise error


def _settled_of_superseded(
    run: RunContext, event: AuditDraft
) -> tuple[Mapping[TopicPartition, str], RecordDamagedError | None]:
    """Return what stays of it and why; and the error where nobody can tell, which hides nothing else."""
    try:
        return settle_superseded(run, event), None
    except RecordDamagedError as error:
        return {}, error


def _settled_of_withdrawn(run: RunContext) -> Mapping[TopicPartition, str]:
    """Return what a cancel was to settle and has not within the time for what passes, though no batch has it any more, and why."""
    until = run.now() + timedelta(seconds=PASSING_SECONDS)
    while (left := left_open_not_settled(run)) and run.now() < until:
        throttle_in_words(run, RecordView(run.record))
        run.sleep(BETWEEN_LOOKS_SECONDS)
    return left


def _with_damage(error: ReassignmentError, damage: RecordDamagedError) -> VerificationError:
    return VerificationError(f"{error.problem}. {damage.problem}", *damage.advice, *error.advice)


@dataclass
class _Found:
    """What is not as planned, by partition and in words; ``passing`` may be as planned at the next look."""

    at_target: int = 0
    gone: set[TopicPartition] = field(default_factory=set)
    wrong: dict[TopicPartition, str] = field(default_factory=dict)
    elsewhere: dict[TopicPartition, Replicas] = field(default_factory=dict)
    led_by_others: bool = False
    ours_in_flight: list[TopicPartition] = field(default_factory=list)
    out_of_sync: set[int] = field(default_factory=set)
    live_brokers: frozenset[int] = frozenset()
    passing: list[Reassignment] = field(default_factory=list)

    def look_again(self) -> list[Reassignment]:
        """Return what may pass, and forget what was seen of it."""
        again, self.passing = self.passing, []
        for move in again:
            self.wrong.pop(move.partition, None)
            self.elsewhere.pop(move.partition, None)
        self.led_by_others = False
        self.ours_in_flight = []
        self.out_of_sync = set()
        return again

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that were at their target, or deleted: they are looked at again."""
        self.at_target -= len([p for p in partitions if p not in self.gone])
        self.gone.difference_update(partitions)


def _look_until_nothing_passes(
    run: RunContext, withdrawn: Collection[str], until: datetime
) -> tuple[set[TopicPartition], _Found]:
    """Return the planned partitions and what is found of them; the last look is at all of them."""
    planned, found = _look_at_all(run, withdrawn)
    while found.passing and run.now() < until:
        _wait_for_what_passes(run, found, until)
        planned, found = _look_at_all(run, withdrawn)
    return planned, found


def _wait_for_what_passes(run: RunContext, found: _Found, until: datetime) -> None:
    while found.passing and run.now() < until:
        if found.ours_in_flight:  # the tasks that watch the throttle may have been marked by a person
            throttle_in_words(run, RecordView(run.record))
        run.sleep(BETWEEN_LOOKS_SECONDS)
        again = found.look_again()
        for moves in in_slices(again, SLICE):
            _look_at(run, moves, found)


def _look_at_what_came_back(run: RunContext, partitions: Collection[TopicPartition], found: _Found) -> None:
    """Look again at planned partitions that a leaving broker hosts, though nothing was wrong with them at the first look.

    A topic was deleted and made again meanwhile, or another client moved them; or a broker's metadata was old news.
    """
    run.sleep(BETWEEN_LOOKS_SECONDS)
    found.forget(partitions)
    moves = read_targets_of(run.record.plan_ref(), set(partitions))
    for some in in_slices(moves.values(), SLICE):
        _look_at(run, some, found)
    _wait_for_what_passes(run, found, run.now() + timedelta(seconds=PASSING_SECONDS))


def _look_at_all(run: RunContext, withdrawn: Collection[str]) -> tuple[set[TopicPartition], _Found]:
    planned, found = set[TopicPartition](), _Found()
    moves = (m for m in read_target(run.record.plan_ref()) if str(m.partition) not in withdrawn)
    for some in in_slices(moves, SLICE):
        planned.update(m.partition for m in some)
        _look_at(run, some, found)
    return planned, found


def _look_at(run: RunContext, moves: Sequence[Reassignment], found: _Found) -> None:
    """Add what is seen of some partitions."""
    seen = observe(run.cluster, [m.partition for m in moves])
    result = verification(moves, seen)
    by_partition = {m.partition: m for m in moves}
    is_about_leaders = run.request.job is Job.LEADERS
    led = {p: t for p, t in result.wrong_leader.items() if is_about_leaders or by_partition[p].is_leader_movement}
    for partition in too_cold(run, seen, list(led)):
        del led[partition]
    passing: dict[TopicPartition, list[str]] = {p: [text] for p, text in led.items()}
    for p, text in result.not_yet.items():
        passing.setdefault(p, []).append(text)
    found.wrong |= {p: "; ".join(texts) for p, texts in passing.items()}
    found.wrong |= {p: text.removesuffix(".") for p, text in result.elsewhere.items()}
    found.elsewhere |= {p: by_partition[p].target for p in (*result.elsewhere, *result.in_flight)}
    found.passing += [by_partition[p] for p in passing]
    found.at_target += len([p for p in result.at_target if p not in passing])
    found.gone |= {*result.gone}
    found.led_by_others |= bool(led)
    in_flight = [p for p in result.in_flight if _is_ours(by_partition[p], seen.in_flight[p])]
    found.ours_in_flight += _not_left_to_others(run, in_flight)
    found.out_of_sync |= {b for brokers in result.under_replicated.values() for b in brokers}
    found.out_of_sync |= {by_partition[p].target[0] for p in led if by_partition[p].target[0] not in seen.in_sync(p)}
    found.live_brokers = seen.live_brokers


def _is_ours(move: Reassignment, flight: InFlight) -> bool:
    """Whether a move in flight may be one of ours and ends: it adds brokers of the target only, and leads to no others."""
    return (
        not never_completes(flight)
        and set(flight.adding) <= set(move.target)
        and set(flight.target) <= set(move.expanded)
    )


def _not_left_to_others(run: RunContext, in_flight: list[TopicPartition]) -> list[TopicPartition]:
    """Return which moves in flight may be ours, by what any batch has begun with; all where that is not known."""
    if not in_flight:
        return []
    try:
        ours = taken_up([run.record])
    except RecordDamagedError:
        return in_flight
    return [p for p in in_flight if str(p) in ours]


def _what_is_wrong(
    run: RunContext,
    found: _Found,
    restored: Restored,
    of_superseded: Mapping[TopicPartition, str],
    of_withdrawn: Mapping[TopicPartition, str],
    leaving: LeavingBrokers,
    came_since: Sequence[TopicPartition],
    withdrawn_there: Sequence[TopicPartition],
    added: Mapping[TopicPartition, str],
    unmoved: Mapping[TopicPartition, Replicas],
) -> VerificationError | None:
    if found.wrong or restored.owed or of_superseded or of_withdrawn:
        return _not_as_planned(run, found, restored, of_superseded, of_withdrawn)
    if (not_empty := _not_empty(run, leaving, came_since, withdrawn_there)) is not None:
        return not_empty
    if added:
        return VerificationError(
            f"All that was planned is done, but {len(added)} partitions came after the plan and are not as was asked for: "
            f"{name_some(added.values())}",
            *to_ask_again(run),
        )
    if unmoved:
        problem = (
            f"Nothing was moved: every planned partition was withdrawn, and {len(unmoved)} are not at their target"
        )
        return _left_elsewhere(run, problem, (), unmoved)
    return None


def _not_empty(
    run: RunContext,
    leaving: LeavingBrokers,
    came_since: Sequence[TopicPartition],
    withdrawn_there: Sequence[TopicPartition],
) -> VerificationError | None:
    """Return the error about brokers that were to be emptied and are not, or not surely; None where they are."""
    brokers = name_some(run.request.brokers, 10)
    if leaving.hidden:
        return VerificationError(
            f"All that was planned is done, but broker {brokers} still hosts {len(leaving.hidden)} partitions of topics that the "
            f"user of this connection may not describe ({name_some(sorted(leaving.hidden))}), so nobody has planned them: do not "
            "shut it down",
            Correct("grant Describe on these topics"),
            *to_decommission_again(run, (*came_since, *withdrawn_there)),
        )
    if leaving.silent:
        silent = format_brokers(sorted(leaving.silent))
        return VerificationError(
            f"All that was planned is done, but broker {silent} does not tell what is on its disks "
            f"({name_some(leaving.silent.values())}), and may host topics that the metadata does not show: do not shut it down",
            WaitUntil(f"broker {silent} answers"),
            Rerun("verify"),
        )
    if came_since or withdrawn_there:
        return _still_hosts(run, brokers, came_since, withdrawn_there)
    return None


def _still_hosts(
    run: RunContext, brokers: str, came_since: Sequence[TopicPartition], withdrawn: Sequence[TopicPartition]
) -> VerificationError:
    """Return the error about brokers that were to be emptied, and are shut down by who believes that they are empty."""
    there: list[str] = []
    advice: list[Advice] = []
    if came_since:
        there.append(f"{len(came_since)} partitions that came after the plan ({name_some(came_since)})")
        cordon = f"cordon the log dirs of broker {brokers} (cordoned.log.dirs, from Kafka 4.3) so that no more come"
        advice.append(Correct(cordon))
    if withdrawn:
        there.append(f"{len(withdrawn)} partitions that were withdrawn ({name_some(withdrawn)})")
    done = "All that was planned and not withdrawn is done" if withdrawn else "All that was planned is done"
    return VerificationError(
        f"{done}, but broker {brokers} still hosts {' and '.join(there)}: do not shut it down",
        *advice,
        *to_decommission_again(run, (*came_since, *withdrawn)),
    )


def _not_as_planned(
    run: RunContext,
    found: _Found,
    restored: Restored,
    of_superseded: Mapping[TopicPartition, str],
    of_withdrawn: Mapping[TopicPartition, str],
) -> VerificationError:
    reasons = left_out_for_good(run)
    texts = [f"{text} (left out: {reasons[str(p)]})" if str(p) in reasons else text for p, text in found.wrong.items()]
    texts += [f"{p} is as what was superseded has left it: {why}" for p, why in of_superseded.items()]
    texts += [f"{p} was withdrawn, and is not settled: {why}" for p, why in of_withdrawn.items()]
    problem = f"The reassignment is not as planned: {name_some([*texts, *restored.owed], 5)}"
    advice: list[Advice] = []
    if of_superseded:
        advice += what_settles(known_steps_of_superseded(run), observe(run.cluster, tuple(of_superseded)))
        advice += [Trigger(CANCEL_DAG_ID, {"reassignment_id": r.reassignment_id}) for r in run.record.superseded()]
    if of_withdrawn:
        advice.append(CancelScope(partitions=tuple(map(str, of_withdrawn))).again(run.record))
    # The throttle stays as long as they copy.
    if of_earlier := [p for p in restored.copying if p not in {*found.wrong, *of_superseded, *of_withdrawn}]:
        advice += () if found.elsewhere else restored.advice  # what moves the rest has it too
        if moving := [p for p in of_earlier if p not in restored.behind]:
            advice.append(WaitUntil(f"the moves of {name_some(moving)} have ended"))
        if behind := [p for p in of_earlier if p in restored.behind]:
            advice += to_repair_log_dirs(run, observe(run.cluster, behind[:MOST_AT_ONCE]))
            advice.append(WaitUntil(f"all replicas of {name_some(behind)} are in sync"))
    if restored.owed:
        advice.append(Trigger(SWEEP_DAG_ID))
    if down := sorted(found.out_of_sync - found.live_brokers):
        advice.append(StartBrokers(tuple(down)))
    at_target = observe(run.cluster, [p for p in found.wrong if p not in found.elsewhere][:MOST_AT_ONCE])
    advice += to_elect(leaderless_though_up(at_target), at_target)  # none of them gets a leader by itself
    if found.out_of_sync & found.live_brokers:
        advice += to_repair_log_dirs(run, at_target)
        advice.append(WaitUntil(f"broker {format_brokers(sorted(found.out_of_sync))} is in sync"))
    if found.ours_in_flight:
        seen = observe_replicas(run.cluster, found.ours_in_flight[:MOST_AT_ONCE])
        advice += [item for item in to_end_moves(seen) if item not in advice]
        advice.append(WaitUntil("the moves in flight have ended"))
    elif found.elsewhere:
        return _left_elsewhere(run, problem, advice, found.elsewhere)
    # The lock is released, and an election needs it: the first task that takes it leads there.
    advice.append(Rerun(run.locking_task if found.led_by_others else "verify"))
    return VerificationError(problem, *advice)


def _left_elsewhere(
    run: RunContext, problem: str, advice: Sequence[Advice], targets: Mapping[TopicPartition, Replicas]
) -> VerificationError:
    left, others = split_by_factor(run, targets)
    keep_what_is_left(run, left)
    problem += f". The record's {LEFT} has the {len(left)} that are not at their target" if left else ""
    # What that one moves is between the two ends of a step.
    if planned_by_owner(run, others) and (owner := run.lock_of_another()) is not None:
        refused = run.store.locked_by(owner, run.record.cluster_id, Rerun("verify"))
        return VerificationError(problem, *advice, *refused.advice)
    moving = to_move_what_is_left(run, left)
    first = (item for item in advice if item not in moving)  # what that one would be refused for is in both
    return VerificationError(problem, *first, *to_withdraw(run, others), *moving)


def _restored(run: RunContext, event: AuditDraft) -> tuple[Restored, tuple[str, ...]]:
    """Restore what can be; return what is in place still, also where it has to be, and apart what brokers that are down have."""
    restored = restore_or_raise(run, event)
    owed, owed_by_down = split_owed(run.cluster, run.record)
    return replace(restored, owed=owed), owed_by_down
