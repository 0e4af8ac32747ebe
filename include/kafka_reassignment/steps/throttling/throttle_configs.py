"""Reading and changing throttle configs, and how they are shown in the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.throttle import (
    LATEST_ARRIVAL,
    THROTTLE_KEYS,
    Journal,
    LowerRate,
    ThrottledReplicas,
    WantedThrottle,
    begun,
    changes_to_throttle,
    confirmed,
    ended,
    is_cleared,
    missing_throttle,
    partition_of,
    unseen_of,
)
from kafka_reassignment.errors import CORRECTED_REFUSALS, name_some, overtaken
from kafka_reassignment.model import ConfigChange, ConfigResource, ConfigValue, Refusal, TopicPartition, View
from kafka_reassignment.ports import refusals
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.moves import as_texts
from kafka_reassignment.steps.base.view import observe_replicas

SETTLE_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.0)
"""Seconds between the looks for what was just set: most brokers show it within a tenth of a second."""

DECIDED_AGAIN = 3
"""How often a change is decided again because another client has changed the same config meanwhile."""

Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


@dataclass(frozen=True, slots=True)
class ThrottleSetting:
    """Changes that are journalled and now to be made; ``name`` is that of their setting, ``before`` what the cluster showed."""

    name: str
    plan: WantedThrottle
    journal_before: Journal
    journal: Journal
    before: Configs
    changes: tuple[ConfigChange, ...]

    @property
    def is_due(self) -> bool:
        """Whether there is anything to journal or to change."""
        return bool(self.changes) or self.journal != self.journal_before

    @property
    def lower_rates_found(self) -> tuple[LowerRate, ...]:
        """Lower rates of other clients that were not known before."""
        return tuple(r for r in self.journal.lower_rates if r not in self.journal_before.lower_rates)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of changes: ``missing`` of the throttle, one line each, and whether they were made when it was cleared already."""

    missing: tuple[str, ...]
    came_too_late: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing of a throttle, one line each, and what brokers refused of it."""

    lines: tuple[str, ...]
    refused: Mapping[ConfigResource, Refusal]

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        """What does not pass comes first: only some lines are shown."""
        lasting = [f"{r}: {why}" for r, why in self.refused.items() if why.code in CORRECTED_REFUSALS]
        passing = [f"{r}: {why}" for r, why in self.refused.items() if why.code not in CORRECTED_REFUSALS]
        return name_some([*lasting, *self.lines, *passing])

    @property
    def corrections(self) -> tuple[Correct, ...]:
        """What a person does about refusals that do not pass; nothing where all of them do."""
        resources: dict[str, list[ConfigResource]] = {}
        for resource, refusal in self.refused.items():
            if do := CORRECTED_REFUSALS.get(refusal.code):
                resources.setdefault(do, []).append(resource)
        return tuple(Correct(f"{do} {name_some(its)}") for do, its in resources.items() if self)


def setting_of(run: RunContext, name: str, plan: WantedThrottle, journal: Journal) -> ThrottleSetting:
    """Return what a setting of this name changes, by the journal and what the cluster shows now."""
    before = describe_throttles(run, plan.resources)
    updated, changes = changes_to_throttle(plan, journal, before)
    return ThrottleSetting(name, plan, journal, updated, before, tuple(changes))


def decided_on_what_is_there(
    run: RunContext, setting: ThrottleSetting, decide_again: Callable[[], ThrottleSetting]
) -> ThrottleSetting:
    """Return a setting that is decided on what the cluster shows right before its changes are made.

    Another client may have set what is to be changed while the journal was written: that is what is put back later, or
    stays. Who changes it at every look is not waited for.

    Args:
        run: of the cluster.
        setting: as it is journalled.
        decide_again: journals it again, by the same name.
    """
    for _ in range(DECIDED_AGAIN):
        if not _has_changed(run, setting):
            return setting
        setting = decide_again()
    return setting


def _has_changed(run: RunContext, setting: ThrottleSetting) -> bool:
    """Whether the cluster shows something else than a setting was decided on; what does not answer now shows nothing."""
    if not setting.changes:
        return False
    now, before = describe_throttles(run, {c.resource for c in setting.changes}), setting.before
    return any(
        c.resource in now and now[c.resource].get(c.key) != before.get(c.resource, {}).get(c.key)
        for c in setting.changes
    )


def outcome_of(run: RunContext, setting: ThrottleSetting, refused: Collection[ConfigResource]) -> Outcome:
    """Return what became of the changes that were just made; note in the journal what is in place.

    What is neither seen nor refused stays under way: a clear that comes before it shows would forget it. Where nothing
    had to be changed, a rate may be seen in place that was not yet when it was set.
    """
    plan, journal, seen = setting.plan, setting.journal, setting.before
    arrives_from = run.now() - LATEST_ARRIVAL

    def noted(latest: Journal) -> tuple[Journal, bool]:
        unseen = unseen_of(journal, setting.name, seen).intersection(plan.resources).difference(refused)
        left, came_too_late = ended(latest, setting.name, setting.journal, unseen=unseen)
        return confirmed(plan, left, seen, arrives_from=arrives_from), came_too_late

    if setting.changes:
        seen = settled_configs(run, plan.resources, lambda configs: not missing_throttle(plan, configs, journal))
    elif confirmed(plan, journal, seen, arrives_from=arrives_from) == journal:
        return Outcome(missing_throttle(plan, seen, journal))
    return Outcome(missing_throttle(plan, seen, journal), run.record.update_journal(noted))


def refuse_cleared(run: RunContext, setting: ThrottleSetting) -> None:
    """Make sure, right before changes are made, that they have not been cleared since they were journalled.

    Raises:
        OvertakenError: they have, so nobody needs them any more.
    """
    if setting.changes and is_cleared(run.record.journal(), setting.name, setting.journal):
        raise overtaken("the throttle was cleared while it was set, so it is not set")


def was_cleared(run: RunContext, setting: ThrottleSetting) -> bool:
    """Whether something of what is about to be changed was cleared since it was journalled: then nothing is under way any more."""
    if not is_cleared(run.record.journal(), setting.name, setting.journal):
        return False
    run.record.update_journal(lambda latest: (begun(latest, (), setting.name, run.now()), None))
    return True


def facts_of(setting: ThrottleSetting, refused: Mapping[ConfigResource, Refusal]) -> dict[str, object]:
    """Return a setting as an audit event has it."""
    return {
        "changes": [str_change(c) for c in setting.changes],
        "before": shown(setting.before),
        "refused": as_texts(refused),
    }


def observe_listed(run: RunContext, listed: Iterable[ThrottledReplicas]) -> View:
    """Return what the cluster shows of the partitions that lists of throttled replicas name."""
    return observe_replicas(run.cluster, {TopicPartition(r.topic, partition_of(e)) for r in listed for e in r.entries})


def describe_throttles(run: RunContext, resources: Iterable[ConfigResource]) -> Configs:
    """Return the throttle configs of brokers and topics as the cluster shows them."""
    return run.cluster.describe_configs(sorted(resources), THROTTLE_KEYS)


def settled_configs(run: RunContext, resources: Collection[ConfigResource], done: Callable[[Configs], bool]) -> Configs:
    """Describe until it shows what was just set: brokers learn of a change a moment after it is accepted."""
    for pause in SETTLE_PAUSES:
        seen = describe_throttles(run, resources)
        if done(seen):
            return seen
        run.sleep(pause)
    return describe_throttles(run, resources)


def apply_changes(run: RunContext, changes: Iterable[ConfigChange]) -> dict[ConfigResource, Refusal]:
    """Ask for changes, and return the refusals by resource."""
    wanted = list(changes)
    return refusals(run.cluster.alter_configs(wanted)) if wanted else {}


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
