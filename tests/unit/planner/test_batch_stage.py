"""Batches of a large plan, packed chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_reassignment.decisions.batching import BatchRates, StepColumns, batches_of
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.planner import batch_stage
from kafka_reassignment.planner.batch_stage import batch_numbers
from kafka_reassignment.request import Limits

pytestmark = pytest.mark.spark

RATES = BatchRates(1_000)


@pytest.fixture
def steps() -> StepColumns:
    """200 partitions of equal size from 10 senders to 10 receivers, every fifth of them in two steps."""
    partition = np.sort(np.concatenate([np.arange(200), np.arange(0, 200, 5)]))
    return StepColumns(
        partition=partition,
        size=np.full(len(partition), 100),
        sender=partition % 10,
        receivers=(10 + (partition // 10 + np.arange(len(partition))) % 10).reshape(-1, 1),
        moves_leader=partition % 3 == 0,
    )


def test_chunks_keep_limits_and_order_and_number_without_gaps(spark, steps, monkeypatch):
    monkeypatch.setattr(batch_stage, "chunks_of", lambda *_: 4)
    limits = Limits(partition_movements=10, leader_movements=4)

    numbers = batch_numbers(spark, steps, limits, RATES)

    assert sorted(set(numbers.tolist())) == list(range(1, int(numbers.max()) + 1))
    assert np.bincount(numbers).max() <= 10
    assert np.bincount(numbers, weights=steps.moves_leader).max() <= 4
    same = steps.partition[1:] == steps.partition[:-1]
    assert (numbers[1:][same] > numbers[:-1][same]).all()
    assert numbers.tolist() == batch_numbers(spark, steps, limits, RATES).tolist()
    # Chunk after chunk: partitions of equal size are dealt in turn, so 0, 4, 8, ... come before 1, 5, 9, ...
    assert numbers[steps.partition % 4 == 0].max() < numbers[steps.partition % 4 == 1].min()


def test_a_small_plan_is_one_chunk(spark, steps):
    limits = Limits(partition_movements=10)
    assert batch_numbers(spark, steps, limits, RATES).tolist() == batches_of(steps, limits, RATES).tolist()


def test_a_plan_near_the_limit_on_batches_is_packed_in_one_chunk(spark, steps, monkeypatch):
    monkeypatch.setattr(batch_stage, "chunks_of", lambda *_: 4)
    # 240 steps in batches of 50 take 5; in four chunks they would take 8.
    assert (
        batch_numbers(spark, steps, Limits(partition_movements=50, leader_movements=50, max_batches=5), RATES).max()
        == 5
    )
    with pytest.raises(InfeasiblePlanError, match=r"needs 5 batches: expected at most 4"):
        batch_numbers(spark, steps, Limits(partition_movements=50, leader_movements=50, max_batches=4), RATES)
