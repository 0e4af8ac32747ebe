"""What must hold after every run, whatever fault struck; each violation is one sentence."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.announced import unannounced_drops
from tests.faults.actions import Interference
from tests.faults.plan import Scenario
from tests.faults.runner import ScenarioRun
from tests.faults.tasks import Story, Try
from tests.faults.world import Configs, World

from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigSource,
    ConfigValue,
    Replicas,
    ResourceKind,
    TopicPartition,
)
from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.recorded_batch import whole_batch

ACTS_OF_A_LOOK = frozenset(
    {
        *("reinstate_throttle", "clear_idle_throttle", "correct_rates", "raise_rates"),
        *("cancel_moves", "leave_out", "leave_open", "settle_superseded"),
    }
)
"""Steps of the audit trail that a look leaves in passing, beside the event at its end."""

COMES_BACK_SECONDS = 30.0

UNSET = ConfigValue(None, ConfigSource.DEFAULT)
LISTS = frozenset(side.replicas_key for side in Side)


def problems(run: ScenarioRun) -> list[str]:
    """Return everything that is not as it must be; nothing when the run is right. Everything broken is mended first."""
    world, others = run.world, run.others
    world.wait_until_mended()
    world.kafka.heal()
    return [
        *_about_positions(run.scenario, world, others, run.story, run.record),
        *about_configs(world, others),
        *about_messages(world, others),
        *_about_audit(run.record, run.story),
        *_about_record(run),
        *run.story.unthrottled,
    ]


def about_messages(world: World, others: Interference) -> Iterator[str]:
    """No acknowledged message is lost or displaced."""
    gone = gone_topics(world, others)
    for topic, ledger in world.ledgers.items():
        if topic in gone:
            continue
        verdict = ledger.verify()
        if verdict.lost or verdict.displaced or not verdict.acknowledged:
            yield f"messages of {topic}: {verdict}"


def _about_positions(
    scenario: Scenario, world: World, others: Interference, story: Story, record: Record
) -> Iterator[str]:
    """Every partition is at its target or, where the run was stopped, where its last finished step ends or began."""
    in_flight = world.settled(world.cluster.list_reassignments)
    if in_flight:
        yield f"in flight at the end: {sorted(map(str, in_flight))}"
    seen = dict(world.settled(world.replicas))
    for topic, was_grown in others.grown.items():
        count = len(next(t for t in scenario.topics if t.name == topic).replicas)
        new = seen.pop(TopicPartition(topic, count), None)
        if was_grown and new is None and topic not in gone_topics(world, others):
            yield f"{topic}-{count}, which another client added, is not there"
    deleted = {p for p in world.replicas_before if p.topic in gone_topics(world, others)}
    if unknown := set(seen) ^ (set(world.replicas_before) - deleted):
        yield f"missing or unknown partitions: {sorted(map(str, unknown))}"
    allowed = _allowed(scenario, world, others, story, record)
    for partition, replicas in sorted(seen.items()):
        if replicas not in allowed[partition]:
            yield f"{partition} is at {replicas}, expected {' or '.join(map(str, sorted(allowed[partition])))}"
    at_target = {m.partition for m in scenario.moves if seen.get(m.partition, m.target) == m.target}
    elsewhere = {str(p) for p in others.elsewhere if p not in at_target}
    if story.left_elsewhere and not any(p in story.left_elsewhere for p in elsewhere):
        yield f"verify failed with: {story.left_elsewhere}"
    if elsewhere and not story.stopped:
        yield f"verify did not tell that {sorted(elsewhere)} are elsewhere"


def _allowed(
    scenario: Scenario, world: World, others: Interference, story: Story, record: Record
) -> dict[TopicPartition, set[Replicas]]:
    allowed = {p: {replicas} for p, replicas in world.replicas_before.items()}
    went_to_the_end = not story.stopped or bool(story.left_elsewhere) or record.stopped() is None
    for move in scenario.moves:
        allowed[move.partition] = (
            {move.target} if went_to_the_end else _where_stopped(record, move.partition, move.current)
        )
    for partition, replicas in others.elsewhere.items():
        # Before us: nothing of ours goes on. In the instant between our look and our submission: ours is the later
        # word.
        allowed[partition] |= {replicas}
    return allowed


def _where_stopped(record: Record, partition: TopicPartition, original: Replicas) -> set[Replicas]:
    plan = record.plan_in_force()
    at = {original}
    for number in range(1, (plan.batches if plan else 0) + 1):
        step = next((s for s in whole_batch(RecordView(record), number).steps if s.partition == partition), None)
        finished = record.finished(number)
        if finished is None:
            # The batch that was under way: each step of it was brought back or to its end.
            return at | {step.reassignment.target} if step else at
        if step is not None and str(partition) not in finished.left_out:
            at = {step.reassignment.target}
    return at


def about_configs(world: World, others: Interference) -> Iterator[str]:
    """Every throttle config is as before, value and source, but for what others set meanwhile.

    A broker answers for itself, and one that has just come back may show what was before it went.
    """
    end = time.monotonic() + COMES_BACK_SECONDS
    while (wrong := list(_wrong_configs(world, others))) and time.monotonic() < end:
        time.sleep(1.0)
    yield from wrong


def _wrong_configs(world: World, others: Interference) -> Iterator[str]:
    wanted = _with_others(world.before, others.configs)
    gone = gone_topics(world, others)
    wanted = {r: v for r, v in wanted.items() if r.kind is ResourceKind.BROKER or r.name not in gone}
    seen = dict(world.settled(world.configs))
    for resource in sorted(set(wanted) | set(seen)):
        expected, found = wanted.get(resource, {}), seen.get(resource, {})
        for key in sorted(set(expected) | set(found)):
            before, now = expected.get(key, UNSET), found.get(key, UNSET)
            touched = any(c.resource == resource and c.key == key for c in others.configs)
            if _comparable(key, before, touched) != _comparable(key, now, touched):
                yield f"{resource}: {key} is {now}, expected {before}"


def _comparable(key: str, value: ConfigValue, touched: bool) -> object:
    """A list that another client added to meanwhile is compared without its order: who came first is chance."""
    return (frozenset((value.value or "").split(",")), value.source) if touched and key in LISTS else value


def _with_others(before: Configs, changes: list[ConfigChange]) -> Configs:
    wanted: defaultdict[object, dict[str, ConfigValue]] = defaultdict(dict)
    wanted.update({resource: dict(values) for resource, values in before.items()})
    for change in changes:
        values = wanted[change.resource]
        earlier = values.get(change.key, UNSET)
        value = change.value
        if change.operation is ConfigOperation.APPEND and earlier.value:
            value = f"{earlier.value},{change.value}"
        is_topic = change.resource.kind is ResourceKind.TOPIC
        values[change.key] = ConfigValue(value, ConfigSource.DYNAMIC_TOPIC if is_topic else ConfigSource.DYNAMIC_BROKER)
    return dict(wanted)  # type: ignore[arg-type]


def _about_audit(record: Record, story: Story) -> Iterator[str]:
    """The chain is whole, every finished try has left exactly one event for its end, and drops are announced."""
    try:
        record.audit.verify()
        events = list(record.audit)
    except ReassignmentError as broken:
        yield f"audit: {broken}"
        return
    by_try: defaultdict[int, list[AuditEvent]] = defaultdict(list)
    for event in events:
        if event.outcome == "begun":
            continue
        if event.step in ACTS_OF_A_LOOK and event.step != event.actor.task_id:
            if event.outcome != "succeeded":
                yield f"audit: {event.step} by {event.actor.task_id} has ended as {event.outcome}"
        else:
            by_try[event.actor.try_number].append(event)
    if unannounced := unannounced_drops(events):
        yield f"audit: no event announces the drop of {unannounced}"
    for one in story.tries:
        found = [e.outcome for e in by_try.pop(one.actor.try_number, [])]
        if found not in _events_of(one):
            yield f"audit: try {one.actor.try_number} of {one.actor.task_id} ({one.ended}) has left {found}"
    if by_try:
        yield f"audit: events of tries that never were: {sorted(by_try)}"


def _events_of(one: Try) -> list[list[str]]:
    """The outcomes a try may have left."""
    done, failed = [["succeeded"], ["skipped"]], [["failed"]]
    if one.actor.task_id.startswith("watch_"):
        return [[]]
    if one.ended is None:
        return [[], *done, *failed]
    if one.ended.outcome == "waiting" and one.actor.task_id == "drop_old_replicas":
        return [[], ["succeeded"]]  # what it tried to drop, also where that is refused for now
    if one.ended.outcome == "waiting" or not one.ended.entered:
        return [[]]
    expected = done if one.ended.outcome == "returned" else failed
    return expected if one.store_was_well else [[], *expected]


def _about_record(run: ScenarioRun) -> Iterator[str]:
    """Nothing is owed, and the cluster is free for the next reassignment."""
    if owed := run.record.journal().owed_texts():
        yield f"still owed by the journal: {owed}"
    if (held := run.store.lock_owner(run.cluster_id)) is not None:
        yield f"the cluster is still held: {held}"


def gone_topics(world: World, others: Interference) -> frozenset[str]:
    """Topics that another client deleted, as far as they are gone: for sure where the cluster said so."""
    there: Mapping[TopicPartition, object] = world.replicas()
    return frozenset(t for t, sure in others.deleted.items() if sure or not any(p.topic == t for p in there))
