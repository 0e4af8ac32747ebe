"""Tiered storage (KIP-405) on a local cluster, with a folder of this machine as its remote store."""

from __future__ import annotations

from pathlib import Path


def tiered_storage(folder: Path, *, brokers: int) -> dict[str, str]:
    """Return the static configs that give every broker tiered storage; for Kafka 4.0 and later.

    The store is the one that Kafka's own tests use. It and the brokers look for work twice a second, so that segments
    are copied and deleted locally within moments. A topic takes part with ``remote.storage.enable=true``.

    Args:
        folder: where the remote segments go; it has to exist.
        brokers: how many there are; the topic of the remote segments' metadata has a replica on three of them, or on
            all.
    """
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.dir": str(folder),
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(min(3, brokers)),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }
