"""Restoring what a throttle replaced, by the journal, and taking over what earlier reassignments owe (KIP-179)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import uuid4

from kafka_reassignment.advice import SWEEP_DAG_ID, Advice, advice_as_data, sentence
from kafka_reassignment.decisions.admission import hung_moves
from kafka_reassignment.decisions.throttle import (
    LATEST_ARRIVAL,
    NOTHING,
    Clearing,
    Journal,
    Needed,
    Side,
    all_of,
    arrived,
    begun,
    changes_to_restore,
    changes_to_throttle,
    listed_in,
    needed_replicas,
    owed_texts_but,
    throttle_to_put_back,
    union,
    without_new_of,
    without_older,
)
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigValue,
    Refusal,
    Step,
    TopicPartition,
)
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.moves import as_texts, format_reasons
from kafka_reassignment.steps.base.view import CONFIRM_SECONDS, observe_replicas
from kafka_reassignment.steps.left.left_over import to_end_moves
from kafka_reassignment.steps.throttling.throttle_configs import (
    Configs,
    ThrottleSetting,
    apply_changes,
    decided_on_what_is_there,
    describe_throttles,
    observe_listed,
    outcome_of,
    settled_configs,
    shown,
    str_change,
    was_cleared,
)

TAKE_OVER_TRIES = 10
"""How often a journal is taken over that its own reassignment still writes."""

RESTORE_TRIES = 5
"""How often what is owed is restored: a task of ours may set it again meanwhile, and a change of the rate goes on for eleven seconds.

One of them is that which deletes the lists that the one before has emptied.
"""


@dataclass(frozen=True, slots=True)
class Restored:
    """What restoring left: ``owed`` in words, and the partitions that still copy and keep their throttle.

    ``hung`` are those of them whose moves do not end by themselves, and why; ``advice`` is what ends these. Where no
    batch waits for such a move, nothing else tells of it. ``stuck`` are those of ``hung`` that have nothing left to
    copy: Kafka 3.9 to 4.2 completes such a move when all is in sync. ``behind`` are those of ``copying`` that are not in
    flight: a replica of theirs is out of sync.
    """

    owed: tuple[str, ...]
    copying: tuple[TopicPartition, ...] = ()
    hung: Mapping[TopicPartition, str] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    stuck: tuple[TopicPartition, ...] = ()
    behind: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        copying = [p for p in self.copying if p not in self.hung]
        kept = f"; the throttle of {name_some(copying)} stays while they copy" if copying else ""
        owed = f"; still owed: {name_some(self.owed)}" if self.owed else ""
        hung = f"; {self.hung_in_words}. {sentence(self.advice)}" if self.hung else ""
        return f"earlier throttle values restored{kept}{owed}{hung}"

    @property
    def hung_in_words(self) -> str:
        """For which moves that do not end by themselves a throttle stays."""
        return f"the throttle stays for moves that do not end by themselves: {format_reasons(self.hung)}"


def restore_configs(run: RunContext, event: AuditDraft, *, never_begun: Collection[Step] = ()) -> Restored:
    """Take back what the journal says is ours and nothing needs any more; return what is left.

    What any move of ours still needs stays, of whatever batch or reassignment of the cluster; so does all that the
    reassignment has in place which has the cluster's lock. The journal keeps a record until the cluster shows its
    earlier value, so a crash at any point loses nothing. What was not seen at all is looked for twice: a broker may be
    behind.

    Args:
        run: its record has the journal.
        event: gets the changes as facts.
        never_begun: steps of which nothing was submitted: a replica that they would add copies because of others.
    """
    others = _other_journals(run)
    their_journals = [theirs for _, theirs in others]
    journal = _with_what_arrived(run, their_journals)
    in_place = _in_place_of_lock_owner(run, others)
    before: dict[ConfigResource, Mapping[str, ConfigValue]] = {}
    changes: list[ConfigChange] = []
    changed_by_others: list[str] = []
    refused: dict[ConfigResource, Refusal] = {}
    for _ in range(RESTORE_TRIES):
        copying = _copying(run, journal, their_journals, never_begun)
        keep = copying.joined(in_place)
        seen = describe_throttles(run, journal.resources)
        clearing = changes_to_restore(journal, seen, keep=keep, others=their_journals)
        before, changes = {**seen, **before}, [*changes, *clearing.changes]
        changed_by_others += clearing.changed_by_others
        refused |= apply_changes(run, clearing.changes)
        if clearing.changes:
            _settle(run, journal, keep, clearing.changes)
            copying = _copying(run, journal, their_journals, never_begun)
            keep = copying.joined(in_place)
            refused |= _put_back(run, journal, clearing.changes, keep, seen)
        if clearing.has_unseen:
            run.sleep(CONFIRM_SECONDS)
        left = run.record.update_journal(partial(_left, run, keep, their_journals))
        journal = left.journal
        if all(change.resource in refused for change in left.changes):
            break
        emptied = {(c.resource, c.key) for c in clearing.changes if c.operation is ConfigOperation.SUBTRACT}
        if not all((c.resource, c.key) in emptied for c in left.changes):
            run.sleep(CONFIRM_SECONDS)  # a task of ours has set something since
    restored = _restored(run, owed_texts_but(journal, keep), copying.copying if journal.rates or journal.lists else ())
    if restored.advice:
        event.facts["advice"] = advice_as_data(restored.advice)
    event.facts["throttle"] = {
        "changes": [str_change(c) for c in changes],
        "before": shown(before),
        "changed_by_others": changed_by_others,
        "refused": as_texts(refused),
        "kept_for": list(map(str, restored.copying)),
        "owed": list(restored.owed),
    }
    for text in changed_by_others:
        run.log.warning("Left alone: %s", text)
    return restored


def split_owed(cluster: ClusterPort, record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return in words what a reassignment owes to what is there, and apart what brokers that are down have still of it."""
    journal = record.journal()
    if not journal.rates:
        return journal.owed_texts(), ()
    of_down = journal.of_down_brokers(cluster.describe_cluster().live_brokers)
    keys: dict[int, list[str]] = {}
    for rate in of_down.rates:
        keys.setdefault(rate.broker, []).append(rate.side.rate_key)
    return journal.without(of_down).owed_texts(), tuple(
        f"broker {broker} is down and still has our {' and '.join(rates)}; {SWEEP_DAG_ID} restores what was there before "
        "as soon as the broker is back"
        for broker, rates in sorted(keys.items())
    )


def _settle(run: RunContext, journal: Journal, keep: Needed, made: Collection[ConfigChange]) -> None:
    """Wait until the cluster shows what was changed; what is due only then is for the next try."""
    settled_configs(
        run,
        journal.resources,
        lambda seen: not set(made).intersection(changes_to_restore(journal, seen, keep=keep).changes),
    )


def _put_back(
    run: RunContext,
    journal: Journal,
    taken: Collection[ConfigChange],
    needed: Needed,
    before: Configs,
) -> dict[ConfigResource, Refusal]:
    """Put back what was just taken away though it is needed; return the refusals.

    It is journalled and decided on what is seen as every setting is: another client may have set a rate since, and
    another try may have cleared the rest. What shows still as it was ``before`` counts as taken away: brokers may be
    behind. What comes too late is owed again, and restored by the next pass.
    """
    if not throttle_to_put_back(journal, taken, needed).resources:
        return {}
    name = str(uuid4())

    def journalled(latest: Journal) -> tuple[Journal, ThrottleSetting]:
        plan = throttle_to_put_back(latest, taken, needed)
        seen = describe_throttles(run, plan.resources)
        updated, changes = changes_to_throttle(plan, latest, _as_taken(seen, taken, before))
        updated = begun(updated, changes, name, run.now())
        return updated, ThrottleSetting(name, plan, latest, updated, seen, tuple(changes))

    setting = run.record.update_journal(journalled)
    setting = decided_on_what_is_there(run, setting, lambda: run.record.update_journal(journalled))
    if was_cleared(run, setting):
        return {}
    refused = apply_changes(run, setting.changes)
    outcome_of(run, setting, refused)
    return refused


def _as_taken(seen: Configs, taken: Collection[ConfigChange], before: Configs) -> Configs:
    """What is seen; what shows still as it was before is as the change makes it: an earlier rate, else nothing."""
    found = {resource: dict(values) for resource, values in seen.items()}
    for change in taken:
        values, old = found.get(change.resource, {}), before.get(change.resource, {}).get(change.key)
        if old is None or values.get(change.key) != old:
            continue
        if change.operation is ConfigOperation.SET:
            values[change.key] = replace(old, value=change.value)
        else:
            del values[change.key]
    return found


def _left(run: RunContext, keep: Needed, others: Collection[Journal], latest: Journal) -> tuple[Journal, Clearing]:
    """Return the journal of what is owed still, also of what has arrived since, and the changes that would restore it."""
    seen = describe_throttles(run, {*latest.resources, *latest.resources_underway})
    clearing = changes_to_restore(arrived(latest, seen, others), seen, keep=keep, others=others)
    left = without_older(clearing.journal, run.now() - LATEST_ARRIVAL, seen)
    return left, replace(clearing, journal=left)


def _restored(run: RunContext, owed: tuple[str, ...], copying: tuple[TopicPartition, ...]) -> Restored:
    if not copying:
        return Restored(owed)
    view = observe_replicas(run.cluster, copying)
    hung = hung_moves(view)
    advice = to_end_moves(view)
    stuck = tuple(p for p in hung if set(view.in_flight[p].target) <= view.in_sync(p))
    behind = tuple(p for p in copying if p not in view.in_flight)
    return Restored(owed, copying, hung, run.for_this_cluster(advice), stuck, behind)


def _with_what_arrived(run: RunContext, others: Collection[Journal]) -> Journal:
    """Return the journal with what is seen of changes that came after it was cleared: it owes them again."""
    journal = run.record.journal()
    if not journal.underway:
        return journal

    def owing(latest: Journal) -> tuple[Journal, Journal]:
        found = arrived(latest, describe_throttles(run, latest.resources_underway), others)
        return found, found

    return run.record.update_journal(owing)


def adopt_debts(run: RunContext) -> tuple[str, ...]:
    """Take over what earlier reassignments of this cluster still owe its configs (KIP-179); return from which ones.

    This reassignment has the lock of the cluster: it looks after what of theirs still copies from now on. Their
    journals lose exactly what was taken over; what a late task of theirs journals meanwhile is taken over as well, or
    stays.
    """
    return tuple(r.reassignment_id for r, _ in _other_journals(run) if _take_over(run, r))


def adopt_setters(run: RunContext, rates: Collection[tuple[int, Side, ConfigValue]]) -> tuple[str, ...]:
    """Take over the debts of those reassignments that set one of these rates; return which ones."""
    if not rates:
        return ()
    return tuple(
        r.reassignment_id
        for r, j in _other_journals(run)
        if any(j.has_set(*rate) for rate in rates) and _take_over(run, r)
    )


def _take_over(run: RunContext, other: Record) -> bool:
    def joined(own: Journal) -> tuple[Journal, Journal]:
        # Read here: another try may have taken the debts over, and paid them, since this one looked.
        debts = other.journal()
        return union(own, debts), debts

    for tried in range(TAKE_OVER_TRIES):
        debts = other.journal()
        if not (debts.rates or debts.lists or debts.underway):
            return tried > 0
        debts = run.record.update_journal(joined)
        other.update_journal(lambda theirs, older=debts: (theirs.without(older), None))  # type: ignore[misc]
    return True


def _other_journals(run: RunContext) -> list[tuple[Record, Journal]]:
    journals = run.store.open_journals(run.record.cluster_id)
    for error in journals.damaged:
        run.log.warning("Its debts are not known: %s", error)
    return [(record, journal) for record, journal in journals.found if record.root != run.record.root]


def _copying(run: RunContext, own: Journal, others: Collection[Journal], never_begun: Collection[Step]) -> Needed:
    """What copies because of these journals; seen twice unless it is in flight, as brokers show old news of what has landed."""
    of_own = without_new_of(never_begun, listed_in(own))
    of_others = [replicas for journal in others for replicas in listed_in(journal)]
    listed = (*of_own, *of_others)
    if not listed:
        return NOTHING

    view = observe_listed(run, listed)
    found = needed_replicas(listed, view)
    if set(found.copying) <= set(view.in_flight):
        return found
    run.sleep(CONFIRM_SECONDS)
    return needed_replicas(listed, observe_listed(run, listed))


def _in_place_of_lock_owner(run: RunContext, others: Collection[tuple[Record, Journal]]) -> Needed:
    """All that another reassignment has in place while it is at work: it may be about to submit."""
    owner = run.store.lock_owner(run.record.cluster_id)
    return all_of(
        replicas
        for record, journal in others
        if owner is not None and record.reassignment_id == owner.reassignment_id
        for replicas in listed_in(journal)
    )
