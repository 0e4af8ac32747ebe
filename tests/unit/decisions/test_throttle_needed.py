"""Whatever is cleared, and whatever another client does: what still copies keeps its entries and rates, others keep theirs, ours go."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decisions.configs import Configs
from tests.unit.decisions.moves import move

from kafka_reassignment.decisions.rate import change_rates, throttled_brokers
from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONGEST_LIST_BYTES,
    NOTHING,
    Journal,
    Needed,
    Side,
    changes_to_restore,
    changes_to_throttle,
    listed_in,
    needed_replicas,
    replicas_listed,
    throttle_for,
    throttle_to_put_back,
    too_long,
    union,
)
from kafka_reassignment.model import (
    Batch,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    InFlight,
    PartitionState,
    Replicas,
    TopicPartition,
    View,
)

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 0)
ALIVE = frozenset(range(1, 10))


def copying(replicas: Replicas, isr: set[int], flight: InFlight | None = None, leader: int = 1) -> dict[Side, set[str]]:
    """What is needed of a throttle of orders-0 from 1,2 to 1,3,4."""
    seen = View(ALIVE, {P: PartitionState(replicas, frozenset(isr), leader)}, {P: flight} if flight else {})
    needed = needed_replicas(replicas_listed([move("orders", 0, (1, 2), (1, 3, 4))]), seen)
    return {side: set(needed.of("orders", side)) for side in Side if needed.of("orders", side)}


EXPANDING = InFlight((1, 2, 3, 4), (3, 4), ())


@pytest.mark.parametrize(
    ("seen", "new", "senders"),
    [
        (copying((1, 2), {1, 2}), set(), set()),
        (copying((1, 2, 3, 4), {1, 2}, EXPANDING), {"0:3", "0:4"}, {"0:1", "0:2"}),
        (copying((1, 2, 3, 4), {1, 2, 3}, EXPANDING), {"0:3", "0:4"}, {"0:1", "0:2"}),
        (copying((1, 2, 3, 4), {1, 2, 3}), {"0:4"}, {"0:1", "0:2"}),
        (copying((1, 2, 3, 4), {1, 2, 3, 4}), set(), set()),
        (copying((1, 3, 4), {1, 3}), {"0:4"}, {"0:1"}),
        (copying((1, 2, 3, 4), {3}, leader=3), {"0:4"}, {"0:1", "0:2", "0:3"}),
        (copying((1, 2, 3, 4), {1, 3}, EXPANDING, leader=3), {"0:3", "0:4"}, {"0:1", "0:2", "0:3"}),
        (copying((1, 5, 2, 3, 4), {1, 2}, InFlight((1, 5, 2, 3, 4), (5,), (2, 3, 4))), {"0:3", "0:4"}, {"0:1", "0:2"}),
        (copying((1, 5), {1}, InFlight((1, 5), (5,), ())), set(), set()),
    ],
    ids=[
        "not submitted",
        "in flight",
        "in flight, one has caught up and may fall behind",
        "extra replicas, one out of sync",
        "extra replicas in sync",
        "at the target, one out of sync",
        "a new replica leads",
        "a new replica leads while the move goes on",
        "another client removes the new replicas, which copy until they are gone",
        "another client's move alone",
    ],
)
def test_what_copies_because_of_us_is_read_off_the_cluster(seen, new, senders):
    assert (seen.get(Side.FOLLOWER, set()), seen.get(Side.LEADER, set())) == (new, senders)


def test_a_broker_that_just_died_is_out_of_sync_though_the_isr_still_has_it():
    seen = View(frozenset({1, 2}), {P: PartitionState((1, 2, 3), frozenset({1, 2, 3}), 1)})
    assert needed_replicas(replicas_listed([move("orders", 0, (1, 2), (1, 3))]), seen).copying == (P,)


# Lists


@given(st.integers(0, 40), st.integers(LONGEST_LIST_BYTES - 60, LONGEST_LIST_BYTES))
def test_a_list_is_too_long_exactly_when_its_value_would_be(count: int, there: int) -> None:
    value = "7:7" + "," * (there - 3)
    wanted = replicas_listed([move("orders", n, (1,), (2,)) for n in range(count)])
    found = too_long(
        wanted, Configs(lists={("orders", FOLLOWER_REPLICAS): value}).describe([ConfigResource.topic("orders")])
    )
    whole = len(",".join([value, *(f"{n}:2" for n in range(count))]))
    assert [x.bytes_needed for x in found] == ([whole] if whole > LONGEST_LIST_BYTES else [])


def test_entries_that_are_there_already_need_no_room():
    wanted = replicas_listed([move("orders", 0, (1,), (2,))])
    full = "0:2," + "9" * (LONGEST_LIST_BYTES - 4)
    assert (
        too_long(
            wanted, Configs(lists={("orders", FOLLOWER_REPLICAS): full}).describe([ConfigResource.topic("orders")])
        )
        == ()
    )


@pytest.mark.parametrize(
    ("room_of_followers", "room_of_leaders", "fitting"),
    [
        (8, 4, {Side.FOLLOWER: ("0:3", "1:3"), Side.LEADER: ("0:1",)}),
        (4, 8, {Side.FOLLOWER: ("0:3",), Side.LEADER: ("1:1", "1:2")}),
        (0, 4, {Side.FOLLOWER: (), Side.LEADER: ("0:1",)}),
        (3, 3, {Side.FOLLOWER: (), Side.LEADER: ()}),
    ],
    ids=["all followers", "leaders of the others", "no followers", "nothing"],
)
def test_what_has_room_in_long_lists_holds_as_many_copies_as_it_can(room_of_followers, room_of_leaders, fitting):
    rooms = {FOLLOWER_REPLICAS: room_of_followers, LEADER_REPLICAS: room_of_leaders}
    theirs = {("orders", key): "9" * (LONGEST_LIST_BYTES - room) for key, room in rooms.items()}
    wanted = replicas_listed([move("orders", n, (1, 2), (3, 2)) for n in (0, 1)] + [move("orders", 1000, (1,), (4, 1))])
    found = too_long(wanted, Configs(lists=theirs).describe([ConfigResource.topic("orders")]))
    assert {x.fitting.side: x.fitting.entries for x in found} == fitting


# Sequences of what we do, what others do, and crashes

STEPS = (
    move("orders", 0, (1, 2), (3, 2)),
    move("orders", 1, (2, 3), (1, 4)),
    move("orders", 2, (4, 1), (4, 2)),
    move("payments", 0, (1,), (2, 1)),
)
"""Of several batches and of two reassignments."""

RATES = (7_700_000, 15_400_000)
"""Asked; 10 and 20 MB/s are set."""

THEIRS = ("0", "5", "9000000", "15000000", "90000000")
"""None of them is a rate of ours; some are lower, some higher, one is between."""


class World:
    """Two reassignments with a journal each, one after the other or both at once, and the partitions that copy."""

    def __init__(self, configs: Configs) -> None:
        self.configs = configs
        self.journals = [Journal(), Journal()]
        self.moving: set[int] = set()

    def seen(self) -> View:
        states, flights = {}, {}
        for n, s in enumerate(STEPS):
            move = s.reassignment
            if n in self.moving:
                states[s.partition] = PartitionState(move.expanded, frozenset(move.current), move.current[0])
                flights[s.partition] = InFlight(move.expanded, move.adding, ())
            else:
                states[s.partition] = PartitionState(move.current, frozenset(move.current), move.current[0])
        return View(ALIVE, states, flights)

    def needed(self) -> Needed:
        return needed_replicas([r for j in self.journals for r in listed_in(j)], self.seen())

    def missing(self) -> set[str]:
        """What copies and lacks an entry, or a rate of at most the highest that we ever ask for."""
        configs = self.configs.describe(
            [*map(ConfigResource.broker, range(1, 5)), *map(ConfigResource.topic, ("orders", "payments"))]
        )
        lacking = set()
        for n in self.moving:
            move = STEPS[n].reassignment
            for side, brokers in ((Side.FOLLOWER, move.adding), (Side.LEADER, move.current)):
                listed = configs[ConfigResource.topic(move.partition.topic)][side.replicas_key].value.split(",")
                for b in brokers:
                    if f"{move.partition.partition}:{b}" not in listed:
                        lacking.add(f"{move.partition}:{b} is not listed")
                    value = configs[ConfigResource.broker(b)].get(side.rate_key)
                    if value is None or int(value.value) > 20_000_000:
                        lacking.add(f"broker {b} has no {side} rate")
        return lacking

    def put_in_place(self, who: int, steps: list[int], asked: int, through: int = 99) -> None:
        batch = Batch(1, tuple(STEPS[n] for n in steps))
        plan = throttle_for(batch, asked_bytes_per_second=asked, rate_changes=self.journals[who].rate_changes)
        self.journals[who], changes = changes_to_throttle(
            plan, self.journals[who], self.configs.describe(plan.resources)
        )
        self.configs.apply(changes[:through])

    def look(self, who: int, asked: int) -> None:
        journal = self.journals[who]
        plan = self.needed().as_throttle(asked_bytes_per_second=asked, rate_changes=journal.rate_changes)
        self.journals[who], changes = changes_to_throttle(plan, journal, self.configs.describe(plan.resources))
        self.configs.apply(changes)

    def change_rate(self, who: int, asked: int, through: int) -> None:
        journal = self.journals[who]
        brokers = {ConfigResource.broker(b) for b, _ in throttled_brokers(journal)}
        self.journals[who], changes = change_rates(
            journal, self.configs.describe(brokers), asked_bytes_per_second=asked
        )
        self.configs.apply(changes[:through])

    def clear(self, who: int, through: int = 99, *, keep: Needed | None = None) -> None:
        journal, others = self.journals[who], [j for n, j in enumerate(self.journals) if n != who]
        needed = self.needed() if keep is None else keep
        for _ in range(2):  # the second pass deletes the lists that the first one has emptied
            seen = self.configs.describe(journal.resources)
            changes = changes_to_restore(journal, seen, keep=needed, others=others).changes
            self.configs.apply(changes[:through])
            through = max(0, through - len(changes))
            seen = self.configs.describe(journal.resources)
            journal = changes_to_restore(journal, seen, keep=needed, others=others).journal
        self.journals[who] = journal

    def hand_over(self) -> None:
        taken = self.journals[0]
        self.journals[1] = union(self.journals[1], taken)
        self.journals[0] = self.journals[0].without(taken)


numbers = st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)
ours = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 1), numbers, st.sampled_from(RATES), st.integers(0, 9)),
    st.tuples(st.just("submit"), st.integers(0, 1), numbers, st.sampled_from(RATES)),
    st.tuples(st.just("landed"), numbers),
    st.tuples(st.just("change rate"), st.integers(0, 1), st.sampled_from(RATES), st.integers(0, 9)),
    st.tuples(st.just("clear"), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just("hand over")),
)
theirs = st.one_of(
    st.builds(
        lambda broker, key, value: ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.SET, value),
        st.integers(1, 4),
        st.sampled_from([LEADER_RATE, FOLLOWER_RATE]),
        st.sampled_from(THEIRS),
    ),
    st.builds(
        lambda broker, key: ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.DELETE),
        st.integers(1, 4),
        st.sampled_from([LEADER_RATE, FOLLOWER_RATE]),
    ),
    st.builds(
        lambda topic, key, operation: ConfigChange(ConfigResource.topic(topic), key, operation, "100:1"),
        st.sampled_from(["orders", "payments"]),
        st.sampled_from([LEADER_REPLICAS, FOLLOWER_REPLICAS]),
        st.sampled_from([ConfigOperation.APPEND, ConfigOperation.SUBTRACT, ConfigOperation.SET]),
    ),
    st.builds(
        lambda topic, key: ConfigChange(ConfigResource.topic(topic), key, ConfigOperation.DELETE),
        st.sampled_from(["orders", "payments"]),
        st.sampled_from([LEADER_REPLICAS, FOLLOWER_REPLICAS]),
    ),
)


def act(world: World, action: tuple) -> None:  # type: ignore[type-arg]
    match action:
        case ("set", who, steps, asked, through):
            world.put_in_place(who, steps, asked, through)
        case ("submit", who, steps, asked):
            world.put_in_place(who, steps, asked)
            world.moving |= set(steps)
        case ("landed", steps):
            world.moving -= set(steps)
        case ("change rate", who, asked, through):
            world.change_rate(who, asked, through)
        case ("clear", who, through):
            world.clear(who, through)
        case ("hand over",):
            world.hand_over()


@settings(max_examples=150)
@given(st.lists(st.one_of(ours, theirs), max_size=14))
def test_what_copies_never_loses_its_throttle_by_us_and_a_look_restores_what_others_took(happening: list) -> None:  # type: ignore[type-arg]
    world = World(Configs())
    for event in happening:
        if isinstance(event, ConfigChange):
            world.configs.apply([event])
            world.look(1, RATES[0])
            assert world.missing() == set()
            continue
        before = world.missing()
        act(world, event)
        assert world.missing() <= before, "nothing that was throttled is not any more"


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["1", "2", "3", "4"]), st.sampled_from([LEADER_RATE, FOLLOWER_RATE])),
        st.sampled_from(THEIRS),
        max_size=4,
    ),
    st.lists(st.one_of(ours, theirs), max_size=14),
)
def test_in_the_end_other_clients_values_are_as_they_left_them_and_nothing_of_ours_is_left(
    rates: dict, happening: list
) -> None:  # type: ignore[type-arg]
    """One reassignment after the other: the second takes over before it sets anything."""
    world, without_us = World(Configs(per_broker=dict(rates))), Configs(per_broker=dict(rates))
    has_second_begun = False
    for event in happening:
        if isinstance(event, ConfigChange):
            world.configs.apply([event])
            without_us.apply([event])
            continue
        name, *rest = event
        if name in {"set", "submit", "change rate"}:
            has_second_begun = has_second_begun or rest[0] == 1
            rest[0] = int(has_second_begun)
        has_second_begun = has_second_begun or name == "hand over"  # the first one has no lock any more
        if has_second_begun:
            world.hand_over()
        act(world, (name, *rest))
    world.moving = set()
    for who in (0, 1, 0, 1):
        world.clear(who)
    assert all(journal.is_settled for journal in world.journals)
    assert world.configs.per_broker == without_us.per_broker
    assert {k: v for k, v in world.configs.lists.items() if v} == {k: v for k, v in without_us.lists.items() if v}


@settings(max_examples=100)
@given(numbers, st.sampled_from(RATES), numbers)
def test_what_begins_to_copy_in_the_middle_of_a_clear_is_put_back(
    steps: list[int], asked: int, begun: list[int]
) -> None:
    world = World(Configs())
    world.put_in_place(0, steps, asked)
    before = deepcopy(world.configs)
    journal = world.journals[0]
    changes = changes_to_restore(journal, world.configs.describe(journal.resources), keep=NOTHING).changes
    world.configs.apply(changes)
    world.moving = set(begun) & set(steps)
    plan = throttle_to_put_back(journal, changes, world.needed())
    world.configs.apply(changes_to_throttle(plan, journal, world.configs.describe(plan.resources))[1])
    assert world.missing() == set()
    assert set(world.configs.per_broker.items()) <= set(before.per_broker.items())
