"""What must hold at the end of a plot; each violation is one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.checks import about_configs, about_messages, gone_topics
from tests.faults_airflow.director import Director
from tests.throttle_watch import ThrottleWatch
from upath import UPath

from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.record.store import RecordStore


def problems(director: Director, watch: ThrottleWatch) -> list[str]:
    """Return everything that is not as it must be; everything broken is repaired first."""
    world = director.world
    world.wait_until_mended()
    world.kafka.heal()
    return [
        *watch.problems,
        *_about_positions(director),
        *about_configs(world, director.actions.others),
        *about_messages(world, director.actions.others),
        *_about_records(director),
    ]


def _about_positions(director: Director) -> Iterator[str]:
    """Every partition is where the last reassignment was to bring it; another client's move has the last word."""
    world, others = director.world, director.actions.others
    if in_flight := world.settled(world.cluster.list_reassignments):
        yield f"in flight at the end: {sorted(map(str, in_flight))}"
    seen = dict(world.settled(world.replicas))
    gone = gone_topics(world, others)
    expected = {p: {r} for p, r in (world.replicas_before | director.expected).items() if p.topic not in gone}
    for partition, replicas in others.moved.items():
        expected.get(partition, set()).add(replicas)
    for partition, allowed in sorted(expected.items()):
        if seen.get(partition) not in allowed:
            yield f"{partition} is at {seen.get(partition)}, expected {' or '.join(map(str, sorted(allowed)))}"


def _about_records(director: Director) -> Iterator[str]:
    store = RecordStore(UPath(director.world.records))
    cluster_id = director.world.cluster.describe_cluster().cluster_id
    for run_id in director.reassignments:
        record = store.record(cluster_id, run_id)
        try:
            record.audit.verify()
        except ReassignmentError as broken:
            yield f"audit of {run_id}: {broken}"
        if owed := record.journal().owed_texts():
            yield f"{run_id} still owes {owed}"
    if (owner := store.lock_owner(cluster_id)) is not None:
        yield f"the cluster is still locked by {owner}"
