"""What the record of a reassignment shows in one look of a step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from kafka_reassignment.decisions.throttle import Journal
from kafka_reassignment.plan.store import PlanRef
from kafka_reassignment.record.models import FoundBatch, FrozenPlan, ProgressNote, SubmittedBatch
from kafka_reassignment.record.operator_commands import Revision, RunCommand
from kafka_reassignment.record.record import Record, revised

T = TypeVar("T")


class RecordView:
    """What the record shows in one look: each object that may change is read once, when it is first asked for.

    A look makes one and hands it on, so that all of the look is decided on the ground of one state. What has to be as
    it is now is asked of the record itself: a stop right before a submission, what is changed and written back. The
    lock is never part of a view. The methods are those of ``Record``.

    Args:
        record: with which the step reads and writes; ``journal`` has what the step itself has changed since.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._read: dict[Hashable, Any] = {}

    def plan_in_force(self) -> FrozenPlan | None:
        """Return the plan in force."""
        revisions = self._revisions()
        return revised(self.record.frozen_plan(), revisions[-1] if revisions else None)

    def plan_refs(self) -> Callable[[int], PlanRef]:
        """Return what gives the plan that a batch belongs to.

        Raises:
            RecordError: there is no frozen plan.
        """
        return self.record.plan_refs(self._revisions())

    def plan_ref(self) -> PlanRef:
        """Return the frozen plan.

        Raises:
            RecordError: there is none.
        """
        return self.record.plan_ref()

    def last_run_command(self) -> RunCommand | None:
        """Return the last order to stop or to go on."""
        return self.numbered_run_command()[1]

    def numbered_run_command(self) -> tuple[int, RunCommand | None]:
        """Return the number of the last order to stop or to go on, and the order; 0 and None when there is none."""
        return self._once("run command", self.record.run_commands.last)

    def stopped(self) -> RunCommand | None:
        """Return the command that stopped the reassignment, or None while it may go on."""
        command = self.last_run_command()
        return command if command is not None and command.stopped else None

    def lifted_since(self, order: int) -> frozenset[str]:
        """Return the partitions that a stop has settled, or left to others, which was lifted since; of stops after an order of this number.

        Nothing of them is this reassignment's doing any more, until something is submitted again.
        """
        if self.numbered_run_command()[0] <= order:
            return frozenset()
        return self._once(("lifted", order), lambda: self.record.settled.lifted_since(order))

    def is_settled(self) -> bool:
        """Return whether it is stopped, and all of it was settled since."""
        return self.stopped() is not None and self._once("settled", self.record.settled.has_all)

    def last_revision(self) -> Revision | None:
        """Return the last revision of the plan."""
        revisions = self._revisions()
        return revisions[-1] if revisions else None

    def withdrawn_partitions(self) -> frozenset[str]:
        """Return the partitions that were withdrawn."""
        return self._once("withdrawn", self.record.withdrawn_partitions)

    def found(self, batch: int) -> FoundBatch | None:
        """Return how a batch was found last, right before a request for it; None when there was none yet."""
        return self.numbered_found(batch)[1]

    def numbered_found(self, batch: int) -> tuple[int, FoundBatch | None]:
        """Return the number of the last note of how a batch was found, and the note; 0 and None when there is none."""

        def read() -> tuple[int, FoundBatch | None]:
            number, note = self.record.found_notes(batch).last()
            frozen = self.record.frozen_plan()
            if note is None and frozen is not None and not frozen.notes_found:
                note = self.record.found_once(batch)
            return number, note

        return self._once(("found", batch), read)

    def submitted(self, batch: int) -> SubmittedBatch | None:
        """Return what was submitted of a batch."""
        return self._once(("submitted", batch), lambda: self.record.submitted(batch))

    def finished_batches(self) -> frozenset[int]:
        """Return the numbers of the batches that are finished."""
        return self._once("finished", self.record.finished_batches)

    def progress(self) -> ProgressNote | None:
        """Return the latest progress of the batch in flight."""
        return self._once("progress", self.record.progress)

    def progress_since_order(self) -> ProgressNote | None:
        """Return the latest progress; None where there is an order to stop or to go on since: it says nothing of now."""
        note, order = self.progress(), self.last_run_command()
        return None if note is not None and order is not None and note.at < order.at else note

    def journal(self) -> Journal:
        """Return the throttle journal, with what this step has changed of it since it was read."""
        self._once("journal", self.record.journal)
        return self.record.journal_as_read()

    def _revisions(self) -> Sequence[Revision]:
        return self._once("revisions", self.record.revisions.all)

    def _once(self, key: Hashable, read: Callable[[], T]) -> T:
        if key not in self._read:
            self._read[key] = read()
        found: T = self._read[key]
        return found
