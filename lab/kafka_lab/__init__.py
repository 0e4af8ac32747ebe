"""A real Kafka cluster on this machine, from the jars of Maven Central; for the demo and the tests."""
