"""A store that creates nothing exclusively is refused when the first reassignment is to lock a cluster by it."""

from datetime import UTC, datetime
from errno import EACCES, ENOSYS, ENOTSUP, EPERM

import pytest
from tests.simulation.disk import SimDisk
from tests.simulation.files import SimPath, use
from tests.simulation.stand_ins import in_place
from upath import UPath

from kafka_reassignment.errors import RecordStoreUnusableError, RecordUnavailableError, is_worth_a_retry
from kafka_reassignment.record import objects
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.store import RecordStore

pytestmark = pytest.mark.quick

LOCK = ClusterLock(reassignment_id="r", since=datetime(2026, 1, 1, tzinfo=UTC), requested_by="ann")


class Replacing(SimDisk):
    """A store that takes the condition and ignores it."""

    def write(self, path, content, *, new=False):
        super().write(path, content)


class Unknowing(SimDisk):
    """A store that does not know the condition (S3's NotImplemented, as s3fs raises it)."""

    def write(self, path, content, *, new=False):
        if new and path in self.paths():
            raise OSError(38, "A header you provided implies functionality that is not implemented")
        super().write(path, content, new=new)


@pytest.fixture(autouse=True)
def simulated_files():
    with in_place([objects]):
        yield


@pytest.mark.parametrize("kind", [Replacing, Unknowing])
def test_a_store_that_does_not_refuse_cannot_keep_records(kind):
    store = RecordStore(use(kind("objects")))
    with pytest.raises(
        RecordStoreUnusableError,
        match=r"000001.json cannot keep the records: expected it to refuse to create an object that exists, found that "
        r"it .*Keep the records on a shared disk, or in a store that docs/record.md names",
    ) as raised:
        store.acquire("c", LOCK)
    assert not is_worth_a_retry(raised.value)


def test_a_cluster_is_not_left_locked_by_a_store_that_replaces_objects():
    base = use(Replacing("objects"))
    with pytest.raises(RecordStoreUnusableError):
        RecordStore(base).acquire("c", LOCK)
    assert RecordStore(base).lock_owner("c") is None


def test_a_store_that_replaces_objects_is_refused_for_that_where_it_may_not_delete_them_either():
    class Kept(Replacing):
        def unlink(self, path):
            raise PermissionError(13, "AccessDenied")

    with pytest.raises(RecordStoreUnusableError, match="it replaced one") as raised:
        RecordStore(use(Kept("objects"))).acquire("c", LOCK)
    assert not is_worth_a_retry(raised.value)


def test_the_store_is_proved_by_the_next_try_if_it_was_away_for_the_first():
    disk = Replacing("objects")
    base = use(disk)
    disk.on_write = lambda stage, _: setattr(disk.faults, "away", stage == "after")
    with pytest.raises(RecordUnavailableError):
        RecordStore(base).acquire("c", LOCK)
    disk.on_write, disk.faults.away = None, False
    assert RecordStore(base).lock_owner("c") == LOCK
    with pytest.raises(RecordStoreUnusableError):
        RecordStore(base).acquire("c", LOCK)


def test_the_lock_that_is_there_counts_in_a_store_that_refuses():
    base = use(SimDisk("objects"))
    assert RecordStore(base).acquire("c", LOCK) == LOCK
    assert RecordStore(base).acquire("c", LOCK) == LOCK
    assert RecordStore(base).lock("c").last() == (2, LOCK)


def test_nothing_is_known_about_other_kinds_of_stores(tmp_path):
    class Elsewhere:
        protocol = "sftp"

        def __str__(self):
            return "sftp://host/lock/000001.json"

    with pytest.raises(RecordStoreUnusableError, match="nothing is known about exclusive creation at sftp://"):
        objects.require_exclusive_creation(Elsewhere(), b"")
    assert objects.require_exclusive_creation(UPath(tmp_path), b"") is None


@pytest.fixture
def refusing_links(monkeypatch):
    """A local disk that refuses hard links with an error of this number."""

    def refuse(number):
        def link(*_):
            raise OSError(number, "no link")

        monkeypatch.setattr(SimPath, "hardlink_to", link)
        return use(SimDisk("local"))

    return refuse


@pytest.mark.parametrize("number", [EPERM, ENOSYS, ENOTSUP])
def test_a_disk_without_hard_links_cannot_keep_records_and_nobody_waits_for_it(refusing_links, number):
    base = refusing_links(number)
    with pytest.raises(
        RecordStoreUnusableError, match=r"expected it to make a hard link, found: .*no link.*disk with hard links"
    ) as raised:
        RecordStore(base).acquire("c", LOCK)
    assert not is_worth_a_retry(raised.value)
    assert RecordStore(base).lock_owner("c") is None


def test_a_disk_that_refuses_a_link_for_another_reason_may_make_it_later(refusing_links):
    with pytest.raises(RecordUnavailableError):
        RecordStore(refusing_links(EACCES)).acquire("c", LOCK)
