"""What the tests of the throttle at each look share."""

from tests.steps_lab import move

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, THROTTLE_KEYS
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ResourceKind, TopicPartition
from kafka_reassignment.steps.base.waiting import Waiting

ORDERS_0, ORDERS_1, ORDERS_2 = (TopicPartition("orders", n) for n in range(3))
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
ORDERS = ConfigResource.topic("orders")
OURS = 10_000_000
"""What is set for the 10 MB/s that the requests ask for."""


def at_full_speed(cluster) -> list[str]:
    """The replicas that copy though a throttle is missing on one side or the other."""
    return [
        f"{c.partition}:{c.broker}" for c in cluster.copying() if len(cluster.throttle_of(c.partition, c.broker)) < 2
    ]


def fall_behind(cluster, partition: TopicPartition, broker: int) -> None:
    """A follower restarts: it is out of the ISR, fetches again, and has much to copy."""
    cluster.flap(partition, broker, 0.001)
    cluster.produce(partition, messages=1, size_bytes=50_000_000)
    cluster.advance(0.001)
    assert (partition, broker) in {(c.partition, c.broker) for c in cluster.copying()}


def set_by_hand(cluster, broker: int | str, value: int | None) -> None:
    """Set a broker's follower rate, or with "" the default of all brokers."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = ConfigChange(
        ConfigResource(ResourceKind.BROKER, str(broker)),
        FOLLOWER_RATE,
        operation,
        None if value is None else str(value),
    )
    assert not any(cluster.alter_configs([change]).values())


def delete_every_throttle(cluster) -> None:
    """As Kafka's tool does with --verify or --cancel (F5)."""
    brokers = [ConfigResource.broker(b) for b in cluster.describe_cluster().live_brokers]
    for resource, keys in [*((b, THROTTLE_KEYS[:2]) for b in brokers), (ORDERS, THROTTLE_KEYS[2:])]:
        cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.DELETE) for key in keys])


def rate(run, broker: int, key: str) -> int | None:
    value = run.configs()[ConfigResource.broker(broker)].get(key)
    return int(value.value) if value is not None and value.value else None


def entries(run, key: str) -> set[str]:
    return {e for e in (run.configs("orders")[ORDERS][key].value or "").split(",") if e}


def look(run, name: str = "sense_isr_catch_up") -> Waiting:
    seen = run.look(name)
    assert isinstance(seen, Waiting), seen
    return seen
