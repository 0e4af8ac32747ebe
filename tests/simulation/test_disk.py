"""The simulated record store under the product's own record and plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.simulation.disk import EndpointConnectionError, SimDisk, StandsStill
from tests.simulation.files import SimOs, SimPath, use
from tests.simulation.stand_ins import in_place

from kafka_reassignment.errors import RecordError
from kafka_reassignment.plan import tables
from kafka_reassignment.record import objects

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def simulated_files():
    with in_place([objects, tables]):
        yield


@pytest.mark.parametrize("kind", ["local", "objects"])
def test_the_record_reads_back_what_it_wrote(kind):
    root = use(SimDisk(kind))
    objects.write_object(root / "c" / "a.json", b"1")
    objects.write_object(root / "c" / "a.json", b"2")
    assert objects.create_object(root / "c" / "b.json", b"3")
    assert not objects.create_object(root / "c" / "b.json", b"4")
    assert objects.read_object(root / "c" / "a.json") == b"2"
    assert objects.read_object(root / "c" / "b.json") == b"3"
    assert objects.read_object(root / "nothing") is None
    assert sorted(objects.names_in(root / "c")) == ["a.json", "b.json"]
    assert objects.names_in(root / "d") == []


@pytest.mark.parametrize("kind", ["local", "objects"])
def test_tables_are_read_back_with_their_filter(kind):
    root = use(SimDisk(kind))
    schema = pa.schema([pa.field("n", pa.int64())])
    tables.write_table(f"{root}/t", schema, [pa.table({"n": [1, 2]}), pa.table({"n": [3]})])
    assert tables.read_table(f"{root}/t", pc.field("n") > 1).to_pydict() == {"n": [2, 3]}
    with pytest.raises(FileNotFoundError):
        tables.read_table(f"{root}/other")


def test_a_power_cut_loses_what_was_not_flushed():
    disk, flush = SimDisk("local"), SimOs()
    root = use(disk)
    for name in ("flushed", "no-name", "nothing"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        with (root / name).open("wb") as file:
            file.write(b"content")
            if name != "nothing":
                file.flush()
                flush.fsync(file.fileno())
        if name == "flushed":
            for folder in (root, root.parent):
                number = flush.open(folder, SimOs.O_RDONLY)
                flush.fsync(number)
                flush.close(number)
    assert disk.power_cut("contents") == ["/record/nothing"]
    assert [disk.peek(f"/record/{n}") for n in ("flushed", "no-name", "nothing")] == [b"content", b"content", b""]


def test_a_power_cut_loses_names_of_folders_that_were_not_flushed():
    disk, flush = SimDisk("local"), SimOs()
    root = use(disk)
    (root / "a").parent.mkdir(parents=True)
    with (root / "a").open("wb") as file:
        file.write(b"content")
        flush.fsync(file.fileno())
    assert disk.power_cut("names") == ["/record/a"]
    assert disk.paths() == []


def test_an_object_store_loses_nothing():
    disk = SimDisk("objects")
    objects.write_object(use(disk) / "a", b"1")
    assert disk.power_cut() == []
    assert disk.peek("/record/a") == b"1"


def test_a_store_that_is_away_or_full_says_so():
    disk = SimDisk("local")
    root = use(disk)
    disk.faults.full = True
    with pytest.raises(RecordError, match="No space left"):
        objects.write_object(root / "a", b"1")
    assert objects.read_object(root / "a") is None
    disk.faults.away = True
    with pytest.raises(RecordError, match="Input/output"):
        objects.read_object(root / "a")


def test_an_object_store_that_is_away_raises_what_botocore_raises():
    disk = SimDisk("objects")
    disk.faults.away = True
    with pytest.raises((EndpointConnectionError, RecordError)):
        objects.read_object(use(disk) / "a")


def test_a_listing_lags_behind_new_objects_only():
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    disk = SimDisk(now=lambda: now[0])
    root = use(disk)
    objects.write_object(root / "c" / "old", b"")
    now[0] += timedelta(seconds=60)
    disk.faults.listing_lag = 10
    objects.write_object(root / "c" / "new", b"")
    assert objects.names_in(root / "c") == ["old"]
    now[0] += timedelta(seconds=10)
    assert objects.names_in(root / "c") == ["new", "old"]


def test_calling_over_and_over_without_time_is_found():
    root = use(SimDisk())

    def wait_for_it() -> None:
        while objects.read_object(root / "a") is None:
            pass

    with pytest.raises(StandsStill):
        wait_for_it()


def test_death_at_a_write_leaves_the_old_or_the_new():
    for stage, left in (("before", None), ("after", b"1")):
        disk = SimDisk("local")
        root = use(disk)

        def die(at: str, path: str, stage: str = stage) -> None:
            if at == stage and path.endswith("/a"):
                raise KeyboardInterrupt

        disk.on_write = die
        with pytest.raises(KeyboardInterrupt):
            objects.create_object(SimPath(root / "a"), b"1")
        disk.on_write = None
        assert disk.peek("/record/a") == left


def test_the_fingerprint_is_that_of_the_files():
    def filled(content: bytes) -> str:
        disk = SimDisk()
        objects.write_object(use(disk) / "a", content)
        return disk.fingerprint()

    assert filled(b"1") == filled(b"1") != filled(b"2")
