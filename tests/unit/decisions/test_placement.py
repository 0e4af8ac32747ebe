"""Where new partitions go. Numbers small enough to check by eye; rules by hypothesis."""

from __future__ import annotations

from collections import Counter
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_reassignment.decisions.placement import BrokerLoad, Growth, Placement, place
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.model import Replicas

pytestmark = pytest.mark.quick


def broker(number: int, rack: str | None = None, *, size: int = 0, replicas: int = 0, leaders: int = 0) -> BrokerLoad:
    return BrokerLoad(number, rack, size, replicas, leaders)


def placed(present: list[Replicas], count: int, brokers: list[BrokerLoad], **more: int) -> Placement:
    return place(Growth("orders", dict(enumerate(present)), count, **more), brokers, {})


THREE = [broker(1, "a"), broker(2, "b"), broker(3, "c")]


def test_the_worked_example_of_the_module():
    brokers = [broker(1, "a", size=9), broker(2, "b", size=7), broker(3, "c", size=30)]
    assert placed([(1, 2), (2, 1)], 3, brokers).assignments == {2: (3, 2)}


def test_only_the_new_partitions_are_placed_and_each_has_the_topics_replication_factor():
    result = placed([(1, 2), (2, 3)], 5, THREE)
    assert list(result.assignments) == [2, 3, 4]
    assert all(len(replicas) == 2 for replicas in result.assignments.values())
    assert result.replication_factor == 2
    assert result.notes == ()


def test_a_topic_is_spread_over_all_brokers_before_load_is_looked_at():
    """Broker 3 is full of other topics, but has none of this one."""
    brokers = [broker(1), broker(2), broker(3, size=1_000)]
    assert placed([(1,), (2,)], 3, brokers, mean_bytes=1).assignments == {2: (3,)}


def test_of_brokers_equal_in_the_topic_the_one_with_fewer_bytes_is_taken():
    brokers = [broker(1, size=500), broker(2, size=300), broker(3, size=400)]
    assert placed([(1,), (2,), (3,)], 5, brokers, mean_bytes=50).assignments == {3: (2,), 4: (3,)}


def test_of_brokers_equal_in_bytes_too_the_one_with_fewer_replicas_is_taken():
    """Empty topics have no bytes, and still cost a broker something."""
    brokers = [broker(1, replicas=9), broker(2, replicas=4), broker(3, replicas=5)]
    assert placed([(1,), (2,), (3,)], 4, brokers).assignments == {3: (2,)}


def test_leaders_are_evened_out_too():
    brokers = [broker(1, leaders=8), broker(2, leaders=2)]
    assert placed([(1, 2), (2, 1)], 6, brokers).assignments == {2: (2, 1), 3: (1, 2), 4: (2, 1), 5: (1, 2)}


def test_a_rack_holds_a_second_replica_only_when_every_rack_holds_one():
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "a"), broker(4, "b", size=10**9)]
    result = placed([(1, 4, 2)], 4, brokers, mean_bytes=1)
    assert all(4 in replicas for replicas in result.assignments.values())


def test_brokers_without_racks_are_one_rack():
    result = placed([(1, 2)], 2, [broker(1), broker(2), broker(3)])
    assert len(set(result.assignments[1])) == 2
    assert result.notes == ()


def test_fewer_racks_than_replicas_are_noted():
    result = placed([(1, 3)], 2, [broker(1, "a"), broker(2, "a")])
    assert result.notes == ("2 replicas of a partition share 1 rack(s): no other has a broker that may take one.",)


def test_what_racks_forced_early_is_levelled_in_the_end():
    """One by one, broker 2 would end with three of the topic."""
    brokers = [broker(1, "d", size=30), broker(2, "a", size=8), broker(3, "c", size=89), broker(4, "c", size=63)]
    result = placed([(1, 3)], 4, brokers, mean_bytes=1)
    assert {s.broker_id: s.replicas_after for s in result.shares} == {1: 2, 2: 2, 3: 2, 4: 2}


def test_where_partitions_differ_the_majority_decides_and_it_is_noted():
    result = placed([(1,), (1, 2), (2, 3), (3,), (3, 1)], 6, THREE)
    assert result.replication_factor == 2
    assert result.notes == (
        "The partitions of orders differ in replicas: the new ones get 2, as 3 of 5 have; there are 2 with 1.",
    )
    assert placed([(1,), (1, 2)], 3, THREE).replication_factor == 2, "of two equally frequent ones the larger"


def test_brokers_that_get_nothing_are_noted_with_the_reason():
    result = place(Growth("orders", {0: (1,)}, 2), [broker(1)], {3: "it is down", 2: "the request excludes it"})
    assert result.notes == ("Broker 2 gets none: the request excludes it.", "Broker 3 gets none: it is down.")


def test_too_few_brokers_are_refused_with_who_was_left_out_and_why():
    growth = Growth("orders", {0: (1, 2, 3)}, 2)
    with pytest.raises(InfeasiblePlanError) as refused:
        place(growth, [broker(1), broker(2)], {3: "it is down", 4: "the request excludes it"})
    assert str(refused.value) == (
        "Topic orders has 3 replicas of a partition, which need 3 brokers; found 2 that may take new ones: 1,2 (left out: "
        "3: it is down, 4: the request excludes it). Start or add brokers, or exclude fewer"
    )


def test_fewer_replicas_than_min_insync_replicas_are_refused():
    with pytest.raises(
        InfeasiblePlanError, match=r"has 1 replicas of a partition, expected at least 2, its min\.insync"
    ):
        placed([(1,)], 2, THREE, min_insync_replicas=2)


# ------------------------------------------------------------------ rules, on anything


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Growth, list[BrokerLoad]]:
    ids = draw(st.lists(st.integers(0, 40), min_size=1, max_size=9, unique=True))
    factor = draw(st.integers(1, min(4, len(ids))))
    sizes = st.integers(0, 100)
    brokers = [BrokerLoad(b, draw(st.sampled_from([None, "a", "b", "c"])), draw(sizes), draw(sizes), 0) for b in ids]
    one = st.permutations(ids).map(lambda order: tuple(order[:factor]))
    present = draw(st.lists(one, min_size=1, max_size=6))
    count = len(present) + draw(st.integers(1, 12))
    return Growth("orders", dict(enumerate(present)), count, mean_bytes=draw(st.integers(0, 20))), brokers


def most(growth: Growth, assignments: dict[int, Replicas]) -> int:
    """Replicas of the topic on the broker that has most."""
    return max(Counter(b for r in (*growth.present.values(), *assignments.values()) for b in r).values())


def round_robin(growth: Growth, brokers: list[BrokerLoad], start: int) -> dict[int, Replicas]:
    """Brokers in turn, alternating between racks, skipping those whose rack the partition does not need."""
    racks: dict[str | None, list[int]] = {}
    for b in sorted(brokers, key=lambda b: b.broker_id):
        racks.setdefault(b.rack, []).append(b.broker_id)
    turns = [[r[at] for r in racks.values() if at < len(r)] for at in range(max(map(len, racks.values())))]
    ring = [b for turn in turns for b in turn]
    rack_of = {b.broker_id: b.rack for b in brokers}
    factor = len(growth.present[0])
    assignments = {}
    for number in range(len(growth.present), growth.count):
        at = (start + number * factor) % len(ring)
        order = list(islice(cycle(ring), at, at + len(ring)))
        taken: list[int] = []
        for b in order:
            if len(taken) < factor and rack_of[b] not in {rack_of[t] for t in taken}:
                taken.append(b)
        taken += [b for b in order if b not in taken][: factor - len(taken)]
        assignments[number] = tuple(taken)
    return assignments


@given(clusters())
def test_constraints_are_never_broken(case: tuple[Growth, list[BrokerLoad]]) -> None:
    growth, brokers = case
    result = place(growth, brokers, {})
    rack_of = {b.broker_id: b.rack for b in brokers}
    factor = len(growth.present[0])
    assert list(result.assignments) == list(range(len(growth.present), growth.count))
    for replicas in result.assignments.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= rack_of.keys()
        assert len({rack_of[b] for b in replicas}) == min(factor, len(set(rack_of.values())))


@given(clusters(), st.randoms(use_true_random=False))
def test_the_same_cluster_gives_the_same_placement_in_whatever_order_brokers_are_given(case, random) -> None:
    growth, brokers = case
    shuffled = random.sample(brokers, len(brokers))
    assert place(growth, shuffled, {}) == place(growth, brokers, {})


@given(clusters(), st.integers(0, 8))
def test_no_broker_gets_more_of_the_topic_than_round_robin_would_give_some(case, start: int) -> None:
    growth, brokers = case
    ours, theirs = place(growth, brokers, {}).assignments, round_robin(growth, brokers, start)
    assert most(growth, dict(ours)) <= most(growth, theirs)


@given(clusters(), st.integers(0, 8))
def test_the_fullest_broker_is_no_fuller_than_round_robin_makes_it(case, start: int) -> None:
    """Where the topic is spread evenly so far, and racks bind nothing."""
    growth, brokers = case
    brokers = [BrokerLoad(b.broker_id, None, b.size_bytes, b.replicas, 0) for b in brokers]
    ring, factor = [b.broker_id for b in brokers] * 2, len(growth.present[0])
    present = {at: tuple(ring[at : at + factor]) for at in range(len(brokers))}
    growth = Growth("orders", present, len(present) + growth.count, mean_bytes=growth.mean_bytes)

    def fullest(assignments: dict[int, Replicas]) -> int:
        added = Counter(b for replicas in assignments.values() for b in replicas)
        return max(b.size_bytes + added[b.broker_id] * growth.mean_bytes for b in brokers)

    ours = place(growth, brokers, {}).assignments
    assert fullest(dict(ours)) <= fullest(round_robin(growth, brokers, start))


@given(clusters())
def test_the_shares_are_those_of_the_placement(case: tuple[Growth, list[BrokerLoad]]) -> None:
    growth, brokers = case
    result = place(growth, brokers, {})
    everything = [*growth.present.values(), *result.assignments.values()]
    replicas, leaders = Counter(b for r in everything for b in r), Counter(r[0] for r in everything)
    assert [(s.broker_id, s.replicas_after, s.leaders_after) for s in result.shares] == [
        (b, replicas[b], leaders[b]) for b in sorted(b.broker_id for b in brokers)
    ]
