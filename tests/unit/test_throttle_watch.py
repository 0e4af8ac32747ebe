"""The watch of the fault suites finds a throttle that is gone or too high, by its configs and by its bytes."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.throttle_watch import ThrottleWatch

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, Side
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition

pytestmark = pytest.mark.quick

ORDERS_0 = TopicPartition("orders", 0)
ORDERS = ConfigResource.topic("orders")
MB = 1_000_000
THROTTLE = (
    ConfigChange(ConfigResource.broker(1), LEADER_RATE, ConfigOperation.SET, str(MB)),
    ConfigChange(ConfigResource.broker(3), FOLLOWER_RATE, ConfigOperation.SET, str(MB)),
    ConfigChange(ORDERS, LEADER_REPLICAS, ConfigOperation.SET, "0:1"),
    ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, "0:3"),
)


class Watched:
    """``orders-0`` with its 40 MB is on its way from broker 1 to broker 3 at 1 MB/s; the watch looks once a virtual second."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(auto_catch_up=False, full_speed=8.0 * MB)
        self.cluster.create_topic("orders", [(1,)], size_bytes=40 * MB)
        self.cluster.catch_up_all()
        self.cluster.alter_configs(THROTTLE)
        self.cluster.alter_reassignments({ORDERS_0: (1, 3)}, allow_replication_factor_change=True)
        self.excused: set[int] = set()
        self.lowered = {}
        self.nobody_looks = False
        self.asked = float(MB)
        self.seconds = 0.0
        self.watch = ThrottleWatch(
            "",
            [ORDERS_0],
            lambda: self.asked,
            foreign={},
            excused=lambda: self.excused,
            lowered=self.lowered,
            nobody_looks=lambda: self.nobody_looks,
        )

    def let(self, seconds: int) -> list[str]:
        for _ in range(seconds):
            self.watch.look(self.cluster, lambda: self.seconds)
            self.cluster.advance(1.0)
            self.seconds += 1.0
        return self.watch.problems

    def set_rates(self, rate: int) -> None:
        self.cluster.alter_configs(
            [ConfigChange(c.resource, c.key, ConfigOperation.SET, str(rate)) for c in THROTTLE[:2]]
        )

    def delete_lists(self) -> None:
        self.cluster.alter_configs([ConfigChange(c.resource, c.key, ConfigOperation.DELETE) for c in THROTTLE[2:]])


@pytest.fixture
def watched():
    return Watched()


def test_a_throttled_copy_is_right_from_its_beginning_to_its_end(watched):
    assert watched.let(45) == []
    assert not watched.cluster.list_reassignments()
    assert watched.watch.worst.longest_gap == 0.0


def test_a_throttle_that_is_gone_in_the_middle_of_a_copy_is_found_by_the_bytes(watched):
    assert watched.let(10) == []
    watched.delete_lists()
    found = watched.let(4)
    assert [text[:17] for text in sorted(found)] == ["broker 1 sent 32.", "broker 3 received"]


def test_bytes_prove_nothing_of_brokers_that_were_down(watched):
    watched.excused |= {1, 3}
    watched.delete_lists()
    assert watched.let(4) == []


def test_a_throttle_that_stays_away_is_found_by_the_configs(watched):
    watched.cluster.alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.DELETE)])
    [found] = watched.let(20)  # the leader's rate still holds
    assert found.startswith("orders-0 copies though follower.replication.throttled.replicas lacks 0:3, for 1")


def test_time_in_which_nobody_can_look_does_not_count(watched):
    watched.cluster.alter_configs([ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.DELETE)])
    watched.nobody_looks = True
    assert watched.let(18) == []
    watched.nobody_looks = False
    assert watched.let(15) == []
    assert len(watched.let(3)) == 1


@pytest.mark.parametrize("factor", [1.2, 2.0])
def test_a_rate_above_what_was_asked_for_is_found(watched, factor):
    watched.set_rates(round(factor * MB))
    assert len(watched.let(18)) >= 2
    assert all(f"is {round(factor * MB)}, expected at most" in text for text in watched.watch.problems[:2])


def test_twice_the_rate_is_right_once_it_is_asked_for(watched):
    watched.asked = 2.0 * MB
    watched.set_rates(2 * MB)
    assert watched.let(22) == []


def test_a_rate_above_a_lower_one_that_a_person_has_set_is_found(watched):
    watched.lowered[Side.FOLLOWER, 3] = 400_000
    assert any("expected at most 400000" in text for text in watched.let(18))


def test_a_copy_that_stood_still_makes_up_for_it_within_the_eleven_seconds_of_the_quota(watched):
    watched.let(2)
    watched.set_rates(1)
    watched.let(8)  # its leader is down
    watched.set_rates(9 * MB)
    watched.let(1)
    watched.set_rates(MB)
    assert watched.let(5) == []


def in_bursts(watched, seconds: int) -> list[str]:
    """A copy that has 7 MB/s for so long, then stands still until Kafka's quota has forgotten it; the watch begins with it in the middle."""
    watched.excused |= {1, 3}
    watched.let(2)
    watched.excused.clear()
    for _ in range(2):
        for rate, lasting in ((7 * MB, seconds), (1, 11 - seconds)):
            watched.set_rates(rate)
            watched.let(lasting)
    return [text for text in watched.watch.problems if "beyond it" in text]


def test_bursts_are_right_that_are_no_more_than_the_rate_within_the_eleven_seconds_of_the_quota(watched):
    assert in_bursts(watched, 1) == []


def test_bursts_are_found_that_are_more_than_that(watched):
    assert len(in_bursts(watched, 3)) == 2
