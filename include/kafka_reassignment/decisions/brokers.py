"""Checks of the brokers that a request names. The preflight and the planner make the same ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_reassignment.advice import Advice, Correct
from kafka_reassignment.errors import InfeasiblePlanError, UnknownBrokerError, name_some


def check_brokers_known(named: Iterable[int], known: Collection[int], *, subject: str, advice: Advice) -> None:
    """Refuse brokers that the cluster does not have.

    Args:
        named: broker ids of a request.
        known: those that the cluster has, or that may be named here.
        subject: what names them, as in "'exclude_brokers'"; begins the message.
        advice: what to do then; ends the message.

    Raises:
        UnknownBrokerError: one of the brokers is not known.
    """
    there = frozenset(known)
    unknown = [broker for broker in named if broker not in there]
    if unknown:
        raise UnknownBrokerError(
            f"{subject} names broker {name_some(unknown)}, expected some of {name_some(sorted(known), 20)}",
            advice,
        )


def excluded_in_vain(excluded: Iterable[int], known: Collection[int]) -> str:
    """Say which excluded brokers the cluster does not have; empty where it has all.

    Not refused: a broker that has died and hosts nothing any more is not there either, and must get nothing when it is back. But
    another one may be meant.

    Args:
        excluded: broker ids of a request.
        known: those that the cluster shows, and those that host something.
    """
    unknown = [broker for broker in excluded if broker not in known]
    if not unknown:
        return ""
    return (
        f"'exclude_brokers' names broker {name_some(unknown, 10)}, which is not alive and hosts nothing: correct it if another "
        "one is meant"
    )


def check_racks_left(rack_of: Mapping[int, str | None], leaving: Collection[int], most_replicas: int) -> None:
    """Refuse to empty a rack of its last live broker where replicas could no longer be as far apart as they are now.

    Brokers that name no rack count as one rack. To empty that one is never refused: nobody says that it is a place.

    Args:
        rack_of: rack of each live broker; None where it names none.
        leaving: brokers that are to be emptied.
        most_replicas: replicas of the partition that has most, among those that the request is about.

    Raises:
        InfeasiblePlanError: a rack would have no live broker, and fewer racks would be left than that.
    """
    racks = set(rack_of.values())
    left = {rack for broker, rack in rack_of.items() if broker not in leaving}
    emptied = sorted(repr(rack) for rack in racks - left if rack is not None)
    if emptied and len(racks) > 1 and len(left) < most_replicas:
        raise InfeasiblePlanError(
            f"Cannot decommission broker {name_some(sorted(leaving), 10)}: rack {name_some(emptied)} would have no live broker "
            f"left, and {len(left)} of {len(racks)} racks are too few for partitions with {most_replicas} replicas, which are kept "
            "on distinct racks",
            Correct("leave one broker of the rack, or add one to it first"),
        )
