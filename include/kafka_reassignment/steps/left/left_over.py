"""What a reassignment leaves undone at its end: kept as a plan of its own, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from kafka_reassignment.advice import (
    CANCEL_DAG_ID,
    DAG_ID,
    RUNNING,
    Advice,
    Correct,
    Rerun,
    StartBrokers,
    Trigger,
    WaitUntil,
)
from kafka_reassignment.decisions.moves import never_completes, waits_for
from kafka_reassignment.decisions.verification import has_another_factor, verification
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import InFlight, Replicas, Step, TopicPartition, View
from kafka_reassignment.plan.reassignment_json import render_plan
from kafka_reassignment.plan.store import read_target, read_targets_of
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import Job, ReassignmentRequest
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.failed_log_dirs import to_repair_log_dirs
from kafka_reassignment.steps.base.health import cluster_health
from kafka_reassignment.steps.base.moves import SLICE
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.base.view import observe, observe_replicas
from kafka_reassignment.text import format_brokers

LEFT = "left.json"
"""In the record: what is left, as kafka-reassign-partitions reads it."""

MOST_AT_ONCE = 500
"""Partitions that the advice names; those after these are named when it is followed and the check is rerun."""

HOW = {
    "throttle_mb_per_second",
    "unthrottled",
    "allow_low_throttle",
    "allowed_unhealthy_partitions",
    "pause_while_unhealthy",
    "mb_per_second_while_unhealthy",
    "keep_free_share",
    "catch_up_timeout_minutes",
    "wait_for_broker_minutes",
    "expected_cluster_id",
    "limits",
    "auto",
    "maintenance",
}
"""Fields of a request that say how replicas are moved, not which."""

WHAT = {"job", "brokers", "topics", "exclude_topics", "exclude_brokers", "replication_factor"}
"""Fields of a request that say what is asked for of each partition, and where it may not go."""


def keep_what_is_left(run: RunContext, targets: Mapping[TopicPartition, Replicas]) -> None:
    """Write into the record what is left, as JSON for kafka-reassign-partitions."""
    run.record.write_file(LEFT, render_plan(targets).encode())


def to_move_what_is_left(run: RunContext, targets: Mapping[TopicPartition, Replicas]) -> tuple[Advice, ...]:
    """Return the advice by which a new reassignment moves what is left, as the cluster is now.

    What such a reassignment would be refused for, or wait for, comes first: brokers that are down, more unhealthy
    partitions elsewhere than the request allows, moves of other clients, another owner of the cluster's lock. Of an
    offline partition those brokers are to come back that the ISR still names, or all where it names none: the one that
    was in sync last has every message. A new reassignment cannot move what gets fewer replicas than
    min.insync.replicas, nor what has no leader though the brokers that may lead it are up (F19): that is for a person
    to correct, and is all that the advice asks for when nothing else is left.

    Args:
        run: of the reassignment that leaves it.
        targets: where the partitions belong.
    """
    named = dict(islice(targets.items(), MOST_AT_ONCE))
    seen = observe(run.cluster, tuple(named))
    too_few = {p: r for p, r in named.items() if len(r) < seen.min_insync_replicas.get(p.topic, 1)}
    leaderless = leaderless_though_up(seen)
    movable = {p: r for p, r in named.items() if p not in too_few and p not in leaderless}
    if not movable:
        corrections = (
            *((to_lower_min_insync(too_few, seen),) if too_few else ()),
            *to_elect(leaderless, seen),
        )
        return (*corrections, Rerun("verify"))
    offline = {b for p, s in seen.partitions.items() if p in movable and s.leader is None for b in s.may_lead}
    down = offline.union(*movable.values()) - seen.live_brokers
    if (owner := run.lock_of_another()) is not None:
        start = (StartBrokers(tuple(sorted(down))),) if down else ()
        return (*start, *run.store.locked_by(owner, run.record.cluster_id, Rerun("verify")).advice)
    unhealthy = _too_unhealthy(run, movable)
    in_flight = run.cluster.list_reassignments()
    params = {"job": str(Job.APPLY_JSON), "reassignment_json": render_plan(movable), **_how(run.request)}
    return (
        *to_heal(run, unhealthy, in_flight=observe_replicas(run.cluster, in_flight), also_down=down),
        *((WaitUntil("the moves of other clients have ended"),) if in_flight else ()),
        Trigger(DAG_ID, params),
        WaitUntil("that reassignment has ended"),
        Rerun("verify"),
    )


def _too_unhealthy(run: RunContext, movable: Mapping[TopicPartition, Replicas]) -> View:
    """Return the other partitions because of which a new reassignment of these would be refused; none where they are few enough."""
    asked = run.request.model_copy(update={"job": Job.APPLY_JSON})
    unhealthy = cluster_health(run.cluster, asked, lambda: movable)
    if unhealthy.count <= asked.allowed_unhealthy_partitions:
        return View(frozenset(), {})
    others = unhealthy.elsewhere(movable.keys())
    return observe_replicas(run.cluster, [p for _, those in others.kinds for p in those])


def to_replace_brokers(run: RunContext, brokers: Collection[int]) -> Trigger:
    """Return the advice by which a new reassignment moves what brokers host that never come back."""
    return Trigger(DAG_ID, {"job": str(Job.DECOMMISSION), "brokers": sorted(brokers), **_how(run.request)})


def split_by_factor(
    run: RunContext, targets: Mapping[TopicPartition, Replicas]
) -> tuple[dict[TopicPartition, Replicas], dict[TopicPartition, Replicas]]:
    """Return the targets that are still to be reached, and the replicas of partitions that have another factor than the plan knows.

    The topic was made anew, or another client has changed its replication factor: the target would undo that, which
    nobody asked for. What looks half-way is so too where its batch has found it changed, unless that is back where its
    step begins.

    Args:
        run: of the reassignment that leaves them.
        targets: where the partitions belong.
    """
    others: dict[TopicPartition, Replicas] = {}
    moves, changed = read_targets_of(run.record.plan_ref(), targets), _steps_changed_by_others(run, targets)
    for some in in_slices(moves.values(), SLICE):
        seen = observe_replicas(run.cluster, [m.partition for m in some])
        for move in some:
            here, step = seen.heading_for(move.partition), changed.get(move.partition)
            is_changed = step is not None and set(here) != set(step.reassignment.current)
            if here and has_another_factor(move, here, is_changed_by_others=is_changed):
                others[move.partition] = here
    return {p: target for p, target in targets.items() if p not in others}, others


def _steps_changed_by_others(run: RunContext, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Step]:
    """Return the steps that their batches have left out because another client had changed their partitions, and that no later one has made."""
    recorded, names = RecordView(run.record), set(map(str, partitions))
    left_by: dict[str, int] = {}
    for number in sorted(recorded.finished_batches()) if names else ():
        if (submitted := recorded.submitted(number)) is not None:
            left_by = {p: n for p, n in left_by.items() if p not in submitted.accepted}
            left_by |= dict.fromkeys(names.intersection(submitted.changed_by_others), number)
    steps = (
        s
        for n in sorted(set(left_by.values()))
        for s in whole_batch(recorded, n).steps
        if left_by.get(str(s.partition)) == n
    )
    return {s.partition: s for s in steps}


def withdrawn_and_elsewhere(run: RunContext) -> dict[TopicPartition, Replicas]:
    """Return the target of each planned partition that is not there: another reassignment may have moved it since.

    What has another factor than the plan knows was withdrawn as advised.
    """
    left: dict[TopicPartition, Replicas] = {}
    for moves in in_slices(read_target(run.record.plan_ref()), SLICE):
        result = verification(moves, observe(run.cluster, [m.partition for m in moves]))
        done = {*result.at_target, *result.gone}
        left |= {m.partition: m.target for m in moves if m.partition not in done}
    return split_by_factor(run, left)[0]


def to_withdraw(run: RunContext, others: Mapping[TopicPartition, Replicas]) -> tuple[Advice, ...]:
    """Return the advice to take partitions that have another factor than the plan knows out of it; nothing when there are none."""
    if not others:
        return ()
    shown = name_some(f"{p} (at {format_brokers(here)})" for p, here in others.items())
    named = list(map(str, islice(others, MOST_AT_ONCE)))
    return (
        Correct(
            f"decide where {shown} belong, and ask for that in a request of its own where they are to be moved: another client "
            "has changed the replication factor since the plan was made, or made the topic anew, and the target of this plan "
            "would undo that"
        ),
        Trigger(CANCEL_DAG_ID, {"reassignment_id": run.record.reassignment_id, "partitions": named}),
    )


def to_end_moves(
    seen: View, among: Mapping[TopicPartition, InFlight] | None = None, *, also_down: Collection[int] = ()
) -> tuple[Advice, ...]:
    """Return what helps moves of other clients that do not end by themselves (F12, F19, F34).

    Args:
        seen: the partitions in flight; moves that need no help are no matter.
        among: which of these moves; all by default.
        also_down: further brokers to bring back.
    """
    moves = seen.in_flight if among is None else among
    never = [p for p, move in sorted(moves.items()) if never_completes(move)]
    waiting = {p: move for p, move in moves.items() if p not in never}
    down = {b for p, move in waiting.items() for b in waits_for(move, seen.live_brokers, seen.partitions.get(p))}
    brokers = sorted({*down, *also_down})
    start: tuple[Advice, ...] = (StartBrokers(tuple(brokers)),) if brokers else ()
    cancel = {"reassignment_id": RUNNING, "partitions": list(map(str, never)), "foreign": True}
    return (
        *start,
        *((Trigger(CANCEL_DAG_ID, cancel),) if never else ()),
        *to_elect(leaderless_though_up(seen) & moves.keys(), seen),
    )


def to_heal(
    run: RunContext, unhealthy: View, *, in_flight: View | None = None, also_down: Collection[int] = ()
) -> tuple[Advice, ...]:
    """Return what brings all replicas of unhealthy partitions back in sync, and helps moves that do not end by themselves.

    Args:
        run: whose cluster it is.
        unhealthy: the partitions.
        in_flight: the partitions that other clients move.
        also_down: further brokers to bring back.
    """
    moved = in_flight or View(unhealthy.live_brokers, {})
    down = {b for s in unhealthy.partitions.values() for b in s.replicas} - unhealthy.live_brokers
    behind = name_some(sorted(unhealthy.partitions))
    return (
        *to_end_moves(moved, also_down={*down, *also_down}),
        *to_elect(leaderless_though_up(unhealthy) - moved.in_flight.keys(), unhealthy),
        *to_repair_log_dirs(run, unhealthy),
        *((WaitUntil(f"all replicas of {behind} are in sync"),) if unhealthy.partitions else ()),
    )


def to_lower_min_insync(too_few: Mapping[TopicPartition, Replicas], seen: View) -> Correct:
    """Return the advice about targets with fewer replicas than min.insync.replicas; the check is to be rerun after it."""
    most = {p.topic: min(len(r) for q, r in too_few.items() if q.topic == p.topic) for p in too_few}
    lower = name_some(
        (f"topic {topic} from {seen.min_insync_replicas[topic]} to {replicas}" for topic, replicas in most.items()), 10
    )
    return Correct(
        f"lower min.insync.replicas ({lower}), or ask for more replicas in a new request: {name_some(too_few)} would get fewer "
        "than that"
    )


def leaderless_though_up(seen: View) -> set[TopicPartition]:
    """Return the partitions that have no leader though the brokers that may lead are up: none of them gets one by itself (F19).

    No other broker that is down helps: Kafka elects none out of the ISR but by an unclean election.
    """
    return {p for p in seen.leaderless if seen.partitions[p].may_lead <= seen.live_brokers}


def to_elect(leaderless: Collection[TopicPartition], seen: View) -> tuple[Correct, ...]:
    """Return the advice about partitions that get no leader by themselves; nothing when there are none.

    The replica that was in sync last has every message, so it comes first; an unclean election is the last resort.
    """
    if not leaderless:
        return ()
    last_in_sync = {p: seen.partitions[p].isr for p in sorted(leaderless)}
    shown = [f"{p} on broker {format_brokers(sorted(isr))}" for p, isr in last_in_sync.items() if isr]
    where = name_some(shown) if shown else "'kafka-topics.sh --describe' shows it as Elr or LastKnownElr"
    advice = Correct(
        f"give {name_some(sorted(leaderless))} a leader: all brokers of its ISR (of its replicas, where that is empty) are up, but Kafka "
        f"elects none by itself. First bring the replica back that was in sync last ({where}): its log dir may be offline, or its "
        "broker needs a restart. It leads then, and no message is lost. Only if that replica is gone for good, make another one the leader "
        "('kafka-leader-election.sh --election-type UNCLEAN'): all messages are lost that only the replica which is gone had, "
        "also those that were acknowledged"
    )
    return (advice,)


def to_decommission_again(run: RunContext, partitions: Collection[TopicPartition]) -> tuple[Advice, ...]:
    """Return the advice to trigger the same decommission again, and to look at the end of this one after it.

    It would be refused while fewer brokers stay than a partition has replicas: that is corrected first.

    Args:
        run: of the reassignment that leaves it.
        partitions: what the leaving brokers host.
    """
    return (*_to_find_room(run, partitions), *to_ask_again(run))


def to_ask_again(run: RunContext) -> tuple[Advice, ...]:
    """Return the advice to ask for the same again, and to look at the end of this reassignment after it."""
    asked = run.request.model_dump(include=WHAT, mode="json", exclude_defaults=True)
    return (Trigger(DAG_ID, asked | _how(run.request)), WaitUntil("that reassignment has ended"), Rerun("verify"))


def _to_find_room(run: RunContext, partitions: Collection[TopicPartition]) -> tuple[Correct, ...]:
    seen = observe(run.cluster, partitions)
    staying = seen.live_brokers - {*run.request.brokers, *run.request.exclude_brokers}
    replicas: dict[str, int] = {}
    for p, state in sorted(seen.partitions.items()):
        adding = seen.in_flight[p].adding if p in seen.in_flight else ()
        replicas[p.topic] = max(replicas.get(p.topic, 0), len(state.replicas) - len(adding))
    lacking = max(replicas.values(), default=0) - len(staying)
    if lacking <= 0:
        return ()
    factors = name_some(f"topic {topic} has {n}" for topic, n in replicas.items() if n > len(staying))
    return (
        Correct(
            f"start or add {lacking} brokers, or lower the replication factor (job replication_factor): {factors} replicas of a "
            f"partition, and only {len(staying)} brokers stay that may take them"
        ),
    )


def _how(request: ReassignmentRequest) -> dict[str, object]:
    """How it was asked to be done: the rate, the limits, the windows and what is waited for; not by when, which may be over."""
    return {name: value for name, value in request.as_fields(include=HOW).items() if name != "must_end_by"}
