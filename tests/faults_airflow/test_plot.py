"""Plots are the same for the same seed, and a round of them meets every act."""

import pytest
from tests.faults_airflow.plot import ENDINGS, PARTITION_BYTES, RATE_MB, Act, plot

pytestmark = pytest.mark.quick

ROUND = range(1, len(Act) + 1)


def test_a_seed_gives_one_plot():
    assert all(plot(seed) == plot(seed) for seed in ROUND)
    assert len({str(plot(seed)) for seed in ROUND}) == len(ROUND)


def test_a_round_of_seeds_meets_every_act_and_only_one_ending_each():
    acts = [[beat.act for beat in plot(seed).beats] for seed in ROUND]
    assert {act for each in acts for act in each} == set(Act)
    assert all(len(ENDINGS.intersection(each)) <= 1 for each in acts)


def test_other_limits_are_asked_for_while_a_batch_is_left_that_they_could_change():
    changes = [(plot(s), beat) for s in range(1, 201) for beat in plot(s).beats if beat.act is Act.CHANGE_LIMITS]
    assert changes
    assert all(p.partition_movements < len(p.scenario.moves) and beat.cue.batch == 1 for p, beat in changes)


def test_every_move_copies_for_long_enough_to_be_hit():
    for seed in ROUND:
        assert all(len(m.adding) == 1 and m.size_bytes == PARTITION_BYTES for m in plot(seed).scenario.moves)
    credit = 11 * RATE_MB * 1e6
    assert (PARTITION_BYTES - credit) / (RATE_MB * 1e6) > 20
