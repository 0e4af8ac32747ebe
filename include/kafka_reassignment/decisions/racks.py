"""Requests that no plan can meet, told before anything is written and again where the plan is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_reassignment.errors import InfeasiblePlanError, name_some


def check_racks_left(rack_of: Mapping[int, str | None], leaving: Collection[int]) -> None:
    """Make sure that no rack loses its last live broker.

    Args:
        rack_of: rack of each live broker; None where it names none.
        leaving: brokers that are to be emptied.

    Raises:
        InfeasiblePlanError: some rack would.
    """
    racks = set(rack_of.values())
    left = {rack for broker, rack in rack_of.items() if broker not in leaving}
    emptied = sorted(repr(rack or "(no rack)") for rack in racks - left)
    if emptied and len(racks) > 1:
        raise InfeasiblePlanError(
            f"Cannot decommission broker {name_some(sorted(leaving), 10)}: rack {name_some(emptied)} would have no "
            "live broker left, expected at least one, because replicas are kept on distinct racks. Leave one broker "
            "of the rack, or add one to it first."
        )
