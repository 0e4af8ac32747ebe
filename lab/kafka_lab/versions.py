"""The releases that this project is tested on, in one place: ``make matrix`` runs on each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kafka_lab.base import EmbeddedCluster
from kafka_lab.cluster import LocalCluster
from kafka_lab.releases import DEFAULT_VERSION
from kafka_lab.zookeeper import ZooKeeperCluster

_KINDS: dict[str, type[EmbeddedCluster]] = {kind.mode: kind for kind in (ZooKeeperCluster, LocalCluster)}


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """A release of Kafka and what its brokers coordinate by; prints as ``3.9.2-kraft``."""

    release: str
    mode: str

    def __str__(self) -> str:
        return f"{self.release}-{self.mode}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``3.9.2-kraft`` or ``3.9.2-zookeeper``.

        Raises:
            ValueError: it has another form.
        """
        release, _, mode = text.partition("-")
        if mode not in _KINDS:
            raise ValueError(f"Kafka version {text!r}: expected a release and how it runs, such as {BEFORE_2_4}.")
        return cls(release, mode)

    @property
    def kind(self) -> type[EmbeddedCluster]:
        """The class of clusters that run it: ``LocalCluster`` or ``ZooKeeperCluster``."""
        return _KINDS[self.mode]


BEFORE_2_4 = KafkaVersion("2.3.1", "zookeeper")
"""Without the reassignment API (KIP-455): moves are submitted through ZooKeeper."""

LAST_WITH_ZOOKEEPER = KafkaVersion("3.9.2", "zookeeper")

NEWEST = KafkaVersion(DEFAULT_VERSION, "kraft")
"""What all tests run on unless they name another."""

KAFKA = (
    BEFORE_2_4,
    LAST_WITH_ZOOKEEPER,
    KafkaVersion("3.9.2", "kraft"),
    KafkaVersion("4.0.2", "kraft"),
    KafkaVersion("4.1.2", "kraft"),
    KafkaVersion("4.2.1", "kraft"),  # of 4.2.2 Maven Central had no kafka-tools (November 2026)
    NEWEST,
)

AIRFLOW = {"3.2.2": "2026-05-30", "3.3.2": "2026-09-18"}
"""The lowest and the newest release of 3.2, and the newest of 3.3, with the end of the day after each release:
providers of the same wave appear up to a day later."""
