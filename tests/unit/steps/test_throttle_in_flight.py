"""A throttle for moves that other clients started."""

from datetime import timedelta

import pytest
from tests.steps_lab import move

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_REPLICAS
from kafka_reassignment.errors import InvalidRequestError, InvalidThrottleError, ReassignmentInProgressError
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.record.debts import debts
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment.steps.throttle_in_flight import throttle_in_flight

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDERS = ConfigResource.topic("orders")
THROTTLE, SWEEP = "manual__2026-01-01T00:00:00+00:00", "sweep"


@pytest.fixture
def foreign(reassignment, cluster):
    """Two moves of another client in flight, and no reassignment at work."""
    run = reassignment([move("orders", 2, (3, 1), (3, 4))])
    run.store.release(run.cluster_id, "r")
    run.before = run.configs("orders")
    cluster.alter_reassignments({ORDERS_0: (1, 3), ORDERS_1: (4, 3)}, allow_replication_factor_change=True)
    return run


def throttle(run, *partitions, topics=(), mb=10, run_id=THROTTLE, asked_at=None):
    context = run.context_of(run.store.record(run.cluster_id, run_id))
    return throttle_in_flight(
        context,
        CancelScope(partitions, topics=topics),
        kafka_conn_id="kafka_eu",
        asked_bytes_per_second=round(mb * 1_000_000),
        allow_low=False,
        by="ann",
        asked_at=asked_at,
    )


def entries(run, key):
    return run.configs("orders")[ORDERS][key].value


def swept(run):
    return sweep(run.context_of(run.store.record(run.cluster_id, SWEEP)), by="cron")


def test_what_others_move_is_throttled_and_a_sweep_restores_the_configs_once_it_has_landed(foreign, cluster):
    assert throttle(foreign) == "2 partitions in flight are throttled to 10 MB/s per broker: orders-0, orders-1"
    assert set(entries(foreign, FOLLOWER_REPLICAS).split(",")) == {"0:3", "1:4"}
    assert set(entries(foreign, LEADER_REPLICAS).split(",")) >= {"0:1", "0:2", "1:2", "1:3"}
    assert foreign.store.lock_owner(foreign.cluster_id) is None
    assert len(swept(foreign).left) == 1, "without the throttle they would copy at full speed"
    cluster.catch_up_all()
    assert swept(foreign).left == ()
    assert foreign.configs("orders") == foreign.before


def test_a_sweep_knows_by_which_connection_the_cluster_is_reached_though_no_reassignment_names_one(foreign):
    (foreign.record.root / "request.json").unlink()
    throttle(foreign)
    assert debts(foreign.store, foreign.cluster_id).connection_ids == ("kafka_eu",)


def test_only_some_are_throttled_when_they_are_named(foreign):
    throttle(foreign, "orders-1")
    assert entries(foreign, FOLLOWER_REPLICAS) == "1:4"


def test_a_partition_and_a_topic_of_the_same_name_are_not_mixed_up(foreign, cluster):
    cluster.create_topic("orders-1", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    namesake = TopicPartition("orders-1", 0)
    cluster.alter_reassignments({ORDERS_1: (5, 3), namesake: (1, 5)}, allow_replication_factor_change=True)
    assert throttle(foreign, "orders-1").endswith("per broker: orders-1")
    assert throttle(foreign, topics=("orders-1",), run_id="another").endswith("per broker: orders-1-0")


def test_another_rate_replaces_the_first_and_nothing_of_either_is_left(foreign, cluster):
    throttle(foreign, mb=50)
    throttle(foreign, mb=5, run_id="later")
    configs = [values.get(FOLLOWER_RATE) for values in foreign.configs().values()]
    rates = [config.value for config in configs if config is not None and config.value]
    assert len(set(rates)) == 1
    assert int(rates[0]) < 10_000_000
    cluster.catch_up_all()
    swept(foreign)
    assert foreign.configs("orders") == foreign.before


def rates(run):
    configs = (values.get(FOLLOWER_RATE) for values in run.configs().values())
    return {round(int(config.value) / 1e6) for config in configs if config is not None and config.value}


@pytest.mark.parametrize("run_id", [THROTTLE, "later"])
def test_a_higher_rate_is_raised_in_parts_so_that_brokers_do_not_burst(foreign, cluster, run_id):
    throttle(foreign, mb=1)
    seen = []
    foreign.clock.on_sleep.append(lambda: seen.append(rates(foreign)))
    throttle(foreign, mb=23, run_id=run_id)
    assert seen == [{3}, {5}, {7}, {9}, {11}, {13}, {15}, {17}, {19}, {21}]
    assert rates(foreign) == {23}
    event = next(e for e in foreign.store.record(foreign.cluster_id, run_id).audit if "raised" in e.facts)
    assert any("set follower.replication.throttled.rate 23000000" in c for c in event.facts["raised"]["changes"])
    cluster.catch_up_all()
    swept(foreign)
    assert foreign.configs("orders") == foreign.before


def test_a_raise_ends_when_nothing_of_it_is_in_flight_any_more(foreign, cluster):
    throttle(foreign, mb=1)
    foreign.clock.on_sleep.append(cluster.catch_up_all)
    assert throttle(foreign, mb=23).startswith("2 partitions in flight are throttled to 23 MB/s")
    assert rates(foreign) == {3}
    swept(foreign)
    assert foreign.configs("orders") == foreign.before


def test_a_lower_rate_and_a_broker_that_joins_are_set_at_once(foreign):
    throttle(foreign, "orders-0", mb=10)
    foreign.clock.on_sleep.append(lambda: pytest.fail("nothing to wait for"))
    throttle(foreign, mb=5)
    assert rates(foreign) == {5}


def test_with_nothing_in_flight_nothing_is_set(foreign, cluster):
    cluster.catch_up_all()
    assert "nothing of what is meant is in flight" in throttle(foreign)
    assert foreign.configs("orders") == foreign.before


def test_moves_of_a_reassignment_have_their_own_throttle(reassignment):
    run = reassignment([move("orders", 2, (3, 1), (3, 4))])
    with pytest.raises(ReassignmentInProgressError, match="is locked by reassignment r"):
        throttle(run)


def test_a_rate_that_kafka_cannot_hold_is_refused(foreign):
    with pytest.raises(InvalidThrottleError, match="expected at least 1000000"):
        throttle(foreign, mb=0.5)
    assert foreign.configs("orders") == foreign.before


def test_the_id_of_a_reassignment_is_refused_and_neither_its_lock_nor_its_rate_is_touched(reassignment, cluster):
    """Airflow makes the id of a scheduled run from its time alone: two DAGs may have the same one."""
    run = reassignment([move("orders", 2, (3, 1), (3, 4))], reassignment_id=THROTTLE)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.another_client().alter_reassignments({ORDERS_0: (1, 3)})
    lock, configs = run.store.lock(run.cluster_id).last(), run.configs("orders")
    with pytest.raises(
        InvalidRequestError, match="is that of a reassignment of cluster .* Nothing was changed"
    ) as refused:
        throttle(run, mb=3)
    assert "give the operator another reassignment_id" in str(refused.value.advice[0])
    assert (run.store.lock(run.cluster_id).last(), run.configs("orders")) == (lock, configs)


def test_a_retry_of_an_earlier_order_leaves_the_rates_that_were_asked_for_later(foreign, cluster):
    """A try that was killed comes back late, and a run is cleared an hour later."""
    first = foreign.clock.now
    throttle(foreign, mb=50, asked_at=first)
    later = first + timedelta(hours=1)
    throttle(foreign, mb=5, run_id="later", asked_at=later)
    text = throttle(foreign, mb=50, asked_at=first)
    assert rates(foreign) == {5}
    assert text.endswith("; 5 MB/s was asked for later of broker 1, 2, 3, 4, and stays")
    throttle(foreign, mb=50, asked_at=first)
    assert rates(foreign) == {5}, "also when the debts of the later one were taken over"
    throttle(foreign, mb=7, run_id="later", asked_at=later)
    assert rates(foreign) == {7}
    cluster.catch_up_all()
    swept(foreign)
    assert foreign.configs("orders") == foreign.before


def test_what_was_asked_for_later_counts_also_when_a_third_order_has_taken_its_debts_over(foreign, cluster):
    first = foreign.clock.now
    cluster.create_topic("payments", [(5, 6)], size_bytes=1_000_000)
    cluster.catch_up_all()
    moves = {ORDERS_0: (1, 2), TopicPartition("payments", 0): (5, 4)}
    cluster.alter_reassignments(moves, allow_replication_factor_change=True)
    throttle(foreign, "orders-0", mb=50, asked_at=first)
    throttle(foreign, "orders-0", mb=5, run_id="later", asked_at=first + timedelta(hours=1))
    throttle(foreign, topics=("payments",), mb=20, run_id="third", asked_at=first + timedelta(hours=2))
    throttle(foreign, mb=50, asked_at=first)
    assert rates(foreign) == {5, 20}


def test_a_later_order_that_is_swept_counts_no_more(foreign, cluster):
    first = foreign.clock.now
    throttle(foreign, mb=5, run_id="later", asked_at=first + timedelta(hours=1))
    throttle(foreign, mb=50, asked_at=first)
    cluster.catch_up_all()
    swept(foreign)
    cluster.alter_reassignments({ORDERS_0: (1, 2)})
    throttle(foreign, mb=50, asked_at=first)
    assert rates(foreign) == {50}
