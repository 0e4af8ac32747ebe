"""KIP-236 on real brokers: a new target for a partition that is already moving, under a throttle, so that it really is."""

import time

import pytest
from tests.kips.moving_lab import FAST_MB, MovingLab
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.kafka

EXAMPLES = [((2, 3), (2, 4)), ((3, 4), (2, 3))]
IDS = ["the KIP's example, 1,2 to 2,3 to 2,4", "where Kafka hangs for ever, 1,2 to 3,4 to 2,3 (F34)"]


@pytest.mark.parametrize(("first", "then"), EXAMPLES, ids=IDS)
def test_a_new_target_over_another_clients_move_in_flight(moving: MovingLab, first: Replicas, then: Replicas):
    (partition,) = moving.create_held_topic([(1, 2)])
    moving.move_elsewhere(partition, first)
    assert moving.cluster.list_reassignments()[partition].target == first
    run = moving.run([move(partition.topic, 0, (1, 2), then)], supersede=True, throttle_mb_per_second=FAST_MB)
    run.do_all("admit", "set_throttle", "submit_batch")
    superseded = next(e for e in run.record.audit if e.step == "submit_batch").facts["superseded"]
    assert set(superseded) == {str(partition)}
    moving.release([partition])
    run.do_all()
    assert moving.replicas(partition) == then


@pytest.mark.parametrize(("first", "then"), EXAMPLES, ids=IDS)
def test_a_new_target_over_our_own_move_in_flight(moving: MovingLab, first: Replicas, then: Replicas):
    """The second reassignment stops the first one, takes the cluster and its throttle's debts over, and ends alone."""
    (partition,) = moving.filled_topic((1, 2))
    earlier = moving.run([move(partition.topic, 0, (1, 2), first, 8_000_000)])
    configs = earlier.configs(partition.topic)
    earlier.do_all("admit", "set_throttle", "submit_batch")
    assert partition in moving.cluster.list_reassignments()

    request = {"job": "rebalance", "throttle_mb_per_second": FAST_MB, "supersede": True, "keep_free_share": 0}
    later = earlier.store.record(earlier.cluster_id, "later")
    preflight(earlier.context_of(later), request, "ann")
    run = Run(
        moving.cluster,
        UPath(moving.folder / "records"),
        [[move(partition.topic, 0, (1, 2), then, 8_000_000)]],
        reassignment_id="later",
        clock=earlier.clock,
        **request,
    )
    moving.runs.append(run)
    run.run_batches()
    run.finish()
    assert moving.replicas(partition) == then
    assert run.configs(partition.topic) == configs
    assert earlier.record.journal().is_settled


def test_kafka_itself_hangs_on_the_second_example(moving: MovingLab):
    """Why superseding cancels first: when this fails, Kafka has mended it, and the cancel may go."""
    partition = _hung(moving)
    moving.release([partition])
    moving.write(partition, messages=3, size_bytes=30)
    flight = moving.cluster.list_reassignments()[partition]
    assert never_completes(flight)
    time.sleep(3)
    assert partition in moving.cluster.list_reassignments()


def test_a_partition_hung_by_another_client_is_recognised_and_freed_when_asked(moving: MovingLab):
    partition = _hung(moving)
    moving.release([partition])
    outcome = cancel.cancel_moves(moving.without_reassignment(), CancelScope((str(partition),), foreign=True))
    assert set(outcome.cancelled) == {str(partition)}
    assert set(moving.replicas(partition)) == {1, 2}


def test_a_hung_partition_gets_a_new_target_when_that_is_asked(moving: MovingLab):
    partition = _hung(moving)
    moving.release([partition])
    run = moving.run([move(partition.topic, 0, (1, 2), (2, 5))], supersede=True, throttle_mb_per_second=FAST_MB)
    run.do_all()
    assert moving.replicas(partition) == (2, 5)


def test_superseding_that_would_break_min_isr_is_refused_with_a_warning(breaking: MovingLab, caplog):
    """Broker 6 is lost: a cancel would leave broker 5 alone in sync, and producers would stop."""
    (partition,) = breaking.create_held_topic([(6, 5)])
    breaking.configure(partition.topic, "min.insync.replicas", "2")
    breaking.move_elsewhere(partition, (4, 3))
    breaking.kill(6)
    run = breaking.run([move(partition.topic, 0, (6, 5), (5, 2))], supersede=True)
    run.do("submit_batch")
    assert breaking.cluster.list_reassignments()[partition].target == (4, 3)
    assert "while 6 is out of sync" in run.record.submitted(1).left_out[str(partition)]
    assert "Not superseded" in caplog.text


def _hung(moving: MovingLab) -> TopicPartition:
    (partition,) = moving.create_held_topic([(1, 2)])
    moving.move_elsewhere(partition, (3, 4))
    moving.move_elsewhere(partition, (2, 3))
    return partition
