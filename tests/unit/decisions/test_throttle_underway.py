"""Changes that reach the cluster late, however late, are owed: nothing of ours stays behind."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decisions.configs import Configs
from tests.unit.decisions.moves import move

from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
    LATEST_ARRIVAL,
    LEADER_REPLICAS,
    Journal,
    RateRecord,
    Side,
    arrived,
    begun,
    changes_to_restore,
    changes_to_throttle,
    confirmed,
    ended,
    is_cleared,
    throttle_for,
    unseen_of,
    without_older,
)
from kafka_reassignment.decisions.throttle.journal import Earlier, union
from kafka_reassignment.model import (
    Batch,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)

pytestmark = pytest.mark.quick

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BATCH = Batch(1, (move("orders", 0, (1, 2), (3, 2)), move("orders", 1, (2, 3), (1, 4))))
BEFORE = Configs(per_broker={("1", FOLLOWER_RATE): "90000000"}, lists={("orders", LEADER_REPLICAS): "77:9"})


@dataclass
class Cluster:
    """Configs and the journal; a journal is written only on the ground of its last version, as in the record."""

    configs: Configs = field(default_factory=lambda: deepcopy(BEFORE))
    journal: Journal = field(default_factory=Journal)
    began_with: dict[str, Journal] = field(default_factory=dict)

    def set_it(self, name: str, asked: int = 7_700_000):  # type: ignore[no-untyped-def]
        """Set the throttle of the batch, one step at each ``next``: journal, look, write, say that it is done."""
        plan = throttle_for(BATCH, asked_bytes_per_second=asked)
        journal, changes = changes_to_throttle(plan, self.journal, self.configs.describe(plan.resources))
        self.journal = self.began_with[name] = begun(journal, changes, name, NOON)
        yield
        if is_cleared(self.journal, name, self.began_with[name]):
            return
        yield
        self.configs.apply(changes)
        yield
        self.journal, _ = ended(self.journal, name, self.began_with[name])

    def clear(self):  # type: ignore[no-untyped-def]
        """Clear it: change, then write the journal; the look before that and the writing are one moment, or are done again."""
        for _ in range(2):  # the second pass deletes the lists that the first one has emptied
            seen = self.configs.describe(self.journal.resources)
            changes = changes_to_restore(self.journal, seen).changes
            yield
            self.configs.apply(changes)
            yield
            self.journal = changes_to_restore(self.journal, self.configs.describe(self.journal.resources)).journal

    def cleared_before_the_write(self, name: str):  # type: ignore[no-untyped-def]
        """Return a try that is about to make its changes; what it journalled has been cleared."""
        steps = self.set_it(name)
        next(steps), next(steps)
        for _ in self.clear():
            pass
        return steps

    def sweep(self) -> None:
        """Look for what has arrived, and clear what is owed."""
        resources = {r for its in self.journal.underway for r in its.resources}
        self.journal = arrived(self.journal, self.configs.describe(resources))
        for _ in self.clear():
            pass


@settings(max_examples=300)
@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4), st.booleans())
def test_however_two_tries_and_a_clear_interleave_nothing_stays_behind(order, until, second):
    """The first try may die after each of its steps; what it does last may come after everything else."""
    cluster = Cluster()
    first = cluster.set_it("first")

    def others():  # type: ignore[no-untyped-def]
        if second:
            yield from cluster.set_it("second")
        yield from cluster.clear()

    rest = others()
    for is_first in [*order, *[False] * 8, *[True] * 4]:
        if is_first and until:
            until -= 1
            next(first, None)
        elif not is_first:
            next(rest, None)
    for _ in range(2):
        cluster.sweep()
    assert cluster.journal.is_settled
    assert cluster.configs.state() == BEFORE.state()


def test_what_arrives_after_the_clear_is_owed_again_by_the_try_itself():
    cluster = Cluster()
    steps = cluster.cleared_before_the_write("late")
    next(steps)
    assert cluster.configs.state() != BEFORE.state()
    cluster.journal, came_too_late = ended(cluster.journal, "late", cluster.began_with["late"])
    assert came_too_late
    assert len(cluster.journal.rates) == 6
    assert not cluster.journal.underway


def test_what_another_client_has_put_on_a_list_since_is_not_ours():
    """Of a list the entries that were to be set are looked for, no others; a rate only with the value that was to be set."""
    cluster = Cluster()
    cluster.cleared_before_the_write("dead")
    theirs = [
        ConfigChange(ConfigResource.topic("orders"), LEADER_REPLICAS, ConfigOperation.APPEND, "55:5"),
        ConfigChange(ConfigResource.broker(2), FOLLOWER_RATE, ConfigOperation.SET, "123456"),
    ]
    cluster.configs.apply(theirs)
    after = cluster.configs.state()
    cluster.sweep()
    assert cluster.configs.state() == after


def test_what_another_reassignment_owes_is_not_owed_twice():
    cluster = Cluster()
    next(cluster.set_it("dead"))
    owner = cluster.journal.model_copy(update={"underway": ()})
    plan = throttle_for(BATCH, asked_bytes_per_second=7_700_000)
    cluster.configs.apply(changes_to_throttle(plan, Journal(), cluster.configs.describe(plan.resources))[1])
    bare = Journal(underway=cluster.journal.underway)
    assert arrived(bare, cluster.configs.describe(plan.resources), [owner]) == bare
    assert arrived(bare, cluster.configs.describe(plan.resources)).rates == owner.rates


def test_what_has_been_under_way_for_long_does_not_arrive_any_more():
    cluster = Cluster()
    next(cluster.set_it("dead"))
    seen = cluster.configs.describe(cluster.journal.resources)
    assert without_older(cluster.journal, NOON, seen) == cluster.journal
    assert not without_older(cluster.journal, NOON + timedelta(seconds=1), seen).underway


def test_what_may_have_arrived_on_a_broker_that_does_not_answer_stays_under_way() -> None:
    cluster = Cluster()
    next(cluster.set_it("dead"))
    seen = {
        r: v for r, v in cluster.configs.describe(cluster.journal.resources).items() if r != ConfigResource.broker(3)
    }
    (left,) = without_older(cluster.journal, NOON + timedelta(seconds=1), seen).underway
    assert left.resources == {ConfigResource.broker(3)}


def test_a_rate_that_arrives_late_is_ours_though_the_next_batch_has_set_its_own():
    cluster = Cluster()
    steps = cluster.cleared_before_the_write("late")
    plan = throttle_for(BATCH, asked_bytes_per_second=9_000_000)
    cluster.journal, changes = changes_to_throttle(plan, cluster.journal, cluster.configs.describe(plan.resources))
    cluster.configs.apply(changes)
    next(steps)
    seen = cluster.configs.describe(plan.resources)
    again, changes = changes_to_throttle(plan, cluster.journal, seen)
    assert {c.value for c in changes} == {"9000000"}
    assert {r.earlier.value for r in again.rates} == {None, "90000000"}, "as it was before us"
    assert again.lower_rates == ()
    assert changes_to_restore(cluster.journal, seen).changed_by_others == ()
    in_place = tuple(r.model_copy(update={"was_in_place": True}) for r in cluster.journal.rates)  # an hour later
    answered, came_too_late = ended(
        cluster.journal.model_copy(update={"rates": in_place}), "late", cluster.began_with["late"]
    )
    assert not came_too_late
    assert changes_to_throttle(plan, answered, seen)[0].lower_rates == (), "nor after its try has seen it"
    for _ in cluster.clear():
        pass
    assert cluster.journal.is_settled
    assert cluster.configs.state() == BEFORE.state()


def test_an_older_rate_that_arrives_late_is_ours_and_not_a_persons():
    """A person may lower a rate to one that we had set earlier; while that one is under way it may as well be ours."""
    cluster = Cluster()
    steps = cluster.set_it("late", 900_000)
    next(steps), next(steps)
    for _ in cluster.set_it("next", 9_000_000):
        pass
    seen = cluster.configs.describe(cluster.journal.resources)
    plan = throttle_for(BATCH, asked_bytes_per_second=9_000_000)
    cluster.journal = confirmed(plan, cluster.journal, seen, arrives_from=NOON)
    assert not any(r.was_in_place for r in cluster.journal.rates)
    much_later = confirmed(plan, cluster.journal, seen, arrives_from=NOON + timedelta(seconds=1))
    assert all(r.was_in_place for r in much_later.rates), "what has been under way for long does not arrive any more"
    assert much_later.underway == cluster.journal.underway, "but it is still looked for when the throttle is cleared"
    next(steps), next(steps, None)
    cluster.sweep()
    assert cluster.journal.is_settled
    assert cluster.configs.state() == BEFORE.state()


def test_a_look_that_fails_each_time_adds_its_name_to_the_journal_and_only_for_as_long_as_its_change_may_arrive() -> (
    None
):
    cluster = Cluster()
    plan = throttle_for(BATCH, asked_bytes_per_second=7_700_000)
    for n in range(1_000):
        journal, changes = changes_to_throttle(plan, cluster.journal, cluster.configs.describe(plan.resources))
        cluster.journal = begun(journal, changes, f"try {n}", NOON + n * timedelta(seconds=10))
    (its,) = cluster.journal.underway
    assert (its.setting, its.since) == ("try 999", NOON + 999 * timedelta(seconds=10))
    assert len(its.earlier) == LATEST_ARRIVAL / timedelta(seconds=10)


def test_what_two_tries_have_under_way_alike_stays_until_both_have_ended() -> None:
    cluster = Cluster()
    first, second = cluster.set_it("first"), cluster.set_it("second")
    next(first), next(second)
    assert [(u.setting, *u.earlier) for u in cluster.journal.underway] == [("second", "first")]
    for _ in second:
        pass
    assert [u.setting for u in cluster.journal.underway] == ["first"], "its request may still arrive"
    for _ in cluster.clear():
        pass
    assert is_cleared(cluster.journal, "first", cluster.began_with["first"])
    assert list(first) == [], "and it changes nothing"


def test_of_a_setting_only_what_is_not_seen_yet_stays_under_way() -> None:
    cluster = Cluster()
    steps, other = cluster.set_it("slow"), cluster.set_it("other")
    next(steps), next(other)
    broker = ConfigResource.broker(3)
    before = cluster.configs.describe([broker])
    next(steps), next(steps)
    journal, seen = cluster.journal, {**cluster.configs.describe(cluster.journal.resources), **before}
    unseen = unseen_of(journal, "slow", seen)
    assert unseen == {broker}
    left, came_too_late = ended(journal, "slow", cluster.began_with["slow"], unseen=unseen)
    assert not came_too_late
    assert {u.setting: u.resources for u in left.underway} == {"other": frozenset(journal.resources), "slow": {broker}}
    none_seen = ended(journal, "slow", cluster.began_with["slow"], unseen=journal.resources)
    assert none_seen == (journal, False), "both go on to share it"


def test_what_a_journal_has_forgotten_is_judged_by_the_one_that_its_setting_began_with() -> None:
    """A try may stand still for longer than its setting is kept under way."""
    cluster = Cluster()
    steps = cluster.cleared_before_the_write("late")
    cluster.journal = without_older(
        cluster.journal, NOON + timedelta(seconds=1), cluster.configs.describe(cluster.journal.resources_underway)
    )
    assert cluster.journal.is_over
    assert is_cleared(cluster.journal, "late", cluster.began_with["late"])
    next(steps)
    cluster.journal, came_too_late = ended(cluster.journal, "late", cluster.began_with["late"])
    assert came_too_late
    for _ in cluster.clear():
        pass
    assert cluster.configs.state() == BEFORE.state()


def test_a_part_of_a_raise_that_an_ended_reassignment_sets_late_is_ours_in_the_journal_that_takes_it_over() -> None:
    """Both had raised their rate by the same parts; the heir had seen its whole in place before the late part came."""
    late, whole = "7000000", "9000000"
    shared = {"broker": 3, "side": Side.FOLLOWER, "earlier": Earlier()}
    heirs = RateRecord(**shared, set_values=("1000000", late, whole), was_in_place=True)
    owed = RateRecord(**shared, set_values=("1000000", late))
    seen = ConfigValue(late, ConfigSource.DYNAMIC_BROKER)
    assert not heirs.is_ours(seen), "a person may have set the rate to what it was once"
    (joined,) = union(Journal(rates=(heirs,)), Journal(rates=(owed,))).rates
    assert joined.is_ours(seen)
    (unchanged,) = union(
        Journal(rates=(heirs,)), Journal(rates=(heirs.model_copy(update={"set_values": (whole,)}),))
    ).rates
    assert unchanged == heirs
