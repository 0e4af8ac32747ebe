"""The adapter for clusters with the reassignment API (Kafka 2.4 and later)."""
