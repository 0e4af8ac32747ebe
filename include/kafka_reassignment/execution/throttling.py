"""Putting the throttle in place before data moves, and taking it back after, by the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from kafka_reassignment.errors import ThrottleMissingError, name_some
from kafka_reassignment.execution.context import Event, StepContext
from kafka_reassignment.model import Batch, ConfigChange, ConfigResource, ConfigValue, Refusal
from kafka_reassignment.planning.throttle import (
    THROTTLE_KEYS,
    clear_throttle,
    in_place,
    set_throttle,
    throttle_for,
)

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
    earlier = step.record.journal()
    plan = throttle_for(batch, asked_bytes_per_second=rate, retargets=earlier.retargets).restricted_to(live)
    before = _describe(step, plan.resources)
    journal, changes = set_throttle(plan, earlier, before)
    refused: dict[str, str] = {}
    if changes:
        step.record.write_journal(journal)
        refused = _apply(step, changes)
    missing = in_place(plan, _settled(step, plan.resources, lambda seen: not in_place(plan, seen, journal)), journal)
    if changes:
        event.facts["throttle"] = {
            "asked_bytes_per_second": rate,
            "changes": [str_change(c) for c in changes],
            "before": shown(before),
            "refused": refused,
        }
    if missing:
        raise ThrottleMissingError(
            f"The replication throttle of batch {batch.number} is not in place: {name_some(missing)}"
            + (f" ({name_some(refused.values())})" if refused else "")
            + ". No data is moved without it. Rerun this step when the broker answers"
        )


def restore_configs(step: StepContext, event: Event) -> tuple[str, ...]:
    """Take back what the journal says is ours, and return what is still owed.

    The journal is written again after each round with what is left, so a crash anywhere loses nothing.
    """
    journal = step.record.journal()
    before = _describe(step, journal.resources)
    clearing = clear_throttle(journal, before)
    refused = _apply(step, clearing.changes)
    after = clear_throttle(
        journal, _settled(step, journal.resources, lambda seen: not clear_throttle(journal, seen).changes)
    )
    step.record.write_journal(after.journal)
    event.facts["throttle"] = {
        "changes": [str_change(c) for c in clearing.changes],
        "before": shown(before),
        "changed_by_others": list(clearing.changed_by_others),
        "refused": refused,
    }
    for text in clearing.changed_by_others:
        step.log.warning("Left alone: %s", text)
    return after.journal.owed_texts()


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
