"""What the record has written survives a power cut, whole, at whatever moment it comes."""

import pytest
from tests.simulation.disk import SimDisk
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place

from kafka_reassignment import places
from kafka_reassignment.plan import tables
from kafka_reassignment.record import objects

pytestmark = pytest.mark.quick


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
