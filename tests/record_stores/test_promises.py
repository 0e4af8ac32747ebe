"""What the record promises of its store: on a disk and on real object stores, the same tests."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier

import pyarrow as pa
import pytest
from pydantic import BaseModel
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move

from kafka_reassignment.errors import ReassignmentInProgressError
from kafka_reassignment.plan.store import forget_read_plans, read_summary
from kafka_reassignment.plan.tables import read_table, write_table
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.objects import create_object, folders_in, names_in, read_object, write_object
from kafka_reassignment.record.series import Series
from kafka_reassignment.steps.base.context import AuditDraft

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Note(BaseModel):
    by: str


def at_once(*acts):
    """Do all of it at the same moment; return what each returned or raised."""
    together = Barrier(len(acts))

    def do(act):
        together.wait()
        try:
            return act()
        except ReassignmentInProgressError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(do, acts))


def lock(reassignment):
    return ClusterLock(reassignment_id=reassignment, since=NOON, requested_by="ann")


def test_of_two_writers_at_once_one_creates_the_object_and_its_content_stays(base):
    for n in range(25):
        path = base.folder / f"{n}.json"
        created = at_once(lambda p=path: create_object(p, b"one"), lambda p=path: create_object(p, b"two"))
        assert sorted(created) == [False, True]
        assert read_object(path) == (b"one" if created[0] else b"two")


def test_an_empty_object_is_created_once_too(base):
    assert create_object(base.folder / "empty", b"")
    assert not create_object(base.folder / "empty", b"x")
    assert read_object(base.folder / "empty") == b""


def test_what_another_process_creates_after_the_folder_was_listed_is_found_by_its_name(base):
    """Clients of stores keep listings: an end of a batch that one hides would be waited for for ever."""
    folder = base.folder / "listed"
    write_object(folder / "1.json", b"one")
    assert names_in(folder) == ["1.json"]
    assert read_object(folder / "2.json") is None
    own = folder.fs
    other = type(own)(*own.storage_args, **own.storage_options, skip_instance_cache=True)
    other.pipe_file((folder / "2.json").path, b"two")
    assert read_object(folder / "2.json") == b"two"


def test_no_two_writers_of_a_series_get_one_number(base):
    series = [Series(base.folder / "notes", Note) for _ in range(2)]
    claimed = at_once(*(lambda s=s: [s.claim(Note(by="x")) for _ in range(15)] for s in series))
    assert sorted(claimed[0] + claimed[1]) == list(range(1, 31))
    assert Series(base.folder / "notes", Note).last_number() == 30


def test_two_writers_of_an_audit_trail_leave_one_chain(base):
    """C6: a stop and the batch that it stops write at the same time, in two processes that have listed before."""
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)])
    run = Run(cluster, base.folder, [[move("orders", 0, (1, 2), (1, 3))]])
    writers = [run.context, run.context]
    assert [writer.record.audit.verify() for writer in writers] == [0, 0]
    at_once(*(lambda w=w: [w.write_event("admit", 1, NOON, AuditDraft()) for _ in range(10)] for w in writers))
    assert [writer.record.audit.verify() for writer in writers] == [20, 20]
    assert [event.sequence for event in run.record.audit] == [*range(1, 21)]


def test_one_of_two_reassignments_at_once_locks_the_cluster(base):
    for n in range(5):
        first, second = at_once(*(lambda r=r, n=n: base.store.acquire(f"c{n}", lock(r)) for r in "ab"))
        refused = [r for r in (first, second) if isinstance(r, ReassignmentInProgressError)]
        assert len(refused) == 1, (first, second)
        owner = base.store.lock_owner(f"c{n}")
        assert owner in (first, second)
        assert base.store.release(f"c{n}", owner.reassignment_id)
        assert base.store.lock_owner(f"c{n}") is None


def test_what_another_process_wrote_since_is_seen(base):
    assert names_in(base.folder / "notes") == []
    assert read_object(base.folder / "notes" / "a") is None
    write_object(base.folder / "notes" / "a", b"old")
    assert names_in(base.folder / "notes") == ["a"]
    elsewhere = type(base.folder.fs)(**base.folder.fs.storage_options, skip_instance_cache=True)
    elsewhere.pipe_file((base.folder / "notes" / "a").path, b"new and longer")
    elsewhere.pipe_file((base.folder / "notes" / "b").path, b"new")
    assert sorted(names_in(base.folder / "notes")) == ["a", "b"]
    assert read_object(base.folder / "notes" / "a") == b"new and longer"


def test_a_listing_that_the_store_cuts_into_pages_is_whole(base):
    names = [f"{n:06d}.json" for n in range(1, 1_101)]  # S3 and GCS list 1,000 at a time
    folder = base.folder / "notes"
    folder.fs.makedirs(folder.path, exist_ok=True)
    folder.fs.pipe({(folder / name).path: b'{"by": "x"}' for name in names})
    assert sorted(names_in(folder)) == names
    assert Series(folder, Note).claim(Note(by="y")) == 1_101


def test_what_lies_beside_the_folders_of_the_record_is_none_of_it(base):
    base.store.acquire("c", lock("r"))
    base.store.record("c", "r").write_file("report.txt", b"done")
    write_object(base.folder / "notes.txt", b"of a person")
    write_object(base.folder / "c" / "notes.txt", b"of a person")
    assert base.store.clusters() == ["c"]
    assert sorted(folders_in(base.folder / "c")) == ["lock", "r"]


def test_a_table_is_read_where_it_was_written(base):
    rows = pa.table({"n": list(range(1_000))})
    write_table(f"{base.uri}/plan/steps", rows.schema, rows.to_batches(max_chunksize=100))
    assert read_table(f"{base.uri}/plan/steps") == rows
    with pytest.raises(FileNotFoundError):
        read_table(f"{base.uri}/plan/target")


def test_a_reassignment_with_its_record_there_ends_verified(base):
    cluster = FakeCluster(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = Run(cluster, base.folder, [[move("orders", 0, (1, 2), (1, 3))], [move("orders", 1, (2, 3), (4, 3))]])
    run.when_waiting = cluster.catch_up_all
    run.run_batches()
    run.finish()

    forget_read_plans()
    record = base.store.record(run.cluster_id, run.reassignment_id)
    assert record.plan_ref().uri.startswith(base.uri)
    assert len(read_summary(record.plan_ref()).batches) == 2
    assert record.finished_batches() == {1, 2}
    assert record.verify_audit() == record.audit.last_number() > 10
    assert [r.reassignment_id for r in base.store.records(run.cluster_id)] == [run.reassignment_id]
