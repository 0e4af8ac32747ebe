"""Putting the throttle in place before data moves, and making sure of it whenever anybody looks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from kafka_reassignment.advice import CANCEL_DAG_ID, DAG_ID, Advice, Correct, Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS
from kafka_reassignment.decisions.raising import low_at_first
from kafka_reassignment.decisions.throttle import (
    HIDDEN,
    LONGEST_LIST_BYTES,
    TOO_LONG,
    UNREADABLE,
    Journal,
    RateChange,
    Side,
    TooLong,
    WantedThrottle,
    begun,
    changes_to_throttle,
    listed_in,
    lower_rates,
    needed_replicas,
    new_rates_of_others,
    replicas_listed,
    throttle_by_journal,
    throttle_for,
    too_long,
    without_raises,
)
from kafka_reassignment.errors import (
    InvalidThrottleError,
    ReassignmentError,
    RecordError,
    RecordsMissingError,
    ThrottleMissingError,
    ThrottleRefusedError,
    is_worth_a_retry,
    name_some,
    overtaken,
)
from kafka_reassignment.model import Batch, ConfigChange, Step
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.recorded_batch import without
from kafka_reassignment.steps.base.waiting import LONGEST_WAIT, Done, Waiting, WaitResult, waiting_step
from kafka_reassignment.steps.throttling.restore import adopt_setters, restore_configs
from kafka_reassignment.steps.throttling.throttle_configs import (
    Missing,
    ThrottleSetting,
    apply_changes,
    decided_on_what_is_there,
    describe_throttles,
    facts_of,
    observe_listed,
    outcome_of,
    refuse_cleared,
)

COPIED_LATELY = timedelta(seconds=QUOTA_SECONDS + 9)
"""From the end of a batch until its receivers have surely not copied for ``QUOTA_SECONDS``, by clocks that differ a little."""

Wanted = Callable[[tuple[RateChange, ...]], WantedThrottle]
"""The throttle that is wanted, given the rates that were requested while the reassignment runs."""


def ensure_throttle(run: RunContext, batch: Batch, event: AuditDraft) -> bool:
    """Put the throttle in place under which a batch begins, journal first; return whether anything had to be set.

    Nothing is set for an unthrottled request.

    Rates begin low (``low_at_first``); ``raise_to_whole`` raises them when the batch is submitted. Brokers that are
    down take no part: nothing moves to or from them until they are back, and the next look puts the throttle on them.
    No rate of ours that is in place is raised: what was taken over from an earlier reassignment may still copy.

    Raises:
        ThrottleMissingError: it could not be put in place; data must not move.
        ThrottleRefusedError: the same, and trying again is of no use.
        InvalidThrottleError: a list of throttled replicas would be longer than Kafka takes; nothing was changed.
    """
    rate = run.request.throttle_bytes_per_second
    if rate is None:
        event.facts["throttle"] = "none: the request asks for no throttle"
        return False

    def wanted(rate_changes: tuple[RateChange, ...]) -> WantedThrottle:
        return throttle_for(batch, asked_bytes_per_second=rate, rate_changes=rate_changes)

    _refuse_long_lists(run, wanted(()), batch)
    sides = tuple(Side) if _has_copied_lately(run, batch.number) else (Side.LEADER,)
    setting, missing = put_in_place(run, wanted, event, only_missing=True, begin_low=sides)
    if setting.changes:
        event.facts["throttle"]["asked_bytes_per_second"] = rate
    if missing:
        again = Rerun("set_throttle", batch=batch.number)
        kind = ThrottleRefusedError if missing.corrections else ThrottleMissingError
        raise not_in_place(missing, f"of batch {batch.number}", "no data is moved without it", again, kind=kind)
    return bool(setting.changes)


def keep_throttled(run: RunContext, recorded: RecordView, batch: Batch | None, *advice: Advice) -> str:
    """Make sure that whatever copies because of this reassignment is under its throttle; return what a person should know.

    Every look of a waiting step calls this first, before it refuses or fails for any other reason. What copies is read
    off the journal (all batches, and what was taken over) and what was submitted of ``batch``, and off the cluster:
    moves in flight, extra replicas that are not in sync yet, brokers that are back. The text names rates of other
    clients that are lower; it is empty, or begins with a semicolon. An audit event of its own is left where something
    had to be set, or such a rate was found.

    What was taken over from an earlier reassignment keeps the rates that were set last, at most those asked for, until
    a batch raises them. For an unthrottled request only that is looked after, without what its batch moves itself. A
    throttle of other clients' moves has no request: all that it has in place keeps the rates that were set last.
    Nothing is done while another reassignment has the cluster's lock: what this one had in place is looked after by
    that one.

    Raises:
        ThrottleMissingError: something could not be put in place; the rest of it is. ``advice`` says how the step is
            done again. It passes also where brokers refuse it for good: what copies ends, and the rest is looked after
            until then.
    """
    asked = run.request.throttle_bytes_per_second if run.record.exists else None
    journal = recorded.journal()
    if _is_locked_by_another(run):
        return ""
    listed = listed_in(journal)
    if asked is not None:
        listed = (*listed, *replicas_listed(_submitted_steps(recorded, batch)))
    if not listed:
        return ""
    view = observe_listed(run, listed)
    needed = needed_replicas(listed, view)
    if asked is None and batch is not None:
        needed = needed.without(batch.partitions)
    if not needed.rates:
        return ""
    event, began = AuditDraft(), run.now()

    def wanted(rate_changes: tuple[RateChange, ...]) -> WantedThrottle:
        if asked is None:
            return needed.as_set_last(journal.rates_set)
        return needed.as_throttle(asked_bytes_per_second=asked, rate_changes=rate_changes)

    setting, missing = put_in_place(
        run,
        wanted,
        event,
        only_missing=True,
        recorded=recorded,
        live_brokers=view.live_brokers,
    )
    if setting.changes or setting.lower_rates_found:
        texts = ["the throttle was missing and is in place again"] if setting.changes else []
        event.summary = "; ".join([*texts, *map(str, setting.lower_rates_found)])
        run.write_event("reinstate_throttle", batch.number if batch else None, began, event)
    if missing:
        raise not_in_place(
            missing,
            f"of {name_some(needed.copying)}",
            "they copy without what is missing until that can be set",
            *advice,
        )
    return "".join(f"; {r}" for r in setting.journal.lower_rates if (r.broker, r.side) in needed.rates)


def throttle_in_words(run: RunContext, recorded: RecordView) -> str:
    """Keep what copies throttled, on behalf of a step that goes on whether or not that can be done; return what a person should know."""
    try:
        return keep_throttled(run, recorded, None)
    except ReassignmentError as error:
        if not is_worth_a_retry(error):
            raise
        run.log.warning("%s", error)
        return f"; {error}"


@waiting_step
def keep_throttle(run: RunContext) -> WaitResult:
    """Look once, before the first batch, at the throttle of what an earlier reassignment has left and this one has taken over.

    ``Done`` where that is nothing. Else it goes on: which task looks next is not known here.
    A throttle that cannot be put in place now is named in the reason, and tried again at the next look.
    """
    recorded, is_unthrottled = RecordView(run.record), run.request.throttle_bytes_per_second is None
    if not listed_in(recorded.journal()):
        of_its_own = "the request asks for no throttle, and " if is_unthrottled else ""
        return Done(f"{of_its_own}no earlier reassignment has left anything to throttle", is_skipped=True)
    found = throttle_in_words(run, recorded)
    return Waiting(
        f"Looking after the throttle of what an earlier reassignment has left{found}", run.now() + LONGEST_WAIT
    )


def put_in_place(
    run: RunContext,
    wanted: Wanted,
    event: AuditDraft,
    *,
    only_missing: bool = False,
    begin_low: Collection[Side] = (),
    recorded: RecordView | None = None,
    live_brokers: frozenset[int] | None = None,
) -> tuple[ThrottleSetting, Missing]:
    """Put a throttle in place, journal first; return what was changed for it, and what is missing of it then.

    Brokers that are down are left out: they copy nothing and take no config. Rates that look like another client's but
    were set by an earlier reassignment of ours are taken over with its debts.

    Args:
        run: its record has the journal.
        wanted: the throttle.
        event: gets the changes as facts.
        only_missing: set what is missing, as it was set last, raise no rate that is in place, and leave out entries
            that have no room in their list.
        begin_low: the sides whose rates begin low where they are not in place.
        recorded: of the look that asks; where nothing is due by its journal, the journal is not read again.
        live_brokers: of the look that asks.

    Raises:
        OvertakenError: another reassignment has the lock, or the throttle was cleared since.
    """
    live = live_brokers if live_brokers is not None else run.cluster.describe_cluster().live_brokers
    name = str(uuid4())
    unfit: tuple[TooLong, ...] = ()

    def journalled(journal: Journal) -> tuple[Journal, ThrottleSetting]:
        nonlocal unfit
        plan = wanted(journal.rate_changes).corrected(journal.corrections).restricted_to(live)
        before = describe_throttles(run, plan.resources)
        lower = lower_rates(plan, journal, before)  # also of those that are not set now
        plan = low_at_first(plan, journal, before, begin_low)
        unfit = too_long(plan.replicas, before) if only_missing else ()
        shorter = {x.replicas: x.fitting for x in unfit}
        lists = (shorter.get(r, r) for r in plan.replicas)
        fitting = replace(plan, replicas=tuple(r for r in lists if r.entries))
        fitting = without_raises(fitting, journal, before) if only_missing else fitting
        updated, changes = changes_to_throttle(fitting, journal, before)
        updated = updated.model_copy(update={"lower_rates": lower})
        updated = begun(updated, changes, name, run.now())
        return updated, ThrottleSetting(name, fitting, journal, updated, before, tuple(changes))

    def journalled_under_lock(journal: Journal) -> tuple[Journal, ThrottleSetting]:
        _refuse_locked_by_another(run)
        return journalled(journal)

    def decided() -> ThrottleSetting:
        setting = run.record.update_journal(journalled_under_lock)
        if adopted := adopt_setters(run, new_rates_of_others(setting.journal_before, setting.journal)):
            event.facts["debts_taken_over"] = list(adopted)
            setting = run.record.update_journal(journalled_under_lock)
        return setting

    setting = journalled(recorded.journal())[1] if recorded else None
    if setting is None or setting.is_due:  # what is set is decided on the ground of the journal as it is now
        setting = decided_on_what_is_there(run, decided(), decided)
    if setting.changes:
        _refuse_locked_by_another(run)
    refuse_cleared(run, setting)
    refused = apply_changes(run, setting.changes)
    outcome = outcome_of(run, setting, refused)
    if outcome.came_too_late:
        restore_configs(run, event)
        raise overtaken("the throttle was cleared while it was set, so what was set is taken back")
    missing = outcome.missing
    if setting.changes:
        event.facts["throttle"] = facts_of(setting, refused)
    for rate in setting.lower_rates_found:
        run.log.warning("Left alone: %s", rate)
    if setting.journal.lower_rates:
        event.facts["lower_rates_of_others"] = list(map(str, setting.journal.lower_rates))
    return setting, Missing((*missing, *map(str, unfit)), refused if missing else {})


def _refuse_long_lists(run: RunContext, wanted: WantedThrottle, batch: Batch) -> None:
    """Refuse what would need a list of throttled replicas that is longer than Kafka takes.

    Raises:
        InvalidThrottleError: nothing was changed, and nothing may be submitted.
    """
    long = too_long(wanted.replicas, describe_throttles(run, {r.resource for r in wanted.replicas}))
    if long:
        raise InvalidThrottleError(
            f"The throttle of batch {batch.number} cannot be put in place: {name_some(long)}. Nothing was changed, and no data is moved "
            "without it",
            *_smaller_batches(run, long, batch),
        )


def throttle_changes(run: RunContext, batch: Batch) -> tuple[ConfigChange, ...]:
    """Return the config changes that would put the batch's throttle in place now; changes nothing."""
    rate = run.request.throttle_bytes_per_second
    if rate is None:
        return ()
    journal = run.record.journal()
    plan = throttle_by_journal(batch, journal, asked_bytes_per_second=rate)
    return tuple(changes_to_throttle(plan, journal, describe_throttles(run, plan.resources))[1])


def not_in_place(
    missing: Missing,
    of: str,
    meanwhile: str,
    *advice: Advice,
    kind: type[ThrottleMissingError] = ThrottleMissingError,
) -> ThrottleMissingError:
    """Return the error for a throttle that could not be put in place as a whole."""
    return kind(
        f"The replication throttle {of} is not in place: {missing}; {meanwhile}",
        *_what_puts_it_in_place(missing),
        *advice,
    )


def _what_puts_it_in_place(missing: Missing) -> tuple[Advice, ...]:
    """Return what a person corrects where brokers refuse it or the configs of another client are in the way, else that it passes."""
    corrections = {
        HIDDEN: "remove the hidden rate by hand, or upgrade its broker to Kafka 2.6 or later",
        UNREADABLE: "write the list that is named again, without empty parts and without blanks",
        TOO_LONG: "remove what is not needed any more from the list that is named, or cancel what copies",
    }
    others = tuple(Correct(do) for said, do in corrections.items() if any(said in text for text in missing.lines))
    return (*missing.corrections, *others) or (
        WaitUntil("the brokers that are named and the controller take configs again"),
    )


def _has_copied_lately(run: RunContext, number: int) -> bool:
    """Whether the batch before has ended a moment ago, so that its receivers have some of their quota left."""
    before = run.record.finished(number - 1)
    return before is not None and run.now() - before.finished_at < COPIED_LATELY


def _submitted_steps(recorded: RecordView, batch: Batch | None) -> tuple[Step, ...]:
    """Return the steps of a batch that were submitted: what else copies to their brokers is another client's."""
    submitted = recorded.submitted(batch.number) if batch else None
    if batch is None or submitted is None:
        return ()
    return without(batch, submitted.changed_by_others).steps


def _is_locked_by_another(run: RunContext) -> bool:
    """Whether another reassignment is at work. A lock that cannot be read is no reason to let data copy at full speed."""
    try:
        return run.lock_of_another() is not None
    except RecordsMissingError:
        raise
    except RecordError:
        return False


def _refuse_locked_by_another(run: RunContext) -> None:
    """Make sure that nothing is journalled or set under another reassignment, nor a debt of it taken over.

    Raises:
        OvertakenError: another one has the lock.
    """
    if _is_locked_by_another(run):
        raise overtaken("another reassignment has the lock of the cluster, and looks after all throttles")


def _smaller_batches(run: RunContext, long: Sequence[TooLong], batch: Batch) -> tuple[Advice, ...]:
    """Return how the same is asked for in batches whose lists fit."""
    room = min((LONGEST_LIST_BYTES - x.there_bytes) / (x.bytes_needed - x.there_bytes) for x in long)
    most = int(len(batch.steps) * room * 0.9)
    if most < 1:
        lists = name_some(f"{x.replicas.side.replicas_key} of topic {x.replicas.topic}" for x in long)
        return (Correct(f"remove what is not needed any more from {lists}"), Rerun("set_throttle", batch=batch.number))
    request = run.request.as_fields() | {"partition_movements": most}
    return (
        Trigger(CANCEL_DAG_ID, {"reassignment_id": run.record.reassignment_id}),
        Trigger(DAG_ID, request),
    )
