"""The first step of a reassignment: it checks the request against the cluster, and takes the cluster's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kafka_reassignment.advice import BATCH_DAG_ID, CANCEL_DAG_ID, Advice, Correct, Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.admission import hung_moves
from kafka_reassignment.decisions.apply_json import check_targets
from kafka_reassignment.decisions.brokers import check_racks_left, excluded_in_vain, leaving_brokers
from kafka_reassignment.decisions.producer_wait import FETCH_KEYS, ProducerWait, producer_wait
from kafka_reassignment.decisions.rate import lower_rates_to_roll_back
from kafka_reassignment.decisions.throttle import Journal
from kafka_reassignment.decisions.windows import refuse_never_open
from kafka_reassignment.errors import (
    InvalidReplicationFactorError,
    InvalidRequestError,
    ReassignmentInProgressError,
    RecordDamagedError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    WrongClusterError,
    name_some,
    overtaken,
)
from kafka_reassignment.model import ClusterDescription, ConfigResource, PartitionState, TopicPartition
from kafka_reassignment.places import is_on_disk
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.request import Job, ReassignmentRequest, parse_request
from kafka_reassignment.request.topics import topics_matching
from kafka_reassignment.steps.auto_rate import check_signals
from kafka_reassignment.steps.base.context import RunContext, refuse_stopped
from kafka_reassignment.steps.base.finished import note_finished
from kafka_reassignment.steps.base.health import check_health
from kafka_reassignment.steps.base.moves import format_reasons
from kafka_reassignment.steps.base.same_id import refuse_same_id_elsewhere
from kafka_reassignment.steps.base.view import min_insync_replicas, observe_replicas
from kafka_reassignment.steps.left.left_over import to_end_moves
from kafka_reassignment.steps.limits import check_limits
from kafka_reassignment.steps.throttling.restore import adopt_debts

BROKERS_ASKED = 20
"""How many brokers are asked for static settings: a connection each, and they seldom differ."""


def preflight(
    run: RunContext,
    fields: dict[str, Any],
    requested_by: str,
    *,
    asked_at: datetime | None = None,
    batch_dag_id: str | None = None,
) -> None:
    """Read the request, check it against the cluster, open the record and lock the cluster.

    Everything that can refuse comes first; a refusal leaves its audit event behind and nothing else. Then the request
    is recorded, so that kafka_reassignment_cancel knows the reassignment, and then the cluster is locked. Where the
    plan is frozen already, the lock is only looked at: start_batches takes it. In a run without that task it is taken
    here. A finished reassignment stays as it is.

    Args:
        run: the reassignment.
        fields: of its request, by name.
        requested_by: who asks for it.
        asked_at: when, in UTC; what has taken the lock since is not superseded. A rerun has the same time. Now where
            None.
        batch_dag_id: the DAG of its batches, where they are runs of their own; where None that of the project, if the run
            has start_batches.

    Raises:
        OtherAirflowError: another Airflow has begun a reassignment of this id.
        RecordError: a reassignment of this id has another request, whether it goes on, was stopped or is finished.
        WrongClusterError, UnknownBrokerError, UnknownTopicOrPartitionError, InvalidRequestError: the request does not
            fit the cluster; or it would supersede what has begun since; or another cluster has a reassignment of this
            id, and batches are runs of their own.
        UnhealthyClusterError: more partitions are unhealthy than the request allows.
        ReassignmentInProgressError: another reassignment, of ours or of others, is under way.
        StoppedError: this one was stopped.
    """
    asked_at = asked_at or run.now()
    with run.audited("preflight") as event:
        run.refuse_other_airflow()
        request = parse_request(fields, is_recorded=run.record.exists)
        run.record.refuse_other_request(request)
        if run.record.is_reported:
            note_finished(run, event)
            return
        description = run.cluster.describe_cluster()
        if request.expected_cluster_id and request.expected_cluster_id != description.cluster_id:
            raise WrongClusterError(
                f"Connection '{request.kafka_conn_id}' leads to cluster {description.cluster_id}, expected "
                f"{request.expected_cluster_id}",
                Correct("correct the connection or the request"),
            )
        partitions = run.cluster.describe_partitions()
        _check_all(
            lambda: check_limits(request.limits, description),
            lambda: _check_supersede(run, request, description),
            lambda: _check_brokers(request, description, partitions),
            lambda: _check_topics(request, partitions),
            lambda: _check_job(run, request, description, partitions),
            lambda: check_signals(run.cluster, request, partitions),
        )
        wait = _producer_wait(run, description)
        refuse_stopped(run.record)
        recorded = RecordedRequest(
            cluster_id=description.cluster_id,
            reassignment_id=run.record.reassignment_id,
            started_at=run.now(),
            requested_by=requested_by,
            instance=run.instance,
            request=request,
            batch_dag_id=batch_dag_id or (BATCH_DAG_ID if run.has_task("start_batches") else None),
        )
        superseded = _owner_to_supersede(run, request, asked_at)
        if run.record.frozen_plan() is None:
            check_health(run.cluster, request)
            refuse_never_open(request.maintenance, run.now())
            if not request.supersede:
                refuse_moves_in_flight(run)
            refuse_same_id_elsewhere(run, run.recorded if run.record.exists else recorded)
            run.record.write_request(recorded)
            run.refuse_other_airflow()  # another one may have begun it since
            if superseded is not None:  # it may have ended since, or another try has taken its place
                superseded = _owner_to_supersede(run, request, asked_at)
            if superseded is not None:
                event.facts["superseded_reassignment"] = _stop(run, superseded, requested_by)
            _lock_to_plan(run, requested_by, superseded)
            if not request.validate_only:
                event.facts["debts_taken_over"] = list(adopt_debts(run))
                _keep_lower_rates(run, request)
        elif run.locking_task == "preflight":
            run.take_lock(requested_by=requested_by, then=[Rerun("preflight")])
            if not request.validate_only:
                event.facts["debts_taken_over"] = list(adopt_debts(run))
        if not run.instance and not is_on_disk(str(run.record.root)):
            run.log.warning(
                "This Airflow has no name. Where another one shares these records, set [kafka_reassignment] instance, or "
                "[api] base_url, in both: without it either would go on with a reassignment of the other"
            )
        event.facts["request"] = request.model_dump(mode="json", exclude_defaults=True)
        event.facts["producers_wait_seconds"] = wait and wait.seconds
        event.summary = (
            f"cluster {description.cluster_id}: {len(description.live_brokers)} brokers alive, "
            f"{len(partitions)} partitions; {request.job} may be planned"
        ) + (f"; {wait}" if wait else "")
        known = description.known_brokers(partitions)
        for in_vain in (excluded_in_vain(request.exclude_brokers, known), _topics_in_vain(request, partitions)):
            if in_vain:
                run.log.warning("%s", in_vain)
                event.summary += f"; {in_vain}"


def _check_all(*checks: Callable[[], None]) -> None:
    """Check everything, and refuse with one error that says all of it, of the class of the first."""
    found: list[InvalidRequestError] = []
    for check in checks:
        try:
            check()
        except InvalidRequestError as error:
            found.append(error)
    if len(found) == 1:
        raise found[0]
    if found:
        advice: list[Advice] = []
        for refused in found:
            advice += [one for one in refused.advice if one not in advice]
        raise type(found[0])("; ".join(refused.problem for refused in found), *advice)


def _producer_wait(run: RunContext, description: ClusterDescription) -> ProducerWait | None:
    some = sorted(description.live_brokers)[:BROKERS_ASKED]
    return producer_wait(run.cluster.describe_configs([ConfigResource.broker(b) for b in some], FETCH_KEYS))


def _lock_to_plan(run: RunContext, requested_by: str, superseded: ClusterLock | None) -> None:
    """Take the lock, unless another try has had it meanwhile, has planned, and has given it back: a rejected plan needs none."""
    is_new = run.take_lock(requested_by=requested_by, then=[Rerun("preflight")], instead_of=superseded)
    if is_new and run.record.frozen_plan() is not None:
        run.release_lock()
        raise overtaken(f"reassignment {run.record.reassignment_id} has its plan since")


def _owner_to_supersede(run: RunContext, request: ReassignmentRequest, asked_at: datetime) -> ClusterLock | None:
    """KIP-236: return the lock of the reassignment whose place this one takes; None where the cluster is not locked, or by this one.

    Raises:
        InvalidRequestError: the owner has the lock since this one was asked for, so it is not the one that was meant.
        ReassignmentInProgressError: another reassignment has the lock, and is not to be superseded; or a step has it
            for some seconds, such as a sweep: to take it would let both write throttle configs.
    """
    owner, cluster_id = run.lock_of_another(), run.record.cluster_id
    if owner is None:
        return None
    supersedes = request.supersede and not request.validate_only and run.record.frozen_plan() is None
    if not supersedes or not run.store.is_locked_for_long(cluster_id, owner):
        raise run.store.locked_by(owner, cluster_id, Rerun("preflight"))
    if owner.was_taken_after(asked_at):
        raise InvalidRequestError(
            f"Reassignment {owner.reassignment_id}, which has the lock of cluster {cluster_id}, has it since "
            f"{owner.since:%Y-%m-%d %H:%M:%S %Z}: after this one was asked to supersede what ran, at "
            f"{asked_at:%Y-%m-%d %H:%M:%S %Z}. Nothing was stopped",
            Correct(f"trigger a new run with the same request, if {owner.reassignment_id} is to be superseded as well"),
        )
    return owner


def _stop(run: RunContext, owner: ClusterLock, by: str) -> str:
    """Order that the reassignment which is superseded does nothing more; return its id."""
    other = run.store.record(run.record.cluster_id, owner.reassignment_id)
    own = run.record.reassignment_id
    run.record.note_superseded(owner.reassignment_id, run.now())
    other.run_commands.append(
        RunCommand(
            at=run.now(),
            by=by,
            run_id=run.actor.run_id,
            stopped=True,
            reason=f"superseded by {own}",
            superseded_by=own,
            notes_taken_back=True,
        )
    )
    run.log.warning(
        "Stopped %s, asked for by %s: this reassignment supersedes it", owner.reassignment_id, owner.requested_by
    )
    return owner.reassignment_id


def _check_supersede(run: RunContext, request: ReassignmentRequest, description: ClusterDescription) -> None:
    """Refuse to supersede where the controller cannot cancel: what is in the way ends by itself, and nothing can be planned before.

    A reassignment that has its plan goes on with it.
    """
    if not request.supersede or run.controller.can_cancel or run.record.frozen_plan() is not None:
        return
    owner = run.lock_of_another()
    stop: tuple[Advice, ...] = ()
    if owner is not None and run.store.is_locked_for_long(run.record.cluster_id, owner):
        stop = (
            Trigger(CANCEL_DAG_ID, {"reassignment_id": owner.reassignment_id}),
            WaitUntil("that run has settled it"),
        )
    raise InvalidRequestError(
        f"'supersede' is asked for, expected a request without it: cluster {description.cluster_id} is below Kafka 2.4, whose "
        "controller cannot cancel what is in flight. Nothing was stopped",
        *stop,
        Correct("ask again without 'supersede'"),
    )


def _check_brokers(
    request: ReassignmentRequest,
    description: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionState],
) -> None:
    live = description.live_brokers
    # A dead broker may be emptied, but nothing can be put on it.
    allowed = live | _hosting(partitions) if request.job is Job.DECOMMISSION else live
    unknown = [b for b in request.brokers if b not in allowed]
    if unknown:
        raise UnknownBrokerError(
            f"'brokers' names broker {name_some(unknown)}, expected brokers of cluster {description.cluster_id} "
            f"(alive: {name_some(sorted(live), 20)})",
            Correct("correct the ids, or start the broker first"),
        )


def _hosting(partitions: Mapping[TopicPartition, PartitionState]) -> set[int]:
    return {b for state in partitions.values() for b in state.replicas}


def _topics_in_vain(request: ReassignmentRequest, partitions: Mapping[TopicPartition, PartitionState]) -> str:
    """Say which of ``exclude_topics`` leave nothing out; empty where all do. The planner refuses them, but a roll back is not planned."""
    names = {p.topic for p in partitions}
    unknown = [repr(pattern) for pattern in request.exclude_topics if not topics_matching(pattern, names)]
    if not unknown:
        return ""
    return f"'exclude_topics' names {name_some(unknown, 10)}, which no topic of the cluster matches: correct it if another one is meant"


def _check_topics(request: ReassignmentRequest, partitions: Mapping[TopicPartition, PartitionState]) -> None:
    names = {p.topic for p in partitions}
    for pattern in request.topics:
        if not topics_matching(pattern, names):
            raise UnknownTopicOrPartitionError(
                f"'topics' names {pattern!r}, which no topic of the cluster matches",
                Correct("correct the name or the pattern"),
            )


def _check_job(
    run: RunContext,
    request: ReassignmentRequest,
    description: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionState],
) -> None:
    if request.replication_factor is not None and request.replication_factor > len(description.live_brokers):
        raise InvalidReplicationFactorError(
            f"replication_factor is {request.replication_factor}, expected at most {len(description.live_brokers)}: that "
            "many brokers are alive",
            Correct("lower it or add brokers"),
        )
    if request.job is Job.ROLL_BACK:
        _check_roll_back(run, str(request.roll_back_of))
    leaving = leaving_brokers(request.job, request.brokers, _hosting(partitions) | description.live_brokers)
    if leaving:
        rack_of = {b: description.brokers[b].rack for b in description.live_brokers}
        check_racks_left(rack_of, request.job, request.brokers, _most_racks(run, request, rack_of, leaving, partitions))
    if request.job is not Job.APPLY_JSON or request.reassignment_json is None:
        return
    targets = parse_plan(request.reassignment_json)
    current = {p: partitions[p].replicas for p in targets if p in partitions}
    check_targets(
        targets,
        current=current,
        live_brokers=description.live_brokers,
        min_insync_replicas=min_insync_replicas(run.cluster, {p.topic for p in current}),
        asks_about=request.asks_about,
        excluded_brokers=request.exclude_brokers,
    )


def _most_racks(
    run: RunContext,
    request: ReassignmentRequest,
    rack_of: Mapping[int, str | None],
    leaving: frozenset[int],
    partitions: Mapping[TopicPartition, PartitionState],
) -> int:
    """The most racks that a partition has live replicas in, of those with a replica on a leaving broker.

    What is to be superseded counts as cancelled: a move in flight has more.
    """
    in_flight = run.cluster.list_reassignments() if request.supersede and run.controller.can_cancel else {}
    asked = (
        in_flight[p].original if p in in_flight else state.replicas
        for p, state in partitions.items()
        if request.asks_about(p.topic)
    )
    affected = (replicas for replicas in asked if not leaving.isdisjoint(replicas))
    return max((len({rack_of[b] for b in replicas if b in rack_of}) for replicas in affected), default=0)


def _check_roll_back(run: RunContext, reassignment_id: str) -> None:
    earlier = run.store.record(run.record.cluster_id, reassignment_id)
    if earlier.frozen_plan() is None:
        raise InvalidRequestError(
            f"'roll_back_of' names {reassignment_id}, expected a reassignment of cluster {run.record.cluster_id} with a "
            "plan in the record",
            Correct("correct the id: it is the run id of its kafka_reassignment run"),
        )


def _keep_lower_rates(run: RunContext, request: ReassignmentRequest) -> None:
    """Let a roll back keep to the lower rates that were asked for single brokers: those brokers bear no more than before."""
    rate, earlier = request.throttle_bytes_per_second, request.roll_back_of
    if rate is None or earlier is None:
        return
    highest = max(rate, request.auto.bounds(rate)[1]) if request.auto.auto_rate else rate
    record = run.store.record(run.record.cluster_id, earlier)
    because = f"as while {earlier} ran, which is rolled back"
    try:
        lower = lower_rates_to_roll_back(
            record.recorded_request().request, record.journal(), below=highest, because=because
        )
    except RecordDamagedError as error:  # a roll back is the way out
        run.log.warning("Rates that were asked for single brokers are not known: %s", error)
        return

    def kept(journal: Journal) -> tuple[Journal, None]:
        changes = journal.rate_changes or lower  # what is asked for since a first try of this step stays
        return journal.model_copy(update={"rate_changes": changes}), None

    run.record.update_journal(kept)


def refuse_moves_in_flight(run: RunContext) -> None:
    """Refuse to plan while other moves are in flight: where their partitions will be is not known.

    Raises:
        ReassignmentInProgressError: some are.
    """
    in_flight = run.cluster.list_reassignments()
    if in_flight:
        seen = observe_replicas(run.cluster, in_flight)
        hung = hung_moves(seen)
        by_themselves = f"; these do not end by themselves: {format_reasons(hung)}" if hung else ""
        or_cancelled = (
            ", or cancel them with kafka_reassignment_cancel, or ask for 'supersede' to cancel those that are in the way"
            if run.controller.can_cancel
            else ""
        )
        raise ReassignmentInProgressError(
            f"{len(in_flight)} partitions of the cluster are being reassigned already ({name_some(sorted(in_flight))}), "
            f"not by this reassignment{by_themselves}",
            *to_end_moves(seen),
            WaitUntil(f"the moves are done{or_cancelled}"),
            Rerun("preflight"),
        )
