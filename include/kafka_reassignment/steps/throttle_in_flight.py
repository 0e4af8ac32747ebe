"""A throttle for moves in flight that other clients started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kafka_reassignment.advice import THROTTLE_DAG_ID, Correct
from kafka_reassignment.decisions.raising import to_raise
from kafka_reassignment.decisions.rate import refuse_low_rate, with_order
from kafka_reassignment.decisions.throttle import (
    Journal,
    RateChange,
    Side,
    WantedThrottle,
    throttle_for,
)
from kafka_reassignment.errors import (
    InvalidRequestError,
    ThrottleMissingError,
    ThrottleRefusedError,
    name_some,
    overtaken,
)
from kafka_reassignment.model import Batch, Step
from kafka_reassignment.record.debts import note_connection
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.throttle import not_in_place, put_in_place
from kafka_reassignment.steps.throttling.raising import missing_of, set_in_parts
from kafka_reassignment.steps.throttling.restore import adopt_debts
from kafka_reassignment.steps.throttling.throttle_configs import Missing, ThrottleSetting, facts_of, setting_of


def throttle_in_flight(
    run: RunContext,
    scope: CancelScope,
    *,
    kafka_conn_id: str,
    asked_bytes_per_second: int,
    allow_low: bool,
    by: str,
    asked_at: datetime | None = None,
) -> str:
    """Throttle moves in flight that other clients started, journal first, and return what is throttled.

    The throttle stays until the moves have landed: then a sweep, or the next reassignment of the cluster, restores what
    was there before. A broker's rate that another client set lower stays. A rate of ours that is in place is raised in
    parts, while something that is meant is in flight: done at once, brokers would burst. A broker whose rate was asked
    for later keeps that one.

    Args:
        run: its record gets the journal.
        scope: which moves.
        kafka_conn_id: Airflow connection of the cluster, by which a sweep reaches it.
        asked_bytes_per_second: what each broker that takes part may send, and what it may receive.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        by: who asks.
        asked_at: when it was asked for; a retry has the same time. Now where None.

    Raises:
        InvalidThrottleError: the rate is too low.
        InvalidRequestError: the record is that of a reassignment.
        ReassignmentInProgressError: a reassignment has the lock of the cluster; its moves have a throttle of their own.
        ThrottleMissingError: it could not be put in place; what could be is journalled.
        ThrottleRefusedError: the same, and trying again is of no use.
    """
    with run.audited("throttle_in_flight") as event:
        refuse_low_rate(asked_bytes_per_second, allow_low=allow_low)
        _refuse_id_of_a_reassignment(run)
        run.take_lock(requested_by=by)
        try:
            batch = Batch(1, tuple(_moves(run, scope)))
            if not batch.steps:
                event.outcome, event.summary = "skipped", "nothing of what is meant is in flight; no throttle is set"
                return event.summary
            note_connection(run.record, kafka_conn_id)
            orders = _note_order(run, batch, asked_bytes_per_second, asked_at or run.now())
            # A value of an earlier throttle must not be taken for one of another client.
            if run.lock_of_another() is not None:
                raise overtaken("another reassignment has the lock of the cluster, and looks after all throttles")
            event.facts["debts_taken_over"] = list(adopt_debts(run))
            whole = throttle_for(batch, asked_bytes_per_second=asked_bytes_per_second, rate_changes=orders)
            setting, missing = put_in_place(run, lambda _: whole, event, only_missing=True)
            if not missing:
                setting, missing = _raise(run, scope, whole, event)
            if missing:
                kind = ThrottleRefusedError if missing.corrections else ThrottleMissingError
                meanwhile = "it copies without what is missing until that can be set"
                raise not_in_place(missing, "of what is in flight", meanwhile, kind=kind)
            event.summary = (
                f"{len(batch.steps)} partitions in flight are throttled to {asked_bytes_per_second / MEGABYTE:g} MB/s per "
                f"broker: {name_some(batch.partitions)}"
            ) + "".join(f"; {text}" for text in (*_later(whole, asked_bytes_per_second), *setting.journal.lower_rates))
            return event.summary
        finally:
            run.release_lock()


def _refuse_id_of_a_reassignment(run: RunContext) -> None:
    """Make sure that the lock and the journal are not taken for those of a reassignment: Airflow gives scheduled runs of two DAGs one id."""
    if run.record.exists:
        own = run.record.reassignment_id
        raise InvalidRequestError(
            f"The id {own}, by which moves of other clients were to be throttled, is that of a reassignment of cluster "
            f"{run.record.cluster_id}. Nothing was changed",
            Correct(
                "give the operator another reassignment_id, for example its default; the rate of the reassignment itself is "
                f"changed with {THROTTLE_DAG_ID}"
            ),
        )


def _note_order(run: RunContext, batch: Batch, asked_bytes_per_second: int, at: datetime) -> tuple[RateChange, ...]:
    """Journal what is asked for; return it among what was asked for of moves in flight before and since, the last one at the end.

    Before the debts of others are taken over, since the journals that have lost them are not looked at any more. What a
    journal says that owes nothing is over.
    """
    others = run.store.open_journals(run.record.cluster_id).found
    known = [o for record, journal in others if not record.exists for o in journal.rate_changes]
    whole = throttle_for(batch, asked_bytes_per_second=asked_bytes_per_second)

    def noted(journal: Journal) -> tuple[Journal, tuple[RateChange, ...]]:
        orders: tuple[RateChange, ...] = (*known, *(() if journal.is_settled else journal.rate_changes))
        for side in Side:
            brokers = tuple(r.broker for r in whole.rates if r.side is side)
            order = RateChange(asked_bytes_per_second=asked_bytes_per_second, brokers=brokers, sides=(side,), at=at)
            orders = with_order(orders, order)
        return journal.model_copy(update={"rate_changes": orders}), orders

    return run.record.update_journal(noted)


def _later(whole: WantedThrottle, asked_bytes_per_second: int) -> Iterator[str]:
    """Say which brokers keep a rate that was asked for later."""
    rates: dict[int, set[int]] = {}
    for rate in whole.rates:
        rates.setdefault(rate.asked_bytes_per_second, set()).add(rate.broker)
    for later, brokers in sorted(rates.items()):
        if later != asked_bytes_per_second:
            yield f"{later / MEGABYTE:g} MB/s was asked for later of broker {name_some(sorted(brokers), 10)}, and stays"


def _raise(
    run: RunContext, scope: CancelScope, whole: WantedThrottle, event: AuditDraft
) -> tuple[ThrottleSetting, Missing]:
    """Raise to the whole rates what is set lower; return what was set last, and what is missing."""
    live = run.cluster.describe_cluster().live_brokers

    def decide(name: str, journal: Journal) -> ThrottleSetting:
        return setting_of(run, name, to_raise(whole.restricted_to(live), journal), journal)

    setting, refused = set_in_parts(run, decide, lambda: bool(_moves(run, scope)), event)
    if setting.changes:
        event.facts["raised"] = facts_of(setting, refused)
    return setting, Missing(missing_of(run, setting, refused, event), refused)


def _moves(run: RunContext, scope: CancelScope) -> list[Step]:
    return [
        Step(flight.as_reassignment(partition))
        for partition, flight in sorted(run.cluster.list_reassignments().items())
        if scope.has(partition)
    ]
