"""The admission of a batch: it starts when there is no reason to wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Literal

from kafka_reassignment.advice import Correct, Rerun, WaitUntil
from kafka_reassignment.decisions.admission import (
    NONE_UNHEALTHY,
    Health,
    disk_reasons,
    hung_moves,
    outpaced,
    reasons_to_wait,
)
from kafka_reassignment.decisions.moves import (
    expansions_to_submit,
    never_completes,
    phase,
    producers_wait_in_words,
    to_begin,
)
from kafka_reassignment.decisions.throttle import Needed, Side
from kafka_reassignment.errors import (
    BatchIncompleteError,
    CatchUpTimeoutError,
    ReassignmentInProgressError,
    RecordDamagedError,
    name_some,
)
from kafka_reassignment.model import Batch, InFlight, TopicPartition, View
from kafka_reassignment.plan.store import read_targets_of
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.admission_rate import (
    Ends,
    higher_rates,
    outpaced_too_long,
    under_our_throttle,
    writes_and_rates,
)
from kafka_reassignment.steps.admission_window import window_reason
from kafka_reassignment.steps.base.approval_rules import ApprovalRules, refuse_unapproved
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.estimates import expected_end
from kafka_reassignment.steps.base.finished import finished_batch
from kafka_reassignment.steps.base.health import cluster_health, planned_targets
from kafka_reassignment.steps.base.inbound import as_large_as_now, take_sizes
from kafka_reassignment.steps.base.moves import format_reasons
from kafka_reassignment.steps.base.recorded_batch import planned_batch, without
from kafka_reassignment.steps.base.view import log_dirs_and_cordons, observe, observe_replicas
from kafka_reassignment.steps.base.waiting import (
    LONGEST_WAIT,
    Done,
    SizeSamples,
    Waiting,
    WaitResult,
    deadline_of,
    waiting_step,
)
from kafka_reassignment.steps.found import expanded_by_others
from kafka_reassignment.steps.left.blocked import WAITED, may_go_without, wait_is_over
from kafka_reassignment.steps.left.left_open import without_left_open
from kafka_reassignment.steps.left.left_over import leaderless_though_up, to_elect, to_end_moves, to_heal
from kafka_reassignment.steps.rate import to_change
from kafka_reassignment.steps.supersede import settle_superseded
from kafka_reassignment.steps.throttle import keep_throttled
from kafka_reassignment.steps.throttling.idle_throttle import clear_idle_throttle


@waiting_step
def admit(
    run: RunContext,
    number: int,
    samples: SizeSamples,
    started_at: datetime | None = None,
    rules: ApprovalRules | None = None,
) -> WaitResult:
    """Let the batch in when there is no reason to wait; ``Waiting`` names every reason.

    A batch of which no partition can be moved now is let in all the same while a later one can move on: its partitions
    are left for the end. So is one of which a partition can go on by other steps, around a dead broker. When none can,
    it waits for as long as a batch may take, from ``started_at`` (by default now), and is let in then. With ``rules``
    (the first look of a try) a plan that has to be approved, and is not, is refused: this run may have been triggered
    by hand while people were asked.

    ``Failed`` with:
        NotApprovedError: the plan has to be approved, and is not. BatchIncompleteError: an earlier batch is not
        finished. InvalidRequestError: only a validation was asked for. StoppedError, ReassignmentInProgressError: this
        reassignment must not change anything now. InfeasiblePlanError, DeadlinePassedError: the maintenance windows
        never let it in. ReassignmentInProgressError: another client's move does not end by itself, or copies under this
        reassignment's throttle,
            and the time that a batch may take is over.
        InvalidThrottleError: producers write faster than the rate, and that time is over.
        CatchUpTimeoutError: a log dir is too full or other partitions are unhealthy, and that time is over.
    """
    if done := finished_batch(run, number):
        return done
    recorded = RecordView(run.record)
    batch = planned_batch(recorded, number)
    about_throttle = keep_throttled(run, recorded, batch, Rerun("admit", batch=number))
    finished = recorded.finished_batches()
    earlier = [n for n in range(1, number) if n not in finished]
    if earlier:
        raise BatchIncompleteError(
            f"Batch {number} must wait for batch {name_some(earlier)}, which is not finished: steps of one partition "
            "run in order",
            Rerun("admit", batch=earlier[0]),
        )
    run.require_go_ahead(recorded)
    if rules is not None:
        refuse_unapproved(run, rules)
    began = started_at or run.now()
    since = partial(_since, run, recorded, number, began)
    held = why_held(
        run,
        recorded,
        batch,
        samples,
        goes_without_blocked=lambda view: may_go_without(run, recorded, batch, view, since("blocked_since")),
    )
    if not held.reasons:
        return Done(
            f"batch {number} admitted: {len(batch.steps)} partitions, {batch.bytes_to_copy / 1e6:.1f} MB to copy{held.about_producers}",
            {WAITED: True} if held.goes_without and wait_is_over(run, recorded, number, since("blocked_since")) else {},
        )
    now = run.now()
    hung_since = since("hung_since") if held.hung or held.throttled.rates else None
    if hung_since is not None and now >= deadline_of(run, hung_since):
        raise _hung_too_long(run, recorded, batch, held)
    is_outpaced = bool(held.outpaced) and held.reasons == tuple(held.outpaced.values())
    outpaced_since = since("outpaced_since") if is_outpaced else None
    if outpaced_since is not None and now >= deadline_of(run, outpaced_since):
        raise outpaced_too_long(run, recorded, batch, held.outpaced, held.new_writes)
    stuck_since = None if held.ends_by_itself else since("stuck_since")
    if stuck_since is not None and now >= deadline_of(run, stuck_since):
        raise _stuck_too_long(run, batch, held)
    clear_idle_throttle(run, recorded, number)
    text = f"batch {number} waits: {'; '.join(held.reasons)}{about_throttle}{held.about_producers}"
    end = expected_end(recorded, run.request, now)
    text += f"; {end.words}" if end.words else ""
    run.record.write_progress(
        ProgressNote(
            batch=number,
            at=now,
            text=text,
            ends_at=end.at,
            waits=held.reasons,
            outpaced_since=outpaced_since,
            hung_since=hung_since,
            blocked_since=since("blocked_since") if held.is_blocked else None,
            stuck_since=stuck_since,
        )
    )
    return Waiting(text, until=now + LONGEST_WAIT)


@dataclass(frozen=True, slots=True)
class Held:
    """Why a batch cannot start now: every reason, and the moves among them that do not end by themselves.

    ``is_blocked``: none of its partitions can be moved now; ``goes_without``: and that is no reason. ``outpaced`` has
    the reasons why a rate can never finish, by side and broker, and ``new_writes`` what each would have to copy of new
    writes alone, in bytes per second. ``throttled`` is what moves of other clients copy that this reassignment began:
    its rate decides how long they take. ``waits_for_window``: one that opens, or a measurement that is to grow
    old, is among the reasons. ``unhealthy`` are partitions
    elsewhere, where they are more than the request allows, and ``full`` says which log dirs have too little room.
    ``foreign`` is all that is in flight beside the batch, ``of_superseded`` which of that superseded reassignments have
    left, and why it stays. ``moved_by_others`` shows these partitions. ``about_producers`` says whose producers wait for
    the copies; that is no reason to wait.
    """

    reasons: tuple[str, ...]
    outpaced: Mapping[tuple[Side, int], str]
    new_writes: Ends
    is_blocked: bool
    goes_without: bool
    hung: Mapping[TopicPartition, str]
    foreign: Mapping[TopicPartition, InFlight]
    of_superseded: Mapping[TopicPartition, str]
    throttled: Needed
    waits_for_window: bool
    unhealthy: Health
    full: tuple[str, ...]
    live_brokers: frozenset[int]
    moved_by_others: View
    about_producers: str

    @property
    def ends_by_itself(self) -> bool:
        """Whether a reason takes its time and then passes: a window that opens, a move that nothing keeps from its end."""
        return self.waits_for_window or not self.foreign.keys() <= self.hung.keys() | set(self.throttled.copying)


def why_held(
    run: RunContext,
    recorded: RecordView,
    batch: Batch,
    samples: SizeSamples,
    *,
    goes_without_blocked: Callable[[View], bool] = lambda _: False,
) -> Held:
    """Look at the batch, at moves of other clients, at disks, at what is written, and at the clock; return why it cannot start now.

    What superseded reassignments have left in flight is settled where that has become possible.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        batch: to start.
        samples: of earlier looks.
        goes_without_blocked: whether to start although none of its partitions can be moved now, as is seen; asked only
            then.

    Raises:
        InfeasiblePlanError: it can never start within the request's maintenance windows.
        DeadlinePassedError: the time by which the request must end is over.
    """
    cluster, request, now = run.cluster, run.request, run.now()
    view = observe(cluster, batch.partitions)
    theirs = expanded_by_others(run, recorded, batch, view)
    ours = {s.partition for s in batch.steps if phase(s, view).ours} - theirs.keys()
    is_moving = not ours.isdisjoint(view.in_flight)
    foreign, of_superseded = _settled(run, batch.number, _foreign(run, recorded, ours))
    moved_by_others = observe_replicas(cluster, tuple(foreign)) if foreign else View(frozenset(), {})
    hung = hung_moves(moved_by_others)
    throttled = under_our_throttle(run, recorded, foreign.keys() - hung.keys())
    beginning = to_begin(batch, view, supersede=request.supersede)
    is_blocked = expansions_to_submit(batch, view).none_can_move(beginning)
    goes_without = is_blocked and goes_without_blocked(view)
    receivers = {b for s in batch.steps for b in s.reassignment.adding} & view.live_brokers
    if is_moving and (submitted := recorded.submitted(batch.number)):
        beginning = without(beginning, submitted.changed_by_others)
    if beginning.steps:
        take_sizes(run, batch, view, samples)
        batch, beginning = (as_large_as_now(b, view, samples) for b in (batch, beginning))
    # What is moving already is completed, whatever the clock says; what begins beside it has to fit.
    has_only_begun = is_moving and not beginning.steps
    about_window = (
        None if has_only_begun else window_reason(run, recorded, beginning if beginning.steps else batch, view, now)
    )
    written, rates = writes_and_rates(run, recorded, beginning, view, samples)
    too_slow = outpaced(written, rates)
    waits_for_health = about_window is not None and about_window.is_health
    unhealthy = _unhealthy(run, recorded, batch, is_asked=request.pause_while_unhealthy or waits_for_health)
    log_dirs = log_dirs_and_cordons(cluster, sorted(receivers), []).log_dirs
    full = disk_reasons(to_begin(batch, view, supersede=request.supersede), log_dirs, request.keep_free_share)
    reasons = reasons_to_wait(
        batch,
        view,
        unhealthy=unhealthy if request.pause_while_unhealthy else NONE_UNHEALTHY,
        foreign=foreign,
        of_superseded=of_superseded,
        hung=hung,
        throttled=throttled.copying,
        full=full,
        supersede=request.supersede,
        goes_without_blocked=goes_without,
        other_reasons=(*((about_window.text,) if about_window else ()), *too_slow.values()),
    )
    return Held(
        reasons,
        too_slow,
        written,
        is_blocked,
        goes_without,
        hung,
        foreign,
        of_superseded,
        throttled,
        about_window is not None and not about_window.is_health,
        unhealthy,
        tuple(full),
        view.live_brokers,
        moved_by_others,
        producers_wait_in_words(batch, view),
    )


def _unhealthy(run: RunContext, recorded: RecordView, batch: Batch, *, is_asked: bool) -> Health:
    """Return the partitions elsewhere that are more than the request allows: none where they are few enough, or it does not matter."""
    if not is_asked:
        return NONE_UNHEALTHY
    found = cluster_health(run.cluster, run.request, lambda: planned_targets(recorded))
    return found.elsewhere(set(batch.partitions)).beyond(run.request.allowed_unhealthy_partitions)


def _stuck_too_long(run: RunContext, batch: Batch, held: Held) -> CatchUpTimeoutError:
    """The batch waits for what may never pass: full log dirs, or partitions elsewhere that stay unhealthy."""
    unhealthy = observe_replicas(run.cluster, [p for _, those in held.unhealthy.kinds for p in those])
    return CatchUpTimeoutError(
        f"Batch {batch.number} waited {run.request.catch_up_timeout_minutes} min in vain: {'; '.join(held.reasons)}",
        *to_heal(run, unhealthy),
        *(
            [Correct("free space there, or lower the limits with kafka_reassignment_limits and rerun start_batches")]
            if held.full
            else ()
        ),
        Rerun("admit", batch=batch.number),
    )


def _hung_too_long(run: RunContext, recorded: RecordView, batch: Batch, held: Held) -> ReassignmentInProgressError:
    """The batch waits for a move that is not its own and that a person has to help; a healthy one may take its time."""
    staying = {p: why for p, why in held.of_superseded.items() if p in held.hung}
    hung = {**held.hung, **staying}
    hung |= dict.fromkeys(held.throttled.copying, "it copies under the throttle of this reassignment")
    whose = {"what was superseded" if p in held.of_superseded else "another client": None for p in hung}
    never = [str(p) for p in hung if never_completes(held.foreign[p])]
    planned = {str(p) for p in read_targets_of(run.record.plan_ref(), list(hung))} & set(never)
    leaderless = leaderless_though_up(held.moved_by_others)
    # It ends with all its brokers; or a cancel becomes safe.
    down = {p: {*held.foreign[p].replicas} - held.live_brokers for p in staying if p not in leaderless}
    behind = [p for p, brokers in down.items() if not brokers]
    return ReassignmentInProgressError(
        f"Batch {batch.number} waited {run.request.catch_up_timeout_minutes} min for moves of {' and of '.join(whose)} that have "
        f"not ended: {format_reasons(hung)}"
        + (
            f". A cancel with 'foreign' ends that move alone: this reassignment still moves {name_some(sorted(planned))} after it"
            if planned
            else ""
        ),
        *to_end_moves(
            held.moved_by_others,
            {p: held.foreign[p] for p in hung if p not in staying},
            also_down={*chain(*down.values())},
        ),
        *([WaitUntil(f"all replicas of {name_some(behind)} are in sync")] if behind else ()),
        *to_elect(leaderless & staying.keys(), held.moved_by_others),
        *to_change(run, higher_rates(run, recorded, held.throttled)),
        Rerun("admit", batch=batch.number),
    )


def _foreign(run: RunContext, recorded: RecordView, ours: Collection[TopicPartition]) -> dict[TopicPartition, InFlight]:
    """Moves of other clients, anywhere in the cluster, but for those that this reassignment is to supersede."""
    in_flight = run.cluster.list_reassignments()
    foreign = without_left_open(recorded, {p: flight for p, flight in in_flight.items() if p not in ours})
    if foreign and run.request.supersede:
        planned = read_targets_of(run.record.plan_ref(), list(foreign))
        foreign = {p: flight for p, flight in foreign.items() if p not in planned}
    return foreign


def _settled(
    run: RunContext, number: int, foreign: Mapping[TopicPartition, InFlight]
) -> tuple[Mapping[TopicPartition, InFlight], Mapping[TopicPartition, str]]:
    """Settle what superseded reassignments have left in flight: nobody else would, and what was not safe before may be so now.

    Returns what is in flight after that, and which of it they have left, and why it stays.
    """
    event, began = AuditDraft(), run.now()
    try:
        staying = settle_superseded(run, event, among=foreign) if foreign else {}
    except RecordDamagedError as error:  # it may end by itself; ``verify`` is red in any case
        run.log.warning("Nobody can tell which moves were superseded: %s", error)
        staying = {}
    if done := event.facts.get("settled_of_superseded"):
        each = name_some(f"{p} ({what})" for p, what in done.items())
        event.summary = f"batch {number} would have waited for what was superseded: {each}"
        run.write_event("settle_superseded", number, began, event)
        foreign = run.cluster.list_reassignments(sorted(foreign))
    return foreign, {p: why for p, why in staying.items() if p in foreign}


def _since(
    run: RunContext,
    recorded: RecordView,
    number: int,
    began: datetime,
    what: Literal["outpaced_since", "hung_since", "blocked_since", "stuck_since"],
) -> datetime:
    """Return since when every look has found that: a batch may have waited for weeks for other reasons."""
    before = recorded.progress()
    known: datetime | None = getattr(before, what) if before is not None and before.batch == number else None
    return run.now() if known is None else max(known, began)
