"""What an audit trail says of drops before they are done."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_reassignment.record.audit import AuditEvent


def unannounced_drops(events: Iterable[AuditEvent]) -> list[str]:
    """Return the partitions whose drop no event before it announces; ``events`` are all of a reassignment, oldest first."""
    announced: set[str] = set()
    found: list[str] = []
    for event in events:
        if event.outcome == "begun":
            announced |= event.facts["targets"].keys()
        elif event.step == "drop_old_replicas":
            found += event.facts.get("submitted", {}).keys() - announced
    return found
