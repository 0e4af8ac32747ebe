"""The rate of a running reassignment: changed by an operator, by auto rate, or lowered while the cluster is unhealthy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from kafka_reassignment.advice import THROTTLE_DAG_ID, Advice, Correct, Trigger, WaitUntil
from kafka_reassignment.decisions.brokers import check_brokers_known
from kafka_reassignment.decisions.rate import (
    change_rates,
    end_slowdown,
    later_order,
    latest_change_in_words,
    rate_due,
    rates_asked,
    rates_to_double,
    slowdown_of,
    throttled_brokers,
)
from kafka_reassignment.decisions.throttle import Journal, RateChange, Side
from kafka_reassignment.errors import ThrottleMissingError, ThrottleRefusedError
from kafka_reassignment.model import DEFAULT_OF_BROKERS, ConfigResource, Replicas, TopicPartition, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import LOWEST_RATE_MB, MEGABYTE, ReassignmentRequest
from kafka_reassignment.request.rate import HIGHEST_RATE_MB
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.finished import is_finished_reassignment
from kafka_reassignment.steps.base.health import cluster_health, planned_targets
from kafka_reassignment.steps.throttling.raising import missing_of, set_in_parts
from kafka_reassignment.steps.throttling.rate_order import (
    ChangedMeanwhileError,
    LaterOrderError,
    RateOrder,
    end_where_lost,
    overtaken_by,
    params_of_rate,
    requested_rate,
    require_running,
)
from kafka_reassignment.steps.throttling.throttle_configs import (
    Missing,
    ThrottleSetting,
    describe_throttles,
    facts_of,
)


def adjust_rate_to_health(run: RunContext, recorded: RecordView, own: Collection[TopicPartition]) -> None:
    """Change the rate where the cluster's health asks for it, with an audit event of its own.

    Nothing is looked at unless the request has ``mb_per_second_while_unhealthy``. A broker with a lower rate of its own
    keeps it.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        own: partitions of the batch. Their leaders are throttled, so a replica of theirs that is out of sync would come
            back more slowly at a lower rate, or never where producers write as fast.
    """
    request = run.request
    if request.mb_per_second_while_unhealthy is None:
        return
    journal = recorded.journal()
    elsewhere = cluster_health(run.cluster, request, lambda: planned_targets(recorded)).elsewhere(set(own))
    due = rate_due(request, journal, elsewhere)
    if due is None:
        return
    summary = change_rate(
        run,
        asked_bytes_per_second=due.bytes_per_second,
        allow_low=True,  # it was checked with the request
        rate_before_slowdown_bytes_per_second=due.rate_before_slowdown_bytes_per_second,
        decided_on=journal,
        because=due.because,
    )
    run.log.warning("%s", summary)


def rates_to_raise(
    run: RunContext,
    recorded: RecordView,
    waiting: Mapping[TopicPartition, Replicas],
    view: View,
    *,
    blocked: Collection[TopicPartition] = (),
    nowhere: Collection[tuple[TopicPartition, int]] = (),
) -> tuple[Advice, ...]:
    """Return the advice about rates that are too low for what is waited for.

    Lower ones of another client are left to a person. Ours is to be doubled where nothing else holds a replica up: the
    lowest of those that what is waited for copies at, not that of another broker. While the cluster's health holds it
    down, a higher one would be lowered at the next look, and be what is asked for afterwards: so its end is waited for.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        waiting: by partition, the brokers whose replicas are waited for.
        view: what was seen of them.
        blocked: those of them that something else holds up.
        nowhere: replicas that get on at no rate, by partition and broker.
    """
    waiting = {p: left for p, bs in waiting.items() if (left := tuple(b for b in bs if (p, b) not in nowhere))}
    sides = {(b, Side.FOLLOWER) for brokers in waiting.values() for b in brokers}
    sides |= {(s.leader, Side.LEADER) for p, s in view.partitions.items() if p in waiting and s.leader is not None}
    journal = recorded.journal()
    lower = [r for r in journal.lower_rates if (r.broker, r.side) in sides]
    if lower:
        rates = ", ".join(f"{r.side.rate_key} of broker {r.broker}" for r in lower)
        return (Correct(f"raise or remove the rates that another client has set lower than ours ({rates})"),)
    free = {p: live for p, bs in waiting.items() if p not in blocked and (live := view.live_brokers.intersection(bs))}
    sides = {(b, Side.FOLLOWER) for brokers in free.values() for b in brokers}
    if not sides:
        return ()
    sides |= {(s.leader, Side.LEADER) for p, s in view.partitions.items() if p in free and s.leader is not None}
    if (slow := slowdown_of(run.request, journal, sides)) is not None:
        return (WaitUntil(_end_of_slowdown(run.request, slow)),)
    return to_change(run, rates_to_double(run.request, journal, sides))


def to_change(run: RunContext, changes: Iterable[RateChange]) -> tuple[Trigger, ...]:
    """Return the advice to change rates of this reassignment, as far as kafka_throttle takes them."""
    own = {"reassignment_id": run.record.reassignment_id}
    return tuple(
        Trigger(
            THROTTLE_DAG_ID,
            own
            | params_of_rate(
                min(max(change.asked_bytes_per_second, LOWEST_RATE_MB * MEGABYTE), HIGHEST_RATE_MB * MEGABYTE),
                change.brokers,
                change.sides,
            ),
        )
        for change in changes
    )


def change_rate(
    run: RunContext,
    *,
    asked_bytes_per_second: int | None,
    brokers: Collection[int] | None = None,
    sides: Collection[Side] = tuple(Side),
    allow_low: bool = False,
    rate_before_slowdown_bytes_per_second: int | None = None,
    asked_at: datetime | None = None,
    decided_on: Journal | None = None,
    because: str = "",
) -> str:
    """Change the rate of a reassignment while it runs, journal first, and return what is in force now; later batches take it too.

    A rate of another client that is lower stays, and the text says so. A broker that is down gets it when it is back. A
    raise takes eleven seconds: done at once, brokers would burst. Where it is cut off, the next look of the batch goes
    on with it.

    Where the reassignment ends during a raise, the text says so: what was raised is restored with its throttle.

    A person's change ends auto rate. It gives way to what a person has asked for later, also while it raises the rate.
    That is no error in the run of the reassignment itself, which could never get past it; nor is it there that the
    reassignment is finished. A change that nobody asked
    for (``decided_on``) gives way to any other that came since.

    Args:
        run: of the running reassignment.
        asked_bytes_per_second: what each of the brokers may send or receive; None is what it was before the cluster's
            health lowered it.
        brokers: only these; all when None.
        sides: what they send (leader), what they receive (follower), or both.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        rate_before_slowdown_bytes_per_second: the highest rate before, where the cluster's health lowers it.
        asked_at: when a person asked for it; a retry has the same time. Now where None.
        decided_on: the journal on whose ground it was decided; None where a person asks for it.
        because: the reason, for the journal and the audit trail; empty where a person asks for it.

    Raises:
        InvalidRequestError: this reassignment has not the lock, or another rate was asked for later, not by its own
            run.
        InvalidThrottleError: the rate is too low, or the reassignment runs without a throttle.
        UnknownBrokerError: a broker is not part of the cluster.
        ThrottleMissingError: brokers did not take it; it is journalled, and the batch's next look sets it.
        ThrottleRefusedError: the same where a person asks, and trying again is of no use.
        OvertakenError: another reassignment has taken the rates over.
    """
    order = RateOrder(
        asked_bytes_per_second,
        None if brokers is None else tuple(sorted(brokers)),
        tuple(sides),
        asked_at or run.now(),
        allow_low=allow_low,
        rate_before_slowdown_bytes_per_second=rate_before_slowdown_bytes_per_second,
        decided_on=decided_on,
        because=because,
    )
    if run.is_its_own_order and is_finished_reassignment(run, "change_rate"):
        return "the reassignment is finished: no rate is changed any more"
    require_running(run, order)
    with run.audited("change_rate") as event:
        requested = requested_rate(run, order)
        _check_known(run, order.brokers or ())
        live, before = run.cluster.describe_cluster().live_brokers, run.record.journal()
        change = _Change(run, order, requested, live, event)
        try:
            setting, refused = set_in_parts(run, change.decide, change.goes_on, event)
        except LaterOrderError as later:
            event.outcome, event.summary = "skipped", str(later)
            return event.summary
        except ChangedMeanwhileError as changed:
            event.is_dropped = not change.is_begun
            event.summary = f"{order}{changed}"
            return (
                event.summary if change.is_begun else f"{because}: nothing changed, because the rate was changed since"
            )
        missing = Missing(missing_of(run, setting, refused, event), refused)
        lower = [r for r in setting.journal.lower_rates if order.concerns(r.broker, r.side)]
        event.facts["throttle"] = facts_of(setting, refused) | {"asked_bytes_per_second": asked_bytes_per_second}
        event.facts["lower_rates_of_others"] = list(map(str, lower))
        configs = f"{order}{len(setting.changes)} configs in force changed at once; later batches take it too"
        event.summary = "; ".join((configs, *map(str, lower), *_consequences(run.request, order, before)))
        for left in lower:
            run.log.warning("Left alone: %s", left)
        if missing:
            kind = ThrottleRefusedError if missing.corrections and order.is_of_a_person else ThrottleMissingError
            raise kind(
                f"The new rate is journalled, but not in force everywhere: {missing}",
                *missing.corrections,
                WaitUntil("the batch under way has looked again: each look sets what is missing"),
            )
        return event.summary


class _Change:
    """A change of the rate under way, part by part.

    ``is_begun``: its first part is set.
    """

    def __init__(
        self, run: RunContext, order: RateOrder, requested: int, live: frozenset[int], event: AuditDraft
    ) -> None:
        self.is_begun = False
        self._run = run
        self._order = order
        self._requested = requested
        self._live = live
        self._event = event
        self._expected = set() if order.decided_on is None else {order.decided_on.rate_changes}

    def decide(self, name: str, journal: Journal) -> ThrottleSetting:
        """Return what is to be set as a whole, by the journal and the cluster as they are now."""
        order = self._order
        if (self.is_begun or not order.is_of_a_person) and journal.rate_changes not in self._expected:
            raise ChangedMeanwhileError(f"until it was {latest_change_in_words(journal)}")
        if order.is_of_a_person and (later := later_order(journal, order.at, order.brokers, order.sides)) is not None:
            raise overtaken_by(later, is_its_own_order=self._run.is_its_own_order)
        throttled = {ConfigResource.broker(b) for b, _ in throttled_brokers(journal) if b in self._live}
        before = describe_throttles(self._run, {DEFAULT_OF_BROKERS, *throttled} if throttled else ())
        if order.asked_bytes_per_second is None:
            changed = None
            updated, changes = end_slowdown(journal, before, requested_bytes_per_second=self._requested)
        else:
            updated, changes = change_rates(
                journal,
                before,
                asked_bytes_per_second=order.asked_bytes_per_second,
                brokers=order.brokers,
                sides=order.sides,
                allow_low=order.allow_low,
                rate_before_slowdown_bytes_per_second=order.rate_before_slowdown_bytes_per_second,
                at=order.at,
                because=order.because,
            )
            changed = updated.rate_changes[-1]
        self._expected.add(updated.rate_changes)  # of this change, before its next part
        wanted = rates_asked(updated, self._requested, of=changed).restricted_to(self._live)
        return ThrottleSetting(name, wanted, journal, updated, before, tuple(changes))

    def goes_on(self) -> bool:
        """Make sure, before a further part, that the reassignment is still at work."""
        self.is_begun = True
        end_where_lost(self._run, self._order, self._event)
        return True


def _consequences(request: ReassignmentRequest, order: RateOrder, before: Journal) -> Iterator[str]:
    """Yield what a person's change ends, and what lowers it again at the next look, unless the cluster is healthy by then."""
    if not order.is_of_a_person:
        return
    if request.auto.auto_rate and not before.rate_set_by_hand:
        yield "auto rate ends with this"
    asked = order.asked_bytes_per_second or 0
    held = next((c for c in before.rate_changes if c.is_slowdown and c.asked_bytes_per_second < asked), None)
    if held is not None:
        yield f"the next look of a batch lowers it again until {_end_of_slowdown(request, held)}"


def _end_of_slowdown(request: ReassignmentRequest, slow: RateChange) -> str:
    """Say, after "until", when the rates are as before that the cluster's health has lowered."""
    why = f" ({slow.because})" if slow.because else ""
    return (
        f"other partitions of the cluster are healthy again{why}: with more than {request.allowed_unhealthy_partitions} unhealthy ones "
        f"brokers copy at {slow.asked_bytes_per_second / MEGABYTE:g} MB/s at most, as 'mb_per_second_while_unhealthy' of the request asks"
    )


def _check_known(run: RunContext, brokers: Collection[int]) -> None:
    known = sorted(run.cluster.describe_cluster().brokers) if brokers else []
    check_brokers_known(brokers, known, subject="'brokers'", advice=Correct("correct the ids"))
