"""What a script did in the simulator, call by call, and how it ended: to be done again on real brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.actions import Action
from tests.simulation.follower import Follower
from tests.simulation.play import Play
from tests.simulation.scenario import MB, Topic
from tests.simulation.seam import record_store
from tests.simulation.track_record import FOLDER, read

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource, Replicas, ResourceKind, Step, TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment_airflow.runs import DAG_ID

SIZE_MB = 30
RATE_MB = 1
"""A copy takes half a minute in the simulator, and some 15 s on brokers: a new quota has 11 s of credit."""


@dataclass(frozen=True)
class Call:
    """One try of a task: how it ended, or "deferred" where it goes on to wait. ``batch`` is None for tasks of the main DAG."""

    task: str
    batch: int | None
    outcome: str


@dataclass(frozen=True)
class Act:
    """An action of the script, what it met, and the partitions that were in flight then."""

    action: Action
    met: str
    in_flight: frozenset[TopicPartition]


@dataclass(frozen=True)
class End:
    """How it ended.

    Args:
        replicas: of each partition.
        throttles: configs that are set, by resource and key.
        debts: configs that are to be restored.
        finished: numbers of the batches that are recorded as finished.
        left_out: partitions by batch, with the reason.
        is_reported: whether the report is written.
        owner: the reassignment that has the lock of the cluster.
    """

    replicas: Mapping[str, Replicas]
    throttles: Mapping[str, Mapping[str, str]]
    debts: tuple[str, ...]
    finished: frozenset[int]
    left_out: Mapping[int, Mapping[str, str]]
    is_reported: bool
    owner: str | None


@dataclass(frozen=True)
class Course:
    """A script as it went: topics, the batches of the plan, the calls and acts in their order, the end."""

    topics: tuple[Topic, ...]
    batches: tuple[tuple[Step, ...], ...]
    events: tuple[Call | Act, ...]
    end: End
    violations: tuple[str, ...]


def course_of(name: str) -> Course:
    """Play a script of ``seeds/`` with copies of ``SIZE_MB`` at ``RATE_MB``; for a process of its own."""
    fault = read(FOLDER / f"{name}.json", size_bytes=SIZE_MB * MB, request={"throttle_mb_per_second": RATE_MB})
    world = fault.scenario.world()
    play = Play(world, fault.script, scenario=fault.scenario)
    events: list[Call | Act] = []
    submissions: dict[int, int] = {}
    """The place of the call of each try of ``submit_batch``."""
    begin, report, do = world.airflow.on_attempt, world.airflow.on_report, play._do

    def call(attempt: Any, outcome: str) -> Call:
        batch = attempt.ti.run.conf.get("batch")
        return Call(attempt.ti.task_id, None if batch is None else int(batch), outcome)

    def on_attempt(attempt: Any) -> None:
        # It submits at once, and then raises the rates for eleven seconds: what happens meanwhile comes after it.
        if attempt.ti.task_id == "submit_batch":
            submissions[id(attempt)] = len(events)
            events.append(call(attempt, "running"))
        begin(attempt)

    def on_report(attempt: Any, outcome: Any) -> None:
        done = call(attempt, outcome.kind)
        if id(attempt) in submissions:
            events[submissions.pop(id(attempt))] = done
        else:
            events.append(done)
        report(attempt, outcome)

    def on_act(index: int, action: Action) -> None:
        in_flight = frozenset(p for p, s in play.state.partitions.items() if s.in_flight)
        do(index, action)
        events.append(Act(action, play.met[index] or "nothing", in_flight))

    world.airflow.on_attempt, world.airflow.on_report = on_attempt, on_report
    play._do = on_act  # type: ignore[method-assign]
    world.main_run = world.airflow.trigger(DAG_ID, fault.scenario.request)
    play.run()
    play.heal()
    follower = Follower(play)
    follower.lead_to_the_end()
    store = record_store()
    record = store.record(world.truth.cluster_id, world.main_run.run_id)
    numbers = range(1, record.plan_in_force().batches + 1)
    return Course(
        fault.scenario.topics,
        tuple(tuple(whole_batch(RecordView(record), n).steps) for n in numbers),
        tuple(events),
        end_of(world.cluster, store, record),
        tuple(map(str, follower.violations)),
    )


def end_of(cluster: ClusterPort, store: RecordStore, record: Record, topics: Mapping[str, str] | None = None) -> End:
    """Look at how a reassignment has ended.

    Args:
        cluster: that it was about.
        store: with its record.
        record: of the reassignment.
        topics: by the name on the cluster, the name in the script; the others are left out. All under their own name
            when None.
    """
    states = cluster.describe_partitions(None if topics is None else sorted(topics))
    names = topics or {p.topic: p.topic for p in states}
    brokers = [ConfigResource.broker(b) for b in sorted(cluster.describe_cluster().live_brokers)]
    configs = cluster.describe_configs([*brokers, *map(ConfigResource.topic, sorted(names))], THROTTLE_KEYS)
    owner = store.lock_owner(record.cluster_id)
    numbers = range(1, record.plan_in_force().batches + 1)  # type: ignore[union-attr]
    submitted = {n: s for n in numbers if (s := record.submitted(n)) is not None}
    return End(
        {f"{names[p.topic]}-{p.partition}": s.replicas for p, s in sorted(states.items())},
        {
            f"{r.kind} {names.get(r.name, r.name) if r.kind is ResourceKind.TOPIC else r.name}": set_now
            for r, values in sorted(configs.items())
            if (set_now := {k: v.value for k, v in sorted(values.items()) if v.value})
        },
        record.journal().owed_texts(),
        record.finished_batches(),
        {n: dict(s.left_out) for n, s in submitted.items() if s.left_out},
        record.has_file("report.txt"),
        owner.reassignment_id if owner else None,
    )
