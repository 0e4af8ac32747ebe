"""What must be so after everything that happens (I1, I2, I3, I6), and at the end (I4 with the follower, I5, I6).

Words used here:

* *because of us*: a replica that the product's own request added, until its partition has reached what the product
  asked for with that replica in the ISR, or the product took its throttle away while it was in the ISR, or another
  client moved the partition. Replicas that fall out of the ISR later copy because of Kafka.
* *one poll interval*: ``POLL_SECONDS``, the time between two looks of the slowest waiting task, and ``SLACK_SECONDS``
  for a look. It counts only while nothing is wrong with brokers, the store and Airflow (nobody can look then), and
  while a task of that reassignment, or of the one that took the cluster over, runs or waits, be it for an answer:
  nobody looks for a reassignment that stands red, so there it is a violation only when the product itself took the
  throttle away. The time in which a retry is waited for alone does not count.
* *by our doing*: what a call of the product changed, judged by what the same task or trigger was shown before it, so
  that a lost race is no violation; what the call leaves behind is judged by the cluster as it is.
* *nobody else's*: moves in flight, rates and entries that another client made, or that were there before. A higher rate
  may be lowered and is given back at the end; cancelling others' moves may be asked for (supersede, foreign).
* *bounded virtual time* and *advice carried out literally*: ``follower.py``.
* *as promised at the end*: ``at_the_end``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.announced import unannounced_drops
from tests.simulation.config_account import is_rate
from tests.simulation.controller_state import entries_of
from tests.simulation.damage import is_damaged
from tests.simulation.ledger import Replica
from tests.simulation.violations import Violation

from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.record.objects import path_part
from kafka_reassignment.request import Job
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID, THROTTLE_DAG_ID

if TYPE_CHECKING:
    from tests.simulation.play import Play

POLL_SECONDS = 15.0
SLACK_SECONDS = 20.0
ANSWER_SECONDS = 30.0
"""How long a change without an answer is waited for; what it was to mend is mended by the next look."""


class Watch:
    """Looks after every event; each violation is kept once."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._seen: set[str] = set()
        self._green: set[tuple[str, str, Any]] = set()
        self._owner: str | None = None
        self._ends = 0
        self._looked_at = play.world.time.now
        self._watched: dict[Replica, float] = {}
        """For how many seconds something copies bare while a task of its reassignment was at work."""
        self._at_work: dict[str, bool] = {}
        """Which reassignments had a task at work when this looked last."""
        self.violations: list[Violation] = []

    def look(self) -> None:
        """Look at what is going on."""
        ledger = self._play.ledger
        ledger.observe()
        if ledger.copies:
            self._note_watched()
            for each in throttled(self._play, self._watched):
                self._keep(each)
        self._looked_at = self._play.world.time.now
        owner = self._play.world.truth.owner()
        if owner != self._owner and not any("/lock/" in path for path in self._play.unreadable):
            by_hand, self._play.unlocked_by_hand = self._play.unlocked_by_hand, False
            if self._owner is not None and not by_hand and _moves_batches(self._play, self._owner):
                what = f"{self._owner} lost the lock of the cluster to {owner or 'nobody'} while its batches run"
                self._keep(Violation("I5", what, self._play.world.time.now))
            self._owner = owner
        if len(self._play.world.airflows) > 1:
            self._two_airflows()
        while ledger.violations:
            self._keep(ledger.violations.pop(0))
        ends = sum(airflow.ends for airflow in self._play.world.airflows)
        if ends != self._ends:
            self._ends = ends
            self._green_runs()

    def _note_watched(self) -> None:
        play, now = self._play, self._play.world.time.now
        bare = {
            replica: (copy.reassignment_id, now - max(copy.bare_since, play.calm_since))
            for replica, copy in play.ledger.copies.items()
            if copy.bare_since is not None and play.is_calm
        }
        since = now - self._looked_at
        self._watched = {
            replica: self._watched.get(replica, 0.0)
            + (min(since, lasts).total_seconds() if self._at_work.get(whose) else 0.0)
            for replica, (whose, lasts) in bare.items()
        }
        whose = {copy.reassignment_id for copy in play.ledger.copies.values()}
        self._at_work = {each: _has_task_at_work(play, each) for each in whose}

    def _green_runs(self) -> None:
        for airflow in self._play.world.airflows:
            for run in airflow.runs.values():
                key = (airflow.name, run.run_id, run.ended_at)
                if run.state == "success" and run.ended_at is not None and key not in self._green:
                    ended_before = any(each[:2] == key[:2] for each in self._green)
                    self._green.add(key)
                    if ended_before and self._play.world.truth.is_over(run.run_id):
                        continue  # a finished reassignment whose run was cleared: it changes nothing, and says what was
                    for each in green_means_done(self._play, run):
                        self._keep(each)

    def _two_airflows(self) -> None:
        """One reassignment is carried out by one Airflow."""
        at_work: set[str] = set()
        for airflow in self._play.world.airflows:
            mine = {r.run_id for (dag, _), r in airflow.runs.items() if dag == BATCH_DAG_ID and r.state == "running"}
            for run_id in sorted(mine & at_work):
                self._keep(Violation("I5", f"two Airflows carry out {run_id}", self._play.world.time.now))
            at_work |= mine

    def _keep(self, violation: Violation) -> None:
        if violation.kind not in self._seen:
            self._seen.add(violation.kind)
            self.violations.append(violation)


def _moves_batches(play: Play, reassignment_id: str) -> bool:
    run = play.airflow.runs.get((DAG_ID, reassignment_id))
    waits = run is not None and run.tasks["wait_for_batches"].state in ("running", "deferred")
    return waits and not play.world.truth.is_over(reassignment_id)


def throttled(play: Play, watched: Mapping[Replica, float]) -> list[Violation]:
    """I1: what copies because of us has been without its throttle for less than one poll interval.

    Args:
        play: what is going on.
        watched: for how many seconds each bare replica was, while a task of its reassignment was at work.
    """
    now, found = play.world.time.now, []
    if not play.is_calm:
        return []
    longest, unanswered = timedelta(seconds=POLL_SECONDS + SLACK_SECONDS), play.ledger.unanswered_at

    def may_last(since: datetime) -> float:
        return longest.total_seconds() + (ANSWER_SECONDS if unanswered is not None and unanswered >= since else 0.0)

    late = [
        (replica, copy, copy.bare_since)
        for replica, copy in play.ledger.copies.items()
        if copy.bare_since is not None and watched.get(replica, 0.0) > may_last(copy.bare_since)
    ]
    if not late:
        return []
    copying, bare = play.ledger.copying(), play.ledger.bare()
    for replica, copy, since in late:
        if replica in copying and replica in bare and _somebody_looks(play, copy.reassignment_id, longest):
            what = f"{bare[replica].reason}, for {(now - since).total_seconds():.0f} s ({replica[0]})"
            found.append(Violation("I1", what, now))
    return found


def _somebody_looks(play: Play, reassignment_id: str, longest: timedelta) -> bool:
    """Whether a task of a reassignment, or of the one that took the cluster over, has been running or waiting for a poll interval."""
    return any(
        any(map(_runs_or_waits, run.tasks.values()))
        for run in _running(play, reassignment_id)
        if play.world.time.now - run.triggered_at > longest
    )


def _running(play: Play, reassignment_id: str) -> Iterator[Any]:
    """Yield the runs that have not ended of a reassignment, and of the one that took the cluster over."""
    truth = play.world.truth
    looking = {reassignment_id, truth.owner() if truth.is_over(reassignment_id) else None}
    for run in play.airflow.runs.values():
        if run.state == "running" and (run.conf.get("reassignment_id") or run.run_id) in looking:
            yield run


def _has_task_at_work(play: Play, reassignment_id: str) -> bool:
    """Whether something of a reassignment looks, or is about to: not where a fault holds a task of it up."""
    runs = list(_running(play, reassignment_id))
    attempts = (attempt for airflow in play.world.airflows for attempt in airflow.attempts)
    return any(map(_is_at_work, runs)) and not any(a.stands_still and a.ti.run in runs for a in attempts)


def _is_at_work(run: Any) -> bool:
    """Whether a task of a run runs or waits, or the next one is about to: not where a retry is waited for alone."""
    states = {ti.state for ti in run.tasks.values()}
    return "up_for_retry" not in states or any(map(_runs_or_waits, run.tasks.values()))


def _runs_or_waits(ti: Any) -> bool:
    """Whether a task runs or waits, or is about to go on after its wait."""
    goes_on = ti.state == "queued" and ti.next_method is not None
    return goes_on or ti.state in ("running", "deferred", "awaiting_input")


def green_means_done(play: Play, run: Any) -> list[Violation]:
    """I6: a green run has no red task, its batch is finished, its reassignment is at its target."""
    now = play.world.time.now
    if (run.dag_id, run.run_id) in play.hands or play.unreadable:
        return []
    red = [
        ti.task_id
        for ti in run.tasks.values()
        if ti.state in ("failed", "upstream_failed") and (run.dag_id, run.run_id, ti.task_id) not in play.cleared_alone
    ]
    if red:
        return [Violation("I6", f"{run.dag_id} is green though {red[0]} is red ({run.run_id})", now)]
    if run.dag_id == BATCH_DAG_ID:
        return _batch_is_done(play, run)
    if run.dag_id == CANCEL_DAG_ID:
        return _stop_says_what_is_left(play, run)
    if run.dag_id == THROTTLE_DAG_ID:
        return _rate_asked_last_is_in_force(play)
    if run.dag_id == DAG_ID and run.tasks["verify"].state == "success":
        return reassignment_is_done(play, run, at=play.verified.get(run.run_id))
    return []


def _rate_asked_last_is_in_force(play: Play) -> list[Violation]:
    """No order of a rate has replaced one that was given after it, and that is green.

    One that was given before the reassignment had the lock may have been for the one before it.
    """
    truth = play.world.truth
    owner = truth.owner()
    main = play.airflow.runs.get((DAG_ID, owner)) if owner else None
    journal = truth.journals().get(owner) if owner else None
    last = journal.rate_changes[-1] if journal is not None and journal.rate_changes else None
    since = truth.locked_since()
    if main is None or since is None or last is None or last.because:
        return []
    return [
        Violation(
            "I6", f"{order.run_id} is green, and the rate that was asked for before it is in force", order.ended_at
        )
        for order in play.runs(THROTTLE_DAG_ID)
        if order.state == "success" and not order.conf.get("brokers") and order.run_after > max(last.at, since)
    ]


def _batch_is_done(play: Play, run: Any) -> list[Violation]:
    truth, whose = play.world.truth, run.conf.get("reassignment_id")
    if not whose or truth.is_finished(whose, int(run.conf.get("batch", 1))) or truth.is_over(whose):
        return []
    return [
        Violation("I6", f"{run.dag_id} is green though its batch is not finished ({run.run_id})", play.world.time.now)
    ]


def _stop_says_what_is_left(play: Play, run: Any) -> list[Violation]:
    """A green stop leaves each partition where it was or at its target, or on its way where another reassignment wants it, or its report names it."""
    reassignment_id = run.tasks["stop"].xcoms.get("return_value")
    said = str(run.tasks["report_stop"].xcoms.get("return_value"))
    named = run.conf.get("partitions")
    if named and run.conf.get("foreign"):
        return []  # what is freed of another client's move keeps its part
    later = [move for other in others_than(play, str(reassignment_id)) for move in play.world.truth.moves(other)]
    for move in play.world.truth.moves(str(reassignment_id)) if reassignment_id else ():
        seen = play.state.partitions.get(move.partition)
        if named and str(move.partition) not in named:
            continue
        if seen is None or move.partition in play.touched or move.partition.topic in play.deleted_topics:
            continue
        if seen.in_flight or str(move.partition) in said:
            continue
        here = set(seen.replicas)
        is_on_its_way = any(here <= {*m.current, *m.target} for m in later if m.partition == move.partition)
        if here not in (set(move.current), set(move.target)) and not is_on_its_way:
            what = (
                f"a stop is green, but {move.partition} is left at {list(seen.replicas)} and its report does not say so"
            )
            return [Violation("I6", what, play.world.time.now)]
    return []


def _of_another_factor(play: Play, reassignment_id: str) -> frozenset[str]:
    """Return the partitions of a plan that have neither as many replicas as it found, nor as many as it wants."""
    return frozenset(
        str(m.partition)
        for m in play.world.truth.moves(reassignment_id)
        if (seen := play.state.partitions.get(m.partition)) is not None
        and len(seen.replicas) not in (len(m.current), len(m.target))
    )


def reassignment_is_done(play: Play, run: Any, *, at: datetime | None = None) -> list[Violation]:
    """Return which partitions are not at their target; not those that others have touched since ``at``, or just now."""
    now, found, state = play.world.time.now, [], play.state
    request = play.world.truth.request(run.run_id)
    if request is None or request.validate_only:
        return []
    just_now = (at or now) - timedelta(seconds=30)
    targets = play.approved.get(run.run_id) or play.world.truth.targets(run.run_id)
    withdrawn = play.world.truth.withdrawn(run.run_id)
    if request.job is Job.ROLL_BACK:
        targets = _to_roll_back(play, str(request.roll_back_of), run.run_id)
    leaving = set(request.brokers) if request.job is Job.DECOMMISSION else set()
    later = _begun_by_later(play, run.run_id, just_now)
    if targets and withdrawn >= {str(p) for p in targets} and not leaving:
        # Green only where all of them have come to their target all the same, but for what others gave another factor.
        withdrawn = _of_another_factor(play, run.run_id) & withdrawn
    elif request.job is Job.ROLL_BACK:
        withdrawn |= play.world.truth.withdrawn(str(request.roll_back_of))
    for partition, target in sorted(targets.items()):
        if str(partition) in withdrawn and not leaving:
            continue
        seen = state.partitions.get(partition)
        if seen is None or partition.topic in play.deleted_topics or play.touched.get(partition, just_now) > just_now:
            continue
        if str(partition) in later:
            continue
        if str(partition) in withdrawn:
            if left_there := sorted(leaving & set(seen.replicas)):
                what = f"{run.dag_id} is green though {partition}, which was withdrawn, is on broker {left_there}"
                found.append(Violation("I6", f"{what}, which was to be emptied", now))
            continue
        if seen.in_flight or tuple(seen.replicas) != tuple(target):
            found.append(
                Violation(
                    "I6",
                    f"{run.dag_id} is green though {partition} is at {list(seen.replicas)}, not at {list(target)}",
                    now,
                )
            )
        elif request.job is Job.LEADERS and seen.leader != target[0] and not _was_dead(play, target[0], just_now):
            found.append(
                Violation(
                    "I6", f"{run.dag_id} is green though {partition} is led by {seen.leader}, not by {target[0]}", now
                )
            )
    return found


def _begun_by_later(play: Play, reassignment_id: str, since: datetime) -> set[str]:
    """Which partitions other reassignments move that began after a moment: a run may turn green long after its last task."""
    truth, found = play.world.truth, set[str]()
    for other in others_than(play, reassignment_id):
        if (started := truth.started_at(other)) is not None and started > since:
            found |= truth.begun(other)
    return found


def _was_dead(play: Play, broker: int, since: datetime) -> bool:
    """Whether a broker was dead since a moment: another one leads then, until the next election."""
    return broker in play.dead or (broker in play.restarted and play.restarted[broker] > since)


def others_than(play: Play, reassignment_id: str) -> list[str]:
    """The ids of the other reassignments, those included whose runs a person deleted."""
    runs = {r.run_id for a in play.world.airflows for r in a.runs.values() if r.dag_id == DAG_ID}
    return sorted((runs | play.world.truth.reassignments()) - {reassignment_id})


def _to_roll_back(play: Play, reassignment_id: str, by: str) -> dict[TopicPartition, Replicas]:
    """Where a roll back leads, but for what only others have moved, or what was resumed has moved since: that stays as it is."""
    truth, others = play.world.truth, others_than(play, reassignment_id)
    begun = (
        truth.begun(reassignment_id)
        - _found_back(play, reassignment_id)
        - _changed_since_settled(play, reassignment_id)
    )
    moved = {str(p) for p in play.touched} | {p for other in others for p in truth.begun(other)}
    asked_at = truth.started_at(by)
    since = truth.submitted_since(reassignment_id, asked_at) if asked_at is not None else frozenset()
    moves = [m for m in truth.moves(reassignment_id) if str(m.partition) not in since]
    return {m.partition: m.current for m in moves if str(m.partition) not in moved or str(m.partition) in begun}


def _changed_since_settled(play: Play, reassignment_id: str) -> set[str]:
    """Which partitions a stop has found settled, and others have changed since the order to stop."""
    truth = play.world.truth
    ordered_at = truth.ordered_at(reassignment_id)
    if ordered_at is None:
        return set()
    settled = truth.settled(reassignment_id)
    return {str(p) for p, at in play.touched.items() if at > ordered_at and str(p) in settled}


def _found_back(play: Play, reassignment_id: str) -> set[str]:
    """Which partitions of a stopped reassignment a later one found where they had been before (decision 0039)."""
    truth = play.world.truth
    asked = truth.started_at(reassignment_id)
    if asked is None or not truth.was_stopped(reassignment_id):
        return set()
    before = {m.partition: m.current for m in truth.moves(reassignment_id)}
    later = [o for o in others_than(play, reassignment_id) if (at := truth.started_at(o)) is not None and at > asked]
    return {
        str(move.partition)
        for other in later
        for move in truth.moves(other)
        if move.current == before.get(move.partition) and str(move.partition) in truth.begun(other)
    }


def at_the_end(play: Play) -> list[Violation]:
    """I5: configs as before us except what others changed, nothing owed, the lock free, the audit chain whole.

    To be called when all runs have ended and a sweep has run. Where a person deleted a run or decided about its colour,
    that person knows that it has to be cleaned up after, and nothing is asked for but the audit chain.
    """
    now, truth = play.world.time.now, play.world.truth
    found = [Violation("I5", text, now) for text in _audit(play)]
    if play.hands:
        return found
    if owner := truth.owner():
        found.append(Violation("I5", f"the cluster is still locked by {owner}", now))
    found += [
        Violation("I5", f"{partition} is still in flight because of us", now)
        for partition, who in sorted(play.ledger.movers.items())
        if who == "ours"
    ]
    found += [Violation("I5", text, now) for text in _half_way(play)]
    for reassignment_id, journal in sorted(truth.journals().items()):
        if not journal.is_settled:
            found.append(Violation("I5", f"the journal of {reassignment_id} owes {journal.owed_texts()[0]}", now))
    if any("/throttle-journal/" in path for path in play.damaged):
        return found  # what it owes nobody can tell: the sweep is red, and names it
    return found + [Violation("I5", text, now) for text in _configs(play)]


def _half_way(play: Play) -> Iterator[str]:
    """Say which partitions have more replicas than any reassignment found or wanted, and no report has said so."""
    truth = play.world.truth
    longest: dict[TopicPartition, int] = {}
    for reassignment_id in truth.reassignments():
        for move in truth.moves(reassignment_id):
            longest[move.partition] = max(longest.get(move.partition, 0), len(move.current), len(move.target))
    ends = {CANCEL_DAG_ID: "report_stop", DAG_ID: "report"}
    runs = (run for airflow in play.world.airflows for run in airflow.runs.values() if run.dag_id in ends)
    said = [str(run.tasks[ends[run.dag_id]].xcoms.get("return_value")) for run in runs]
    rejected = [str(run.tasks["approve"].message) for run in play.runs(DAG_ID)]
    for reassignment_id in truth.reassignments():
        if any(f"Reassignment {reassignment_id}, which was superseded, is stopped with" in text for text in rejected):
            said += [str(move.partition) for move in truth.moves(reassignment_id)]
    if any("/lock/" in path for path in play.damaged):  # whom a successor supersedes nobody can tell any more
        unreadable = [r for r in truth.reassignments() if r in play.approved or is_damaged(play, r)]
        said += [str(move.partition) for each in unreadable for move in truth.moves(each)]
    for partition, most in sorted(longest.items()):
        seen = play.state.partitions.get(partition)
        if seen is None or len(seen.replicas) <= most or partition.topic in play.deleted_topics:
            continue
        if partition not in play.touched and not any(str(partition) in text for text in said):
            yield f"{partition} is left at {list(seen.replicas)}, though {most} replicas are enough for every reassignment"


def _configs(play: Play) -> list[str]:
    state, account, found = play.state, play.ledger.configs, []
    for key in sorted({*state.configs, *account.theirs, *account.their_entries}):
        value = state.configs.get(key)
        if is_rate(key):
            wanted = account.theirs.get(key)
            if value != wanted and value not in account.acceptable.get(key, set()):
                found.append(f"{key[0]}: {key[1]} is {value}, before us it was {wanted}")
        elif any(p.topic == key[0].name for p in state.partitions) and key[0].name not in play.deleted_topics:
            either = account.of_either.get(key, set())
            entries, wanted_entries = set(entries_of(value)) - either, account.their_entries.get(key, set()) - either
            if extra := entries - wanted_entries:
                found.append(f"{key[0]}: entries {sorted(extra)} of ours are still in {key[1]}")
            if missing := wanted_entries - entries:
                found.append(f"{key[0]}: entries {sorted(missing)} of another client are gone from {key[1]}")
    return found


def _audit(play: Play) -> list[str]:
    found = []
    truth = play.world.truth
    tries = play.tries_that_ended_well()
    with truth.undisturbed():
        for run in play.runs(DAG_ID):
            if is_damaged(play, run.run_id):
                continue
            record = truth.record(run.run_id)
            try:
                if not record.exists:
                    continue
                record.audit.verify()
                trail = list(record.audit)
            except RecordError as error:
                its = {number for folder, number in play.unlinked if folder == path_part(run.run_id)}
                links = any(str(error).startswith(f"Audit event {n} of ") and "does not fit" in str(error) for n in its)
                if not links:
                    found.append(f"the audit trail of {run.run_id}: {error}")
                continue
            found += [f"no event announces the drop of {p}" for p in unannounced_drops(trail)]
            events = {(e.actor.run_id, e.actor.task_id, e.actor.try_number) for e in trail}
            mine = {(run_id, task_id, number) for whose, run_id, task_id, number in tries if whose == run.run_id}
            for run_id, task_id, number in sorted(mine - events):
                found.append(f"try {number} of {task_id} of {run_id} left no audit event")
    return found
