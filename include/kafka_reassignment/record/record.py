"""The record of one reassignment: its request, its plan, the commands of operators, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from upath import UPath

from kafka_reassignment.advice import DAG_ID, Advice, Correct, Rerun, Trigger
from kafka_reassignment.decisions.throttle import Journal
from kafka_reassignment.errors import RecordDamagedError, RecordError, RecordsMissingError
from kafka_reassignment.plan.store import PlanRef
from kafka_reassignment.record.approvals import PlanApproval
from kafka_reassignment.record.audit import AuditLog
from kafka_reassignment.record.models import (
    FINAL_REPORT,
    FinishedBatch,
    FoundBatch,
    FrozenPlan,
    PlanTry,
    ProgressNote,
    RecordedRequest,
    SizesNote,
    SubmittedBatch,
    SupersededNote,
)
from kafka_reassignment.record.objects import (
    AUDIT_HEADS,
    LOCK,
    ReadOnce,
    as_bytes,
    flush_tree,
    names_in,
    path_part,
    read_model,
    read_object,
    write_object,
)
from kafka_reassignment.record.operator_commands import (
    LimitsCommand,
    Revision,
    RunCommand,
    WithdrawCommand,
)
from kafka_reassignment.record.requests import refuse_other_request, write_request
from kafka_reassignment.record.series import Series
from kafka_reassignment.record.settled import SettledNotes
from kafka_reassignment.request import Limits, ReassignmentRequest

T = TypeVar("T")


ROLLED_BACK_BY = "rolled-back-by.txt"
END = ".done.json"


class Record:
    """The record of one reassignment.

    What is written once and never changes (the request, the frozen plan, the end of a batch, numbered objects) is read
    once and kept by this object. All else is read from the store each time.
    """

    def __init__(self, root: UPath, cluster_id: str, reassignment_id: str) -> None:
        self.root = root
        self.cluster_id = cluster_id
        self.reassignment_id = reassignment_id
        self.audit = AuditLog(root / "audit", head=root.parent / AUDIT_HEADS / f"{root.name}.json")
        self.run_commands = Series(root / "run-commands", RunCommand, earlier=lambda: self._earlier("run-orders"))
        self.settled = SettledNotes(root, self.run_commands)
        self.withdraw_commands = Series(
            root / "withdraw-commands", WithdrawCommand, earlier=lambda: self._earlier("withdrawals")
        )
        self.limits_commands = Series(root / "limits-commands", LimitsCommand, earlier=lambda: self._earlier("limits"))
        self.revisions = Series(root / "revisions", Revision)
        self.approvals = Series(root / "approvals", PlanApproval)
        self._superseded = Series(root / "superseded", SupersededNote)
        self._plan_tries = Series(root / "plans", PlanTry)
        self._journals = Series(root / "throttle-journal", Journal, kept=2)
        self._written_once = ReadOnce()
        self._found: dict[int, Series[FoundBatch]] = {}
        self._finished: set[int] | None = None

    def write_request(self, recorded: RecordedRequest) -> RecordedRequest:
        """Record the request unless one is recorded, and return the recorded one: the start time never changes.

        Raises:
            RecordError: a different request was recorded under this id.
        """
        return write_request(self.root / "request.json", recorded, f"reassignment {self.reassignment_id}")

    def refuse_other_request(self, request: ReassignmentRequest) -> None:
        """Make sure that this reassignment has no other request.

        Raises:
            RecordError: another one is recorded under this id.
        """
        refuse_other_request(
            self.root / "request.json", RecordedRequest, request, f"reassignment {self.reassignment_id}"
        )

    @property
    def exists(self) -> bool:
        """Whether a reassignment of this id was ever begun."""
        path = self.root / "request.json"
        return self._written_once.has(path) or read_object(path) is not None

    @property
    def has_store(self) -> bool:
        """Whether the store has this reassignment, or a lock of its cluster: one that has neither may not be there at all."""
        return self.exists or bool(names_in(self.root.parent / LOCK))

    def require_records(self) -> None:
        """Make sure that the store is there, where something of a reassignment that has begun was not found.

        A share that is not mounted looks like an empty folder, and so does a bucket that does not exist. But who begins
        a reassignment locks the cluster, and nothing of a lock is ever removed.

        Raises:
            RecordsMissingError: there is neither the request nor a lock of the cluster.
        """
        if not self.has_store:
            raise RecordsMissingError(
                f"There is nothing of reassignment {self.reassignment_id} at {self.root}, nor a lock of the cluster beside it, "
                "expected both",
                Correct(
                    "mount the share again, or see whether the bucket exists and the base URI of the records is right"
                ),
            )

    def verify_audit(self) -> int:
        """Check that every audit event is there and unaltered; return how many there are.

        Raises:
            RecordError: there is no such run.
            RecordDamagedError: an event is missing or was altered.
        """
        count = self.existing_audit().verify()
        if count == 0 and self.frozen_plan() is not None:
            raise RecordDamagedError(
                f"Reassignment {self.reassignment_id} has a frozen plan and no audit event, expected that of its plan step: "
                "the trail was removed",
                Correct("restore the folder from a copy"),
            )
        return count

    def existing_audit(self) -> AuditLog:
        """Return the audit trail of a run that has a record.

        Raises:
            RecordError: it has none, for example because its id is mistyped.
            RecordDamagedError: it had one, as the head of its trail tells.
        """
        if not names_in(self.root):
            if self.audit.has_head:
                raise RecordDamagedError(
                    f"The record of run {self.reassignment_id} of cluster {self.cluster_id} was removed: expected it at "
                    f"{self.root}, found only the head of its audit trail",
                    Correct("restore the folder from a copy, and find out who removed it"),
                )
            raise RecordError(
                f"There is no record of run {self.reassignment_id} of cluster {self.cluster_id}, expected one at {self.root}",
                Correct("correct the ids, or the base URI of the records"),
            )
        return self.audit

    def recorded_request(self) -> RecordedRequest:
        """Return the request of this reassignment, when it began, and who asked for it.

        Raises:
            RecordError: this reassignment has no record.
        """
        recorded = self._written_once.read(self.root / "request.json", RecordedRequest)
        if recorded is None:
            raise RecordError(
                f"There is no record of reassignment {self.reassignment_id} of cluster {self.cluster_id}, expected one at "
                f"{self.root}",
                Correct("correct the id, or run its preflight first"),
            )
        return recorded

    def uri_of(self, place: str) -> str:
        """Return the URI of a place below the record."""
        return str(self.root / place)

    @property
    def plan_uri(self) -> str:
        """Folder of the frozen plan's tables."""
        frozen = self.frozen_plan()
        return self.uri_of(frozen.place if frozen else "plan")

    def new_plan_place(self, at: datetime, by: str) -> str:
        """Return a place to plan or re-batch at, which no other try has: what one try writes, no other one changes."""
        return f"plans/{self._plan_tries.claim(PlanTry(at=at, by=by)):06d}"

    def plan_ref(self) -> PlanRef:
        """Return the frozen plan: its place and its hashes.

        Raises:
            RecordError: there is none.
            RecordsMissingError: as ``require_records``.
        """
        frozen = self.require_plan(self.frozen_plan())
        return PlanRef(self.uri_of(frozen.place), frozen.plan_hash, frozen.target_hash, self._to_ask_again)

    def require_plan(self, found: FrozenPlan | None) -> FrozenPlan:
        """Return the plan that was found.

        Raises:
            RecordError: None was.
            RecordsMissingError: as ``require_records``.
        """
        if found is None:
            self.require_records()
            raise RecordError(
                f"Reassignment {self.reassignment_id} has no frozen plan at {self.root}, expected one", Rerun("plan")
            )
        return found

    def _to_ask_again(self) -> tuple[Advice, ...]:
        """What leads on when the plan is damaged: the same request, planned from where the partitions are now."""
        request = self.recorded_request().request
        asked = request.as_fields()
        return (Trigger(DAG_ID, asked if request.validate_only else asked | {"supersede": True}),)

    def plan_refs(self, revisions: Sequence[Revision] | None = None) -> Callable[[int], PlanRef]:
        """Return what gives the plan that a batch belongs to: that of the last revision which reaches the batch.

        Args:
            revisions: all there are; read when None.

        Raises:
            RecordError: there is no frozen plan.
        """
        frozen, known = self.plan_ref(), self.revisions.all() if revisions is None else revisions

        def plan_of(batch: int) -> PlanRef:
            reaching = [r for r in known if r.first_batch <= batch]
            if not reaching:
                return frozen
            return PlanRef(self.uri_of(reaching[-1].place), reaching[-1].plan_hash, instead=self._to_ask_again)

        return plan_of

    def plan_in_force(self) -> FrozenPlan | None:
        """Return the frozen plan; where it was re-batched, with the number of batches and the hash of the last revision."""
        return revised(self.frozen_plan(), self.revisions.last()[1])

    def limits_in_force(self) -> Limits:
        """Return the limits by which the current batches were planned."""
        _, revision = self.revisions.last()
        return revision.limits if revision else self.recorded_request().request.limits

    def limits_requested(self) -> Limits:
        """Return the limits that were requested last; they apply from the next batch on."""
        _, command = self.limits_commands.last()
        return command.limits if command else self.recorded_request().request.limits

    def stopped(self) -> RunCommand | None:
        """Return the command that stopped the reassignment, or None while it may go on."""
        _, command = self.run_commands.last()
        return command if command is not None and command.stopped else None

    def note_joined_stop(self, run_id: str) -> None:
        """Note that a run has asked for a stop too, when it was stopped already: a rerun days later must not stop it again."""
        self.write_file(f"joined-stop-{run_id}.txt", b"")

    def has_joined_stop(self, run_id: str) -> bool:
        """Whether a run has asked for a stop when it was stopped already."""
        return self.has_file(f"joined-stop-{run_id}.txt")

    def withdrawn_partitions(self) -> frozenset[str]:
        """Return the partitions that were withdrawn: they take no further part."""
        return frozenset(p for command in self.withdraw_commands.all() for p in command.partitions)

    def approved_by(self, plan_hash: str) -> frozenset[str]:
        """Return the people who approved a plan."""
        return frozenset(approval.by for approval in self.approvals.all() if approval.plan_hash == plan_hash)

    def frozen_plan(self) -> FrozenPlan | None:
        """Return the frozen plan, or None while planning is not done."""
        return self._written_once.read(self.root / "frozen.json", FrozenPlan)

    def freeze_plan(self, plan: FrozenPlan) -> FrozenPlan:
        """Freeze the plan unless one is frozen, and return the frozen one; its files are flushed first."""
        flush_tree(self.root / plan.place)
        if self._written_once.create(self.root / "frozen.json", plan):
            return plan
        frozen = self.frozen_plan()
        assert frozen is not None
        return frozen

    def revise_plan(self, after: int, revision: Revision) -> bool:
        """Put a revision in force, its files flushed first; return whether number ``after`` was that of the last one still."""
        flush_tree(self.root / revision.place)
        return self.revisions.append_after(after, revision)

    def write_file(self, name: str, content: bytes) -> str:
        """Write one of the record's own files (a plan JSON, a report) and return its URI."""
        path = self.root / path_part(name)
        write_object(path, content)
        return str(path)

    def read_file(self, name: str) -> bytes | None:
        """Return one of the record's own files."""
        return read_object(self.root / path_part(name))

    def has_file(self, name: str) -> bool:
        """Whether there is such a file, by its name: a listing may show it late."""
        return self.read_file(name) is not None

    @property
    def is_reported(self) -> bool:
        """Whether the reassignment was verified and reported: it is finished."""
        return self.has_file(FINAL_REPORT)

    def note_roll_back(self, reassignment_id: str) -> None:
        """Note which reassignment is to move back what this one has moved, after those that were noted before.

        One that has begun and was stopped is shown until the next one has begun, and may still go on.
        """
        noted = self._noted_roll_backs()
        if reassignment_id not in noted:
            self.write_file(ROLLED_BACK_BY, "\n".join((*noted, reassignment_id)).encode())

    def rolled_back_by(self) -> str | None:
        """Return the last reassignment that has begun to move back what this one has moved; None where there is none.

        One that had begun before this one was resumed does not count: this one has moved on since. Nor does one that
        was rolled back to its end itself: what it had moved back is where this one has put it.
        """
        order = self.run_commands.last()[1] if (noted := self._noted_roll_backs()) else None
        resumed_at = order.at if order is not None and not order.stopped else None
        for by in reversed(noted):
            began = self.beside(by).submitted(1)
            is_later = began is not None and (resumed_at is None or began.submitted_at > resumed_at)
            if is_later and not self.beside(by).is_rolled_back():
                return by
        return None

    def is_rolled_back(self) -> bool:
        """Whether all that this one has moved was moved back to the end, and that was not rolled back since."""
        by = self.rolled_back_by()
        if by is None or not self.beside(by).is_reported:
            return False
        with suppress(RecordError):  # what cannot be read may have been of a part
            return not self.beside(by).recorded_request().request.topics
        return False

    def _noted_roll_backs(self) -> list[str]:
        return (self.read_file(ROLLED_BACK_BY) or b"").decode().splitlines()

    def note_superseded(self, reassignment_id: str, at: datetime) -> None:
        """Note that this reassignment is about to take the place of another one."""
        if reassignment_id not in self._noted_as_superseded():
            self._superseded.append(SupersededNote(at=at, reassignment_id=reassignment_id))

    def superseded(self) -> list[Record]:
        """Return the records of the reassignments whose place this one took, the latest first, as far as they were not resumed."""
        noted = reversed(self._noted_as_superseded()) if self._may_supersede() else ()
        return [
            r for r in map(self.beside, noted) if (stop := r.stopped()) and stop.superseded_by == self.reassignment_id
        ]

    def _may_supersede(self) -> bool:
        """Whether it was asked to, which saves the look at the notes of most; where its request is damaged, they tell it."""
        try:
            return self.exists and self.recorded_request().request.supersede
        except RecordDamagedError:
            return True

    def has_moved_successor(self) -> bool:
        """Whether it is superseded, and the reassignment that took its place has moved something since."""
        stop = self.stopped()
        return (
            stop is not None and stop.superseded_by != "" and self.beside(stop.superseded_by).submitted(1) is not None
        )

    def beside(self, reassignment_id: str) -> Record:
        """Return the record of another reassignment of the same cluster."""
        return Record(self.root.parent / path_part(reassignment_id), self.cluster_id, reassignment_id)

    def _noted_as_superseded(self) -> list[str]:
        return [note.reassignment_id for note in self._superseded.all()]

    @property
    def has_journal(self) -> bool:
        """Whether a throttle was ever journalled; the journal is not read, so it may be damaged."""
        return self._journals.last_number() > 0

    def journal(self) -> Journal:
        """Return the throttle journal; an empty one before the first throttle."""
        return self._journals.last()[1] or Journal()

    def journal_as_read(self) -> Journal:
        """Return the throttle journal as it was read or changed last by this object."""
        return self._journals.last_as_read()[1] or Journal()

    def update_journal(self, change: Callable[[Journal], tuple[Journal, T]]) -> T:
        """Store a changed journal and return what else ``change`` returned; done before any throttle is set (KIP-179).

        ``change`` is called again when another task changed the journal in between (a batch, a change of the rate, a
        cancel), so that no owed config is ever lost.
        """

        def decide(last: Journal | None) -> tuple[Journal | None, T]:
            journal = last or Journal()
            updated, result = change(journal)
            return (None if updated == journal else updated), result

        return self._journals.change(decide)

    def progress(self) -> ProgressNote | None:
        """Return the latest progress of the batch in flight; None where it cannot be read, since the next look replaces it."""
        with suppress(RecordDamagedError):
            return read_model(self.root / "progress.json", ProgressNote)
        return None

    def write_progress(self, note: ProgressNote) -> None:
        """Replace the latest progress of the batch in flight; a store that refuses it does not fail the task."""
        with suppress(RecordError):
            write_object(self.root / "progress.json", note.model_dump_json().encode())

    def sizes(self) -> SizesNote | None:
        """Return the sizes that were noted last, right before a batch was started; None where these cannot be read."""
        with suppress(RecordDamagedError):
            return read_model(self.root / "sizes.json", SizesNote)
        return None

    def write_sizes(self, note: SizesNote) -> None:
        """Replace the sizes that were noted last; a store that refuses it does not fail the task."""
        with suppress(RecordError):
            write_object(self.root / "sizes.json", note.model_dump_json().encode())

    def found_notes(self, batch: int) -> Series[FoundBatch]:
        """Return the notes of how a batch was found right before its requests."""
        if batch not in self._found:
            self._found[batch] = Series(self.root / "batches" / f"{batch:04d}.found", FoundBatch, kept=2)
        return self._found[batch]

    def found_once(self, batch: int) -> FoundBatch | None:
        """Return how a batch was found, as a version noted it that did so once; None where it did not."""
        return self._written_once.read(self._batch(batch, "found"), FoundBatch)

    def submitted(self, batch: int) -> SubmittedBatch | None:
        """Return what was submitted of a batch, or None when its submission was never recorded."""
        return read_model(self._batch(batch, "submitted"), SubmittedBatch)

    def write_submitted(self, batch: int, submitted: SubmittedBatch) -> None:
        """Store what the controller accepted; a resubmission adds to the earlier one."""
        write_object(self._batch(batch, "submitted"), as_bytes(submitted))

    def finished(self, batch: int) -> FinishedBatch | None:
        """Return a batch's end, or None while it is not finished."""
        return self._written_once.read(self._batch(batch, "done"), FinishedBatch)

    def write_finished(self, finished: FinishedBatch) -> None:
        """Store a batch's end, once."""
        self._written_once.create(self._batch(finished.number, "done"), finished)
        if self._finished is not None:
            self._finished.add(finished.number)

    def finished_batches(self) -> frozenset[int]:
        """Return the numbers of the batches that are finished.

        Batches end in order, and what is finished stays so. The folder is listed once. What a listing does not show,
        because it is late or from before, is asked for by its name.
        """
        if self._finished is None:
            ends = [name.removesuffix(END) for name in names_in(self.root / "batches") if name.endswith(END)]
            self._finished = {int(number) for number in ends if number.isdecimal()}  # others are no part of the record
        last = max(self._finished, default=0)
        self._finished.update(n for n in range(1, last) if n not in self._finished and self._has_end(n))
        while self._has_end(last + 1):
            last += 1
            self._finished.add(last)
        return frozenset(self._finished)

    def _has_end(self, batch: int) -> bool:
        return read_object(self._batch(batch, "done")) is not None

    def _earlier(self, folder: str) -> UPath | None:
        """Return a folder that an earlier version wrote, where the record was begun by one."""
        try:
            recorded = self._written_once.read(self.root / "request.json", RecordedRequest)
        except RecordDamagedError:
            return self.root / folder
        return self.root / folder if recorded is not None and recorded.version == 1 else None

    def _batch(self, number: int, what: str) -> UPath:
        return self.root / "batches" / f"{number:04d}.{what}.json"


def revised(frozen: FrozenPlan | None, revision: Revision | None) -> FrozenPlan | None:
    """Return the plan in force, given the frozen one and the last revision."""
    if frozen is None or revision is None:
        return frozen
    return frozen.model_copy(update={"plan_hash": revision.plan_hash, "batches": revision.batches})
