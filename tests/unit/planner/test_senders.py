"""Which replica copies are read from: the busiest sender sends least, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.steps import batching_columns, changes_table, leaders_first, steps_table
from kafka_reassignment.planner.senders import MORE_LEADER_CHANGES, Copies, levelled_senders, sent_alone
from kafka_reassignment.planner.shard_goals import Fleet

pytestmark = pytest.mark.quick

BROKERS = 6


def fleet(*, dead=(), leaves=()):
    ids = np.arange(BROKERS)
    alive = ~np.isin(ids, list(dead))
    gone = np.isin(ids, list(leaves))
    ones = np.ones(BROKERS, dtype=np.int64)
    return Fleet(ids, ("a",), np.zeros(BROKERS, dtype=np.int64), alive, alive & ~gone, alive & ~gone, gone, ones)


def changes(*moves):
    """Changes given as (current, target, size)."""
    rows = [
        {"topic": "orders", "partition": n, "current": list(c), "target": list(t), "size_bytes": s}
        for n, (c, t, s) in enumerate(moves)
    ]
    return pa.Table.from_pylist(rows, schema=TARGET)


def levelled(table, brokers=None, *, leaders=None, r=1, only_planned=False, all_rows=False):
    brokers = brokers or fleet()
    leads = np.array([0, 0, 0, 0, 0, 10] if leaders is None else leaders)
    return levelled_senders(table, brokers, leads, brokers.takes, r, only_planned=only_planned, all_rows=all_rows)


def targets(senders):
    return [tuple(t) for t in senders.changes["target"].to_pylist()]


def busiest_sender(table, flags, r):
    columns = batching_columns(steps_table(table, r, flags))
    copies = columns.sender >= 0
    return int(np.bincount(columns.sender[copies], weights=columns.bytes_to_copy[copies], minlength=1).max(initial=0))


def test_a_decommissioned_leader_lets_staying_replicas_lead_and_send():
    # Broker 0 would send 30; each receiver gets 10.
    moves = [((0, 1), (1, 3), 10), ((0, 2), (2, 4), 10), ((0, 1), (1, 5), 10)]
    found = levelled(changes(*moves), fleet(leaves=[0]))
    assert found.leaders_first.tolist() == [True, True, False]
    assert targets(found) == [(1, 3), (2, 4), (1, 5)]


def test_only_as_many_leaders_move_first_as_the_busiest_receiver_needs():
    # The receiver gets 30 whatever happens: a sender of 30 is no reason to move a leader.
    moves = [((0, 1), (1, 3), 10), ((0, 2), (2, 3), 10), ((0, 1), (1, 3), 10)]
    assert not levelled(changes(*moves), fleet(leaves=[0])).leaders_first.any()


def test_a_dead_preferred_leader_sends_nothing():
    table = steps_table(changes(((0, 1, 2), (3, 1, 2), 10), ((4,), (5,), 10)), 1)
    assert batching_columns(table).sender.tolist() == [0, 4]
    assert batching_columns(table, [0]).sender.tolist() == [1, 4]
    assert batching_columns(table, [0, 1, 4]).sender.tolist() == [2, 4]


def test_no_leader_moves_first_where_a_replica_is_dead():
    # A step that only moves the leader would keep the dead replica, so it could not be carried out.
    moves = [((0, 1, 2), (1, 3), 10), ((0, 1, 2), (1, 4), 10), ((0, 1), (1, 5), 10), ((0, 1), (1, 5), 10)]
    found = levelled(changes(*moves), fleet(leaves=[0], dead=[2]))
    assert found.leaders_first.tolist() == [False, False, True, True]


def test_what_replaces_dead_replicas_is_read_before_the_leader_moves():
    # The first step of the first row makes two copies, which broker 0 sends.
    copies = Copies.of(changes(((0, 1, 2), (3, 4, 5), 10), ((0, 1), (1, 4), 10)), fleet(dead=[1, 2]), 1)
    assert copies.first.tolist() == [20, 10]
    assert copies.later.tolist() == [10, 0]


def test_a_replica_that_has_the_data_leads_in_place_of_the_new_one():
    moves = [((0, 1), (3, 1), 10), ((0, 2), (4, 2), 10)]
    found = levelled(changes(*moves), fleet(leaves=[0]))
    assert targets(found) == [(1, 3), (4, 2)]
    assert found.leaders_first.tolist() == [True, False]


def test_a_given_assignment_keeps_its_preferred_leaders():
    moves = [((0, 1), (3, 1), 10), ((0, 2), (2, 4), 10)]
    found = levelled(changes(*moves), fleet(leaves=[0]), only_planned=True)
    assert targets(found) == [(3, 1), (2, 4)]
    assert found.leaders_first.tolist() == [False, True]


def test_a_broker_that_leads_as_many_as_the_busiest_gets_no_further_leadership():
    moves = [((0, 1), (3, 1), 10), ((0, 1), (4, 1), 10)]
    found = levelled(changes(*moves), fleet(leaves=[0]), leaders=[0, 7, 7, 7, 7, 7])
    assert not found.leaders_first.any()


def test_few_leaders_change_only_to_send():
    # 200 partitions that keep their leader: the leaders of at most two of them change.
    moves = [((0, 1, 2), (0, 1, 3 + n % 3), 10) for n in range(200)]
    found = levelled(changes(*moves), leaders=[9, 0, 0, 0, 0, 0])
    assert 0 < found.leaders_first.sum() <= 200 * MORE_LEADER_CHANGES


def test_a_dead_leader_sends_nothing_that_another_one_could_send_in_its_place():
    moves = [((0, 1), (1, 3), 10), ((0, 2), (2, 4), 10)]
    assert not levelled(changes(*moves), fleet(dead=[0])).leaders_first.any()


def test_what_only_one_replica_can_send_is_counted():
    moves = [((0,), (3,), 10), ((0, 1), (3, 4), 10), ((0, 1), (3, 1), 10)]
    assert sent_alone(changes(*moves), fleet(leaves=[0])).tolist() == [20, 0, 0, 0, 0, 0]


def test_copies_of_a_leader_that_stays_alone_are_all_sent_by_it():
    # One of the three comes with the first step, the others later: no other replica has the data in any of them.
    assert sent_alone(changes(((0,), (0, 1, 2, 3), 10)), fleet()).tolist() == [30, 0, 0, 0, 0, 0]


replicas = st.lists(st.integers(0, BROKERS - 1), min_size=1, max_size=3, unique=True)
moves_strategy = st.lists(st.tuples(replicas, replicas, st.integers(0, 50)), min_size=1, max_size=30)


@settings(max_examples=200)
@given(moves=moves_strategy, dead=st.sets(st.integers(0, 5), max_size=1), r=st.integers(1, 3), all_rows=st.booleans())
def test_the_bytes_stay_equal_and_no_busiest_end_gets_busier(moves, dead, r, all_rows):
    table = changes(*((c, t, s) for c, t, s in moves if c != t))
    leaders = np.bincount([t[0] for t in table["target"].to_pylist()] or [0], minlength=BROKERS)
    found = levelled(table, fleet(dead=dead), leaders=leaders, r=r, all_rows=all_rows)

    for before, after, first in zip(table.to_pylist(), found.changes.to_pylist(), found.leaders_first, strict=True):
        assert set(before["target"]) == set(after["target"])
        assert first or before == after
        assert not first or (after["target"][0] in after["current"] and after["target"][0] not in dead)
    if found.leaders_first.any():
        assert busiest_sender(found.changes, found.leaders_first, r) < busiest_sender(table, None, r)
    steps = steps_table(found.changes, r, found.leaders_first)
    assert changes_table(steps).to_pylist() == found.changes.to_pylist()
    assert leaders_first(steps).tolist() == found.leaders_first.tolist()
    led = np.bincount([t[0] for t in found.changes["target"].to_pylist()] or [0], minlength=BROKERS)
    assert led.max() <= leaders.max()
    undue = [b for b in table.to_pylist() if b["current"][0] == b["target"][0]]
    kept = [a for a in found.changes.to_pylist() if a["current"][0] == a["target"][0]]
    assert len(undue) - len(kept) <= len(table) * MORE_LEADER_CHANGES
