"""The values that the engine works with: partitions, replicas, reassignments, and what a cluster shows.

All are frozen; broker ids in a replica list are never sorted, because the first one is the
preferred leader.
"""

from kafka_reassignment.model.cluster import Broker, ClusterDescription, InFlight, PartitionState, Refusal, View
from kafka_reassignment.model.configs import (
    DEFAULT_OF_BROKERS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    ResourceKind,
)
from kafka_reassignment.model.log_dirs import LogDir, LogDirsReport, LogReplica
from kafka_reassignment.model.partitions import Batch, Reassignment, Replicas, Step, TopicPartition

__all__ = [
    "DEFAULT_OF_BROKERS",
    "Batch",
    "Broker",
    "ClusterDescription",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigValue",
    "InFlight",
    "LogDir",
    "LogDirsReport",
    "LogReplica",
    "PartitionState",
    "Reassignment",
    "Refusal",
    "Replicas",
    "ResourceKind",
    "Step",
    "TopicPartition",
    "View",
]
