"""Commands of operators while a reassignment runs, and the revisions of its plan; each is written once (``Series``)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kafka_reassignment.record.audit import Actor
from kafka_reassignment.request import Limits
from kafka_reassignment.versioned import Versioned, renamed


class _Command(Versioned):
    """Who gave the command and when, in UTC; ``run_id`` is the run of a DAG that wrote it."""

    at: datetime
    by: str
    run_id: str = ""

    def is_of(self, actor: Actor) -> bool:
        """Whether the run of this actor gave it: a task that died after the write finds its own command."""
        return bool(self.run_id) and self.run_id == actor.run_id


class RunCommand(_Command):
    """Stop the reassignment, or let it go on; the last command counts.

    ``superseded_by`` took its place, where one did. ``notes_taken_back``: what settles it notes what it takes back, as
    earlier versions did not.
    """

    stopped: bool
    reason: str = ""
    superseded_by: str = ""
    notes_taken_back: bool = False


class WithdrawCommand(_Command):
    """These partitions take no further part in the reassignment; ``freed`` of another client's move are those that keep their part."""

    partitions: tuple[str, ...]
    freed: tuple[str, ...] = ()


class SettledNote(Versioned):
    """Where partitions were when a cancel, or what superseded the reassignment, found them settled; ``at`` is in UTC.

    ``left_to_others`` are those that it has left as another client had changed or was moving them. What comes of either
    from then on is not this reassignment's doing. ``run_command`` is the number of the order to stop that holds then: a
    resume makes the note void. For partitions that were withdrawn it is None: they take no further part at all.
    ``taken_back`` are those of several steps that are about to be brought to their original replicas.
    """

    at: datetime
    ends: dict[str, tuple[int, ...]]
    run_command: int | None = None
    left_to_others: tuple[str, ...] = ()
    taken_back: tuple[str, ...] = ()


class LimitsCommand(_Command):
    """Other limits, from the next batch on (KIP-435)."""

    limits: Limits


class Revision(Versioned):
    """The batches from ``first_batch`` on are those at ``place``; the target assignment is that of the frozen plan.

    ``place`` is below the record, and was frozen together with ``plan_hash``. ``batches`` is the number of all batches,
    those before ``first_batch`` included. ``left_open`` are the partitions that earlier batches have left open.
    """

    at: datetime
    first_batch: int
    batches: int
    place: str
    plan_hash: str
    limits: Limits
    reason: str
    left_open: tuple[str, ...] = ()

    @classmethod
    def from_version_1(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what a file of version 1 says, by the names of this version: it named the whole URI of the place."""
        place = "/".join(str(fields.get("plan_uri", "")).rstrip("/").split("/")[-2:])
        return renamed(fields, place="plan_uri") | ({"place": place} if "plan_uri" in fields else {})
