"""Whatever was set before, wherever we crash and whatever others do: in the end the configs are as if we had not been."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decisions.configs import Configs
from tests.unit.decisions.moves import move

from kafka_reassignment.decisions.rate import change_rates
from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Journal,
    WantedThrottle,
    changes_to_restore,
    changes_to_throttle,
    missing_throttle,
    throttle_for,
    union,
)
from kafka_reassignment.model import (
    Batch,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)

pytestmark = pytest.mark.longer

RATE_KEYS = (LEADER_RATE, FOLLOWER_RATE)
LIST_KEYS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
BATCHES = (
    Batch(
        1,
        (
            move("orders", 0, (1, 2), (3, 2)),
            move("orders", 1, (2, 3), (1, 4)),
        ),
    ),
    Batch(
        2,
        (
            move("orders", 2, (4, 1), (4, 2)),
            move("payments", 0, (1,), (2, 1)),
        ),
    ),
)
RATES = (7_700_000, 15_400_000)
"""Asked; 10 and 20 MB/s are set."""

# What others set: rates lower and higher than ours, none of them ours, entries of ours and others, blanks and all.
their_rates = st.sampled_from(["5", "6", "0", "15000000", "90000000"])
# Set while we run. None is among those of before: where a default is lower than ours, ours is as low, and a client that
# then sets the very same value looks like us.
their_later_rates = st.sampled_from(["7", "8", "1", "16000000", "91000000"])
their_entries = st.sampled_from(["100:1", "100:2", "101:9"])
entries_before = st.lists(st.sampled_from(["0:1", "0:3", "1:4", "2:2", "100:1", "77:99"]), unique=True, max_size=4)
lists_before = entries_before.map(",".join)
lists_or_star_before = st.just("*") | lists_before


@st.composite
def configs(draw: st.DrawFn, lists: st.SearchStrategy[str] = lists_or_star_before) -> Configs:
    brokers = st.sampled_from(["1", "2", "3", "4"])
    broker_keys = st.tuples(brokers, st.sampled_from(RATE_KEYS))
    topic_keys = st.tuples(st.sampled_from(["orders", "payments"]), st.sampled_from(LIST_KEYS))
    return Configs(
        static=draw(st.dictionaries(broker_keys, their_rates, max_size=4)),
        dynamic_default=draw(st.dictionaries(st.sampled_from(RATE_KEYS), their_rates)),
        per_broker=draw(st.dictionaries(broker_keys, their_rates, max_size=4)),
        lists=draw(st.dictionaries(topic_keys, lists, max_size=4)),
    )


@dataclass
class Run:
    """Our side: a journal that survives crashes, and changes of which only some may get through."""

    configs: Configs
    journal: Journal = field(default_factory=Journal)

    def put_in_place(self, batch: Batch, asked: int, through: int) -> WantedThrottle:
        plan = throttle_for(batch, asked_bytes_per_second=asked, rate_changes=self.journal.rate_changes)
        self.journal, changes = changes_to_throttle(plan, self.journal, self.configs.describe(plan.resources))
        self.configs.apply(changes[:through])
        return plan

    def change_rate(self, asked: int, through: int) -> None:
        seen = self.configs.describe(self.journal.resources)
        self.journal, changes = change_rates(self.journal, seen, asked_bytes_per_second=asked, brokers=[1, 2])
        self.configs.apply(changes[:through])

    def clear(self, through: int, *, journal_written: bool = True) -> None:
        """Clear it, and die after so many changes; the second pass deletes the lists that the first one has emptied."""
        for _ in range(2):
            clearing = changes_to_restore(self.journal, self.configs.describe(self.journal.resources))
            self.configs.apply(clearing.changes[:through])
            through = max(0, through - len(clearing.changes))
            if journal_written:
                self.journal = changes_to_restore(self.journal, self.configs.describe(self.journal.resources)).journal


ours = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(BATCHES), st.sampled_from(RATES), st.integers(0, 9)),
    st.tuples(st.just("retarget"), st.sampled_from(RATES), st.integers(0, 4)),
    st.tuples(st.just("clear"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("brokers down"), st.sets(st.integers(1, 4), max_size=3)),
)


def act(run: Run, action: tuple) -> None:  # type: ignore[type-arg]
    match action:
        case ("set", batch, asked, through):
            run.put_in_place(batch, asked, through)
        case ("retarget", asked, through):
            run.change_rate(asked, through)
        case ("clear", through, journal_written):
            run.clear(through, journal_written=journal_written)
        case ("brokers down", down):
            run.configs.down = set(down)


@settings(max_examples=100)
@given(configs(), st.lists(ours, max_size=8))
def test_after_any_crashes_the_earlier_values_are_back_on_their_layers(before: Configs, actions: list) -> None:  # type: ignore[type-arg]
    run = Run(deepcopy(before))
    for action in actions:
        act(run, action)
    run.configs.down = set()
    run.clear(99)
    assert run.journal.is_settled
    assert run.configs.state() == before.state()


@settings(max_examples=50)
@given(configs(), st.sampled_from(BATCHES), st.integers(0, 9))
def test_set_again_after_a_crash_anywhere_the_throttle_is_in_place(before: Configs, batch: Batch, through: int) -> None:
    run = Run(before)
    run.put_in_place(batch, RATES[0], through)
    plan = run.put_in_place(batch, RATES[0], 99)
    assert missing_throttle(plan, run.configs.describe(plan.resources), Journal()) == ()
    assert changes_to_throttle(plan, run.journal, run.configs.describe(plan.resources)) == (run.journal, [])


theirs = st.one_of(
    st.builds(
        lambda broker, key, value: ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.SET, value),
        st.integers(1, 4),
        st.sampled_from(RATE_KEYS),
        their_later_rates,
    ),
    st.builds(
        lambda broker, key: ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.DELETE),
        st.integers(1, 4),
        st.sampled_from(RATE_KEYS),
    ),
    st.builds(
        lambda topic, key, operation, entry: ConfigChange(ConfigResource.topic(topic), key, operation, entry),
        st.sampled_from(["orders", "payments"]),
        st.sampled_from(LIST_KEYS),
        st.sampled_from([ConfigOperation.APPEND, ConfigOperation.SUBTRACT, ConfigOperation.SET]),
        their_entries,
    ),
    st.builds(
        lambda topic, key: ConfigChange(ConfigResource.topic(topic), key, ConfigOperation.DELETE),
        st.sampled_from(["orders", "payments"]),
        st.sampled_from(LIST_KEYS),
    ),
)


@settings(max_examples=100)
@given(configs(lists_before), st.lists(st.one_of(ours, theirs), max_size=8))
def test_what_other_clients_change_stays_as_they_left_it(before: Configs, happening: list) -> None:  # type: ignore[type-arg]
    run, without_us = Run(deepcopy(before)), deepcopy(before)
    for event in happening:
        if isinstance(event, ConfigChange):
            run.configs.apply([event])
            without_us.down = run.configs.down
            without_us.apply([event])
        else:
            act(run, event)
    run.configs.down = set()
    run.clear(99)
    assert run.journal.is_settled
    assert without_empty_lists(run.configs) == without_empty_lists(without_us)


def without_empty_lists(configs: Configs) -> object:
    """An empty list throttles nothing: whether it is set or not shows only whether a client subtracted the last entry."""
    static, default, per_broker, lists = configs.state()
    return static, default, per_broker, {key: value for key, value in lists.items() if value}


@settings(max_examples=50)
@given(configs(), st.sampled_from(BATCHES), st.integers(0, 9), st.integers(0, 9))
def test_debts_of_a_reassignment_that_died_are_paid_by_the_next_one(
    before: Configs, batch: Batch, through: int, later: int
) -> None:
    died = Run(deepcopy(before))
    died.put_in_place(BATCHES[0], RATES[0], through)
    plan = throttle_for(batch, asked_bytes_per_second=RATES[1])
    journal, changes = changes_to_throttle(plan, Journal(), died.configs.describe(plan.resources))
    died.configs.apply(changes[:later])
    heir = Run(died.configs, union(journal, died.journal))
    heir.put_in_place(BATCHES[1], RATES[0], 99)
    heir.clear(99)
    assert heir.journal.is_settled
    assert heir.configs.state() == before.state()
