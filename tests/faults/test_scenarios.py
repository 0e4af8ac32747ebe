"""Scenarios are a pure function of their seed, and together they meet every fault at every kind of point."""

import pytest
import typer
from tests.faults.plan import Kind, Moment
from tests.faults.scenarios import scenario
from tests.faults.seeds import parse_seeds

from kafka_reassignment.model import Replicas, TopicPartition

pytestmark = pytest.mark.quick

SEEDS = range(1, 201)


def test_the_same_seed_is_the_same_scenario():
    assert str(scenario(17)) == str(scenario(17))
    assert scenario(17) == scenario(17) != scenario(18)


def test_200_seeds_meet_every_fault_and_every_moment():
    faults = [fault for seed in SEEDS for fault in scenario(seed).faults]
    assert {fault.kind for fault in faults} == set(Kind)
    assert {fault.at.moment for fault in faults} == set(Moment)
    killed = {(fault.at.step, fault.at.moment) for fault in faults if fault.kind is Kind.KILL_STEP}
    for step in ("set_throttle", "submit_batch", "drop_old_replicas", "clear_throttle"):
        assert {(step, Moment.BEFORE), (step, Moment.AFTER), (step, Moment.RECORD)} <= killed


@pytest.mark.parametrize("seed", SEEDS)
def test_the_batches_lead_every_partition_to_its_target(seed):
    planned = scenario(seed)
    at: dict[TopicPartition, Replicas] = {
        partition: replicas
        for topic in planned.topics
        for partition, replicas in zip(topic.partitions, topic.replicas, strict=True)
    }
    assert len(planned.batches) >= 2
    for batch in planned.batches:
        assert len({step.partition for step in batch}) == len(batch)
        for step in batch:
            assert at[step.partition] == step.reassignment.current
            at[step.partition] = step.reassignment.target
    assert {m.partition: m.target for m in planned.moves}.items() <= at.items()
    for topic in planned.topics:
        assert all(len(at[p]) >= topic.min_insync for p in topic.partitions)


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", [7]), ("1-3", [1, 2, 3]), ("3,9,20-22", [3, 9, 20, 21, 22])], ids=str
)
def test_seeds_are_numbers_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "3-", "5-2", "1..4"])
def test_what_is_no_range_of_seeds_is_refused(text):
    with pytest.raises(typer.BadParameter, match="expected numbers and ranges such as 3,9,20-30"):
        parse_seeds(text)
