"""Putting the throttle in place before data moves, and taking it back after, by the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka_reassignment.errors import InvalidThrottleError, ThrottleMissingError, UnknownBrokerError, name_some
from kafka_reassignment.execution.context import Event, StepContext
from kafka_reassignment.model import Batch, ConfigChange, ConfigResource, ConfigValue, Refusal
from kafka_reassignment.planning.throttle import (
    THROTTLE_KEYS,
    BrokerRate,
    Journal,
    Side,
    ThrottlePlan,
    clear_throttle,
    in_place,
    retarget,
    set_throttle,
    throttle_for,
    union,
)
from kafka_reassignment.record.record import Record
from kafka_reassignment.request import MEGABYTE

SETTLE_LOOKS = 6

Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


def ensure_throttle(step: StepContext, batch: Batch, event: Event) -> None:
    """Put the batch's throttle in place where it is not, journal first; do nothing for an unthrottled request.

    Brokers that are down take no part: nothing moves to or from them until they are back, and the next
    look puts the throttle on them.

    Raises:
        ThrottleMissingError: it could not be put in place; data must not move.
    """
    rate = step.record.opening().request.throttle_bytes_per_second
    if rate is None:
        event.facts["throttle"] = "none: the request asks for no throttle"
        return
    live = step.cluster.describe_cluster().live_brokers

    def journalled(journal: Journal) -> tuple[Journal, _Setting]:
        plan = throttle_for(batch, asked_bytes_per_second=rate, retargets=journal.retargets).restricted_to(live)
        before = _describe(step, plan.resources)
        updated, changes = set_throttle(plan, journal, before)
        return updated, _Setting(plan, updated, before, tuple(changes))

    setting = step.record.update_journal(journalled)
    refused = _apply(step, setting.changes)
    missing = _missing(step, setting.plan, setting.journal)
    if setting.changes:
        event.facts["throttle"] = _told_changes(setting, refused) | {"asked_bytes_per_second": rate}
    if missing:
        raise ThrottleMissingError(
            f"The replication throttle of batch {batch.number} is not in place: {name_some(missing)}"
            + (f" ({name_some(refused.values())})" if refused else "")
            + ". No data is moved without it. Rerun this step when the broker answers"
        )


def throttle_changes(step: StepContext, batch: Batch) -> tuple[ConfigChange, ...]:
    """Return the config changes that would put the batch's throttle in place now; changes nothing."""
    rate = step.record.opening().request.throttle_bytes_per_second
    if rate is None:
        return ()
    journal = step.record.journal()
    plan = throttle_for(batch, asked_bytes_per_second=rate, retargets=journal.retargets)
    return tuple(set_throttle(plan, journal, _describe(step, plan.resources))[1])


def change_rate(
    step: StepContext,
    *,
    megabytes_per_second: float,
    brokers: Collection[int] | None = None,
    sides: Collection[Side] = tuple(Side),
    allow_low: bool = False,
    slowed_from: int | None = None,
    because: str = "",
) -> str:
    """Change the rate of a reassignment while it runs, journal first, and return what holds now; later batches take it too.

    Args:
        step: of the running reassignment.
        megabytes_per_second: what each of the brokers may send or receive.
        brokers: only these; all when None.
        sides: what they send (leader), what they receive (follower), or both.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        slowed_from: the rate to go back to, in bytes per second, where the cluster's health lowers it.
        because: the reason, for the audit trail.

    Raises:
        InvalidThrottleError: the rate is too low, or the reassignment runs without a throttle.
        UnknownBrokerError: a broker is not part of the cluster.
        ThrottleMissingError: brokers did not take it; it is journalled, and the batch's next look sets it.
    """
    with step.audited("change_rate") as event:
        if step.record.opening().request.unthrottled:
            raise InvalidThrottleError(
                f"Reassignment {step.record.reassignment_id} runs unthrottled, as its request asks: there is no rate to "
                "change. Stop it and trigger it again with 'throttle_mb_per_second'"
            )
        _check_known(step, brokers or ())
        asked = round(megabytes_per_second * MEGABYTE)

        def journalled(journal: Journal) -> tuple[Journal, _Setting]:
            before = _describe(step, journal.resources)
            updated, changes = retarget(
                journal,
                before,
                asked_bytes_per_second=asked,
                brokers=brokers,
                sides=sides,
                allow_low=allow_low,
                slowed_from=slowed_from,
            )
            latest = updated.retargets[-1]
            wanted = [BrokerRate(r.broker, r.side, asked) for r in updated.rates if latest.concerns(r.broker, r.side)]
            return updated, _Setting(ThrottlePlan(tuple(wanted)), updated, before, tuple(changes))

        setting = step.record.update_journal(journalled)
        refused = _apply(step, setting.changes)
        missing = _missing(step, setting.plan, setting.journal)
        event.facts["throttle"] = _told_changes(setting, refused) | {"asked_bytes_per_second": asked}
        whom = "all brokers" if brokers is None else f"broker {name_some(sorted(brokers), 10)}"
        event.summary = (f"{because}: " if because else "") + (
            f"rate of {whom} ({' and '.join(sides)} side): {megabytes_per_second:g} MB/s, "
            f"{len(setting.changes)} configs in force changed at once; later batches take it too"
        )
        if missing:
            raise ThrottleMissingError(
                f"The new rate is journalled, but not in force everywhere: {name_some(missing)}. "
                "The batch under way sets it at its next look; rerun this task to see"
            )
        return event.summary


def rate_in_force(record: Record) -> int | None:
    """Return the rate asked for by now, in bytes per second: the lowest where brokers differ, None when unthrottled."""
    rate = record.opening().request.throttle_bytes_per_second
    if rate is None:
        return None
    for change in record.journal().retargets:
        everywhere = change.brokers is None and set(change.sides) == set(Side)
        rate = change.asked_bytes_per_second if everywhere else min(rate, change.asked_bytes_per_second)
    return rate


def restore_configs(step: StepContext, event: Event) -> tuple[str, ...]:
    """Take back what the journal says is ours, and return what is still owed.

    The journal is written again only when it is seen what came of it, so a crash anywhere loses nothing.
    """
    journal = step.record.journal()
    before = _describe(step, journal.resources)
    clearing = clear_throttle(journal, before)
    refused = _apply(step, clearing.changes)
    _settled(step, journal.resources, lambda seen: not clear_throttle(journal, seen).changes)

    def settled(latest: Journal) -> tuple[Journal, Journal]:
        left = clear_throttle(latest, _describe(step, latest.resources)).journal
        return left, left

    owed = step.record.update_journal(settled).owed_texts()
    event.facts["throttle"] = {
        "changes": [str_change(c) for c in clearing.changes],
        "before": shown(before),
        "changed_by_others": list(clearing.changed_by_others),
        "refused": refused,
        "owed": list(owed),
    }
    for text in clearing.changed_by_others:
        step.log.warning("Left alone: %s", text)
    return owed


def adopt_debts(step: StepContext) -> tuple[str, ...]:
    """Take over what earlier reassignments of this cluster still owe its configs (KIP-179); return from which ones.

    Only where nothing that they throttle is in flight. This reassignment holds the cluster, so none of them is
    at work; their journals are emptied once their debts are in this one.
    """
    adopted: list[str] = []
    in_flight = {p.topic for p in step.cluster.list_reassignments()}
    for other in step.store.records(step.record.cluster_id):
        debts = other.journal()
        if other.reassignment_id == step.record.reassignment_id or debts.is_settled:
            continue
        if in_flight & {record.topic for record in debts.lists}:
            step.log.warning("Debts of %s stay with it: moves of its topics are in flight", other.reassignment_id)
            continue
        step.record.update_journal(lambda own, older=debts: (union(own, older), None))  # type: ignore[misc]
        other.update_journal(lambda theirs: (theirs.model_copy(update={"rates": (), "lists": ()}), None))
        adopted.append(other.reassignment_id)
    return tuple(adopted)


@dataclass(frozen=True, slots=True)
class _Setting:
    """Changes that are journalled and now to be made; ``before`` is what was there."""

    plan: ThrottlePlan
    journal: Journal
    before: Configs
    changes: tuple[ConfigChange, ...]


def _missing(step: StepContext, plan: ThrottlePlan, journal: Journal) -> tuple[str, ...]:
    seen = _settled(step, plan.resources, lambda configs: not in_place(plan, configs, journal))
    return in_place(plan, seen, journal)


def _told_changes(setting: _Setting, refused: Mapping[str, str]) -> dict[str, object]:
    return {
        "changes": [str_change(c) for c in setting.changes],
        "before": shown(setting.before),
        "refused": dict(refused),
    }


def _check_known(step: StepContext, brokers: Collection[int]) -> None:
    known = sorted(step.cluster.describe_cluster().brokers) if brokers else []
    if unknown := [b for b in brokers if b not in known]:
        raise UnknownBrokerError(
            f"'brokers' names broker {name_some(unknown)}, expected some of {name_some(known, 20)}. Correct the ids"
        )


def _describe(step: StepContext, resources: Iterable[ConfigResource]) -> Configs:
    return step.cluster.describe_configs(sorted(resources), THROTTLE_KEYS)


def _settled(step: StepContext, resources: Collection[ConfigResource], done: Callable[[Configs], bool]) -> Configs:
    """Describe until it shows what was just set: brokers learn of a change a moment after it is accepted."""
    for _ in range(SETTLE_LOOKS - 1):
        seen = _describe(step, resources)
        if done(seen):
            return seen
        step.sleep(0.5)
    return _describe(step, resources)


def _apply(step: StepContext, changes: Iterable[ConfigChange]) -> dict[str, str]:
    wanted = list(changes)
    if not wanted:
        return {}
    replies: Mapping[ConfigResource, Refusal | None] = step.cluster.alter_configs(wanted)
    return {str(resource): str(refusal) for resource, refusal in replies.items() if refusal is not None}


def str_change(change: ConfigChange) -> str:
    """Return a change as one line of the audit trail."""
    return f"{change.resource}: {change.operation} {change.key}" + (
        f" {change.value}" if change.value is not None else ""
    )


def shown(configs: Configs) -> dict[str, dict[str, str]]:
    """Return configs as the audit trail shows them: value and source."""
    return {
        str(resource): {key: f"{v.value} ({v.source})" for key, v in values.items() if v.value is not None}
        for resource, values in configs.items()
    }
