"""Preferred leaders (KIP-460): of a batch when it is done, and of all planned partitions after the last batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kafka_reassignment.decisions.tiering import too_cold_to_lead
from kafka_reassignment.model import Batch, Reassignment, TopicPartition, View
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.finished import is_finished_reassignment
from kafka_reassignment.steps.base.moves import SLICE, as_texts, format_reasons
from kafka_reassignment.steps.base.view import observe_replicas, tiered_topics
from kafka_reassignment.steps.throttle import throttle_in_words

WAIT_SECONDS = 120
"""How long elections that are refused now, or whose preferred leader is out of sync on a live broker, are tried again."""

BETWEEN_TRIES_SECONDS = 5


@dataclass
class Elections:
    """What came of the elections.

    ``refused`` are the partitions that another try may help, with the reason; ``too_cold`` keep their leader because
    the preferred one has too little of their tiered topic on its own disk.
    """

    elected: list[TopicPartition] = field(default_factory=list)
    refused: dict[TopicPartition, str] = field(default_factory=dict)
    too_cold: dict[TopicPartition, str] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """One line for people."""
        text = f"{len(self.elected)} preferred leaders elected"
        if self.refused:
            text += f", {len(self.refused)} not: {format_reasons(self.refused)}"
        if self.too_cold:
            text += (
                f"; {len(self.too_cold)} keep their leader until the new replica has more of their tiered topic on its own "
                f"disk: {format_reasons(self.too_cold)}"
            )
        return text

    @property
    def facts(self) -> dict[str, Any]:
        """As an audit event holds them."""
        return {
            "elected": [str(p) for p in self.elected],
            "refused": as_texts(self.refused),
            "too_cold": as_texts(self.too_cold),
        }


def elect_leaders(run: RunContext) -> None:
    """Make the preferred leader of every planned partition lead that is at its target.

    Waits a moment for those that cannot lead now. Partitions that are elsewhere (another client moved them) keep their
    leader.

    Raises:
        StoppedError, ReassignmentInProgressError, LockLostError: this reassignment must not change anything now.
    """
    if is_finished_reassignment(run, "elect_leaders"):
        return
    with run.audited("elect_leaders") as event:
        run.require_go_ahead()
        withdrawn = run.record.withdrawn_partitions()
        found, again = Elections(), list[Reassignment]()
        planned = (m for m in read_target(run.record.plan_ref()) if str(m.partition) not in withdrawn)
        for moves in in_slices(planned, SLICE):
            run.require_go_ahead()
            again += _elect(run, moves, _observed(run, moves), found)
        until = run.now() + timedelta(seconds=WAIT_SECONDS)
        while again and run.now() < until:
            throttle_in_words(run, RecordView(run.record))
            run.sleep(BETWEEN_TRIES_SECONDS)
            tried, again = again, []
            for moves in in_slices(tried, SLICE):
                run.require_go_ahead()
                again += _elect(run, moves, _observed(run, moves), found)
        event.summary, event.facts = found.in_words, found.facts
        if found.elected:
            run.note_replicas_after(event, found.elected)
        for partition, reason in found.refused.items():
            run.log.warning("%s is not led by its preferred leader: %s", partition, reason)


def elect_moved_leaders(run: RunContext, batch: Batch, view: View) -> Elections:
    """Elect the new preferred leaders of a batch whose partitions are at their target (KIP-435), each tried once.

    What is refused is tried again after the last batch, and where this reassignment must not change anything now, nothing
    more is elected. ``view`` is what was just seen of the batch.
    """
    found = Elections()
    moving = [s.reassignment for s in batch.steps if s.reassignment.is_leader_movement]
    for moves in in_slices(moving, SLICE) if moving else ():
        if not run.may_act:
            break
        _elect(run, moves, view, found)
    return found


def _led_by_another(move: Reassignment, view: View) -> bool:
    """Whether a partition is at its target and led by another broker than its preferred leader."""
    state = view.partitions.get(move.partition)
    return state is not None and state.replicas == move.target and state.leader != move.target[0]


def too_cold(run: RunContext, view: View, due: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
    """Return which of these should keep their leader: the preferred one has too little of a tiered topic locally."""
    tiered = tiered_topics(run.cluster, {p.topic for p in due}) if due else frozenset[str]()
    partitions = [p for p in due if p.topic in tiered]
    if not partitions:
        return {}
    states = [view.partitions[p] for p in partitions]
    brokers = {b for s in states for b in (s.replicas[0], s.leader) if b is not None}
    report = run.cluster.describe_log_dirs(sorted(brokers), partitions)
    local = {(r.partition, r.broker): r.size_bytes for r in report.replicas if not r.is_future}
    return too_cold_to_lead(partitions, view, local)


def _observed(run: RunContext, moves: Sequence[Reassignment]) -> View:
    return observe_replicas(run.cluster, [m.partition for m in moves])


def _elect(run: RunContext, moves: Sequence[Reassignment], view: View, found: Elections) -> list[Reassignment]:
    """Elect where it is due, note the outcome, and return what another try may help."""
    due = [m for m in moves if _led_by_another(m, view)]
    for move in moves:
        found.refused.pop(move.partition, None)
    out_of_sync = [m for m in due if m.target[0] not in view.in_sync(m.partition)]
    for move in out_of_sync:
        state = "out of sync" if move.target[0] in view.live_brokers else "down"
        found.refused[move.partition] = f"its preferred leader {move.target[0]} is {state}"
    in_sync = [m.partition for m in due if m.partition not in found.refused]
    cold = too_cold(run, view, in_sync)
    found.too_cold |= cold
    wanted = [p for p in in_sync if p not in cold]
    for partition, refusal in (run.cluster.elect_preferred_leaders(wanted) if wanted else {}).items():
        if refusal is None:
            found.elected.append(partition)
        else:
            found.refused[partition] = str(refusal)
    return [m for m in due if m.partition in found.refused and m.target[0] in view.live_brokers]
