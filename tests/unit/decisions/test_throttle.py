"""The throttle: what a batch needs, putting it in place, changing the rate, and refusing what cannot be put back."""

from __future__ import annotations

import pytest
from tests.unit.decisions.configs import Configs
from tests.unit.decisions.moves import move

from kafka_reassignment.decisions.rate import change_rates
from kafka_reassignment.decisions.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Journal,
    Needed,
    Side,
    ThrottledReplicas,
    changes_to_restore,
    changes_to_throttle,
    listed_in,
    missing_throttle,
    needed_replicas,
    throttle_for,
    union,
)
from kafka_reassignment.errors import InvalidThrottleError
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

MB = 1_000_000


BATCH = Batch(1, (move("orders", 0, (1, 2), (3, 2)),))
PLAN = throttle_for(BATCH, asked_bytes_per_second=100 * MB)


def put_in_place(configs: Configs, journal: Journal | None = None) -> Journal:
    journal, changes = changes_to_throttle(PLAN, journal or Journal(), configs.describe(PLAN.resources))
    configs.apply(changes)
    return journal


def cleared(configs: Configs, journal: Journal) -> Journal:
    """Clear it all; the second pass deletes the lists that the first one has emptied."""
    for _ in range(2):
        configs.apply(changes_to_restore(journal, configs.describe(journal.resources)).changes)
        journal = changes_to_restore(journal, configs.describe(journal.resources)).journal
    return journal


# What a batch needs


def test_senders_are_the_current_replicas_and_receivers_the_adding_ones() -> None:
    plan = throttle_for(
        Batch(1, (move("orders", 10, (1, 2), (3, 1)), move("orders", 9, (2, 1), (2, 4)))), asked_bytes_per_second=MB
    )
    assert [(r.broker, r.side) for r in plan.rates] == [
        (1, Side.LEADER),
        (2, Side.LEADER),
        (3, Side.FOLLOWER),
        (4, Side.FOLLOWER),
    ]
    assert plan.replicas == (
        ThrottledReplicas("orders", Side.FOLLOWER, ("9:4", "10:3")),
        ThrottledReplicas("orders", Side.LEADER, ("9:2", "9:1", "10:1", "10:2")),
    )


def test_the_rate_that_is_set_delivers_the_rate_that_was_asked() -> None:
    assert {(r.asked_bytes_per_second, r.set_bytes_per_second) for r in PLAN.rates} == {(100 * MB, 100 * MB)}


def test_steps_that_copy_nothing_need_no_throttle() -> None:
    plan = throttle_for(
        Batch(1, (move("orders", 0, (1, 2), (2, 1)), move("orders", 1, (1, 2), (1,)))), asked_bytes_per_second=MB
    )
    assert (plan.rates, plan.replicas) == ((), ())


def test_a_broker_that_is_down_gets_no_rate_but_stays_listed() -> None:
    plan = PLAN.restricted_to({1, 3})
    assert {r.broker for r in plan.rates} == {1, 3}
    assert plan.replicas == PLAN.replicas


@pytest.mark.parametrize("rate", [0, -5])
def test_a_rate_that_would_stop_replication_is_refused(rate: int) -> None:
    with pytest.raises(
        InvalidThrottleError, match=f"The throttle is {rate} bytes per second, expected a positive rate"
    ):
        throttle_for(BATCH, asked_bytes_per_second=rate)


# Putting it in place


def test_on_a_clean_cluster_rates_and_lists_are_set_and_journalled_first() -> None:
    journal, changes = changes_to_throttle(PLAN, Journal(), Configs().describe(PLAN.resources))
    assert changes == [
        ConfigChange(ConfigResource.broker(1), LEADER_RATE, ConfigOperation.SET, "100000000"),
        ConfigChange(ConfigResource.broker(2), LEADER_RATE, ConfigOperation.SET, "100000000"),
        ConfigChange(ConfigResource.broker(3), FOLLOWER_RATE, ConfigOperation.SET, "100000000"),
        ConfigChange(ConfigResource.topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.APPEND, "0:3"),
        ConfigChange(ConfigResource.topic("orders"), LEADER_REPLICAS, ConfigOperation.APPEND, "0:1,0:2"),
    ]
    assert journal.owed_texts() == (
        "broker 1: leader.replication.throttled.rate (before us: unset)",
        "broker 2: leader.replication.throttled.rate (before us: unset)",
        "broker 3: follower.replication.throttled.rate (before us: unset)",
        "topic orders: 1 entries of follower.replication.throttled.replicas",
        "topic orders: 2 entries of leader.replication.throttled.replicas",
    )
    assert Journal.model_validate_json(journal.model_dump_json()) == journal


def test_setting_it_again_changes_nothing() -> None:
    configs = Configs()
    journal = put_in_place(configs)
    assert changes_to_throttle(PLAN, journal, configs.describe(PLAN.resources)) == (journal, [])
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), Journal()) == ()


def test_what_is_missing_of_the_throttle_is_reported() -> None:
    configs = Configs(
        per_broker={("2", LEADER_RATE): "500000000"}, dynamic_default={LEADER_RATE: "100000001"}, down={3}
    )
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), Journal()) == (
        "broker 1: leader.replication.throttled.rate is 100000001 (dynamic default broker), expected 100000000",
        "broker 2: leader.replication.throttled.rate is 500000000 (dynamic broker), expected 100000000",
        "broker 3 did not answer, its follower.replication.throttled.rate is not known to be 100000000",
        "topic orders: follower.replication.throttled.replicas lacks 1 of 1 entries, expected 0:3 among them",
        "topic orders: leader.replication.throttled.replicas lacks 2 of 2 entries, expected 0:1 among them",
    )


def test_a_list_that_covers_every_replica_is_left_as_it_is() -> None:
    configs = Configs(lists={("orders", LEADER_REPLICAS): "*"})
    before = configs.state()
    journal = put_in_place(configs)
    assert configs.lists["orders", LEADER_REPLICAS] == "*"
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), Journal()) == ()
    assert cleared(configs, journal).is_settled
    assert configs.state() == before


@pytest.mark.parametrize("value", [",0:1,0:2", "0:1,,0:2", " ,0:2,0:1"])
def test_a_list_with_an_empty_part_is_not_in_force_though_nothing_is_missing_of_it(value: str) -> None:
    """Kafka 4.3.1 stores it, and each broker fails at it: an ``ArrayIndexOutOfBoundsException`` in the log, and no throttle."""
    configs = Configs(lists={("orders", LEADER_REPLICAS): value})
    journal = put_in_place(configs)
    assert configs.lists["orders", LEADER_REPLICAS] == value, "it is another client's"
    [line] = missing_throttle(PLAN, configs.describe(PLAN.resources), journal)
    assert line.startswith(f"topic orders: {LEADER_REPLICAS} is '{value}': it has an empty part")


@pytest.mark.parametrize("value", ["0:1,0:2,", ",0:1", "0:7,,0:1"])
def test_an_empty_part_at_the_end_is_harmless_and_any_is_gone_with_what_we_append(value: str) -> None:
    """As measured on Kafka 4.3.1."""
    configs = Configs(lists={("orders", LEADER_REPLICAS): value})
    journal = put_in_place(configs)
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), journal) == ()


def test_entries_of_another_client_are_not_ours() -> None:
    configs = Configs(lists={("orders", LEADER_REPLICAS): "0:1,7:7"})
    journal = put_in_place(configs)
    assert configs.lists["orders", LEADER_REPLICAS] == "0:1,7:7,0:2"
    cleared(configs, journal)
    assert configs.lists["orders", LEADER_REPLICAS] == "0:1,7:7"


def test_a_rate_that_is_already_right_is_not_ours() -> None:
    configs = Configs(per_broker={("2", LEADER_RATE): "100000000"})
    assert {(r.broker, r.side) for r in put_in_place(configs).rates} == {(1, Side.LEADER), (3, Side.FOLLOWER)}


def test_a_rate_in_server_properties_is_shown_and_limits_nothing_so_ours_is_set() -> None:
    configs = Configs(static={("1", LEADER_RATE): "5"})
    journal = put_in_place(configs)
    assert configs.per_broker["1", LEADER_RATE] == "100000000"
    assert journal.lower_rates == ()
    cleared(configs, journal)
    assert configs.state() == Configs(static={("1", LEADER_RATE): "5"}).state()


def test_a_lower_rate_in_server_properties_does_not_count() -> None:
    """Brokers describe it and copy at full speed all the same (F41), so it slows nothing down and ours is set."""
    configs = Configs(static={("1", LEADER_RATE): "5000000"})
    journal = put_in_place(configs)
    assert configs.per_broker["1", LEADER_RATE] == str(100 * MB)
    assert journal.lower_rates == ()
    cleared(configs, journal)
    assert configs.state() == Configs(static={("1", LEADER_RATE): "5000000"}).state()


def test_a_lower_default_of_all_brokers_is_set_on_the_broker_too() -> None:
    """Before 3.9 the default has no effect on replication (KAFKA-10190)."""
    configs = Configs(dynamic_default={LEADER_RATE: "5000000"})
    journal = put_in_place(configs)
    assert configs.per_broker["1", LEADER_RATE] == "5000000"
    assert [(r.broker, r.bytes_per_second) for r in journal.lower_rates] == [(1, 5_000_000), (2, 5_000_000)]
    assert changes_to_throttle(PLAN, journal, configs.describe(PLAN.resources)) == (journal, [])
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), journal) == ()
    cleared(configs, journal)
    assert configs.state() == Configs(dynamic_default={LEADER_RATE: "5000000"}).state()


def test_a_lower_default_of_all_brokers_is_followed_as_it_is_now() -> None:
    configs = Configs(dynamic_default={LEADER_RATE: "5000000"})
    journal = put_in_place(configs)
    for default, expected in [("4000000", 4 * MB), ("6000000", 6 * MB), (None, 100 * MB), ("3000000", 3 * MB)]:
        configs.dynamic_default = {LEADER_RATE: default} if default else {}
        assert missing_throttle(PLAN, configs.describe(PLAN.resources), journal)
        journal = put_in_place(configs, journal)
        assert configs.per_broker["1", LEADER_RATE] == str(expected)
        assert [r.bytes_per_second for r in journal.lower_rates] == ([expected] * 2 if default else [])
        assert missing_throttle(PLAN, configs.describe(PLAN.resources), journal) == ()
    cleared(configs, journal)
    assert configs.state() == Configs(dynamic_default={LEADER_RATE: "3000000"}).state()


def test_a_rate_that_was_there_before_is_journalled_with_its_layer() -> None:
    configs = Configs(
        per_broker={("1", LEADER_RATE): "500000000"},
        static={("2", LEADER_RATE): "600000000"},
        dynamic_default={FOLLOWER_RATE: "700000000"},
    )
    assert [str(r) for r in put_in_place(configs).rates] == [
        "broker 1: leader.replication.throttled.rate (before us: 500000000 (dynamic broker))",
        "broker 2: leader.replication.throttled.rate (before us: 600000000 (static broker))",
        "broker 3: follower.replication.throttled.rate (before us: 700000000 (dynamic default broker))",
    ]


def test_a_hidden_rate_of_another_client_is_not_replaced_because_it_could_not_be_put_back() -> None:
    configs = Configs(per_broker={("1", LEADER_RATE): "5"}, hides_rates=True)
    journal = put_in_place(configs)
    assert configs.per_broker["1", LEADER_RATE] == "5"
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), journal) == (
        (
            "broker 1: leader.replication.throttled.rate is set but hidden, so it could not be put back; expected "
            "100000000"
        ),
    )


def test_hidden_rates_of_ours_count_by_the_journal() -> None:
    configs = Configs(hides_rates=True)
    journal = put_in_place(configs)
    assert missing_throttle(PLAN, configs.describe(PLAN.resources), journal) == ()
    assert changes_to_throttle(PLAN, journal, configs.describe(PLAN.resources))[1] == []
    assert cleared(configs, journal).is_settled
    assert configs.per_broker == {}


# Changing the rate


def test_a_new_rate_for_one_broker_and_side_counts_now_and_for_later_batches() -> None:
    configs = Configs()
    journal = put_in_place(configs)
    journal, changes = change_rates(
        journal, configs.describe(journal.resources), asked_bytes_per_second=200 * MB, brokers=[2], sides=[Side.LEADER]
    )
    assert changes == [ConfigChange(ConfigResource.broker(2), LEADER_RATE, ConfigOperation.SET, "200000000")]
    configs.apply(changes)
    later = throttle_for(BATCH, asked_bytes_per_second=100 * MB, rate_changes=journal.rate_changes)
    assert missing_throttle(later, configs.describe(later.resources), Journal()) == ()
    journal = cleared(configs, journal)
    assert (configs.per_broker, journal.is_settled, len(journal.rate_changes)) == ({}, True, 1)


def test_a_new_rate_for_all_supersedes_the_single_ones() -> None:
    nothing = Configs().describe([])
    journal, _ = change_rates(Journal(), nothing, asked_bytes_per_second=2 * MB, brokers=[2])
    journal, _ = change_rates(journal, nothing, asked_bytes_per_second=3 * MB, sides=[Side.FOLLOWER])
    assert [r.asked_bytes_per_second for r in journal.rate_changes] == [2 * MB, 3 * MB]
    plan = throttle_for(BATCH, asked_bytes_per_second=100 * MB, rate_changes=journal.rate_changes)
    assert [r.asked_bytes_per_second for r in plan.rates] == [100 * MB, 2 * MB, 3 * MB]
    journal, _ = change_rates(journal, nothing, asked_bytes_per_second=4 * MB)
    assert [r.asked_bytes_per_second for r in journal.rate_changes] == [4 * MB]


def test_a_new_rate_below_one_megabyte_is_refused_unless_it_is_accepted() -> None:
    with pytest.raises(
        InvalidThrottleError,
        match=r"The new rate is 999999 bytes per second, expected at least 1000000: .* Nothing was",
    ):
        change_rates(Journal(), {}, asked_bytes_per_second=999_999)
    assert change_rates(Journal(), {}, asked_bytes_per_second=999_999, allow_low=True)[0].rate_changes
    with pytest.raises(InvalidThrottleError, match="is 0 bytes per second, expected at least 1"):
        change_rates(Journal(), {}, asked_bytes_per_second=0, allow_low=True)


# Clearing


def seen_as(partitions: dict[int, tuple[Replicas, set[int]]], in_flight: dict[int, InFlight] | None = None) -> View:
    """Partitions of orders by number, each with replicas and ISR; the first in sync leads, every broker is alive."""
    return View(
        frozenset(range(1, 10)),
        {
            TopicPartition("orders", n): PartitionState(replicas, frozenset(isr), next(b for b in replicas if b in isr))
            for n, (replicas, isr) in partitions.items()
        },
        {TopicPartition("orders", n): flight for n, flight in (in_flight or {}).items()},
    )


def needed_of(journal: Journal, seen: View) -> Needed:
    return needed_replicas(listed_in(journal), seen)


def test_what_still_copies_keeps_its_entries_and_the_rates_of_its_brokers_and_nothing_else_stays() -> None:
    batch = Batch(1, (move("orders", 0, (1, 2), (3, 2)), move("orders", 1, (2, 5), (4, 5))))
    plan, configs = throttle_for(batch, asked_bytes_per_second=MB), Configs()
    journal, changes = changes_to_throttle(plan, Journal(), configs.describe(plan.resources))
    configs.apply(changes)
    seen = seen_as({0: ((3, 2), {3, 2}), 1: ((2, 5, 4), {2, 5})}, {1: InFlight((2, 5, 4), (4,), ())})
    keep = needed_of(journal, seen)
    clearing = changes_to_restore(journal, configs.describe(journal.resources), keep=keep)
    assert [(c.resource.name, c.operation, c.value) for c in clearing.changes] == [
        ("1", ConfigOperation.DELETE, None),
        ("3", ConfigOperation.DELETE, None),
        ("orders", ConfigOperation.SUBTRACT, "0:3"),
        ("orders", ConfigOperation.SUBTRACT, "0:1,0:2"),
    ]
    configs.apply(clearing.changes)
    after = changes_to_restore(journal, configs.describe(journal.resources), keep=keep)
    assert after.changes == ()
    assert [r.added for r in after.journal.lists] == [("1:4",), ("1:2", "1:5")]
    assert [r.broker for r in after.journal.rates] == [2, 4, 5]
    assert cleared(configs, after.journal).is_settled
    assert configs.state() == Configs().state()


def test_a_rate_that_another_client_changed_is_left_and_reported() -> None:
    configs = Configs(per_broker={("1", LEADER_RATE): "500000000"})
    journal = put_in_place(configs)
    configs.per_broker["1", LEADER_RATE] = "42"
    clearing = changes_to_restore(journal, configs.describe(journal.resources))
    assert clearing.changed_by_others == (
        (
            "broker 1: leader.replication.throttled.rate is 42 (dynamic broker), expected 100000000 which we set; it was "
            "500000000 (dynamic broker) before"
        ),
    )
    assert cleared(configs, journal).is_settled
    assert configs.per_broker == {("1", LEADER_RATE): "42"}


def test_a_rate_that_another_client_changed_before_we_set_it_again_is_restored() -> None:
    configs = Configs(per_broker={("1", LEADER_RATE): "500000000"})
    journal = put_in_place(configs)
    configs.per_broker["1", LEADER_RATE] = "420000000"
    journal = put_in_place(configs, journal)
    assert configs.per_broker["1", LEADER_RATE] == "100000000"
    assert cleared(configs, journal).is_settled
    assert configs.per_broker == {("1", LEADER_RATE): "420000000"}


def test_a_rate_that_was_journalled_but_never_set_is_no_change_by_others() -> None:
    configs = Configs(per_broker={("1", LEADER_RATE): "500000000"})
    journal, _ = changes_to_throttle(PLAN, Journal(), configs.describe(PLAN.resources))
    clearing = changes_to_restore(journal, configs.describe(journal.resources))
    assert (clearing.changes, clearing.changed_by_others, clearing.journal.is_settled) == ((), (), True)


def test_a_list_that_another_client_deleted_before_we_set_it_again_is_deleted_in_the_end() -> None:
    configs = Configs(lists={("orders", LEADER_REPLICAS): "9:9"})
    journal = put_in_place(configs)
    del configs.lists["orders", LEADER_REPLICAS]
    journal = put_in_place(configs, journal)
    assert cleared(configs, journal).is_settled
    assert configs.lists == {}


def test_a_list_that_another_client_replaced_by_a_star_is_left_and_reported() -> None:
    configs = Configs()
    journal = put_in_place(configs)
    configs.lists["orders", LEADER_REPLICAS] = "*"
    clearing = changes_to_restore(journal, configs.describe(journal.resources))
    assert clearing.changed_by_others == (
        "topic orders: leader.replication.throttled.replicas is *, expected a list with our entries",
    )
    assert cleared(configs, journal).is_settled
    assert configs.lists == {("orders", LEADER_REPLICAS): "*"}


def test_a_broker_that_does_not_answer_is_a_debt_until_it_does() -> None:
    configs = Configs(per_broker={("3", FOLLOWER_RATE): "500000000"})
    journal = put_in_place(configs)
    configs.down = {3}
    debt = "broker 3: follower.replication.throttled.rate (before us: 500000000 (dynamic broker))"
    journal = cleared(configs, journal)
    assert journal.owed_texts() == (debt,)
    configs.down = set()
    assert cleared(configs, journal).is_settled
    assert configs.per_broker == {("3", FOLLOWER_RATE): "500000000"}


def test_a_deleted_topic_is_owed_nothing() -> None:
    configs = Configs()
    journal = put_in_place(configs)
    configs.topics.remove("orders")
    configs.lists.clear()
    assert cleared(configs, journal).is_settled


def test_debts_of_an_earlier_reassignment_are_taken_over_so_that_its_rate_is_not_put_back() -> None:
    configs = Configs(per_broker={("1", LEADER_RATE): "500000000"}, lists={("orders", LEADER_REPLICAS): "9:9"})
    before = configs.state()
    died = put_in_place(configs)
    plan = throttle_for(BATCH, asked_bytes_per_second=MB)
    apart, changes = changes_to_throttle(plan, Journal(), configs.describe(plan.resources))
    assert apart.rates[0].earlier.value == "100000000"
    configs.apply(changes)
    assert cleared(configs, union(apart, died)).is_settled
    assert configs.state() == before
