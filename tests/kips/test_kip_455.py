"""KIP-455 on real brokers: submit, modify and cancel reassignments, ours and those of others; roll back."""

import pytest
from tests.contract.lab import eventually, set_rates
from tests.kips.moving_lab import MovingLab, speed_up
from tests.steps_lab import move

from kafka_reassignment.errors import UnknownTopicOrPartitionError
from kafka_reassignment.model import Replicas, Step, TopicPartition
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight

pytestmark = pytest.mark.kafka

FASTER = 200


def moves(partitions: list[TopicPartition], current: Replicas, target: Replicas) -> list[Step]:
    return [move(p.topic, p.partition, current, target, 8_000_000) for p in partitions]


# Submit, modify, cancel: answers are per partition


def test_a_mixed_reply_is_a_partial_success_reported_as_one_in_the_brokers_words(moving: MovingLab):
    known = moving.filled_topic((1, 2))
    unknown = TopicPartition("no-such-topic", 0)
    run = moving.run(moves(known, (1, 2), (1, 3)), throttle_mb_per_second=None, unthrottled=True)
    replies = moving.cluster.alter_reassignments({known[0]: (1, 3), unknown: (1, 2)})
    assert replies[known[0]] is None
    assert replies[unknown].code == "UNKNOWN_TOPIC_OR_PARTITION"
    assert replies[unknown].message
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert moving.replicas(known[0]) == (1, 3)


def test_a_partition_that_is_refused_is_left_out_and_the_rest_goes_on(moving: MovingLab):
    """The controller refuses a replica on a broker it has never seen."""
    good, bad = moving.filled_topic((1, 2), (1, 2))
    steps = [*moves([good], (1, 2), (1, 3)), move(bad.topic, bad.partition, (1, 2), (1, 2), 8_000_000)]
    run = moving.run(steps, throttle_mb_per_second=50)
    alter = moving.cluster.alter_reassignments

    def with_one_bad_target(targets, **flags):
        changed = {p: (1, 2, 99) if p == bad else t for p, t in targets.items()}
        return alter(changed | ({bad: (1, 2, 99)} if good in targets else {}), **flags)

    moving.cluster.alter_reassignments = with_one_bad_target
    run.do_all("admit", "set_throttle", "submit_batch")
    moving.cluster.alter_reassignments = alter
    submitted = run.record.submitted(1)
    assert submitted.left_out.keys() == {str(bad)}
    assert submitted.left_out[str(bad)].startswith("INVALID_REPLICA_ASSIGNMENT: ")
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert moving.replicas(good) == (1, 3)


def test_a_move_in_flight_is_modified(moving: MovingLab):
    (partition,) = moving.create_held_topic([(1, 2)])
    moving.move_elsewhere(partition, (1, 2, 3))
    moving.move_elsewhere(partition, (1, 2, 4))
    assert moving.cluster.list_reassignments()[partition].target == (1, 2, 4)
    moving.release([partition])
    assert moving.replicas(partition) == (1, 2, 4)


# Cancel one, some, all of ours; those of others only when asked


@pytest.mark.parametrize("count", [1, 2], ids=["one", "some"])
def test_some_of_ours_are_cancelled_and_the_rest_goes_on(moving: MovingLab, count: int):
    partitions = moving.filled_topic((1, 2), (1, 2), (1, 2))
    run = moving.run(moves(partitions, (1, 2), (1, 3)))
    configs = run.configs(partitions[0].topic)
    run.do_all("admit", "set_throttle", "submit_batch")
    assert set(moving.cluster.list_reassignments()) == set(partitions)
    cancelled = partitions[:count]
    outcome = run.stop_all(CancelScope(tuple(map(str, cancelled))))
    assert set(outcome.cancelled) == set(map(str, cancelled))
    assert set(moving.cluster.list_reassignments()) == set(partitions[count:])
    speed_up(run)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert [moving.replicas(p) for p in partitions] == [(1, 2)] * count + [(1, 3)] * (3 - count)
    assert run.configs(partitions[0].topic) == configs


def test_all_of_ours_are_cancelled_and_moves_of_others_left_alone(moving: MovingLab):
    ours = moving.filled_topic((1, 2), (1, 2))
    (foreign,) = moving.create_held_topic([(4, 5)])
    run = moving.run(moves(ours, (1, 2), (1, 3)))
    run.do_all("set_throttle", "submit_batch")
    moving.move_elsewhere(foreign, (4, 5, 6))
    outcome = run.stop_all()
    assert set(outcome.cancelled) == set(map(str, ours))
    assert set(moving.cluster.list_reassignments()) == {foreign}
    assert [moving.replicas(p) for p in ours] == [(1, 2), (1, 2)]


def test_moves_of_others_are_cancelled_when_explicitly_asked(moving: MovingLab):
    (foreign,) = moving.create_held_topic([(4, 5)])
    moving.move_elsewhere(foreign, (4, 5, 6))
    nobody = moving.without_reassignment()
    with pytest.raises(UnknownTopicOrPartitionError):
        cancel.stop(nobody, CancelScope(("no-such-topic",), foreign=True), by="bob")
    outcome = cancel.cancel_moves(nobody, CancelScope((str(foreign),), foreign=True))
    assert outcome.cancelled == {str(foreign): "replicas 4,5"}
    assert moving.replicas(foreign) == (4, 5)


def test_a_cancel_says_which_replicas_had_joined_and_leaves_the_factor_as_it_was(moving: MovingLab):
    (partition,) = moving.create_held_topic([(4, 5)])
    moving.write(partition, messages=1, size_bytes=10)
    moving.move_elsewhere(partition, (4, 5, 6, 1))
    # One new replica may catch up, the other one not.
    set_rates(moving.cluster, None, [4, 6])
    step = move(partition.topic, 0, (4, 5), (6, 1))
    run = moving.run([step], throttle_mb_per_second=None, unthrottled=True)
    run.record.write_submitted(1, SubmittedBatch(submitted_at=run.clock.now, accepted=(str(partition),), left_out={}))
    eventually(
        lambda: moving.cluster.describe_partitions([partition.topic])[partition].isr, {4, 5, 6}.issubset, seconds=60
    )
    cancel.stop(run.context, CancelScope(), by="bob")
    outcome = cancel.cancel_moves(run.context, CancelScope())
    assert outcome.cancelled == {str(partition): "replicas 4,5; 6 had joined the ISR and is deleted again"}
    assert outcome.above == {}, "the replication factor is 2 again"
    assert moving.replicas(partition) == (4, 5)


def test_a_cancel_without_the_original_replicas_is_refused_and_settled_once_they_are_back(breaking: MovingLab):
    """F15: going back would take an unclean election."""
    (partition,) = breaking.create_held_topic([(6,)])
    breaking.release([partition])
    run = breaking.run([move(partition.topic, 0, (6,), (5,), 8_000_000)])
    run.do_all("set_throttle", "submit_batch")
    breaking.kill(6)
    cancel.stop(run.context, CancelScope(), by="bob")
    outcome = cancel.cancel_moves(run.context, CancelScope())
    assert outcome.cancelled == {}
    text = outcome.carried_on[str(partition)]
    assert "broker 6 of the original replicas 6 is out of sync: going back would take an unclean election" in text
    assert "carried on to 6,5" in text
    refused = breaking.cluster.alter_reassignments({partition: None})[partition]
    assert refused is not None, "and Kafka itself says so"
    breaking.restart(6)
    run.until_done(lambda: run.settle(CancelScope()))
    cancel.clear_after_stop(run.context, CancelScope())
    assert breaking.replicas(partition) in {(5,), (6,)}, "back, unless the new replica was in sync first"


# Roll back


def test_finished_batches_are_rolled_back_newest_first_to_the_exact_earlier_order(moving: MovingLab):
    first, second = moving.filled_topic((1, 2), (2, 1))
    run = moving.run(moves([first], (1, 2), (3, 4)), moves([second], (2, 1), (5, 2)), throttle_mb_per_second=FASTER)
    configs = run.configs(first.topic)
    run.run_batches()
    run.finish()
    assert (moving.replicas(first), moving.replicas(second)) == ((3, 4), (5, 2))
    back = run.store.record(run.cluster_id, "back")
    fields = {"job": "roll_back", "roll_back_of": "r", "throttle_mb_per_second": FASTER, "keep_free_share": 0}
    preflight(run.context_of(back), fields | {"replica_movements": 2}, "bob")
    make_plan(run.context_of(back), master="not needed")
    run.record = back
    run.run_batches()
    run.finish()
    assert (moving.replicas(first), moving.replicas(second)) == ((1, 2), (2, 1))
    assert run.configs(first.topic) == configs
    order = [next(iter(e.facts["submitted"])) for e in back.audit if e.step == "submit_batch"]
    assert order == [str(second), str(first)]
