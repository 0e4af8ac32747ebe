"""ShardPlacement of one shard: what must be, bytes, leaders. Brokers are numbered by their place in the racks' letters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.planner.placing_cases import NOWHERE, Case

pytestmark = pytest.mark.longer


def test_a_replica_that_must_leave_goes_to_its_rack_when_all_others_are_taken():
    placement = Case("aabbcc", leaves={0}, inflow={3: 100, 5: 100, 1: 10}).place(([0, 2, 4], 10))
    assert placement.target == {0: [2, 1, 4]} or placement.target == {0: [1, 2, 4]}


def test_forced_replicas_go_to_the_broker_with_most_inflow_left():
    placement = Case("abcd", leaves={0}, inflow={2: 10, 3: 90}).place(([1, 0], 10), ([1, 0], 10))
    assert placement.target == {0: [1, 3], 1: [1, 3]}


def test_a_follower_that_leaves_does_not_change_the_leader():
    assert Case("abc", leaves={2}, inflow={1: 9}).place(([0, 2], 5)).target == {0: [0, 1]}


def test_a_leader_that_leaves_is_followed_by_the_replica_with_most_room():
    placement = Case("abcd", leaves={0}, inflow={3: 9}, leader_room={1: 1, 2: 7, 3: 3}).place(([0, 1, 2], 5))
    assert placement.target[0][0] == 2


def test_a_partition_without_a_valid_broker_is_reported_not_misplaced():
    placement = Case("abb", leaves={0}, not_taking={1, 2}).place(([0, 1], 5))
    assert placement.target == {}
    assert placement.impossible == {
        0: "2 replicas are wanted, and every one of the 0 brokers that may take one has one"
    }


def test_why_there_is_no_valid_broker_names_racks_or_disks():
    racks = Case("aabb", leaves={0}, not_taking={1}).place(([0, 2], 5))
    assert racks.impossible == {0: "every broker that may take a replica is in a rack that has one ('b')"}
    disks = Case("aabb", leaves={0}, free={1: 4}).place(([0, 2], 5))
    assert disks.impossible == {
        0: "no broker that may take a replica has space for its 5 bytes in each of its log dirs"
    }


def test_a_full_disk_takes_nothing():
    placement = Case("aaa", leaves={0}, inflow={1: 100, 2: 1}, free={1: 4, 2: 50}).place(([0], 5))
    assert placement.target == {0: [2]}


def test_a_copy_goes_where_every_log_dir_has_space_for_it():
    # Broker 1 has more free in all, but 6 in each of three log dirs; broker 2 has 12 in one.
    placement = Case("aaa", leaves={0}, inflow={1: 100, 2: 1}, free={1: 18, 2: 12}, log_dirs={1: 3}).place(([0], 7))
    assert placement.target == {0: [2]}


def test_racks_that_were_distinct_stay_so_even_if_the_empty_broker_is_elsewhere():
    placement = Case("aabb", leaves={0}, inflow={1: 1, 3: 100}).place(([0, 2], 5))
    assert sorted(placement.target[0]) == [1, 2]


def test_racks_that_were_shared_may_stay_shared_but_are_spread_if_possible():
    placement = Case("aabb", leaves={1}, inflow={2: 1, 3: 1}).place(([0, 1], 5))
    assert placement.target[0][1] in {2, 3}


# Replication factor


def test_lowering_drops_the_copy_on_the_fullest_broker_and_keeps_the_leader():
    placement = Case("abc", excess={0: 900, 1: 5, 2: 7}).place(([0, 1, 2], 10), wanted=2)
    assert placement.target == {0: [0, 1]}


def test_lowering_drops_a_dead_copy_before_a_live_one_even_if_it_leads():
    placement = Case("abc", dead={0}, excess={1: 5, 2: 7}).place(([0, 1, 2], 10), wanted=2)
    assert sorted(placement.target[0]) == [1, 2]


def test_lowering_keeps_the_racks_distinct():
    placement = Case("aab", excess={1: 0, 2: 999}).place(([0, 1, 2], 10), wanted=2)
    assert placement.target == {0: [0, 2]}


def test_lowering_drops_a_dead_copy_even_if_that_costs_a_rack():
    """What keeps it would wait for its broker, with one live replica."""
    placement = Case("aabb", dead={2}).place(([0, 1, 2], 10), wanted=2)
    assert placement.target == {0: [0, 1]}


def test_raising_adds_at_the_end_in_new_racks():
    placement = Case("aabbc", inflow={1: 100, 3: 50, 4: 60}).place(([0, 2], 10), wanted=3)
    assert placement.target == {0: [0, 2, 4]}


def test_what_is_dropped_on_one_broker_counts_for_the_next_drop():
    placement = Case("abc", excess={1: 10, 2: 6}).place(([0, 1, 2], 8), ([0, 1, 2], 8), wanted=2)
    assert [sorted(t) for t in placement.target.values()] == [[0, 2], [0, 1]]


# Racks


def test_restoring_racks_moves_one_of_two_that_share():
    placement = Case("aab", restore_racks=True, inflow={2: 9}).place(([0, 1], 5))
    assert placement.target == {0: [0, 2]}


@pytest.mark.parametrize("replicas", [[2, 0, 1], [1, 0, 2]], ids=["a follower", "the preferred leader"])
def test_restoring_racks_moves_the_dead_one_of_two_that_share(replicas):
    placement = Case("aabc", dead={1}, restore_racks=True, inflow={3: 9}, excess={0: 900}).place((replicas, 5))
    assert sorted(placement.target[0]) == [0, 2, 3]


def test_racks_that_are_distinct_already_are_left_alone():
    assert Case("aab", restore_racks=True, inflow={2: 9}).place(([0, 2], 5)).target == {}


# Balance


def test_the_largest_replica_that_fits_both_ends_is_moved_and_no_other():
    placement = Case("aa", shed={0: 12}, inflow={1: 12}).place(([0], 5), ([0], 20), ([0], 11))
    assert placement.target == {2: [1]}


def test_followers_are_moved_before_leaders():
    placement = Case("abb", shed={1: 10}, inflow={2: 10}).place(([1, 0], 10), ([0, 1], 10))
    assert placement.target == {1: [0, 2]}


def test_a_gap_no_single_move_closes_is_closed_by_a_swap():
    # 0 holds 60 + 40, 1 holds 20: the band is 50 to 70. Moving 40 leaves 60 and 60.
    moved = Case("aa", band=(50, 70)).place(([0], 60), ([0], 40), ([1], 20))
    assert moved.target == {1: [1]}
    # 0 holds 50 + 40, 1 holds 20 + 10: no single one brings both to 55 to 65, 40 against 10 does at least cost.
    swapped = Case("aa", band=(55, 65)).place(([0], 50), ([0], 40), ([1], 20), ([1], 10))
    assert swapped.target == {1: [1], 3: [0]}


def test_one_giant_partition_does_not_make_the_others_move():
    placement = Case("aaa", band=(90, 110)).place(([0], 1000), ([1], 100), ([2], 100))
    assert placement.target == {}


# Leaders


def test_leaders_are_reordered_only_as_many_as_are_too_many():
    placement = Case("ab", leader_room={0: -1, 1: 3}).place(([0, 1], 5), ([0, 1], 5), ([0, 1], 5))
    assert list(placement.target.values()) == [[1, 0]]


def test_a_leadership_is_passed_along_a_chain():
    # 0 leads too much and shares partitions with 1 only; 1 is full, but shares one with 2, which has room.
    placement = Case("abc", leader_room={0: -1, 1: 0, 2: 5}).place(([0, 1], 5), ([0, 1], 5), ([1, 2], 5))
    assert sorted(t[0] for t in placement.target.values()) == [1, 2]
    assert len(placement.target) == 2


def test_a_broker_that_must_not_lead_leads_nothing():
    placement = Case("abc", leader_room={0: -2, 1: NOWHERE, 2: 1}).place(([0, 1], 5), ([0, 2], 5))
    assert placement.target == {1: [2, 0]}


def test_a_broker_that_is_only_to_get_no_more_keeps_what_it_leads():
    """It was excluded, or is not named: nobody asked for fewer leaders on it."""
    placement = Case("abc", leader_room={0: 5, 1: NOWHERE, 2: 5}).place(([1, 0], 5), ([1, 2], 5))
    assert placement.target == {}


def test_what_keeps_a_replica_on_a_dead_broker_changes_no_further():
    """No batch can carry it out: the run would wait for the broker, and end red."""
    leaders = Case("abc", leader_room={0: -1, 1: 5, 2: 5}, dead={2})
    assert leaders.place(([0, 1, 2], 5), ([0, 2, 1], 5)).target == {}
    moves = Case("abc", shed={0: 10}, inflow={1: 10}, dead={2})
    assert moves.place(([0, 2], 10)).target == {}
    assert moves.place(([0, 2], 10), ([0], 10)).target == {1: [1]}


def test_smaller_replicas_move_where_few_large_ones_would_leave_a_receiver_too_little_to_lead():
    # The one of 12 would be the largest that fits, but 0 may lead two of the four and nobody else has a replica.
    case = Case("aa", shed={0: 12}, inflow={1: 12}, band=(11, 13), leader_room={0: -2, 1: 3})
    placement = case.place(([0], 12), ([0], 4), ([0], 4), ([0], 4))
    assert placement.target == {1: [1], 2: [1], 3: [1]}


def test_large_replicas_move_where_reorders_do_the_rest():
    case = Case("ab", shed={0: 12}, inflow={1: 12}, band=(19, 33), leader_room={0: -2, 1: 3})
    placement = case.place(([0], 12), ([0, 1], 4), ([0, 1], 4), ([0], 4))
    assert placement.target == {0: [1], 1: [1, 0]}


def test_where_the_tolerance_cannot_be_reached_the_busiest_leader_comes_as_near_to_it_as_possible():
    # 0 leads all eight and may lead two, 1 may lead one more, 2 has no replica to lead.
    case = Case("abc", leader_room={0: -6, 1: 1, 2: 5})
    placement = case.place(*[([0, 1], 5)] * 8)
    assert list(placement.target.values()) == [[1, 0]] * 3


@st.composite
def shards(draw):
    racks = draw(st.sampled_from(["aabbcc", "abcabc", "aaaabc", "aaaaaa", "abcdef"]))
    rows = draw(
        st.lists(
            st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), st.integers(0, 60)),
            min_size=1,
            max_size=25,
        )
    )
    amounts = st.dictionaries(st.integers(0, 5), st.integers(0, 200))
    case = Case(
        racks,
        shed=draw(amounts),
        inflow=draw(amounts),
        excess=draw(amounts),
        leader_room=draw(st.none() | st.dictionaries(st.integers(0, 5), st.integers(-4, 4))),
        leaves=draw(st.sets(st.integers(0, 5), max_size=2)),
        dead=draw(st.sets(st.integers(0, 5), max_size=1)),
        restore_racks=draw(st.booleans()),
        band=draw(st.none() | st.just((100, 150))),
    )
    return case, rows, draw(st.none() | st.integers(1, 4))


@settings(deadline=None)
@given(shards())
def test_no_request_breaks_a_rule(shard):
    case, rows, wanted = shard
    placement = case.place(*rows, wanted=wanted)

    there = {r for b, r in enumerate(case.racks) if b not in case.dead | case.leaves}
    for row, target in placement.target.items():
        current = rows[row][0]
        assert len(set(target)) == len(target) == (wanted or len(current))
        assert not set(target) - set(current) & (case.dead | case.leaves)
        assert not set(target) & case.leaves
        had = len({case.racks[b] for b in current})
        # Of fewer replicas the dead one goes first, though that may cost a rack: the score card says so.
        gives_up_dead = len(target) < len(current) and not case.dead.isdisjoint(current)
        if had >= min(len(current), len(there)) and not gives_up_dead:
            assert len({case.racks[b] for b in target}) >= min(len(target), len(there))
    untouched = set(range(len(rows))) - set(placement.target) - set(placement.impossible)
    for row in untouched:
        assert not set(rows[row][0]) & case.leaves
        assert len(rows[row][0]) == (wanted or len(rows[row][0]))


@settings(deadline=None)
@given(shards())
def test_moves_for_balance_stay_within_the_goals(shard):
    case, rows, _ = shard
    case.band, case.leaves, case.restore_racks = None, set(), False
    placement = case.place(*rows)

    received = np.zeros(6)
    sent = np.zeros(6)
    for row, target in placement.target.items():
        for b in set(target) - set(rows[row][0]):
            received[b] += rows[row][1]
        for b in set(rows[row][0]) - set(target):
            sent[b] += rows[row][1]
    assert all(received[b] <= case.inflow.get(b, 0) for b in range(6))
    assert all(sent[b] <= case.shed.get(b, 0) for b in range(6))
