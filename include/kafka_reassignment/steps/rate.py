"""The rate of a running reassignment: changed by an operator, or lowered while the cluster is unhealthy."""

from __future__ import annotations

from collections.abc import Collection

from kafka_reassignment.decisions.brokers import check_brokers_known
from kafka_reassignment.decisions.rate import change_rates, rate_due, rate_in_force
from kafka_reassignment.decisions.throttle import BrokerRate, Journal, Side, WantedThrottle
from kafka_reassignment.errors import InvalidThrottleError, ThrottleMissingError, name_some
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.health import cluster_health
from kafka_reassignment.steps.throttle_configs import (
    ThrottleSetting,
    apply_changes,
    describe_throttles,
    facts_of,
    still_missing,
)


def adjust_rate_to_health(run: RunContext) -> None:
    """Change the rate where the cluster's health asks for it, with an audit event of its own.

    Nothing is looked at unless the request has ``mb_per_second_while_unhealthy``. A rate that was set for some brokers
    only is replaced by that of all.
    """
    request = run.request
    if request.mb_per_second_while_unhealthy is None:
        return
    journal = run.record.journal()
    due = rate_due(request, journal, rate_in_force(request, journal), cluster_health(run.cluster, request))
    if due is None:
        return
    summary = change_rate(
        run,
        asked_bytes_per_second=due.bytes_per_second,
        allow_low=True,  # it was checked with the request, or was in force before
        rate_before_slowdown_bytes_per_second=due.rate_before_slowdown_bytes_per_second,
        because=due.because,
    )
    run.log.warning("%s", summary)


def change_rate(
    run: RunContext,
    *,
    asked_bytes_per_second: int,
    brokers: Collection[int] | None = None,
    sides: Collection[Side] = tuple(Side),
    allow_low: bool = False,
    rate_before_slowdown_bytes_per_second: int | None = None,
    because: str = "",
) -> str:
    """Change the rate of a reassignment while it runs, journal first, and return what is in force now; later batches take it too.

    Args:
        run: of the running reassignment.
        asked_bytes_per_second: what each of the brokers may send or receive.
        brokers: only these; all when None.
        sides: what they send (leader), what they receive (follower), or both.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        rate_before_slowdown_bytes_per_second: the rate to go back to, in bytes per second, where the cluster's health lowers it.
        because: the reason, for the audit trail.

    Raises:
        InvalidThrottleError: the rate is too low, or the reassignment runs without a throttle.
        UnknownBrokerError: a broker is not part of the cluster.
        ThrottleMissingError: brokers did not take it; it is journalled, and the batch's next look sets it.
    """
    with run.audited("change_rate") as event:
        if run.request.unthrottled:
            raise InvalidThrottleError(
                f"Reassignment {run.record.reassignment_id} runs unthrottled, as its request asks: there is no rate to "
                "change. Stop it and trigger it again with 'throttle_mb_per_second'"
            )
        _check_known(run, brokers or ())

        def journalled(journal: Journal) -> tuple[Journal, ThrottleSetting]:
            before = describe_throttles(run, journal.resources)
            updated, changes = change_rates(
                journal,
                before,
                asked_bytes_per_second=asked_bytes_per_second,
                brokers=brokers,
                sides=sides,
                allow_low=allow_low,
                rate_before_slowdown_bytes_per_second=rate_before_slowdown_bytes_per_second,
            )
            latest = updated.rate_changes[-1]
            wanted = [
                BrokerRate(r.broker, r.side, asked_bytes_per_second)
                for r in updated.rates
                if latest.concerns(r.broker, r.side)
            ]
            return updated, ThrottleSetting(WantedThrottle(tuple(wanted)), updated, before, tuple(changes))

        setting = run.record.update_journal(journalled)
        refused = apply_changes(run, setting.changes)
        missing = still_missing(run, setting.plan, setting.journal)
        event.facts["throttle"] = facts_of(setting, refused) | {"asked_bytes_per_second": asked_bytes_per_second}
        whom = "all brokers" if brokers is None else f"broker {name_some(sorted(brokers), 10)}"
        event.summary = (f"{because}: " if because else "") + (
            f"rate of {whom} ({' and '.join(sides)} side): {asked_bytes_per_second / MEGABYTE:g} MB/s, "
            f"{len(setting.changes)} configs in force changed at once; later batches take it too"
        )
        if missing:
            raise ThrottleMissingError(
                f"The new rate is journalled, but not in force everywhere: {name_some(missing)}. "
                "The batch under way sets it at its next look; rerun this task to see"
            )
        return event.summary


def _check_known(run: RunContext, brokers: Collection[int]) -> None:
    known = sorted(run.cluster.describe_cluster().brokers) if brokers else []
    check_brokers_known(brokers, known, subject="'brokers'", next_step="Correct the ids")
