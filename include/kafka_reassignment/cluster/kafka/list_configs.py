"""How list configs are appended to and subtracted from (KIP-339), as Kafka's KRaft controller does it."""

from __future__ import annotations

from kafka_reassignment.model import ConfigOperation, Refusal


def joined(present: str, value: str, operation: ConfigOperation) -> str:
    """Return a list with entries added that are not there yet, or taken away; both comma-separated."""
    entries = [e for e in present.split(",") if e]
    asked = [e for e in value.split(",") if e]
    if operation is ConfigOperation.APPEND:
        return ",".join(entries + [e for e in asked if e not in entries])
    return ",".join(e for e in entries if e not in asked)


def no_throttled_replicas(key: str, value: str) -> Refusal:
    """What a controller answers to a value that is neither ``*`` nor ``partition:broker,…``."""
    return Refusal(
        "INVALID_CONFIG",
        f"Invalid value [{', '.join(value.split(','))}] for configuration {key}: {key} must be the literal '*' or a "
        "list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )
