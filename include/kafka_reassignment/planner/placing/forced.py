"""What has to be: replicas that must leave, replication factors, racks. Largest first, each to whoever takes most."""

from __future__ import annotations

import numpy as np

from kafka_reassignment.decisions.batching.columns import ABSENT, Flags
from kafka_reassignment.planner.placing.work import Work

Slots = list[int | None]
"""Replicas of one row in order, None where a broker is still to be found."""


def place_forced(work: Work) -> None:
    """Decide every row that must change."""
    excess: list[int] = work.orders.excess.tolist()
    opened: dict[int, Slots] = {}
    # All drops come first: what they free decides nothing, but it is then known for every copy.
    for row in work.largest_first(np.flatnonzero(_must_change(work))):
        slots = _open(work, row, excess)
        if None in slots:
            opened[row] = slots
        else:
            work.plan(row, work.with_leader(row, [b for b in slots if b is not None]))
    for row, slots in opened.items():
        _fill(work, row, slots)
    work.movable[list(work.impossible)] = False


def _must_change(work: Work) -> Flags:
    p, fleet = work.partitions, work.orders.fleet
    present = p.replicas != ABSENT
    asked: Flags = (fleet.leaves[p.replicas] & present).any(axis=1) | (p.wanted != work.count)
    if work.orders.restore_racks:
        asked |= _share_racks(work, present)
    return asked & p.in_scope


def _share_racks(work: Work, present: Flags) -> Flags:
    p, fleet = work.partitions, work.orders.fleet
    # The pads get racks of their own, so that they count as distinct.
    width = p.replicas.shape[1]
    pads = len(fleet.racks) + np.arange(width)
    racks = np.where(present, fleet.rack_of[p.replicas], pads)
    racks.sort(axis=1)
    distinct = 1 + (np.diff(racks, axis=1) != 0).sum(axis=1) - (width - work.count)
    shares: Flags = distinct < np.minimum(work.count, work.racks)
    return shares


def _open(work: Work, row: int, excess: list[int]) -> Slots:
    """Take away what must leave and what is above the wanted number; the latter costs no copy."""
    slots: Slots = [None if work.leaves[b] else b for b in work.current(row)]
    size, wanted = int(work.partitions.size[row]), int(work.partitions.wanted[row])
    due = work.distinct_racks_due(row)
    while len(slots) > wanted:
        kept = [b for b in slots if b is not None]
        # A copy that has to be replaced is the first to go, unless the racks need the new one.
        if None in slots and len({work.rack_of[b] for b in kept}) + slots.count(None) > due:
            slots.remove(None)
            continue
        drop = _replica_to_drop(work, kept, due, excess)
        slots.remove(drop)
        excess[drop] -= size
    slots += [None] * (wanted - len(slots))
    if work.orders.restore_racks:
        _open_shared_racks(work, slots, due, excess)
    return slots


def _replica_to_drop(work: Work, replicas: list[int], due: int, excess: list[int]) -> int:
    """Choose a dead replica, else the one on the fullest broker; a live preferred leader and the racks are kept."""

    def racks_without(broker: int) -> int:
        return len({work.rack_of[b] for b in replicas if b != broker})

    droppable = replicas[1:] if len(replicas) > 1 and work.alive[replicas[0]] else replicas
    spread = max(racks_without(b) for b in droppable)
    candidates = [b for b in droppable if racks_without(b) >= min(due, spread)]
    return max(candidates, key=lambda b: (not work.alive[b], excess[b], -b))


def _open_shared_racks(work: Work, slots: Slots, due: int, excess: list[int]) -> None:
    """Open the slots of replicas that share a rack, as many as there are racks to gain."""
    while True:
        kept = [b for b in slots if b is not None]
        racks = [work.rack_of[b] for b in kept]
        if len(set(racks)) + slots.count(None) >= due:
            return
        sharing = [b for b in kept[1:] if racks.count(work.rack_of[b]) > 1]
        slots[slots.index(max(sharing, key=lambda b: (excess[b], -b)))] = None


def _fill(work: Work, row: int, slots: Slots) -> None:
    hosts = [b for b in slots if b is not None]
    # A broker that gives the replica up for its rack's sake must not get it back.
    hosts_before = hosts + [b for b in work.current(row) if b not in hosts]
    due = work.distinct_racks_due(row)
    for slot in [i for i, b in enumerate(slots) if b is None]:
        to_come = len(slots) - len(hosts)
        chosen = _give(work, row, hosts, hosts_before, racks_due_before=due - to_come + 1)
        if chosen is None:
            work.impossible[row] = _why_nobody(work, row, hosts, hosts_before)
            return
        slots[slot] = chosen
        hosts.append(chosen)
        hosts_before.append(chosen)
    work.plan(row, work.with_leader(row, [b for b in slots if b is not None]))


def _why_nobody(work: Work, row: int, hosts: list[int], hosts_before: list[int]) -> str:
    """Name the constraint that leaves no broker for a replica."""
    fleet = work.orders.fleet
    takers = fleet.takes.nonzero()[0].tolist()
    others = [b for b in takers if b not in hosts_before]
    wanted = int(work.partitions.wanted[row])
    if not others:
        return f"{wanted} replicas are wanted, and every one of the {len(takers)} brokers that may take one has one"
    racks = {work.rack_of[b] for b in hosts}
    if all(work.rack_of[b] in racks for b in others):
        used = ", ".join(repr(fleet.racks[r]) for r in sorted(racks))
        return f"every broker that may take a replica is in a rack that has one ({used})"
    size = int(work.partitions.size[row])
    return f"no broker that may take a replica has space for its {size} bytes in each of its log dirs"


def _give(work: Work, row: int, hosts: list[int], hosts_before: list[int], racks_due_before: int) -> int | None:
    """Find a broker in a new rack; in any rack where a new one is neither possible nor due."""
    size = int(work.partitions.size[row])
    racks = {work.rack_of[b] for b in hosts}
    chosen = work.receivers.give(size, racks, hosts_before, within=False)
    if chosen is None and len(racks) >= racks_due_before:
        chosen = work.receivers.give(size, (), hosts_before, within=False)
    return chosen
