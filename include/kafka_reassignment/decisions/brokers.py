"""Checks of the brokers that a request names. The preflight and the planner make the same ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_reassignment.advice import Advice, Correct
from kafka_reassignment.errors import InfeasiblePlanError, UnknownBrokerError, name_some
from kafka_reassignment.request import Job


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

    Not refused: a broker that has died and hosts nothing any more is not there either, and must get nothing when it is
    back. But another one may be meant.

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


def leaving_brokers(job: Job, named: Collection[int], all_brokers: Iterable[int]) -> frozenset[int]:
    """Return the brokers that are to lose every replica that a request is about; none for most jobs.

    Args:
        job: of the request.
        named: its ``brokers``.
        all_brokers: those that the cluster has.
    """
    if job is Job.DECOMMISSION:
        return frozenset(named)
    return frozenset(all_brokers) - {*named} if job is Job.MOVE_TOPICS else frozenset()


def check_racks_left(rack_of: Mapping[int, str | None], job: Job, named: Collection[int], most_racks: int) -> None:
    """Refuse a job after which replicas could no longer be as far apart as they are now.

    Brokers that name no rack count as one rack. To empty that one is never refused: nobody says that it is a place.

    Args:
        rack_of: rack of each live broker; None where it names none.
        job: of the request.
        named: its ``brokers``.
        most_racks: the most racks that a partition has replicas in now, among those with a replica that has to leave
            its broker.

    Raises:
        InfeasiblePlanError: a rack would keep no live broker, and fewer racks would be left than that.
    """
    leaving = leaving_brokers(job, named, rack_of)
    racks = set(rack_of.values())
    left = {rack for broker, rack in rack_of.items() if broker not in leaving}
    emptied = sorted(repr(rack) for rack in racks - left if rack is not None)
    if not emptied or len(racks) == 1 or len(left) >= most_racks:
        return
    if job is not Job.DECOMMISSION and not left:  # none of them is alive: that is refused for itself
        return
    too_few = (
        f"{len(left)} of {len(racks)} racks are too few for partitions that have replicas in {most_racks} racks now, and are kept as "
        "far apart"
    )
    brokers = name_some(sorted(named), 10)
    if job is Job.DECOMMISSION:
        raise InfeasiblePlanError(
            f"Cannot decommission broker {brokers}: rack {name_some(emptied)} would have no live broker left, and {too_few}",
            Correct("leave one broker of the rack, or add one to it first"),
        )
    raise InfeasiblePlanError(
        f"Cannot move the topics to broker {brokers}: {too_few}",
        Correct("name brokers of more racks in 'brokers'"),
    )
