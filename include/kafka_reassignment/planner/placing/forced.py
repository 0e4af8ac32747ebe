"""Forced changes: replicas that must leave, replication factors, racks. Largest first, to the broker with most inflow."""

from __future__ import annotations

import numpy as np

from kafka_reassignment.decisions.batching.columns import ABSENT, Flags
from kafka_reassignment.planner.placing.shard_placement import ShardPlacement

Slots = list[int | None]
"""Replicas of one row in order, None where a broker must be found."""


def place_forced(placement: ShardPlacement) -> None:
    """Decide every row that must change."""
    excess: list[int] = placement.goals.excess.tolist()
    opened: dict[int, Slots] = {}
    # All drops come first, so that the excess of every broker is known for every copy.
    for row in placement.largest_first(np.flatnonzero(_must_change(placement))):
        slots = _open(placement, row, excess)
        if None in slots:
            opened[row] = slots
        else:
            placement.plan(row, placement.with_leader(row, [b for b in slots if b is not None]))
    for row, slots in opened.items():
        _fill(placement, row, slots)
    placement.movable[list(placement.impossible)] = False


def _must_change(placement: ShardPlacement) -> Flags:
    p, fleet = placement.partitions, placement.goals.fleet
    present = p.replicas != ABSENT
    must_change: Flags = (fleet.leaves[p.replicas] & present).any(axis=1) | (p.wanted != placement.count)
    if placement.goals.restore_racks:
        must_change |= _share_racks(placement, present)
    return must_change & p.in_scope


def _share_racks(placement: ShardPlacement, present: Flags) -> Flags:
    p, fleet = placement.partitions, placement.goals.fleet
    # Each pad gets a rack of its own, so that it counts as distinct.
    width = p.replicas.shape[1]
    pads = len(fleet.racks) + np.arange(width)
    racks = np.where(present, fleet.rack_of[p.replicas], pads)
    racks.sort(axis=1)
    distinct = 1 + (np.diff(racks, axis=1) != 0).sum(axis=1) - (width - placement.count)
    shares: Flags = distinct < np.minimum(placement.count, placement.racks)
    return shares


def _open(placement: ShardPlacement, row: int, excess: list[int]) -> Slots:
    """Remove what must leave and what is above the wanted number; the latter needs no copy."""
    slots: Slots = [None if placement.leaves[b] else b for b in placement.current(row)]
    size, wanted = int(placement.partitions.size[row]), int(placement.partitions.wanted[row])
    due = placement.distinct_racks_due(row)
    while len(slots) > wanted:
        kept = [b for b in slots if b is not None]
        # A replica that must be replaced goes first, unless the racks need the new one.
        if None in slots and len({placement.rack_of[b] for b in kept}) + slots.count(None) > due:
            slots.remove(None)
            continue
        drop = _replica_to_drop(placement, kept, due, excess)
        slots.remove(drop)
        excess[drop] -= size
    slots += [None] * (wanted - len(slots))
    if placement.goals.restore_racks:
        _open_shared_racks(placement, slots, due, excess)
    return slots


def _replica_to_drop(placement: ShardPlacement, replicas: list[int], due: int, excess: list[int]) -> int:
    """Choose a replica on a dead broker, else on the fullest; a live preferred leader is kept, and so are the racks of live ones."""

    def racks_without(broker: int) -> int:
        return len({placement.rack_of[b] for b in replicas if b != broker})

    # A partition that keeps a dead replica waits for its broker, whatever its racks are.
    dead = [b for b in replicas if not placement.alive[b]]
    droppable = dead or (replicas[1:] if len(replicas) > 1 else replicas)
    spread = max(racks_without(b) for b in droppable)
    candidates = [b for b in droppable if racks_without(b) >= min(due, spread)]
    return max(candidates, key=lambda b: (excess[b], -b))


def _open_shared_racks(placement: ShardPlacement, slots: Slots, due: int, excess: list[int]) -> None:
    """Open the slots of replicas that share a rack, as many as racks can be gained; those on dead brokers first."""
    while True:
        kept = [b for b in slots if b is not None]
        racks = [placement.rack_of[b] for b in kept]
        if len(set(racks)) + slots.count(None) >= due:
            return
        # A live preferred leader stays: one of the others in its rack can go.
        may_go = [b for b in kept if b != kept[0] or not placement.alive[b]]
        sharing = [b for b in may_go if racks.count(placement.rack_of[b]) > 1]
        slots[slots.index(max(sharing, key=lambda b: (not placement.alive[b], excess[b], -b)))] = None


def _fill(placement: ShardPlacement, row: int, slots: Slots) -> None:
    hosts = [b for b in slots if b is not None]
    # A broker that loses the replica because of its rack must not get it back.
    hosts_before = hosts + [b for b in placement.current(row) if b not in hosts]
    due = placement.distinct_racks_due(row)
    for slot in [i for i, b in enumerate(slots) if b is None]:
        to_come = len(slots) - len(hosts)
        chosen = _give(placement, row, hosts, hosts_before, racks_due_before=due - to_come + 1)
        if chosen is None:
            placement.impossible[row] = _why_no_broker(placement, row, hosts, hosts_before)
            return
        slots[slot] = chosen
        hosts.append(chosen)
        hosts_before.append(chosen)
    placement.plan(row, placement.with_leader(row, [b for b in slots if b is not None]))


def _why_no_broker(placement: ShardPlacement, row: int, hosts: list[int], hosts_before: list[int]) -> str:
    """Name the constraint for which no broker can take a replica."""
    fleet = placement.goals.fleet
    takers = fleet.takes.nonzero()[0].tolist()
    others = [b for b in takers if b not in hosts_before]
    wanted = int(placement.partitions.wanted[row])
    if not others:
        return f"{wanted} replicas are wanted, and every one of the {len(takers)} brokers that may take one has one"
    racks = {placement.rack_of[b] for b in hosts}
    if all(placement.rack_of[b] in racks for b in others):
        used = ", ".join(repr(fleet.racks[r]) for r in sorted(racks))
        return f"every broker that may take a replica is in a rack that has one ({used})"
    size = int(placement.partitions.size[row])
    return f"no broker that may take a replica has space for its {size} bytes in each of its log dirs"


def _give(
    placement: ShardPlacement, row: int, hosts: list[int], hosts_before: list[int], racks_due_before: int
) -> int | None:
    """Find a broker in a new rack; in any rack if no new one is possible or needed."""
    size = int(placement.partitions.size[row])
    racks = {placement.rack_of[b] for b in hosts}
    chosen = placement.receivers.give(size, racks, hosts_before, within=False)
    if chosen is None and len(racks) >= racks_due_before:
        chosen = placement.receivers.give(size, (), hosts_before, within=False)
    return chosen
