"""What the record has written survives a power cut, whole, at whatever moment it comes."""

from datetime import UTC, datetime

import pytest
from tests.simulation.disk import SimDisk
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place
from tests.steps_lab import move, write_plan

from kafka_reassignment import places
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.plan import tables
from kafka_reassignment.plan.store import forget_read_plans, read_batch, read_target
from kafka_reassignment.record import objects
from kafka_reassignment.record.models import RecordedRequest
from kafka_reassignment.record.operator_commands import Revision
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import Job, Limits, ReassignmentRequest

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Died(BaseException):
    """The process dies at a change of the disk."""


@pytest.fixture(autouse=True)
def simulated_files():
    with in_place([objects, tables]):
        yield


@pytest.fixture
def disk():
    return SimDisk("local")


@pytest.mark.parametrize("losing", ["names", "contents"])
@pytest.mark.parametrize("write", [objects.write_object, objects.create_object])
def test_what_was_written_is_there_after_a_power_cut(disk, losing, write):
    place = use(disk) / "cluster" / "run" / "throttle-journal" / "000001.json"
    write(place, b"journal")
    disk.power_cut(losing)
    assert objects.read_object(place) == b"journal"


def test_a_replaced_object_is_the_new_one_after_a_power_cut(disk):
    place = use(disk) / "cluster" / "progress.json"
    objects.write_object(place, b"old")
    objects.write_object(place, b"new")
    disk.power_cut("contents")
    assert objects.read_object(place) == b"new"


@pytest.mark.parametrize("losing", ["names", "contents"])
@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("write", [objects.write_object, objects.create_object])
def test_a_power_cut_at_any_change_leaves_the_whole_object_or_none(losing, stage, write):
    number = cuts = 0
    while True:
        disk = SimDisk("local")
        place = use(disk) / "cluster" / "run" / "frozen.json"
        disk.on_write = dies_at(number, stage)
        try:
            write(place, b"frozen")
        except Died:
            disk.on_write = None
            disk.power_cut(losing)
            assert objects.read_object(place) in (None, b"frozen")
            number, cuts = number + 1, cuts + 1
            continue
        break
    assert cuts >= 3, "the part, the name, and the part's end"


def dies_at(number, stage):
    seen = []

    def on_write(at, path):
        if at == stage:
            seen.append(path)
            if len(seen) > number:
                raise Died

    return on_write


def test_tables_that_other_code_wrote_are_flushed_as_a_whole(disk):
    root = use(disk)
    objects.create_object(root / "request.json", b"the folder of the record is there")
    files, path = places.filesystem(str(root / "plan" / "steps"))
    files.makedirs(path)
    with files.open(f"{path}/part-00000.parquet", "wb") as file:
        file.write(b"steps")
    objects.flush_tree(root / "plan")
    disk.power_cut("names")
    assert objects.read_object(root / "plan" / "steps" / "part-00000.parquet") == b"steps"


@pytest.mark.parametrize("losing", ["names", "contents"])
@pytest.mark.parametrize("last", ["frozen", "revised"])
def test_the_tables_of_a_plan_are_there_after_a_power_cut_once_it_is_frozen(disk, losing, last):
    """C2: the steps would otherwise find the hash of a plan, and no plan."""
    record = RecordStore(use(disk)).record("c", "r")
    request = ReassignmentRequest(job=Job.REBALANCE, throttle_mb_per_second=5)
    record.write_request(
        RecordedRequest(cluster_id="c", reassignment_id="r", started_at=NOON, requested_by="ann", request=request)
    )
    batches = [[move("orders", 0, (1, 2), (1, 3))]]
    record.freeze_plan(write_plan(record.plan_uri, batches, frozen_at=NOON))
    if last == "revised":
        disk.power_cut("names")  # what is lost from here on is the revision's
        place = record.new_plan_place(NOON, "start_batches")
        revised = write_plan(record.uri_of(place), batches, frozen_at=NOON)
        assert record.revise_plan(
            0,
            Revision(
                at=NOON, first_batch=1, batches=1, place=place, plan_hash=revised.plan_hash, limits=Limits(), reason="P"
            ),
        )
    disk.power_cut(losing)
    forget_read_plans()
    assert read_batch(record.plan_refs()(1), 1).partitions == (TopicPartition("orders", 0),)
    assert [m.target for m in read_target(record.plan_ref())] == [(1, 3)]
