"""How a batch was found before its requests: what another client had made of its partitions is never ours.

A partition between the two ends of its step looks the same, whoever brought it there: another client has raised its
replication factor, or its topic was deleted and made anew. So what a request is sent for is noted before, and what is
half-way though nothing of it was submitted is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kafka_reassignment.decisions.moves import Expansions, Phase, changed_before, expanding, is_half_way, phase
from kafka_reassignment.errors import RACED, NotAuthorizedError, NothingSentError, overtaken
from kafka_reassignment.model import Batch, Refusal, Replicas, Step, TopicPartition, View
from kafka_reassignment.record.models import FoundBatch, SubmittedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.moves import Submitting, as_texts, submit
from kafka_reassignment.steps.base.recorded_batch import begun_names, beyond_requests, taken_up, without
from kafka_reassignment.steps.base.view import CONFIRM_SECONDS, observe
from kafka_reassignment.steps.left.left_open import still_open
from kafka_reassignment.steps.stopped.settled_notes import superseded_by
from kafka_reassignment.steps.stopped.stopped_steps import StoppedSteps, left_by, steps_of_superseded


@dataclass(frozen=True, slots=True)
class Found:
    """How tries until now have found a batch.

    ``number`` is that of the last note. ``begun`` are the partitions of which something may have been submitted; None
    where an earlier version may have submitted any of them. ``changed_by_others`` are those that it goes on without,
    and why. ``asked_for`` are by partition the replicas that requests may have asked for, where that is known.
    """

    number: int
    begun: frozenset[str] | None
    changed_by_others: Mapping[str, str]
    asked_for: Mapping[str, Replicas]


def found_until_now(recorded: RecordView, number: int) -> Found:
    """Return how tries until now have found a batch.

    Raises:
        RecordDamagedError: the last note of it is not readable.
    """
    last, note = recorded.numbered_found(number)
    begun = begun_names(recorded, number)
    if note is None:
        return Found(last, begun, {}, {})
    return Found(last, begun, note.changed_by_others, note.asked_for)


def changed_by_others(
    run: RunContext, recorded: RecordView, batch: Batch, view: View, found: Found
) -> tuple[View, dict[str, str]]:
    """Return which partitions of a batch others had made something of before anything of it was submitted, and what; with the view.

    Where an earlier version has submitted the batch, nobody can tell.

    Args:
        run: of the reassignment.
        recorded: what its record showed when the look began.
        batch: to submit, without what it goes on without already.
        view: what is seen of it.
        found: how tries until now have found it.

    Raises:
        RecordDamagedError: nobody can tell what a superseded reassignment has left.
    """
    if found.begun is None:
        return view, {}
    if not any(is_half_way(s, view) for s in _not_begun(recorded, batch, view, found.begun).steps):
        return view, {}
    run.sleep(CONFIRM_SECONDS)  # what has just been cancelled or dropped may be a broker's old news
    view = observe(run.cluster, batch.partitions)
    left = _not_begun(recorded, batch, view, found.begun)
    half_way = [s.partition for s in left.steps if is_half_way(s, view)]
    left = without(left, {str(p) for p in _left_by_earlier(run, recorded, batch.number, half_way, view)})
    return view, as_texts(changed_before(left, view))


def _not_begun(recorded: RecordView, batch: Batch, view: View, begun: Collection[str]) -> Batch:
    """The part of a batch of which nothing was submitted, or that has replicas which no request has asked for: it was cut again since."""
    beyond = {str(p) for p in beyond_requests(recorded, batch.number, batch.steps, view)}
    return without(batch, {p for p in begun if p not in beyond})


def expanded_by_others(run: RunContext, recorded: RecordView, batch: Batch, view: View) -> Mapping[TopicPartition, str]:
    """Return which partitions of a batch are in flight to their expansion though nothing of it was submitted, and why that is no move of ours.

    Another client raises their replication factor, for example: to go on from there would drop what it adds. A request
    that supersedes moves takes them over.

    Raises:
        RecordDamagedError: nobody can tell what was submitted of it.
    """
    found = {} if run.request.supersede else expanding(batch, view)
    begun = begun_names(recorded, batch.number) if found else None
    if begun is None:
        return {}
    not_begun = {*_not_begun(recorded, batch, view, begun).partitions}
    rest = [p for p in found if p in not_begun]
    ours = _left_by_earlier(run, recorded, batch.number, rest, view) if rest else set[TopicPartition]()
    return {p: f"{found[p]} before it was submitted: another client's move" for p in rest if p not in ours}


def changed_already(batch: Batch, found: Found, earlier: SubmittedBatch | None) -> dict[str, str]:
    """Return which partitions of a batch it goes on without since an earlier try, because another client has changed them, and why."""
    before = {p: earlier.left_out[p] for p in earlier.changed_by_others} if earlier else {}
    ours = set(map(str, batch.partitions))
    return before | {p: why for p, why in found.changed_by_others.items() if p in ours}


def begun_steps(recorded: RecordView, batch: Batch, found: Found) -> list[Step]:
    """Return the steps of a batch of which something may have been submitted, with it or with one that has left them open."""
    if found.begun is None:
        return list(batch.steps)
    opened = still_open(recorded)
    return [s for s in batch.steps if str(s.partition) in found.begun or s.partition in opened]


def under_way(batch: Batch, view: View, wanted: Expansions, found: Found) -> frozenset[str]:
    """Return the partitions of a batch that are in flight or half-way because of us, before anything is submitted now.

    What was at its target before anything was submitted is not among them, unless an earlier version may have brought it there.
    """
    steps = {s.partition: s for s in batch.steps}
    begun = {*wanted.already, *(p for p in (*wanted.to_submit, *wanted.waiting) if is_half_way(steps[p], view))}
    return frozenset(str(p) for p in begun if found.begun is None or phase(steps[p], view).phase is not Phase.DONE)


@dataclass
class Begin:
    """The requests of one try at a batch, each after a note of what it begins with.

    Args:
        run: of the reassignment.
        batch: what takes part in it.
        view: on the ground of which it was decided.
        found: how tries until now have found it.
        under_way: what is in flight or half-way because of us.
        others: what the batch goes on without from now on, because another client has changed it before, and why.
        of_others: what is in flight because of another client now; what an earlier try had begun with of it is over.
    """

    run: RunContext
    batch: Batch
    view: View
    found: Found
    under_way: frozenset[str]
    others: Mapping[str, str]
    of_others: frozenset[str]
    requests: int = 0
    run_command: int = 0
    """The number of the last order to stop or to go on before the first request: a later one may have cancelled what that submits."""

    def submit(
        self, targets: Mapping[TopicPartition, Replicas], check: Callable[[], None]
    ) -> dict[TopicPartition, Refusal]:
        """Submit in slices and return the refusals, as ``moves.submit``.

        What the controller has certainly not taken is noted as well: what others make of it from now on is theirs.

        Args:
            targets: to submit; where there are none, what the batch goes on with and without is noted all the same.
            check: called right before each request, raises where nothing may be submitted any more.

        Raises:
            OvertakenError: another try has found the batch otherwise since, or has carried it on.
            StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
        """
        before = self.found.begun or frozenset()
        asked: Collection[TopicPartition] = ()

        def go_ahead(partitions: Collection[TopicPartition]) -> None:
            nonlocal asked
            self.run.require_go_ahead()
            self._take_order()
            check()
            asked = partitions
            # Also where it says no more than the last one: what another try takes back then does not count for this one.
            self._note(partitions, again=not self.requests)
            self.requests += 1

        try:
            refused = submit(self.run, self.view, targets, Submitting(self.batch, go_ahead))
        except (NothingSentError, NotAuthorizedError):
            self._take_back(before, asked)
            raise
        self._take_back(before, [p for p, refusal in refused.items() if refusal.code != RACED])
        if not self.requests:
            self._take_order()
            self._note(())
        return refused

    def _take_order(self) -> None:
        if not self.requests:
            self.run_command = self.run.record.run_commands.last_as_read()[0]

    def _note(self, asked: Collection[TopicPartition], *, again: bool = False) -> None:
        known, changed = self.found.begun or frozenset(), {**self.found.changed_by_others, **self.others}
        begun = (known - self.of_others - self.others.keys()) | self.under_way | {*map(str, asked)}
        if self.found.number and begun == known and self.found.changed_by_others == changed and not again:
            return
        asked_for = self._asked_for(begun, {*map(str, asked)})
        while not self._append(begun, changed, asked_for):
            number, theirs = self.run.record.found_notes(self.batch.number).last()
            if theirs is None or not begun.issubset(theirs.partitions) or theirs.changed_by_others != changed:
                raise overtaken(f"it has begun batch {self.batch.number} since; nothing is submitted")
            self.found = replace(self.found, number=number)
        self.found = Found(self.found.number + 1, begun, changed, asked_for)

    def _asked_for(self, begun: Collection[str], asked: Collection[str]) -> dict[str, Replicas]:
        """By partition, the replicas that requests may have asked for, given what the next one is sent for."""
        found = {p: replicas for p, replicas in self.found.asked_for.items() if p in begun}
        for step in self.batch.steps:
            name = str(step.partition)
            if name in asked or (name in begun and name not in found):
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *step.reassignment.expanded)))
        return found

    def _take_back(self, before: frozenset[str], partitions: Collection[TopicPartition]) -> None:
        """Note that nothing of partitions was submitted, where nothing was there of them and no earlier try had begun with them.

        Not where another try has noted something since: that one may submit them.
        """
        never = {
            str(s.partition)
            for s in self.batch.steps
            if s.partition in partitions and phase(s, self.view).phase is Phase.NOT_SUBMITTED
        }
        begun = self.found.begun or frozenset()
        if taken_back := never & (begun - before):
            self._append(begun - taken_back, self.found.changed_by_others, self.found.asked_for)

    def _append(self, begun: frozenset[str], changed: Mapping[str, str], asked_for: Mapping[str, Replicas]) -> bool:
        """Write the next note; return whether no other try had written it."""
        note = FoundBatch(
            at=self.run.now(),
            partitions=tuple(sorted(begun)),
            changed_by_others=dict(changed),
            run_command=self.run_command,
            asked_for={p: replicas for p, replicas in sorted(asked_for.items()) if p in begun},
        )
        return self.run.record.found_notes(self.batch.number).append_after(self.found.number, note)


def _left_by_earlier(
    run: RunContext, recorded: RecordView, number: int, half_way: Collection[TopicPartition], view: View
) -> set[TopicPartition]:
    """Return which partitions are half-way because of an earlier batch, or of a reassignment that the plan goes on from."""
    opened, cut_again = still_open(recorded), _begun_and_cut_again(recorded, number, half_way, view)
    ours = {p for p in half_way if p in cut_again or (p in opened and _reaches(opened[p].step, view))}
    submitted = taken_up([run.record])
    rest = {p for p in half_way if p not in ours and str(p) not in submitted}
    if rest and run.request.supersede:
        ours |= rest & _brought_there(steps_of_superseded(run), view)
        ours |= _settled_there([stopped.record for stopped in superseded_by(run.record)], rest, view)
    if rest and (undone := run.request.roll_back_of):
        rolled_back = run.store.record(run.record.cluster_id, undone)
        ours |= rest & _brought_there(left_by(run, rolled_back), view)
        ours |= _settled_there([rolled_back], rest, view)
    return ours


def _brought_there(left: StoppedSteps, view: View) -> set[TopicPartition]:
    """Which partitions are where the steps of an earlier reassignment may have left them: a replica beyond those is another's."""
    return {s.partition for s in left.steps if _reaches(s, view)}


def _reaches(step: Step, view: View) -> bool:
    state = view.partitions.get(step.partition)
    return state is not None and set(state.replicas) <= set(step.reassignment.expanded)


def _begun_and_cut_again(
    recorded: RecordView, number: int, partitions: Collection[TopicPartition], view: View
) -> set[TopicPartition]:
    """Which partitions an earlier batch had begun with, and has not moved: it left them out, or was cut again after a stop.

    Not those that have a replica which no request of it has asked for.
    """
    if recorded.last_revision() is None:
        return set()
    ours: set[TopicPartition] = set()
    for earlier in range(1, number):
        begun, note = begun_names(recorded, earlier), recorded.found(earlier)
        if begun and note is not None:
            ours |= {p for p in partitions if str(p) in begun and note.reaches(str(p), view.heading_for(p))}
        if (submitted := recorded.submitted(earlier)) is not None:
            over = {*submitted.accepted, *submitted.changed_by_others}
            ours = {p for p in ours if str(p) not in over}
    return ours


def _settled_there(
    records: Collection[Record], partitions: Collection[TopicPartition], view: View
) -> set[TopicPartition]:
    """Which partitions are where a stop of these reassignments has settled them."""
    ends = [record.settled.partitions() for record in records]
    return {p for p in partitions if any(end.get(str(p)) == view.partitions[p].replicas for end in ends)}
