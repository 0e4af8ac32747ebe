"""Adapters between the ports and real Kafka clusters."""
