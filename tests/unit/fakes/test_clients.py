"""Several clients of one fake cluster, metadata that comes late, and comparing two runs."""

from __future__ import annotations

import pytest
from tests.fakes.cluster import FakeCluster
from tests.fakes.operators import CruiseControl, OperatorError, ReassignPartitions

from kafka_reassignment.errors import ClusterUnavailableError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource

pytestmark = pytest.mark.quick

MB = 1_000_000
LEADER_RATE = "leader.replication.throttled.rate"
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
ORDERS = ConfigResource.topic("orders")


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster(auto_catch_up=False)


def set_config(fake: FakeCluster, resource: ConfigResource, key: str, value: str) -> None:
    assert fake.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)]) == {resource: None}


def lists(fake: FakeCluster) -> list[str | None]:
    return [v.value for v in fake.describe_configs([ORDERS], LISTS)[ORDERS].values()]


def test_metadata_lags_for_a_while_of_virtual_time(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)])
    one = ConfigResource.broker(1)
    fake.lag(5)
    fake.alter_reassignments({p: (2, 1)})
    set_config(fake, one, LEADER_RATE, "1000000")
    fake.advance(4)
    assert fake.describe_partitions()[p].replicas == (1, 2)
    assert fake.describe_configs([one], [LEADER_RATE]) == {one: {}}
    assert fake.another_client().describe_partitions()[p].replicas == (2, 1)
    fake.advance(1)
    assert fake.describe_partitions()[p].replicas == (2, 1)
    assert fake.describe_configs([one], [LEADER_RATE])[one][LEADER_RATE].value == "1000000"


def test_one_kind_of_call_can_lag_alone(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)])
    fake.lag(5, "describe_cluster")
    fake.kill(2)
    assert 2 in fake.describe_cluster().live_brokers
    assert fake.describe_partitions()[p].isr == {1}
    fake.advance(5)
    assert 2 not in fake.describe_cluster().live_brokers


def test_another_client_meets_none_of_this_ones_faults(fake) -> None:
    other = fake.another_client()
    fake.fail("describe_cluster", ClusterUnavailableError("no answer"))
    assert other.describe_cluster().live_brokers == {1, 2, 3, 4, 5, 6}
    fake.calls.clear()
    fake.cut_off()
    assert other.describe_partitions() == {}
    assert fake.calls == []


def test_kafkas_tool_stops_half_way_where_a_broker_of_its_plan_is_dead(fake) -> None:
    """F7: the rates of the others are gone by then, the lists are not."""
    [p] = fake.create_topic("orders", [(1, 2)])
    set_config(fake, ORDERS, LISTS[0], "0:1")
    for broker in (1, 2, 3):
        set_config(fake, ConfigResource.broker(broker), LEADER_RATE, "1000000")
    fake.kill(3)
    with pytest.raises(OperatorError, match="Broker 3 did not answer"):
        ReassignPartitions(fake.another_client()).cancel({p: (1, 3)})
    left = fake.describe_configs([ConfigResource.broker(b) for b in (1, 2)], [LEADER_RATE])
    assert list(left.values()) == [{}, {}]
    assert lists(fake) == ["0:1", ""]


def test_cruise_control_cancels_others_moves_and_adds_its_throttle_to_what_is_there(fake) -> None:
    ours, theirs = fake.create_topic("orders", [(1, 2), (2, 3)], size_bytes=100 * MB)
    fake.alter_reassignments({ours: (1, 4)})
    set_config(fake, ORDERS, LISTS[0], "0:1,0:2")
    set_config(fake, ORDERS, LISTS[1], "0:4")
    cruise_control = CruiseControl(fake.another_client())
    cruise_control.start({theirs: (2, 5)}, throttle=3 * MB)
    assert fake.list_reassignments().keys() == {theirs}
    assert lists(fake) == ["0:1,0:2,1:2,1:3,1:5", "0:4,1:2,1:3,1:5"]
    assert [(c.bytes_per_second, c.throttled) for c in fake.copying()] == [(3 * MB, True)]
    cruise_control.remove_throttle({theirs: (2, 3, 5)})
    assert lists(fake) == ["0:1,0:2", "0:4"]
    assert not any(c.throttled for c in fake.copying())


def test_cruise_control_leaves_a_list_of_all_replicas_alone(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)])
    set_config(fake, ORDERS, LISTS[0], "*")
    cruise_control = CruiseControl(fake.another_client())
    cruise_control.set_throttle({p: (1, 2)}, MB)
    assert lists(fake) == ["*", "0:1,0:2"]
    cruise_control.remove_throttle({p: (1, 2)})
    assert lists(fake) == ["*", ""]


def story(throttle: int) -> FakeCluster:
    fake = FakeCluster(auto_catch_up=False)
    p, q = fake.create_topic("orders", [(1, 2), (2, 3)], size_bytes=70 * MB)
    fake.write(p, 3 * MB)
    ReassignPartitions(fake.another_client()).execute({p: (4, 2), q: (2, 5)}, throttle=throttle)
    for seconds in (1.7, 3.1, 0.01):
        fake.advance(seconds)
        fake.kill(2, fenced_after=1)
        fake.advance(2)
        fake.restart(2)
    return fake


def test_the_same_story_has_the_same_fingerprint_and_another_has_not() -> None:
    assert story(9 * MB).snapshot() == story(9 * MB).snapshot()
    assert story(9 * MB).fingerprint() == story(9 * MB).fingerprint()
    assert story(9 * MB).fingerprint() != story(8 * MB).fingerprint()


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_time_in_many_small_steps_leads_where_one_large_step_does(parts: int) -> None:
    fake = FakeCluster(auto_catch_up=False, full_speed=5 * MB)
    p, q = fake.create_topic("orders", [(1, 2), (2, 3)], size_bytes=70 * MB)
    fake.write(p, MB)
    fake.alter_reassignments({p: (4, 2), q: (5, 3)})
    fake.kill(3, fenced_after=9)
    for _ in range(parts):
        fake.advance(42 / parts)
    fake.write(p, 0)
    states = fake.describe_partitions()
    assert (states[p].replicas, states[q].replicas, states[q].isr) == ((4, 2), (5, 3), {5})
    assert fake.end_offsets([p])[p] == pytest.approx(42_000, abs=2)
