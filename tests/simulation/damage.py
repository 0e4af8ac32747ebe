"""What happens to single objects of the record: cut short, emptied, or written by a newer version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.simulation.actions import action, number, one_of, pick
from tests.simulation.violations import Violation

from kafka_reassignment.record.catalogue import catalogue
from kafka_reassignment.record.objects import AUDIT_HEADS, path_part
from kafka_reassignment_airflow.runs import DAG_ID

if TYPE_CHECKING:
    from tests.simulation.disk import Content
    from tests.simulation.play import Play

DAY = 24 * 3600.0
TRIES = 3

OBJECTS = (
    "/request.json",
    "/frozen.json",
    "/throttle-journal/",
    ".submitted.json",
    ".done.json",
    "/progress.json",
    "/run-commands/",
    "/limits-commands/",
    "/withdraw-commands/",
    "/audit/",
    "/audit-heads/",
    "/lock/",
    "/plans/",
    "/partition-count.json",
    "/new-partitions.json",
)
"""Parts of their paths."""


@action(
    "store",
    2,
    of=one_of(*OBJECTS),
    number=number,
    how=one_of("cut", "empty", "newer"),
    seconds=one_of(20.0, 600.0, 600.0),
    for_good=one_of(False, False, True),
)
def object_damaged(
    play: Play,
    of: str = "/throttle-journal/",
    number: int = 0,
    how: str = "cut",
    seconds: float = 600.0,
    for_good: bool = False,
) -> str | None:
    """Damage one object of the record, the newest of its kind first; a person restores it from a copy, or there is none."""
    disk = play.world.disk
    found = [p for p in disk.paths() if of in p and p not in play.unreadable and not p.endswith(".part")]
    path = pick(found[::-1], number)
    if path is None:
        return None
    was = disk.peek(path)
    assert was is not None
    damaged = _damaged(was, how, of)
    play.world.truth.remember_found()
    disk.damage(path, damaged)
    play.unreadable.add(path)
    play.unlinked |= _links_to_nothing(play)
    if for_good:
        play.damaged[path] = how
        return f"{path} ({how}), for good"

    def restore() -> None:
        play.unreadable.discard(path)
        if disk.peek(path) == damaged:  # what the product has written since is not undone
            disk.damage(path, was)

    play.for_a_while(seconds, restore)
    return f"{path} ({how})"


def _damaged(was: Content, how: str, of: str) -> bytes:
    if how == "empty" or not isinstance(was, bytes):
        return b""
    if how == "newer" and not of.startswith("/audit"):  # a newer version chains its events as this one does
        try:
            read = json.loads(was)
        except ValueError:
            return was[: len(was) // 2]
        return json.dumps({**read, "a_field_of_tomorrow": {"x": 1}}).encode() if isinstance(read, dict) else b""
    return was[: len(was) // 2]


def _links_to_nothing(play: Play) -> set[tuple[str, int]]:
    """Return folder and number of events that follow unreadable ones which the head does not know of.

    It is unreadable too, or its writer died before it: nothing is left then of the hash that the next event has to name.
    """
    heads = {path.rpartition("/")[2].removesuffix(".json") for path in play.unreadable if f"/{AUDIT_HEADS}/" in path}
    found = set()
    for path in play.unreadable:
        folder, _, name = path.rpartition("/")
        if not folder.endswith("/audit"):
            continue
        number, run_id = int(name.removesuffix(".json")), folder.split("/")[-2]
        with play.world.truth.undisturbed():
            is_known = run_id not in heads and play.world.truth.record(run_id).audit.head_number() >= number
        if not is_known:
            found.add((run_id, number + 1))
    return found


def is_damaged(play: Play, name: str) -> bool:
    """Whether an object of a run's record, or the head of its audit trail, is damaged for good."""
    part = path_part(name)
    return any(f"/{part}/" in path or path.endswith(f"/{AUDIT_HEADS}/{part}.json") for path in play.damaged)


def still_blocked(play: Play) -> list[Violation]:
    """I5: what was damaged for good is named where reassignments are listed, and does not block its cluster.

    The person frees the cluster by the command line, as every message about a lock says, and asks for another
    reassignment.
    """
    world, found = play.world, []
    truth = world.truth

    def broken(what: str) -> None:
        found.append(Violation("I5", what, world.time.now))

    if not any(world.disk.peek(path) is not None for path in play.damaged):
        return []
    with truth.undisturbed():
        number = truth.store.lock(truth.cluster_id).last_number()
        if number:
            truth.store.release_by_force(truth.cluster_id, number, at=world.time.now, by="ann")
        listed = " ".join(catalogue(truth.store, truth.cluster_id).unreadable)
    for path in sorted(play.damaged):
        if path.endswith("/request.json") and path not in listed:
            broken(f"the list of reassignments does not name {path}, which is damaged")
    asked = {"job": "rebalance", "supersede": True, "throttle_mb_per_second": 50, "allowed_unhealthy_partitions": 100}
    run = play.airflow.trigger(DAG_ID, asked)
    play.airflow.paused.clear()
    for _ in range(TRIES):
        world.run_until_idle(DAY)
        red = [ti for ti in run.tasks.values() if ti.state == "failed"]
        if run.tasks["plan"].state == "success" or not red:
            break
        world.time.advance(3600.0)
        play.airflow.clear(DAG_ID, run.run_id, [red[0].task_id], downstream=True)
    if run.tasks["plan"].state != "success":
        why = next((ti.message for ti in run.tasks.values() if ti.state == "failed"), "it does not end")
        broken(f"after damage to {', '.join(sorted(play.damaged))}, no other reassignment begins: {why}")
    return found
