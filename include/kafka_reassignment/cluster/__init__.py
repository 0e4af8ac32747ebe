"""Adapters between the port and real Kafka clusters."""

from kafka_reassignment.cluster.connect import open_cluster
from kafka_reassignment.cluster.settings import ClusterSettings

__all__ = ["ClusterSettings", "open_cluster"]
