"""The adapter for clusters below Kafka 2.4, whose reassignments go through ZooKeeper."""
