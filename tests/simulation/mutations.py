"""The known faults, put back: without the mend of a fault its script has to break.

The first line of each mutation says what it takes out of the product. Scripts that one mend holds share a mutation.
Where a fault is held by several mends, all of them are taken out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafka_reassignment.advice import Advice, Rerun
from kafka_reassignment.decisions import admission as health_decisions
from kafka_reassignment.decisions import moves
from kafka_reassignment.decisions.admission import Health
from kafka_reassignment.decisions.cancel import Settling
from kafka_reassignment.decisions.moves import StepState
from kafka_reassignment.decisions.throttle import NOTHING, Journal, RateChange, union
from kafka_reassignment.decisions.throttle import set as throttle_changes
from kafka_reassignment.decisions.throttle.journal import UNSET
from kafka_reassignment.decisions.verification import Verification
from kafka_reassignment.model import Batch, InFlight, Reassignment, Replicas, TopicPartition, View
from kafka_reassignment.plan.store import PlanRef
from kafka_reassignment.record import models, objects
from kafka_reassignment.record.lock import LockChange
from kafka_reassignment.record.models import ClusterLock, FinishedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.settled import SettledNotes
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import (
    admission_window,
    batch,
    cancel,
    chain,
    clear,
    drop,
    plan,
    rate,
    supersede,
    throttle,
    verify,
)
from kafka_reassignment.steps.base import finished
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done
from kafka_reassignment.steps.left import left_open, left_over
from kafka_reassignment.steps.stopped import between_steps, stopped_steps
from kafka_reassignment.steps.stopped.stopped_steps import StoppedSteps
from kafka_reassignment.steps.throttling import restore
from kafka_reassignment_airflow import base

Patch = pytest.MonkeyPatch
Mutation = Callable[[Patch], None]

MUTATIONS: dict[str, Mutation] = {}
"""By the number of the fault."""


def puts_back(*faults: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation for these faults."""

    def registered(mutation: Mutation) -> Mutation:
        MUTATIONS.update(dict.fromkeys(faults, mutation))
        return mutation

    return registered


def _everywhere(patch: Patch, function: Callable[..., Any], instead: Callable[..., Any]) -> None:
    """Replace a function in each module of the product that has it by a name of its own."""
    for name, module in list(sys.modules.items()):
        if name.startswith("kafka_reassignment"):
            for own in [own for own, value in vars(module).items() if value is function]:
                patch.setattr(module, own, instead)


# ---------------------------------------------------------------- A: the throttle


@puts_back("A1")
def what_is_needed_is_cleared(patch: Patch) -> None:
    """Takes out that clear_throttle does nothing for a finished batch, and keeps what still copies throttled."""
    patch.setattr(clear, "is_finished_batch", lambda *_: False)
    _nothing_is_kept(patch)


@puts_back("A2", "G3")
def no_look_keeps_the_throttle(patch: Patch) -> None:
    """Takes out that each look of a waiting step sets what is missing of the throttle."""
    _everywhere(patch, throttle.keep_throttled, lambda *_: "")


@puts_back("A3")
def the_teardown_does_not_look(patch: Patch) -> None:
    """Takes out that the drop waits for the ISR, and that clear_throttle refuses while its batch copies, and keeps what copies."""
    the_drop_does_not_wait(patch)
    patch.setattr(clear, "still_copying", lambda *_: ())
    _nothing_is_kept(patch)


@puts_back("A4")
def rates_of_others_do_not_count(patch: Patch) -> None:
    """Takes out that a lower rate of another client stays."""
    patch.setattr(throttle_changes, "_without_us", lambda *_: UNSET)


@puts_back("A5")
def a_journal_is_emptied(patch: Patch) -> None:
    """Takes out that a journal loses only what was taken over of it."""

    def take_over(run: RunContext, other: Record) -> bool:
        debts = other.journal()
        run.record.update_journal(lambda own: (union(own, debts), None))
        other.update_journal(lambda _: (Journal(), None))
        return True

    patch.setattr(restore, "_take_over", take_over)


@puts_back("A6")
def nobody_looks_before_the_first_batch(patch: Patch) -> None:
    """Takes out that the throttle of what was taken over is looked at until the first batch."""
    _everywhere(patch, throttle.keep_throttle, lambda _: Done("nobody looks"))


def _nothing_is_kept(patch: Patch) -> None:
    patch.setattr(restore, "_copying", lambda *_: NOTHING)


# ---------------------------------------------------------------- B: the end


@puts_back("B1")
def a_dead_broker_blocks(patch: Patch) -> None:
    """Takes out that a replica which leaves may be on a dead broker."""
    real = moves.reason_blocked

    def reason_blocked(move: Reassignment, seen: View) -> str | None:
        return "a broker is down" if set(move.expanded) - seen.live_brokers else real(move, seen)

    _everywhere(patch, real, reason_blocked)


@puts_back("B2")
def all_time_counts(patch: Patch) -> None:
    """Takes out that only time in which bytes moved is measured, that a measurement which may pass is no reason to
    refuse, and that nobody is sent to raise a rate at which the batch fits.
    """
    ended, fits = Record.finished, admission_window.fits

    def finished_after(record: Record, number: int) -> FinishedBatch | None:
        done = ended(record, number)
        if done is None:
            return None
        seconds = (done.finished_at - done.started_at).total_seconds()
        return done.model_copy(update={"copied": done.copied.model_copy(update={"seconds": seconds})})

    patch.setattr(Record, "finished", finished_after)

    def sent_in_vain(run: RunContext, _recorded: RecordView, some: Batch, _longest: float | None) -> tuple[Any, ...]:
        asked = run.request.throttle_bytes_per_second or 0
        return (), (*rate.to_change(run, [RateChange(asked_bytes_per_second=asked)]), Rerun("admit", some.number))

    patch.setattr(admission_window, "fits", lambda spec, now, seconds, _least: fits(spec, now, seconds))
    patch.setattr(admission_window, "_higher_rates", sent_in_vain)


@puts_back("B3")
def the_drop_does_not_wait(patch: Patch) -> None:
    """Takes out that the drop waits until the whole target is in sync."""
    patch.setattr(drop, "deadline_of", lambda _run, started_at: started_at)


@puts_back("B4")
def leaders_are_not_verified(patch: Patch) -> None:
    """Takes out that verify looks at the leaders."""
    real = verify.verification

    def verification(wanted: Sequence[Reassignment], seen: View) -> Verification:
        return replace(real(wanted, seen), wrong_leader={})

    patch.setattr(verify, "verification", verification)


@puts_back("B5")
def a_stop_sees_single_steps(patch: Patch) -> None:
    """Takes out that a stop looks at the whole reassignment of a partition that takes several steps."""
    patch.setattr(stopped_steps, "read_targets_of", lambda *_: {})


@puts_back("B6")
def verify_leads_nowhere(patch: Patch) -> None:
    """Takes out that verify advises a reassignment of what is left."""
    patch.setattr(verify, "to_move_what_is_left", lambda *_: (Rerun("verify"),))


@puts_back("B7")
def a_stop_waits_for_others(patch: Patch) -> None:
    """Takes out that the end of a stop is not held up by another client's move, and names the brokers that are down."""
    real = cancel.ending

    def ending(*args: Any) -> Settling:
        decided = real(*args)
        return replace(decided, stranded={**decided.stranded, **decided.cancels.foreign})

    patch.setattr(cancel, "ending", ending)
    a_stop_only_says_again(patch)


# ---------------------------------------------------------------- C: the record


class _AnyHash(str):
    """Equals every other hash."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@puts_back("C1")
def no_hash_is_compared(patch: Patch) -> None:
    """Takes out that a plan is compared with the hashes that were frozen."""
    real = Record.plan_ref

    def plan_ref(record: Record) -> PlanRef:
        return replace(real(record), plan_hash=_AnyHash(), target_hash="")

    patch.setattr(Record, "plan_ref", plan_ref)


@puts_back("C2")
def nothing_is_flushed(patch: Patch) -> None:
    """Takes out that files and folders of the record are flushed."""
    patch.setattr(objects, "_flush", lambda *_: None)


@puts_back("C3", "G1", "G4")
def finished_batches_act(patch: Patch) -> None:
    """Takes out that steps of a finished batch do nothing, that a step takes no lock, and that a roll back sees what later steps made."""
    patch.setattr(plan, "_not_made", lambda submitted, *_: {*submitted.left_out})
    _everywhere(patch, finished.is_finished_batch, lambda *_: False)
    _everywhere(patch, finished.refuse_finished, lambda *_: None)
    patch.setattr(RunContext, "require_go_ahead", lambda run, _recorded=None, **_: _lock(run))


def _lock(run: RunContext) -> None:
    own = ClusterLock(reassignment_id=run.record.reassignment_id, since=run.now(), requested_by="a step")
    run.store.acquire(run.record.cluster_id, own)


@puts_back("C4")
def a_release_looks_first(patch: Patch) -> None:
    """Takes out that a release of the lock is refused when the lock has changed since it was looked at."""

    def release(
        store: RecordStore, cluster_id: str, reassignment_id: str, *, instance: str = "", **change: Any
    ) -> bool:
        series = store.lock(cluster_id)
        _, owner = series.last()
        if owner is None or not owner.is_of(reassignment_id, instance):
            return False
        return series.change_after(series.last_number(), LockChange(**change))

    patch.setattr(RecordStore, "release", release)


@puts_back("C5")
def all_airflows_are_one(patch: Patch) -> None:
    """Takes out that one Airflow is told from another."""
    _everywhere(patch, models.is_same_airflow, lambda *_: True)


# ---------------------------------------------------------------- G: after the end


@puts_back("G2")
def finished_batches_act_and_end_green(patch: Patch) -> None:
    """Takes out what C3 does, that a repeated submission looks at who has moved back, and that start_next_batch fails with its run."""
    finished_batches_act(patch)
    _everywhere(patch, left_open.changed_since, lambda *_: {})
    real = batch.next_batch
    _everywhere(patch, real, lambda run, number, _failed_tasks: real(run, number))


# ---------------------------------------------------------------- H: what seeds found


@puts_back("H1")
def nothing_is_left_open(patch: Patch) -> None:
    """Takes out that a batch goes on without partitions that wait for a dead broker."""
    _everywhere(patch, left_open.leave_open, lambda _run, _recorded, of, *_: (of, None))


@puts_back("H2")
def no_window_is_required(patch: Patch) -> None:
    """Takes out that submit_batch looks at the windows."""
    patch.setattr(batch, "_require_open_window", lambda *_: None)


@puts_back("H3")
def nobody_says_to_elect(patch: Patch) -> None:
    """Takes out that errors name a partition without a leader of which all brokers are up."""
    _everywhere(patch, left_over.leaderless_though_up, lambda _: set())


@puts_back("H4")
def every_step_counts_as_made(patch: Patch) -> None:
    """Takes out that a step which its batch has left out does not count as made, when a stop asks what is between two steps."""
    real = between_steps.begun_partitions

    def begun_partitions(recorded: RecordView) -> dict[TopicPartition, between_steps.Begun]:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(RecordView, "submitted", lambda *_: None)
            return real(recorded)

    _everywhere(patch, real, begun_partitions)


@puts_back("H5")
def the_wait_ends_too_soon(patch: Patch) -> None:
    """Takes out that wait_for_batches waits for a batch of what the last one has left."""
    patch.setattr(chain, "has_left_for_later", lambda *_: False)


@puts_back("H6")
def own_partitions_count(patch: Patch) -> None:
    """Takes out that partitions of the batch itself, and of the plan, are no reason to lower the rate."""
    health = rate.cluster_health
    patch.setattr(Health, "elsewhere", lambda self, _own: self)
    patch.setattr(rate, "cluster_health", lambda cluster, request, _planned: health(cluster, request))


@puts_back("H7")
def the_order_tells_nothing(patch: Patch) -> None:
    """Takes out that a move to the replicas of our expansion in another order is another client's."""
    real = moves._phase_in_flight

    def phase_in_flight(move: Reassignment, flight: InFlight, in_sync: frozenset[int]) -> StepState:
        if set(flight.target) == set(move.expanded):
            flight = replace(flight, replicas=(*move.expanded, *flight.removing))
        return real(move, flight, in_sync)

    patch.setattr(moves, "_phase_in_flight", phase_in_flight)


@puts_back("H8")
def min_isr_may_be_out_of_reach(patch: Patch) -> None:
    """Takes out that no more replicas have to be in sync than there are."""
    real = health_decisions.health

    def health(seen: View, **more: Any) -> Health:
        found = real(seen, **more)
        asked = seen.min_insync_replicas
        short = [p for p, state in sorted(seen.partitions.items()) if len(state.replicas) < asked.get(p.topic, 1)]
        return replace(found, under_min_isr=(*found.under_min_isr, *short))

    _everywhere(patch, real, health)


@puts_back("H9")
def sources_are_not_looked_at(patch: Patch) -> None:
    """Takes out that a move without a live replica to copy from is one that does not end by itself."""

    def waits_for(flight: InFlight, live_brokers: Collection[int], *_: Any) -> Replicas:
        return tuple(b for b in flight.adding if b not in live_brokers)

    _everywhere(patch, moves.waits_for, waits_for)


@puts_back("H10")
def a_stop_only_says_again(patch: Patch) -> None:
    """Takes out that a stop which cannot settle says what its partitions wait for."""

    def to_settle(*_: Any) -> tuple[Advice, ...]:
        return ()

    patch.setattr(cancel, "_to_settle", to_settle)


@puts_back("H11")
def nobody_says_to_end_it(patch: Patch) -> None:
    """Takes out that a sweep says what ends a move which Kafka never completes, and which keeps a throttle."""
    patch.setattr(restore, "to_end_moves", lambda *_: ())


@puts_back("H12")
def every_run_is_taken_to_be_there(patch: Patch) -> None:
    """Takes out that advice does not name a task of a run that was deleted."""
    patch.setattr(base.ReassignmentStepOperator, "has_run", lambda *_: True)


@puts_back("H13")
def the_lock_is_that_of_the_airflow_that_looks(patch: Patch) -> None:
    """Takes out that a reassignment's lock is its own also where a person stops it from another Airflow."""
    patch.setattr(RunContext, "_begun_by", property(lambda run: run.instance))


@puts_back("H14")
def what_is_half_way_does_not_count(patch: Patch) -> None:
    """Takes out that a batch is not finished while what a cancel has taken out of it is half-way."""
    patch.setattr(clear, "not_settled", lambda *_: {})


@puts_back("H15")
def an_order_does_not_look_back(patch: Patch) -> None:
    """Takes out that an order of a rate gives way to one that was given after it."""
    real = rate.set_in_parts

    def set_in_parts(run: RunContext, decide: Any, _goes_on: Any, event: Any) -> Any:
        return real(run, decide, lambda: True, event)

    patch.setattr(rate, "later_order", lambda *_: None)
    patch.setattr(rate, "set_in_parts", set_in_parts)


@puts_back("H16")
def the_new_plan_is_not_asked(patch: Patch) -> None:
    """Takes out that what was superseded goes to where the new plan counts on it."""
    real = supersede.settling

    def settling(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **(kwargs | {"ends": None}))

    patch.setattr(supersede, "settling", settling)


@puts_back("H17")
def who_was_superseded_before_is_forgotten(patch: Patch) -> None:
    """Takes out that what a reassignment has superseded in vain goes to the one that supersedes it."""
    real = stopped_steps._steps_of_superseded

    def of_own(run: RunContext, record: Record) -> Any:
        return real(run, record) if record is run.record else StoppedSteps()

    patch.setattr(stopped_steps, "_steps_of_superseded", of_own)


@puts_back("H18")
def what_was_withdrawn_is_not_looked_for(patch: Patch) -> None:
    """Takes out that a decommission is not done while its brokers host what was withdrawn."""
    look_at_all, observe_leaving = verify._look_at_all, verify.observe_leaving
    known: set[str] = set()

    def look(run: RunContext, withdrawn: frozenset[str]) -> Any:
        known.update(withdrawn)
        return look_at_all(run, withdrawn)

    def leaving(cluster: Any, request: Any, **options: Any) -> Any:
        seen = observe_leaving(cluster, request, **options)
        return replace(seen, hosted=[p for p in seen.hosted if str(p) not in known])

    patch.setattr(verify, "_look_at_all", look)
    patch.setattr(verify, "observe_leaving", leaving)


@puts_back("H19")
def what_others_have_added_before_a_batch_counts_as_its_own(patch: Patch) -> None:
    """Takes out the look at what is half-way before anything was submitted."""
    patch.setattr(batch, "changed_by_others", lambda run, recorded, whole, view, found: (view, {}))


@puts_back("H20")
def what_a_lifted_stop_has_settled_counts_as_begun(patch: Patch) -> None:
    """Takes out that a stop ends what was begun before it, also once it is lifted."""
    patch.setattr(SettledNotes, "lifted_since", lambda self, order, targets=None: frozenset())
