"""Re-batching what is left: other limits (KIP-435's P, R, L), or partitions that had to wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import chain

from kafka_reassignment.advice import LIMITS_DAG_ID, Correct, Rerun
from kafka_reassignment.decisions.batching import BatchRates, to_need_fewer_batches
from kafka_reassignment.decisions.moves import is_half_way
from kafka_reassignment.decisions.single_batch_controller import controller_of
from kafka_reassignment.decisions.throttle import without_slowdowns
from kafka_reassignment.errors import InfeasiblePlanError, InvalidRequestError, overtaken
from kafka_reassignment.model import ClusterDescription, Step, TopicPartition, View
from kafka_reassignment.plan.rebatch import RemainingPlan, fewest_left, rebatch
from kafka_reassignment.record.operator_commands import LimitsCommand, Revision
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import PACES, Limits, parse_limits
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.cut_again import cut_around_dead, cut_from_now
from kafka_reassignment.steps.base.moves import confirmed_view
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.base.view import observe
from kafka_reassignment.steps.left.left_open import LeftOpen, has_left_open, still_open
from kafka_reassignment.steps.left.left_out import submission


def change_limits(
    run: RunContext, changes: Mapping[str, object], by: str, *, asked_at: datetime | None = None
) -> Limits:
    """Order other limits for the batches that have not begun; the ones not named stay as they were asked for last.

    Gives way to what a person has asked for later. That is no error in the run of the reassignment itself, which could
    never get past it.

    Args:
        run: of the running reassignment.
        changes: the new limits by name, or a pace; None where one does not change.
        by: who asks for it.
        asked_at: when; a retry has the same time. Now where None.

    Raises:
        InvalidRequestError: a limit is out of its bounds, unknown, or none is named; or nothing is running, or left to
            limit; or other limits were asked for later.
        InfeasiblePlanError: what is left needs more batches by them than ``max_batches``, however it is packed.
        RecordDamagedError: what is left is not as it was planned.
    """
    if not run.record.exists:
        raise InvalidRequestError(
            f"No reassignment is running on cluster {run.record.cluster_id}: there are no limits to change, and nothing was "
            "changed",
            Correct("give the limits in the request of the next reassignment"),
        )
    named = {k: v for k, v in changes.items() if v is not None}
    # A pace is a change of all its limits, except those that are named beside it.
    paced = PACES.get(str(named.get("pace")), {})
    at = asked_at or run.now()
    with run.audited("change_limits") as event:

        def decide(last: LimitsCommand | None) -> tuple[LimitsCommand | None, tuple[Limits, Limits]]:
            is_own = last is not None and last.is_of(run.actor)
            asked = last.limits if last else run.request.limits
            if not is_own and last is not None and last.at > at:
                if run.is_its_own_order:
                    return None, (asked, asked)
                raise _later_order(last)
            limits = parse_limits({**asked.model_dump(), **paced, **named})
            if limits == asked and is_own:
                return None, (asked, limits)
            if limits == asked:
                raise InvalidRequestError(
                    f"The limits are asked to be {_format_limits(limits)}, which they are already",
                    Correct("name at least one that changes"),
                )
            check_limits(limits, run.cluster.describe_cluster())
            _require_few_batches(run, _require_batches_left(run), limits)
            return LimitsCommand(at=at, by=by, run_id=run.actor.run_id, limits=limits), (asked, limits)

        before, limits = run.record.limits_commands.change(decide)
        if limits == before:
            event.outcome = "skipped"
            event.summary = (
                f"this run has ordered them before, or others were asked for since: {_format_limits(limits)}"
            )
            return limits
        event.facts = {"before": before.model_dump(), "after": limits.model_dump()}
        event.summary = f"limits from the next batch on: {_format_limits(limits)}; before: {_format_limits(before)}"
        return limits


def _later_order(last: LimitsCommand) -> InvalidRequestError:
    """Return the error where other limits were asked for since: a retry, or a run that is cleared later, would undo them."""
    return InvalidRequestError(
        f"Other limits were asked for later, at {last.at:%Y-%m-%d %H:%M:%S} UTC: {_format_limits(last.limits)}. Nothing was "
        "changed",
        Correct(f"trigger {LIMITS_DAG_ID} again, if these limits are what is meant now"),
    )


def check_limits(limits: Limits, description: ClusterDescription) -> None:
    """Refuse limits that the cluster's controller cannot keep.

    Raises:
        InvalidRequestError: it takes one batch at a time, and this would be too large for one.
    """
    movements = limits.partition_movements
    largest = controller_of(description).max_batch
    if largest is not None and movements > largest:
        raise InvalidRequestError(
            f"'partition_movements' is {movements}, expected at most {largest}: cluster {description.cluster_id} is "
            "below Kafka 2.4, whose controller takes one batch at a time, and all of it at once",
            Correct("lower the limit"),
        )


def revise(run: RunContext, after: int, event: AuditDraft, *, then: Rerun) -> None:
    """Re-batch what is left after one batch where that is due.

    It is when other limits were asked for, when partitions of the batch are retried or left open, and when partitions
    of the next batch have several steps left and a replica out of sync: KIP-435 then drops that one first, and adds as
    many as reach ``min.insync.replicas``. Does nothing when that was done already, by the limits that are asked for
    now, or when the next batch has begun. One that a stop has cancelled since is re-batched where other limits were
    asked for; what the stop has left elsewhere than at its beginning stays in it as it is.

    Args:
        run: of the reassignment.
        after: the number of the batch.
        event: of the step that calls.
        then: how that step is run again.

    Raises:
        InfeasiblePlanError: the limits would need more batches than they allow.
        OvertakenError: another try has re-batched it meanwhile.
    """
    record, recorded = run.record, RecordView(run.record)
    number, last = record.revisions.last()
    asked = record.limits_requested()
    new_limits = asked if asked != record.limits_in_force() else None
    is_planned = last is not None and last.first_batch > after
    was_submitted = recorded.submitted(after + 1) is not None
    if (is_planned or was_submitted) and new_limits is None:
        return
    if was_submitted and (recorded.stopped() is not None or submission(recorded, after + 1) is not None):
        return
    retried = _retried_partitions(record, after)
    opened, newly_opened = _left_open_steps(record, after)
    opened += _steps_half_way(run, recorded, retried, opened, is_cut_again=new_limits is not None)
    again = _not_of(opened, retried)
    around_dead = _around_dead(run, recorded, after, again, opened)
    without = (*around_dead, *map(_name, opened))
    # Also what the batch before had left to it: what is under way in its batch is not cut again.
    begun = _begun_before_stop(run, recorded, after + 1, without=without) if was_submitted else ()
    retried = tuple(p for p in retried if p not in around_dead and p not in begun)
    without = (*without, *retried, *begun)
    again = _not_of(opened, retried)
    opened = tuple(step for step in opened if _name(step) not in around_dead)
    unhealthy = _steps_of_unhealthy(run, after + 1, without=without, is_cut_again=new_limits is not None)
    unhealthy = (*chain.from_iterable(around_dead.values()), *unhealthy)
    if new_limits is None and not retried and not newly_opened and not unhealthy:
        return
    remaining = RemainingPlan(
        after=after,
        retried_later=again,
        is_planned=is_planned,
        went_behind=_went_behind(record, after),
        left_open=opened,
        unhealthy=unhealthy,
        begun=begun,
        new_limits=new_limits,
    )
    reasons = [f"new limits: {_format_limits(asked)}"] if new_limits else []
    if not is_planned:
        reasons += [f"{len(retried)} partitions of batch {after} are retried"] if retried else []
        reasons += [f"{newly_opened} partitions of batch {after} are left open"] if newly_opened else []
    replanned = list(dict.fromkeys(str(step.partition) for step in unhealthy))
    reasons += [f"{len(replanned)} partitions have replicas out of sync"] if replanned else []
    before = record.plan_in_force()
    try:
        revision = _rebatched(run, number, remaining, asked, "; ".join(reasons))
    except InfeasiblePlanError as error:  # the request has begun: only other limits lead on
        fewer = to_need_fewer_batches(asked)
        error.set_advice(Correct(f"trigger {LIMITS_DAG_ID}, and there {fewer.what}"), then)
        raise
    event.facts["revision"] = {
        "reason": revision.reason,
        "batches_before": before.batches if before else 0,
        "batches": revision.batches,
        "plan_hash_before": before.plan_hash if before else "",
        "plan_hash": revision.plan_hash,
        "retried": list(retried),
        "left_open": list(revision.left_open),
        "unhealthy": replanned,
    }
    run.log.info("What is left after batch %d is re-batched (%s): %d in all", after, revision.reason, revision.batches)


def has_left_for_later(recorded: RecordView, after: int) -> bool:
    """Whether a batch has left partitions to a later one, and none was planned for them yet: ``revise`` is due."""
    last, record = recorded.last_revision(), recorded.record
    if after < 1 or (last is not None and last.first_batch > after):
        return False
    return bool(_retried_partitions(record, after)) or _left_open_steps(record, after)[1] > 0


def move_from_start(run: RunContext, partitions: Collection[str], event: AuditDraft) -> None:
    """Re-batch what is left of a stopped reassignment: these partitions are moved after all others, from their original replicas."""
    record = run.record
    number, last = record.revisions.last()
    finished, limits = record.finished_batches(), record.limits_in_force()
    after = next(n for n in range(1, run.plan().batches + 2) if n not in finished) - 1
    reason = f"{len(partitions)} partitions were taken back by the stop and are moved from the start"
    # What the batch before had left, and nothing was planned for yet when the stop came.
    is_planned = last is not None and last.first_batch > after
    retried = [p for p in (() if is_planned else _retried_partitions(record, after)) if p not in partitions]
    opened = tuple(s for s in _left_open_steps(record, after)[0] if _name(s) not in partitions)
    opened += _steps_half_way(run, RecordView(record), retried, opened, is_cut_again=False)
    remaining = RemainingPlan(
        after=after,
        retried_later=_not_of(opened, retried),
        went_behind=_went_behind(record, after),
        left_open=opened,
        from_start=partitions,
    )
    revision = _rebatched(run, number, remaining, limits, reason)
    event.facts["revision"] = {"reason": revision.reason, "batches": revision.batches, "plan_hash": revision.plan_hash}


def _rebatched(run: RunContext, last: int, remaining: RemainingPlan, limits: Limits, reason: str) -> Revision:
    """Re-batch what is left at a place of its own, and put it in force.

    Raises:
        OvertakenError: revision ``last`` is not the last any more.
    """
    record = run.record
    place = record.new_plan_place(run.now(), run.actor.task_id)
    changes = without_slowdowns(record.journal().rate_changes)
    rates = BatchRates.of(run.request, limits, changes)
    live, out = run.cluster.describe_cluster().live_brokers, record.uri_of(place)
    summary = rebatch(record.plan_ref(), record.plan_refs(), remaining, limits, rates, out, live_brokers=live)
    revision = Revision(
        at=run.now(),
        first_batch=remaining.after + 1,
        batches=len(summary.batches),
        place=place,
        plan_hash=summary.plan_hash,
        limits=limits,
        reason=reason,
        left_open=tuple(map(_name, remaining.left_open)),
    )
    if not record.revise_plan(last, revision):
        raise overtaken("it has re-batched what is left")
    return revision


def _steps_of_unhealthy(
    run: RunContext, number: int, *, without: Collection[str], is_cut_again: bool
) -> tuple[Step, ...]:
    """The steps of the next batch's partitions from what is in sync now, where these differ from the planned ones.

    Where all steps are cut again, also those that do not differ, and last ones: they would be cut as if all were in
    sync.
    """
    if number > run.plan().batches:
        return ()
    several = [s for s in run.batch(number).steps if (is_cut_again or not s.is_last) and _name(s) not in without]
    if not several:
        return ()
    view = observe(run.cluster, [s.partition for s in several])
    there = [s for s in several if s.partition in view.partitions]
    out_of_sync = {s.partition: s for s in there if not _is_in_sync(s, view)}
    cut = cut_from_now(run, list(out_of_sync.values()), view)
    differing = (
        its
        for p, its in cut.items()
        if is_cut_again or its[0].reassignment.target != out_of_sync[p].reassignment.target
    )
    return tuple(chain.from_iterable(differing))


def _is_in_sync(step: Step, view: View) -> bool:
    return view.in_sync(step.partition).issuperset(view.partitions[step.partition].replicas)


def _around_dead(
    run: RunContext, recorded: RecordView, batch: int, again: Collection[str], opened: Collection[Step]
) -> dict[str, tuple[Step, ...]]:
    """By partition, the steps around a dead broker of what a batch has left for later or left open.

    What is in flight stays as the controller has it.
    """
    retried = [s for s in whole_batch(recorded, batch).steps if _name(s) in again] if again else []
    steps = (*retried, *opened)
    view = observe(run.cluster, [s.partition for s in steps]) if steps else View(frozenset(), {})
    return {str(p): its for p, its in cut_around_dead(run, steps, view).items()}


def _begun_before_stop(
    run: RunContext, recorded: RecordView, number: int, *, without: Collection[str]
) -> tuple[str, ...]:
    """The partitions of a batch that are not where their step begins, though a stop has cancelled the batch.

    A stop carries on to the target what it cannot take back, and a resume may come before all is settled: what is in
    flight or half-way is looked after as part of its batch, and a step that is done must not be cut again.
    """
    if number > run.plan().batches:
        return ()
    steps = [s for s in whole_batch(recorded, number).steps if _name(s) not in without]
    view = confirmed_view(run, steps)
    return tuple(_name(s) for s in steps if not _is_where_it_begins(s, view))


def _is_where_it_begins(step: Step, view: View) -> bool:
    state = view.partitions.get(step.partition)
    return step.partition not in view.in_flight and (
        state is None or set(state.replicas) == set(step.reassignment.current)
    )


def _retried_partitions(record: Record, batch: int) -> tuple[str, ...]:
    """What a batch has left to a later one: nothing of it is submitted, or a stop has settled it since it was left open."""
    submitted = record.submitted(batch)
    if submitted is None:
        return ()
    opened = _still_open(RecordView(record)) if submitted.left_open else {}
    settled = [p for p in submitted.left_open if TopicPartition.parse(p) not in opened]
    withdrawn = record.withdrawn_partitions()
    return tuple(p for p in (*submitted.retried_later, *settled) if p not in withdrawn)


def _still_open(recorded: RecordView) -> dict[TopicPartition, LeftOpen]:
    """The steps that are left open, but for those that a stop has settled since: these begin again, by the limits of now."""
    opened = still_open(recorded)
    settled = recorded.record.settled.no_longer_ours() if opened else frozenset[str]()
    return {p: it for p, it in opened.items() if str(p) not in settled}


def _went_behind(record: Record, batch: int) -> tuple[str, ...]:
    submitted = record.submitted(batch)
    return submitted.went_behind if submitted else ()


def _left_open_steps(record: Record, batch: int) -> tuple[tuple[Step, ...], int]:
    """The steps that this batch and earlier ones have left open, and how many of them are of this batch.

    Not those that a stop has settled since: nothing of them is open any more. Nor those that a batch has left out since:
    they are retried, or were tried often enough.
    """
    recorded = RecordView(record)
    submitted = recorded.submitted(batch)
    if not (submitted and submitted.left_open) and not has_left_open(recorded):
        return (), 0
    withdrawn = record.withdrawn_partitions()
    last = recorded.last_revision()

    def is_planned_so(it: LeftOpen) -> bool:
        is_later = last is None or last.first_batch <= it.batch
        return _has_left_open(recorded, it) if is_later else last is not None and _name(it.step) in last.left_open

    opened = [it for p, it in sorted(_still_open(recorded).items()) if str(p) not in withdrawn and is_planned_so(it)]
    return tuple(it.step for it in opened), sum(it.batch == batch for it in opened)


def _has_left_open(recorded: RecordView, it: LeftOpen) -> bool:
    """Whether its batch has submitted it; else that has left it out."""
    submitted = recorded.submitted(it.batch)
    return submitted is not None and _name(it.step) in submitted.left_open


def _steps_half_way(
    run: RunContext, recorded: RecordView, retried: Collection[str], opened: Collection[Step], *, is_cut_again: bool
) -> tuple[Step, ...]:
    """The steps of retried partitions that an earlier batch has left half-way: cut from their beginning they would be stale.

    Where all steps are cut again, also of those that were cut around a dead broker, and have not begun so.
    """
    if not retried and not is_cut_again:
        return ()
    names, withdrawn = {*map(_name, opened)}, recorded.withdrawn_partitions()

    def is_meant(it: LeftOpen) -> bool:
        name = _name(it.step)
        if name in names or name in withdrawn:
            return False
        return name in retried or (is_cut_again and _has_left_open(recorded, it))

    meant = [it.step for _, it in sorted(_still_open(recorded).items()) if is_meant(it)]
    view = observe(run.cluster, [s.partition for s in meant]) if meant else View(frozenset(), {})
    return tuple(s for s in meant if is_half_way(s, view))


def _not_of(steps: Collection[Step], names: Collection[str]) -> tuple[str, ...]:
    """Those of some partitions of which none of these steps is."""
    there = {*map(_name, steps)}
    return tuple(p for p in names if p not in there)


def _name(step: Step) -> str:
    return str(step.partition)


def _require_batches_left(run: RunContext) -> int:
    """Return the number of the last batch that has begun; refuse where that is the last of all, and has left nothing to a later one.

    One that a stop has cancelled has not: it begins again when the reassignment is resumed. Batches are submitted in
    order, so what was submitted of one is read, not of all.
    """
    batches, finished = run.plan().batches, run.record.finished_batches()
    begun = next(n for n in range(1, batches + 2) if n not in finished) - 1
    if begun < batches and submission(RecordView(run.record), begun + 1) is not None:
        begun += 1
    if begun >= batches and not (begun in finished and has_left_for_later(RecordView(run.record), begun)):
        raise InvalidRequestError(
            f"Batch {begun} of {batches} of reassignment {run.record.reassignment_id} has begun and is the last one: "
            "other limits would change nothing",
            Correct(
                "change the rate with kafka_throttle instead, if that is what is needed; or stop the reassignment, ask again and "
                "resume it"
            ),
        )
    return begun


def _require_few_batches(run: RunContext, begun: int, limits: Limits) -> None:
    """Refuse limits that what is left cannot keep: it is re-batched only when a batch ends, maybe in the night, and the chain would end."""
    fewest = fewest_left(run.record.plan_refs(), begun, limits)
    if fewest > limits.max_batches:
        raise InfeasiblePlanError(
            f"What is left after batch {begun} of reassignment {run.record.reassignment_id} needs at least {fewest} batches by "
            f"these limits: expected at most {limits.max_batches} ('max_batches'). Nothing was changed",
            to_need_fewer_batches(limits),
        )


def _format_limits(limits: Limits) -> str:
    text = f"P {limits.partition_movements}, R {limits.replica_movements}, L {limits.leader_movements}"
    text += f", {limits.batch_minutes} min" if limits.batch_minutes else ""
    return text + (f", {limits.batch_bytes} bytes" if limits.batch_bytes else "")
