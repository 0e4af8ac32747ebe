"""A reassignment that was begun by the version before goes on: its record is read, and its moves and throttle are taken over.

``version_1/`` has what commit 805f3cb left in the middle of a decommission of broker 4: batch 1 of 5 is done, batch 2
copies under its throttle, operators have changed the limits and the rate and have withdrawn a partition.
``cluster.json`` is the cluster at that moment.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Clock, Run
from upath import UPath

from kafka_reassignment.errors import RecordDamagedError, VerificationError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ResourceKind, TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.verify import verify
from kafka_reassignment.views.listing import list_reassignments

LEFT = Path(__file__).parent / "version_1"
STATE = json.loads((LEFT / "cluster.json").read_text())


class Upgraded(Run):
    """The reassignment as it was left, and today's steps."""

    def __init__(self, cluster: FakeCluster, folder: Path) -> None:
        self.cluster = cluster
        self.cluster_id = STATE["cluster_id"]
        self.reassignment_id = STATE["reassignment_id"]
        self.clock = Clock()
        self.folder = UPath(folder)
        self.tries = 0
        self.when_waiting = lambda: (cluster.catch_up_all(), self.clock.sleep(60))


@pytest.fixture
def folder(tmp_path):
    with tarfile.open(LEFT / "records.tar.gz") as kept:
        kept.extractall(tmp_path, filter="data")
    return tmp_path / "records"


@pytest.fixture
def left_cluster():
    """The cluster as it was left: one partition copies, under a throttle."""
    cluster = FakeCluster(auto_catch_up=False)
    replicas: dict[str, list[tuple[int, ...]]] = {}
    for name, state in STATE["partitions"].items():
        adding = STATE["in_flight"].get(name, {}).get("adding", [])
        before = tuple(b for b in state["replicas"] if b not in adding)
        replicas.setdefault(TopicPartition.parse(name).topic, []).append(before)
    for topic, assigned in replicas.items():
        cluster.create_topic(topic, assigned, size_bytes=50_000_000)
    cluster.catch_up_all()
    copying = {TopicPartition.parse(p): tuple(STATE["partitions"][p]["replicas"]) for p in STATE["in_flight"]}
    cluster.alter_reassignments(copying, allow_replication_factor_change=True)
    for resource, values in STATE["configs"].items():
        kind, _, name = resource.partition(":")
        where = ConfigResource(ResourceKind(kind), name)
        cluster.alter_configs([ConfigChange(where, k, ConfigOperation.SET, v) for k, v in values.items() if v])
    return cluster


@pytest.fixture
def upgraded(left_cluster, folder):
    return Upgraded(left_cluster, folder)


def test_it_goes_on_where_it_was_and_ends_at_its_target_with_nothing_left_behind(upgraded):
    run = upgraded
    number: int | None = run.start()
    assert number == STATE["next_batch"], "the first batch is finished and stays so"
    while number is not None:
        run.do_all(batch=number)
        number = next_batch(run.context, number)
    with pytest.raises(
        VerificationError, match=r"broker 4 still hosts 1 partitions that were withdrawn \(audit-log-0\)"
    ):
        run.finish()
    assert {p for p, r in run.replicas().items() if 4 in r} == {"audit-log-0"}, (
        "withdrawn by an operator before the upgrade"
    )
    run.cluster.alter_reassignments({TopicPartition("audit-log", 0): (5, 6)})
    run.cluster.catch_up_all()
    verify(run.context)
    write_report(run.context)
    assert not any(c.value for values in run.configs("orders", "payments").values() for c in values.values())
    assert run.record.journal().is_over
    assert run.store.lock_owner(run.cluster_id) is None
    assert run.record.verify_audit() > 17


def test_what_operators_commanded_before_the_upgrade_is_in_force_and_new_commands_come_after_it(upgraded):
    run = upgraded
    assert run.record.limits_requested().partition_movements == 3
    assert run.record.withdrawn_partitions() == {"audit-log-0"}
    assert [c.asked_bytes_per_second for c in run.record.journal().rate_changes] == [30_000_000]
    assert run.store.lock_owner(run.cluster_id).reassignment_id == run.reassignment_id
    cancel.stop(run.context, CancelScope(partitions=("orders-5",)), by="dora")
    assert run.record.withdrawn_partitions() == {"audit-log-0", "orders-5"}
    assert run.record.withdraw_commands.last_number() == 2
    cancel.stop(run.context, CancelScope(), by="dora")
    run.until_settled(CancelScope())
    assert run.replicas()["payments-2"] == (4, 6), "the move of the version before is cancelled"
    resume(run.context, by="dora")
    assert run.record.stopped() is None


def test_it_is_listed_with_what_it_moves(upgraded):
    (move,) = list_reassignments(upgraded.cluster, upgraded.store).moves
    assert (move.reassignment_id, move.partition) == (upgraded.reassignment_id, TopicPartition("payments", 2))


def test_its_audit_trail_is_verified_before_anything_is_added(upgraded):
    assert upgraded.record.verify_audit() == 17


def test_a_file_of_a_newer_version_is_refused_by_its_number(upgraded, folder):
    (request,) = folder.glob("*/*/request.json")
    request.write_text(json.dumps(json.loads(request.read_text()) | {"version": 3}))
    with pytest.raises(RecordDamagedError, match="has version 3, expected at most 2: a newer version"):
        upgraded.record.recorded_request()
