"""How much each broker gives and takes: numbers per broker, checked by eye."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kafka_reassignment.planner.flows import Routes, balancing_flows, forced_flows
from kafka_reassignment.planner.goals import NO_ROOM, Band, fair_shares, leader_room, least_bytes
from kafka_reassignment.planner.placing.leaders import leads_too_much
from kafka_reassignment.planner.schemas import LOG_DIRS
from kafka_reassignment.planner.shard_goals import BUCKETS, Fleet, ShardGoals, split_evenly, split_in_pieces
from kafka_reassignment.planner.space import FREE_UNKNOWN, Space, short_of_space

pytestmark = pytest.mark.quick

ALL = np.ones
FREE = 2**50


def longs(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def no_routes(brokers: int, racks: int, *, free_racks: bool = True) -> Routes:
    """Nothing has to move; what may move may go to any rack, or to its own only."""
    may_move = np.full((brokers, racks), 10**6 if free_racks else 0, dtype=np.int64)
    return Routes(np.zeros(racks + 1, dtype=np.int64), np.zeros((racks + 1, racks), dtype=np.int64), may_move)


def test_equal_racks_share_equally():
    # 600 bytes of one copy, three copies: 1800 over six brokers.
    assert fair_shares(longs(0, 0, 0, 600), longs(2, 2, 2)).tolist() == [300, 300, 300]


def test_a_small_rack_must_hold_as_much_as_a_large_one_when_every_rack_has_a_copy():
    # Three copies on three racks: 600 in each, whatever the number of its brokers.
    assert fair_shares(longs(0, 0, 0, 600), longs(1, 2, 3)).tolist() == [600, 300, 200]


def test_with_more_racks_than_copies_a_small_rack_may_hold_less():
    # One copy goes anywhere: 600 over six brokers.
    assert fair_shares(longs(0, 600), longs(1, 2, 3)).tolist() == [100, 100, 100]


def test_two_copies_leave_the_large_rack_no_more_than_one_of_each():
    # Racks of 1, 1 and 8 brokers, 1000 bytes twice: the two small racks must hold what the large one cannot.
    assert fair_shares(longs(0, 0, 1000), longs(1, 1, 8)).tolist() == [500, 500, 125]


def test_more_copies_than_racks_are_spread_over_all_brokers():
    # Four copies on two racks of 2: each rack has one at least, the rest is anywhere.
    assert fair_shares(longs(0, 0, 0, 0, 100), longs(2, 2)).tolist() == [100, 100]


def test_the_least_bytes_are_the_larger_of_what_is_over_and_what_is_under():
    band = Band.around(np.full(3, 100.0), 0.10)
    assert least_bytes(band, np.array([130.0, 85.0, 85.0]), 0) == pytest.approx(20)
    assert least_bytes(band, np.array([120.0, 110.0, 70.0]), 0) == pytest.approx(20)
    assert least_bytes(band, np.array([130.0, 85.0, 85.0]), 50) == pytest.approx(70)
    assert least_bytes(band, np.array([150.0, 95.0, 95.0]), 0, 30) == pytest.approx(10), "30 of it go without a copy"


def test_balancing_moves_just_what_brings_all_into_the_band():
    flows = balancing_flows(
        Band.around(np.full(3, 100.0), 0.10),
        np.array([130.0, 85.0, 85.0]),
        longs(0, 0, 0),
        ALL(3, bool),
        ALL(3, bool),
        longs(FREE, FREE, FREE),
        no_routes(3, 1),
    )
    assert flows.shed.tolist() == [20, 0, 0]
    assert flows.inflow.tolist() == [0, 10, 10]


def test_when_more_is_missing_than_is_over_the_fullest_give_more():
    flows = balancing_flows(
        Band.around(np.full(4, 100.0), 0.10),
        np.array([112.0, 108.0, 110.0, 70.0]),
        longs(0, 0, 0, 0),
        ALL(4, bool),
        ALL(4, bool),
        longs(FREE, FREE, FREE, FREE),
        no_routes(4, 1),
    )
    assert flows.inflow.tolist() == [0, 0, 0, 20]
    assert flows.shed.sum() == pytest.approx(20, abs=3)
    assert flows.shed[0] >= flows.shed[2] >= flows.shed[1]


def test_racks_that_nothing_may_leave_are_balanced_separately():
    # Rack 0 is full, rack 1 empty; nothing may go across, but within rack 0 one broker has more.
    share = np.array([100.0, 100.0, 100.0, 100.0])
    flows = balancing_flows(
        Band.around(share, 0.10),
        np.array([140.0, 80.0, 100.0, 80.0]),
        longs(0, 0, 1, 1),
        ALL(4, bool),
        ALL(4, bool),
        longs(FREE, FREE, FREE, FREE),
        no_routes(4, 2, free_racks=False),
    )
    assert flows.shed.tolist() == [30, 0, 10, 0]
    assert flows.inflow.tolist() == [0, 30, 0, 10]


def test_what_must_move_goes_to_the_emptiest_but_to_none_more_than_twice_the_mean():
    routes = Routes(longs(80, 0), np.array([[80], [0]], dtype=np.int64), np.zeros((4, 1), dtype=np.int64))
    flows = forced_flows(
        np.full(4, 100.0),
        np.array([0.0, 60.0, 100.0, 140.0]),
        ALL(4, bool),
        longs(0, 0, 0, 0),
        longs(*[FREE] * 4),
        routes,
    )
    assert flows.inflow.tolist() == [40, 40, 0, 0]
    assert flows.shed.tolist() == [0, 0, 0, 0]


def test_a_disk_with_little_space_takes_no_more_than_that():
    routes = Routes(longs(80, 0), np.array([[80], [0]], dtype=np.int64), np.zeros((2, 1), dtype=np.int64))
    flows = forced_flows(np.full(2, 100.0), np.array([0.0, 90.0]), ALL(2, bool), longs(0, 0), longs(30, FREE), routes)
    assert flows.inflow[0] == 30


def test_leaders_may_be_a_tenth_above_the_mean():
    assert leader_room(longs(15, 10, 5), ALL(3, bool), 30).tolist() == [-4, 1, 6]


def test_with_few_partitions_the_mean_is_rounded_up():
    # Four leaders over three brokers: nobody can be below 2.
    assert leader_room(longs(4, 0, 0), ALL(3, bool), 4).tolist() == [-2, 2, 2]


def test_a_broker_that_takes_no_part_gets_no_leadership():
    assert leader_room(longs(0, 0), np.array([True, False]), 4).tolist() == [4, NO_ROOM]


def test_the_parts_of_all_shards_add_up_exactly():
    total = longs(10, -7, 0, 2**50 + 1)
    assert sum(split_evenly(total, shard, 3) for shard in range(3)).tolist() == total.tolist()


@pytest.mark.parametrize("shards", [1, 2, 4, 1024])
def test_a_broker_that_is_to_get_no_leadership_has_no_surplus_in_any_shard(shards):
    """A part of ``NO_ROOM`` would pass for a surplus, and the broker would lose leaderships in a large cluster only."""
    none, fleet = longs(0, 0), Fleet(longs(1, 2), ("a",), longs(0, 0), *[ALL(2, bool)] * 4, longs(1, 1))
    room = longs(NO_ROOM, -4096)
    goals = ShardGoals(fleet, none, none, np.zeros(BUCKETS, dtype=np.int64), none, none, room, largest=1)
    parts = [goals.for_shard(shard, shards).leader_room for shard in range(shards)]
    assert all(leads_too_much(part.tolist()).tolist() == [False, True] for part in parts)
    assert sum(int(part[1]) for part in parts) == -4096


def test_free_space_that_is_not_known_limits_no_shard():
    """A shard that has none of a broker's inflow would have none of its space, and say that its disks are full."""
    none, ones, brokers = longs(0, 0), longs(1, 1), ALL(2, bool)
    fleet = Fleet(longs(1, 2), ("a",), none, brokers, brokers, brokers, brokers, ones)
    forced, free = np.ones(BUCKETS, dtype=np.int64), longs(FREE_UNKNOWN, 1000)
    goals = ShardGoals(fleet, none, longs(100, 100), forced, free, none, none, largest=100)
    parts = [goals.for_shard(shard, 2).free for shard in range(2)]
    assert [int(part[0]) for part in parts] == [FREE_UNKNOWN, FREE_UNKNOWN]
    assert sum(int(part[1]) for part in parts) == 1000


def test_pieces_add_up_follow_the_weights_and_are_not_smaller_than_wanted():
    total, racks, weights = longs(100, 100, 100, 100), longs(0, 0, 1, 1), longs(1, 3)
    parts = [split_in_pieces(total, racks, 100, shard, weights) for shard in range(2)]

    assert sum(parts).tolist() == total.tolist()
    assert [int(part.sum()) for part in parts] == [100, 300]
    assert parts[0].tolist() == [100, 0, 0, 0]


def test_bytes_of_many_pieces_reach_every_shard():
    parts = [split_in_pieces(longs(100, 100), longs(0, 1), 10, shard, longs(1, 1)) for shard in range(2)]
    assert [part.tolist() for part in parts] == [[50, 50], [50, 50]]


def test_a_broker_with_no_log_dir_that_takes_replicas_gets_none_whatever_the_reason():
    dirs = [
        (1, "/a", 1000, 500, None, True),
        (1, "/b", None, None, "offline", False),
        (2, "/a", 1000, 500, None, False),
    ]
    rows = [dict(zip(LOG_DIRS.names, row, strict=True)) for row in dirs]
    space = Space.of(pa.Table.from_pylist(rows, schema=LOG_DIRS), np.array([1, 2, 3]), 0.1)
    assert space.cordoned.tolist() == [True, False, False], "nothing is known of the third one"


def test_a_copy_that_no_single_log_dir_has_space_for_is_too_much_though_all_of_them_together_have_it():
    """The admission would hold such a batch back for ever. Three brokers, two log dirs with room for 180 each."""
    received, largest, free = longs(200, 200, 400), longs(100, 200, 100), longs(360, 360, 360)
    assert short_of_space(received, largest, free, longs(2, 2, 2)).tolist() == [False, True, True]


def test_new_replicas_that_no_broker_may_take_make_no_inflow():
    routes = Routes(longs(0, 100), longs(0, 0).reshape(2, 1), longs(0, 0).reshape(2, 1))
    none = np.zeros(2, dtype=bool)
    with np.errstate(all="raise"):
        flows = forced_flows(np.array([50.0, 50.0]), np.zeros(2), none, longs(0, 0), longs(FREE, FREE), routes)
    assert flows.inflow.tolist() == [0, 0]
