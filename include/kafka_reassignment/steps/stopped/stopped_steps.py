"""Which steps a cancel has to settle: those of the batch under way, those left open, and of partitions between two of their steps."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.moves import has_begun, phase
from kafka_reassignment.errors import RecordDamagedError, name_some
from kafka_reassignment.model import Reassignment, Replicas, Step, TopicPartition, View
from kafka_reassignment.plan.store import read_targets_of
from kafka_reassignment.planner.snapshot import read_replicas, snapshot_of
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.recorded_batch import begun_batch, begun_names, beyond_requests, taken_up
from kafka_reassignment.steps.base.view import observe
from kafka_reassignment.steps.left.left_open import still_open, still_open_by
from kafka_reassignment.steps.stopped.between_steps import as_they_were_left, begun_partitions


@dataclass(frozen=True, slots=True)
class StoppedSteps:
    """Steps to settle, and the whole reassignment of those partitions that take several steps (KIP-435).

    ``left_to_others`` are steps that an earlier look has left to other clients.
    ``of_owner`` are partitions that are left to the reassignment which has the cluster's lock, and why. ``back`` are
    partitions of a damaged plan, whose steps are not known: where they were before is known best, so that is where a
    successor brings them if it can.
    """

    steps: tuple[Step, ...] = ()
    wholes: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    of_owner: dict[TopicPartition, str] = field(default_factory=dict)
    back: dict[TopicPartition, Replicas] = field(default_factory=dict)
    left_to_others: tuple[Step, ...] = ()

    @property
    def seen_steps(self) -> tuple[Step, ...]:
        """Return the steps to settle, and those that are left to others and only named."""
        return (*self.steps, *self.left_to_others)

    def without(self, partitions: Container[str]) -> StoppedSteps:
        """Return it without the steps of partitions, by name."""
        return replace(
            self,
            steps=tuple(s for s in self.steps if str(s.partition) not in partitions),
            left_to_others=tuple(s for s in self.left_to_others if str(s.partition) not in partitions),
            wholes={p: whole for p, whole in self.wholes.items() if str(p) not in partitions},
            back={p: replicas for p, replicas in self.back.items() if str(p) not in partitions},
        )

    def only(self, partitions: Collection[TopicPartition]) -> StoppedSteps:
        """Return the steps to settle of these partitions."""
        return replace(self, steps=tuple(s for s in self.steps if s.partition in partitions), left_to_others=())


def stopped_steps(run: RunContext, recorded: RecordView, scope: CancelScope) -> StoppedSteps:
    """Return what a cancel is about: no other steps can be in flight or half-way.

    What the reassignments that it has superseded have left, and it does not move, is settled with it: nobody else
    would. What the plan of another reassignment that has the cluster's lock moves is that one's, also where both have
    the same targets: an old cancel that is cleared must not take its moves, nor the copies that it has made. So is what
    one that has superseded this one has moved, with the lock or without.
    """
    ours = StoppedSteps()
    if recorded.record.exists:
        # A damaged plan is superseded first; what was settles here by what can be told without it.
        stop = recorded.stopped() if scope.is_whole else None
        if stop is not None and stop.superseded_by:
            ours = _as_far_as_known(run, recorded, late_too=False)
        else:
            ours = _ours(run, recorded, scope, late_too=not scope.is_whole)
        moved = taken_up(_successors(run, recorded.record))
        ours = ours.without(moved)
    if scope.is_whole:
        ours = _joined(run, ours, known_steps_of_superseded(run))
    if scope.foreign:
        ours = replace(ours, steps=(*ours.steps, *ours.left_to_others), left_to_others=())
    of_owner = planned_by_owner(run, {s.partition for s in ours.steps})
    ours = replace(ours.without(set(map(str, of_owner))), of_owner=of_owner)
    if not scope.foreign:
        return ours
    foreign = moves_of_others(run, recorded, scope) - {s.partition for s in ours.steps}
    flights = run.cluster.list_reassignments(sorted(foreign)) if foreign else {}
    return replace(ours, steps=(*ours.steps, *(Step(f.as_reassignment(p)) for p, f in sorted(flights.items()))))


def planned_by_owner(run: RunContext, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    """Return which of these partitions another reassignment, which has the cluster's lock, moves by its plan, and say so of each.

    Raises:
        RecordDamagedError: the lock or that plan is not readable.
    """
    owner = _owner(run) if partitions else None
    if owner is None or owner.frozen_plan() is None:
        return {}
    moved = read_targets_of(owner.plan_ref(), partitions)
    return dict.fromkeys(moved, f"reassignment {owner.reassignment_id} moves it, and has the lock of the cluster")


def _owner(run: RunContext) -> Record | None:
    """The other reassignment that has the lock of the cluster."""
    owner = run.lock_of_another()
    return None if owner is None else run.store.record(run.record.cluster_id, owner.reassignment_id)


def steps_of_owner(run: RunContext) -> tuple[Step, ...]:
    """Return the steps of another reassignment, which has the cluster's lock, that may be in flight or half-way.

    One that was stopped has the lock until all of it is settled. What it has superseded, and not settled yet, is among
    them.

    Raises:
        RecordDamagedError: the lock is not readable, or nobody can tell which these are.
    """
    owner = _owner(run)
    # A sweep, or a throttle for moves of others, has the lock without a request.
    if owner is None or not owner.exists:
        return ()
    return (*_steps_under_way(RecordView(owner)), *_steps_of_superseded(run, owner).steps)


def known_steps_of_superseded(run: RunContext) -> StoppedSteps:
    """As ``steps_of_superseded``, for what ends a reassignment: where that is not known, there is a warning, and none.

    A damaged record of another one must not keep this one from being stopped, nor from giving the lock back.
    """
    try:
        return steps_of_superseded(run)
    except RecordDamagedError as error:
        run.log.warning("Nobody can tell what was superseded and is half-way: %s", error)
        return StoppedSteps()


def steps_of_superseded(run: RunContext) -> StoppedSteps:
    """Return what the reassignments that this one has superseded have left in flight or half-way, and this one does not move.

    Before its first batch that is also what its plan moves. What one of them had superseded in its turn is in it as
    well.

    Raises:
        RecordDamagedError: nobody can tell what one of them has left. To go on would leave replicas too many without a
            word.
    """
    return _steps_of_superseded(run, run.record)


def _steps_of_superseded(run: RunContext, record: Record) -> StoppedSteps:
    left = StoppedSteps()
    for earlier in record.superseded():
        left = _joined(run, left, left_by(run, earlier))
    return left.without(taken_up([record])) if left.seen_steps else left


def left_by(run: RunContext, earlier: Record) -> StoppedSteps:
    """Return what another reassignment, and those that it has superseded, have left in flight or half-way.

    Raises:
        RecordDamagedError: nobody can tell.
    """
    own = _as_far_as_known(run, RecordView(earlier), late_too=True)
    return _joined(run, own, _steps_of_superseded(run, earlier))


def _as_far_as_known(run: RunContext, recorded: RecordView, *, late_too: bool) -> StoppedSteps:
    """The steps of a whole reassignment, as ``_ours``; of a damaged plan what can be told without it, which goes back.

    Raises:
        RecordDamagedError: nobody can tell.
    """
    try:
        return _ours(run, recorded, CancelScope(), late_too=late_too)
    except RecordDamagedError as error:
        run.log.warning("What %s has left goes back, as far as it can: %s", recorded.record.reassignment_id, error)
        return _without_batches(run, recorded)


def _successors(run: RunContext, record: Record) -> Iterator[Record]:
    """The reassignment that has superseded this one, the one that has superseded that one, and so on."""
    known = {record.reassignment_id}
    while (stop := record.stopped()) is not None and stop.superseded_by and stop.superseded_by not in known:
        known.add(stop.superseded_by)
        record = run.store.record(record.cluster_id, stop.superseded_by)
        yield record


def _joined(run: RunContext, later: StoppedSteps, earlier: StoppedSteps) -> StoppedSteps:
    """Return the steps of both; of a partition that both have, the later one's if that has begun, else the earlier one's.

    What the later one has left to others is nothing of the earlier one's either.
    """
    earlier = earlier.without({str(s.partition) for s in later.left_to_others})
    theirs = (*later.left_to_others, *earlier.left_to_others)
    if not later.steps or not earlier.steps:
        some = later if later.steps else earlier
        return replace(some, wholes={**earlier.wholes, **later.wholes}, left_to_others=theirs)
    before = {s.partition for s in earlier.steps}
    both = {s.partition: s for s in later.steps if s.partition in before}
    view = observe(run.cluster, tuple(both)) if both else View(frozenset(), {})
    not_begun = {p for p, s in both.items() if not has_begun(s, view)}
    not_there = both.keys() - not_begun
    return StoppedSteps(
        (
            *(s for s in later.steps if s.partition not in not_begun),
            *(s for s in earlier.steps if s.partition not in not_there),
        ),
        {
            **{p: whole for p, whole in earlier.wholes.items() if p not in not_there},
            **{p: whole for p, whole in later.wholes.items() if p not in not_begun},
        },
        back={**{p: replicas for p, replicas in earlier.back.items() if p not in not_there}, **later.back},
        left_to_others=theirs,
    )


def _without_batches(run: RunContext, recorded: RecordView) -> StoppedSteps:
    """The steps of a plan with damaged batches that may be in flight or half-way, by what was submitted, begun or left open, and the cluster.

    What finished batches have left between two of their steps is not among these: only the plan tells which those are.

    Raises:
        RecordDamagedError: what was submitted, or where its partitions were before, is not readable either.
    """
    plan = recorded.plan_in_force()
    finished = recorded.finished_batches()
    unfinished = [n for n in range(1, (plan.batches if plan else 0) + 1) if n not in finished]
    try:
        begun = {p for n in unfinished for p in _begun_or_submitted(recorded, n)}.union(still_open_by(recorded))
    except RecordDamagedError as error:
        raise _unknown(recorded.record, "its last batch", "what was submitted of it") from error
    names = {TopicPartition.parse(p) for p in begun - recorded.record.settled.no_longer_ours()}
    if not names:
        return StoppedSteps()
    with suppress(RecordDamagedError):  # the target assignment has a hash of its own
        wholes = dict(read_targets_of(recorded.record.plan_ref(), names))
        back = {p: whole.current for p, whole in wholes.items()}
        return StoppedSteps(tuple(Step(wholes[p]) for p in sorted(wholes)), wholes, back=back)
    before = _replicas_before(recorded.record, names)
    view = observe(run.cluster, sorted(before))
    steps: list[Step] = []
    for partition, original in sorted(before.items()):
        if extra := tuple(b for b in view.heading_for(partition) if b not in original):
            steps.append(Step(Reassignment(partition, original, (*extra, *original))))
    return StoppedSteps(tuple(steps), back={s.partition: s.reassignment.current for s in steps})


def _begun_or_submitted(recorded: RecordView, number: int) -> Collection[str]:
    """The partitions of which something may have been submitted with a batch; of an earlier version's, which left no note, what its submission says."""
    begun, submitted = begun_names(recorded, number), recorded.submitted(number)
    if begun is not None or submitted is None:
        return begun or ()
    return {*submitted.accepted, *submitted.left_open} - {*submitted.changed_by_others, *submitted.done_before}


def _replicas_before(record: Record, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Replicas]:
    """Where partitions of a plan that is damaged as a whole were before, by its snapshot.

    Raises:
        RecordDamagedError: that is not readable either.
    """
    try:
        return read_replicas(snapshot_of(record.plan_uri), partitions)
    except (FileNotFoundError, RecordDamagedError) as error:
        raise _unknown(record, name_some(sorted(partitions)), "its snapshot") from error


def _unknown(record: Record, what: str, damaged: str) -> RecordDamagedError:
    return RecordDamagedError(
        f"Nobody can tell what reassignment {record.reassignment_id}, which was superseded, has left of {what}: the plan at "
        f"{record.plan_uri} is damaged, and so is {damaged}",
        Correct(
            "restore its files from a copy; without one, cancel this reassignment, ask again without 'supersede', and move "
            "these partitions by a request"
        ),
    )


def moves_of_others(run: RunContext, recorded: RecordView, scope: CancelScope) -> set[TopicPartition]:
    """Return the partitions in scope that another client moves: what is in flight, but not by the batch under way.

    Nor by that of the reassignment which has the cluster's lock.
    """
    flights = {p for p in run.cluster.list_reassignments() if scope.has(p)}
    if not flights:
        return flights
    owner = _owner(run)
    records = (recorded, RecordView(owner)) if owner is not None else (recorded,)
    under_way = [s for r in records if r.record.exists for s in _steps_under_way(r) if s.partition in flights]
    view = observe(run.cluster, sorted({s.partition for s in under_way}))
    return flights - {s.partition for s in under_way if phase(s, view).ours}


def _ours(run: RunContext, recorded: RecordView, scope: CancelScope, *, late_too: bool) -> StoppedSteps:
    """The steps of a reassignment itself, but for those that are settled; with ``late_too`` a move of theirs that came late is."""
    if scope.is_whole and recorded.is_settled():
        return StoppedSteps()
    no_longer_ours = recorded.record.settled.no_longer_ours()
    noted_theirs = recorded.record.settled.left_to_others() if no_longer_ours else frozenset[str]()
    withdrawn = frozenset[str]() if scope.is_whole else recorded.withdrawn_partitions()

    def is_stopped(partition: TopicPartition) -> bool:
        return scope.is_whole or (scope.has(partition) and str(partition) in withdrawn)

    under_way = {s.partition: s for s in _steps_under_way(recorded) if is_stopped(s.partition)}
    begun = {
        p: its
        for p, its in begun_partitions(recorded).items()
        if is_stopped(p) and str(p) not in recorded.lifted_since(its.order)
    }
    several = begun.keys() | {p for p, s in under_way.items() if s.steps > 1}
    wholes = read_targets_of(recorded.plan_ref(), several) if several else {}
    # Where no step before the one under way was ours, another client has brought the partition to where that began.
    first = {p: s.reassignment.current for p, s in under_way.items() if p in wholes and p not in begun}
    wholes |= {p: replace(wholes[p], current=current) for p, current in first.items()}
    between = as_they_were_left(run, {p: its for p, its in begun.items() if p in wholes and p not in under_way}, wholes)
    steps = (*under_way.values(), *between)
    noted = [s for s in steps if str(s.partition) in no_longer_ours]
    view = observe(run.cluster, [s.partition for s in noted]) if noted and late_too else View(frozenset(), {})
    over = {s.partition for s in noted if s.partition not in view.in_flight or not phase(s, view).ours}
    theirs = {p for p in over if str(p) in noted_theirs} | _beyond_requests(run, recorded, under_way)
    over |= theirs
    left = tuple(s for s in steps if s.partition not in over)
    left_to_others = tuple(s for s in steps if s.partition in theirs)
    # Not of what is over: a successor may move it to somewhere else.
    return StoppedSteps(
        left,
        {s.partition: wholes[s.partition] for s in (*left, *left_to_others) if s.partition in wholes},
        left_to_others=left_to_others,
    )


def _beyond_requests(
    run: RunContext, recorded: RecordView, under_way: Mapping[TopicPartition, Step]
) -> set[TopicPartition]:
    """Which partitions another client has given what only a step asks for that was cut since, and was not submitted."""
    number = _first_unfinished(recorded)
    found = recorded.found(number) if number is not None else None
    if number is None or found is None:
        return set()
    further = [s for p, s in under_way.items() if not found.reaches(str(p), s.reassignment.expanded)]
    view = observe(run.cluster, [s.partition for s in further]) if further else View(frozenset(), {})
    return beyond_requests(recorded, number, further, view)


def _first_unfinished(recorded: RecordView) -> int | None:
    """The number of the first batch that is not finished; None where all are."""
    plan = recorded.plan_in_force()
    finished = recorded.finished_batches()
    return next((n for n in range(1, (plan.batches if plan else 0) + 1) if n not in finished), None)


def _steps_under_way(recorded: RecordView) -> list[Step]:
    """Return the steps of the first batch that is not finished, and those left open: no others can have moves in flight.

    A batch before its first request has none: what is there of its partitions is another client's.

    Raises:
        RecordDamagedError: how the batch was found is not readable.
    """
    number = _first_unfinished(recorded)
    steps = {partition: it.step for partition, it in still_open(recorded).items()}
    if number is not None:
        steps |= {s.partition: s for s in begun_batch(recorded, number).steps}
    return list(steps.values())
