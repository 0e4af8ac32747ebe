"""A lock that cannot be read hides nothing else: it is named, and what is asked about a reassignment is answered."""

from pathlib import Path

import pytest
from tests.steps_lab import move

from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment.views.describe import describe
from kafka_reassignment.views.listing import list_reassignments
from kafka_reassignment.views.selection import DescribeQuery
from kafka_reassignment.views.verification import verify_reassignment
from kafka_reassignment.views.watch import Watch

pytestmark = pytest.mark.quick


@pytest.fixture
def run(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle", "submit_batch")
    Path(str(run.folder), run.cluster_id, "lock", "000001.json").write_bytes(b"")
    return run


def test_the_list_names_the_lock_and_says_whose_moves_are_in_flight(run):
    listing = list_reassignments(run.cluster, run.store, sleep=run.clock.sleep)
    (unreadable,) = listing.known.unreadable
    assert "--force --number 1" in unreadable
    assert [m.reassignment_id for m in listing.moves] == [run.reassignment_id]
    assert [r.reassignment_id for r in listing.known.of(ReassignmentStatus.UNKNOWN)] == [run.reassignment_id]
    assert "Not over: 1 unknown" in list(listing.lines())


def test_a_reassignment_that_is_named_is_shown(run):
    own = run.reassignment_id
    listing = list_reassignments(run.cluster, run.store, reassignment_id=own, sleep=run.clock.sleep)
    assert f"Reassignment {own} (rebalance) is unknown" in str(listing.overviews[0])
    described = describe(run.cluster, run.store, DescribeQuery(own), watch_seconds=0, sleep=run.clock.sleep)
    assert len(described.partitions) == 1
    verified = verify_reassignment(run.cluster, run.store, own, sleep=run.clock.sleep)
    assert "is not complete" in next(iter(verified.lines()))
    look = Watch(run.cluster, run.store, own, now=lambda: run.clock.now).look()
    assert (look.is_over, look.doing) == (False, f"whether {own} is at work is not known")
    assert "--force --number 1" in look.waits[0]


def test_which_one_has_the_lock_cannot_be_told(run):
    with pytest.raises(RecordDamagedError, match="--force --number 1"):
        Watch(run.cluster, run.store, now=lambda: run.clock.now).look()


def test_what_is_finished_is_so_whatever_the_lock(run):
    run.record.write_file("report.txt", b"verified")
    listing = list_reassignments(run.cluster, run.store, sleep=run.clock.sleep)
    assert [r.reassignment_id for r in listing.known.of(ReassignmentStatus.FINISHED)] == [run.reassignment_id]
