"""The plan step: snapshot, plan on Spark, freeze."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache

from kafka_reassignment.advice import CANCEL_DAG_ID, Correct, Rerun, Trigger
from kafka_reassignment.decisions.batching import BatchRates
from kafka_reassignment.decisions.moves import Phase, has_begun, phase
from kafka_reassignment.decisions.throttle import without_slowdowns
from kafka_reassignment.errors import InvalidRequestError, ReassignmentError, RecordDamagedError, is_worth_a_retry
from kafka_reassignment.model import ConfigResource, ConfigValue, Step, TopicPartition, View
from kafka_reassignment.plan.hash import target_hash
from kafka_reassignment.plan.inverse import BegunBatch, invert
from kafka_reassignment.plan.reassignment_json import write_reassignment_json
from kafka_reassignment.plan.report import plan_page, title_of
from kafka_reassignment.plan.score_card import headline, score_card
from kafka_reassignment.plan.store import PlanRef, read_batch, read_summary, read_target_table, read_targets_of
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.planner.environment import require_hadoop, require_pyspark
from kafka_reassignment.planner.snapshot import TopicFacts, snapshot_of, write_snapshot
from kafka_reassignment.record.models import PLAN_REPORT, FinishedBatch, FrozenPlan, SubmittedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.estimates import end_in_words
from kafka_reassignment.steps.base.recorded_batch import begun_batch, begun_names
from kafka_reassignment.steps.base.view import (
    MIN_ISR,
    REMOTE_STORAGE,
    log_dirs_and_cordons,
    min_insync_replicas,
    observe,
)
from kafka_reassignment.steps.preflight import refuse_moves_in_flight
from kafka_reassignment.steps.supersede import LeftBetween, give_back, left_between

TOPIC_KEYS = (MIN_ISR, REMOTE_STORAGE)


def make_plan(run: RunContext, *, master: str, spark_settings: Mapping[str, str] | None = None) -> str:
    """Take a snapshot, plan on Spark, freeze, write the JSON files and the report; return the plan in words.

    Each try plans at a place of its own, and the first one that freezes its plan is the one whose plan runs. A frozen
    plan is kept as it is, and what people see is read from it. An error that does not pass releases the cluster's lock
    while nothing was started.

    Args:
        run: the reassignment.
        master: Spark's.
        spark_settings: Spark's, by name; they override the planner's.

    Raises:
        InvalidRequestError: no plan meets the request; the message says why.
        ReassignmentInProgressError: another client has begun moves since ``preflight``.
        RecordDamagedError: the frozen plan was altered.
        PlannerMissingError: PySpark, Java or what the master needs is missing here.
    """
    with run.audited("plan") as event:
        if run.record.frozen_plan() is None:
            run.require_go_ahead(only_plans=True)
        with _releasing_lock(run):
            if run.record.frozen_plan() is None:
                _plan_and_freeze(run, master, spark_settings)
            if run.request.job is Job.ROLL_BACK and not run.request.validate_only:
                _rolled_back(run).note_roll_back(run.record.reassignment_id)
            plan = run.record.plan_ref()
            summary = read_summary(plan)
            if not run.record.has_file(PLAN_REPORT):
                _write_for_people(run, plan, summary)
        event.summary = headline(summary)
        event.facts = {
            "plan_uri": plan.uri,
            "plan_hash": plan.plan_hash,
            "assumptions": list(summary.assumptions),
        }
        ends = end_in_words(run, RecordView(run.record), summary)
        return score_card(summary, run.request, ends)


@contextmanager
def _releasing_lock(run: RunContext) -> Iterator[None]:
    """Release the cluster's lock at an error that does not pass, while nothing was started."""
    try:
        yield
    except ReassignmentError as error:
        if not is_worth_a_retry(error) and run.record.submitted(1) is None:
            _, half_way = give_back(run)
            # What is corrected is planned again once the lock is taken again; a request is corrected by another run.
            leads_there = Rerun("preflight") in error.advice or any(isinstance(a, Trigger) for a in error.advice)
            if not isinstance(error, InvalidRequestError) and not leads_there:
                error.add_advice(Rerun("preflight"))
            if half_way:  # in flight or between two assignments: it would stay so
                error.add_advice(Trigger(CANCEL_DAG_ID, {"reassignment_id": half_way}))
        raise


def _plan_and_freeze(run: RunContext, master: str, spark_settings: Mapping[str, str] | None) -> None:
    request = run.request
    place = run.record.new_plan_place(run.now(), f"plan, try {run.actor.try_number}")
    out_uri = run.record.uri_of(place)
    if request.job is Job.ROLL_BACK:
        summary = _roll_back(run, request, out_uri)
    else:
        summary = _plan_on_spark(run, request, out_uri, master, spark_settings)
    run.record.freeze_plan(
        FrozenPlan(
            plan_hash=summary.plan_hash,
            batches=len(summary.batches),
            frozen_at=run.now(),
            place=place,
            target_hash=target_hash(read_target_table(out_uri)),
            notes_found=True,
        )
    )


def _plan_on_spark(
    run: RunContext,
    request: ReassignmentRequest,
    out_uri: str,
    master: str,
    spark_settings: Mapping[str, str] | None,
) -> PlanSummary:
    # Imported here, so that the other steps need neither PySpark nor Java; and before Spark starts in another thread:
    # two threads that import PySpark at once find it half imported.
    require_pyspark()
    require_hadoop(master)
    from kafka_reassignment.planner.pipeline import plan  # noqa: PLC0415
    from kafka_reassignment.planner.session import planner_session  # noqa: PLC0415

    snapshot_uri = snapshot_of(out_uri)
    # Spark starts while the brokers are asked: each takes seconds, and neither needs the other.
    with ExitStack() as at_end, ThreadPoolExecutor(1) as background:
        starting = background.submit(at_end.enter_context, planner_session(master, settings=spark_settings))
        take_snapshot(run, snapshot_uri, as_if_cancelled=request.supersede)
        run.log.info("Snapshot written to %s; planning on Spark master %s", snapshot_uri, master)
        return plan(starting.result(), snapshot_uri, request, out_uri)


def _write_for_people(run: RunContext, plan: PlanRef, summary: PlanSummary) -> None:
    """Write the JSON files and the report, the report last: all of them are what is frozen in other words."""
    write_reassignment_json(plan, run.record.uri_of("reassignment.json"), "target")
    write_reassignment_json(plan, run.record.uri_of("rollback.json"), "current")
    title = title_of(run.record.reassignment_id, run.record.cluster_id)
    page = plan_page(summary, title=title, bytes_per_second=run.request.throttle_bytes_per_second)
    run.log.info("Report for people: %s", run.record.write_file(PLAN_REPORT, page.encode()))


def _roll_back(run: RunContext, request: ReassignmentRequest, out_uri: str) -> PlanSummary:
    """The batches of an earlier reassignment that were begun, inverted, newest first (KIP-455)."""
    earlier = _rolled_back(run)
    plan, plan_of = earlier.plan_in_force(), earlier.plan_refs()
    withdrawn, back = earlier.withdrawn_partitions(), _settled_where_they_were(earlier)
    recorded = RecordView(earlier)
    settled_at = earlier.settled.times() if back else {}
    taken_back_since = _taken_back(recorded)
    begun: list[BegunBatch] = []
    taken_up: set[str] = set()
    late: set[str] = set()
    batches = plan.batches if plan else 0
    moved = _moved(recorded, batches)
    for number in range(batches, 0, -1):
        if (submitted := recorded.submitted(number)) is not None:
            half_way: set[str] = set()
            never: set[str] = set()
            if (done := earlier.finished(number)) is None:
                steps, view = _steps_now(run, plan_of(number), number)
                half_way, never = _half_way(steps, view), _never_submitted(recorded, number, submitted, steps)
            else:
                late |= _came_late(settled_at, submitted, done) - withdrawn
            left_out = (
                (back - late) | _not_made(submitted, taken_up, moved | late) | ({*submitted.done_before} - moved - late)
            )
            left_out |= withdrawn - {*submitted.accepted, *submitted.left_open}  # taken out before its batch
            left_out |= never
            if taken_back := taken_back_since(submitted.order):
                left_out |= taken_back - (begun_names(recorded, number) or frozenset())
            begun.append(BegunBatch(number, plan_of(number), left_out, half_way))
            taken_up.update(submitted.accepted)
        elif number == 1 or earlier.finished(number - 1) is not None:
            # Its task may have died after Kafka had taken the batch, and before that was recorded.
            steps, view = _steps_now(run, plan_of(number), number)
            may_have = {s.partition for s in begun_batch(recorded, number).steps} - {*map(TopicPartition.parse, back)}
            not_begun = {str(s.partition) for s in steps if s.partition not in may_have or not has_begun(s, view)}
            if len(not_begun) < len(steps):
                begun.append(BegunBatch(number, plan_of(number), not_begun, _half_way(steps, view)))
    description, partitions = run.cluster.describe_cluster(), run.cluster.describe_partitions()
    try:
        return invert(
            begun,
            request,
            out_uri,
            live_brokers=description.live_brokers,
            rates=BatchRates.of(request, request.limits, without_slowdowns(run.record.journal().rate_changes)),
            partitions_in_cluster=len(partitions),
            min_insync_replicas=min_insync_replicas(run.cluster, {p.topic for p in partitions}),
            rack_of={id_: broker.rack for id_, broker in description.brokers.items()},
        )
    except RecordDamagedError as error:
        raise RecordDamagedError(
            f"{request.roll_back_of} cannot be rolled back: {error.problem}", Correct("restore its files from a copy")
        ) from error


def _steps_now(run: RunContext, plan: PlanRef, number: int) -> tuple[Sequence[Step], View]:
    """Return the steps of a batch, and what the cluster shows of their partitions now."""
    steps = read_batch(plan, number).steps
    return steps, observe(run.cluster, [s.partition for s in steps])


def _half_way(steps: Sequence[Step], view: View) -> set[str]:
    """Return which partitions are between the two ends of their step."""
    return {str(s.partition) for s in steps if has_begun(s, view) and phase(s, view).phase is not Phase.DONE}


def _never_submitted(recorded: RecordView, number: int, submitted: SubmittedBatch, steps: Sequence[Step]) -> set[str]:
    """Return which partitions have come to a batch when it was cut again after a stop, and were not submitted with it."""
    begun = begun_names(recorded, number)
    if begun is None:
        return set()
    return {str(s.partition) for s in steps} - {*submitted.accepted, *submitted.left_out, *submitted.left_open} - begun


def _moved(recorded: RecordView, batches: int) -> set[str]:
    """Return what batches have moved: what was at its target before its batch is another client's, unless another batch has moved it."""
    submitted = [s for n in range(1, batches + 1) if (s := recorded.submitted(n)) is not None]
    return {p for s in submitted for p in {*s.accepted} - {*s.done_before}}


def _not_made(submitted: SubmittedBatch, taken_up: set[str], moved: set[str]) -> set[str]:
    """Which partitions of a batch it has not moved, given those that later ones have taken up, and those that any has moved.

    Where a later step of a partition was made by us, what another client has made of it before leads to where this step
    does.
    """
    made_by_others = taken_up.intersection(moved, submitted.changed_by_others)
    return (submitted.left_out.keys() - made_by_others) | (taken_up & submitted.left_open.keys())


def _came_late(settled_at: Mapping[str, datetime], submitted: SubmittedBatch, done: FinishedBatch) -> frozenset[str]:
    """The partitions that their batch has found at its target after a stop had found them settled: its request came later."""
    settled_before = {p for p, at in settled_at.items() if at < done.finished_at}
    return frozenset(settled_before.intersection(submitted.accepted) - done.left_out.keys())


def _taken_back(recorded: RecordView) -> Callable[[int], frozenset[str]]:
    """Return what gives the partitions that stops after an order have taken back or left to others, and that were lifted since.

    What a stop has carried on to its target is there because of us.
    """
    lifted = [TopicPartition.parse(p) for p in recorded.lifted_since(0)]
    wholes = read_targets_of(recorded.plan_ref(), lifted) if lifted else {}
    targets = {str(p): whole.target for p, whole in wholes.items()}
    # Many batches have the same order.
    return cache(lambda order: recorded.record.settled.lifted_since(order, targets) if lifted else frozenset())


def _settled_where_they_were(earlier: Record) -> frozenset[str]:
    """The partitions that a cancel has brought back already: what they have become since is others' doing."""
    noted = earlier.settled.partitions()
    before = read_targets_of(earlier.plan_ref(), [TopicPartition.parse(p) for p in noted]) if noted else {}
    return frozenset(str(p) for p, move in before.items() if noted[str(p)] == move.current)


def _rolled_back(run: RunContext) -> Record:
    """The record of the reassignment that the request rolls back."""
    return run.store.record(run.record.cluster_id, str(run.request.roll_back_of))


def take_snapshot(run: RunContext, uri: str, *, as_if_cancelled: bool = False) -> None:
    """Write what the planner needs to know of the cluster into a folder.

    With ``as_if_cancelled`` a partition in flight counts as being where a cancel leaves it (KIP-236), and what the
    superseded reassignment has left between two assignments as being at one of them: that is where the batches will
    find it. What can reach neither is to have as many replicas as before. Where the controller cannot cancel, a move in
    flight ends at its target, and its original replicas are not known. Without it nothing may be in flight, as in
    ``preflight``, which may be long ago.

    Raises:
        ReassignmentInProgressError: another client has begun moves, and they are not to be cancelled.
    """
    description = run.cluster.describe_cluster()
    if not as_if_cancelled:
        refuse_moves_in_flight(run)
    partitions = run.cluster.describe_partitions()
    if not as_if_cancelled:  # again: adding replicas of a move that has begun meanwhile are among these
        refuse_moves_in_flight(run)
    for partition, flight in run.cluster.list_reassignments().items() if as_if_cancelled else ():
        if partition in partitions:
            partitions[partition] = replace(
                partitions[partition], replicas=flight.original if run.controller.can_cancel else flight.target
            )
    left = left_between(run) if as_if_cancelled else LeftBetween()
    for partition, replicas in left.to.items():
        partitions[partition] = replace(partitions[partition], replicas=replicas)
    run.log.info("%d partitions on %d live brokers", len(partitions), len(description.live_brokers))
    log_dirs = log_dirs_and_cordons(run.cluster, sorted(description.live_brokers))
    topics = sorted({p.topic for p in partitions})
    configs = run.cluster.describe_configs([ConfigResource.topic(t) for t in topics], TOPIC_KEYS)
    facts = {resource.name: _topic_facts(values) for resource, values in configs.items()}
    write_snapshot(description, partitions, log_dirs, facts, uri, factors=left.factors)


def _topic_facts(values: Mapping[str, ConfigValue]) -> TopicFacts:
    minimum, remote = values.get(MIN_ISR), values.get(REMOTE_STORAGE)
    return TopicFacts(
        min_insync_replicas=int(minimum.value) if minimum and minimum.value else None,
        remote_storage=remote.value == "true" if remote else None,
    )
