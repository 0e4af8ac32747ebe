"""The throttle of a batch that does not begin, or go on, after all: it waits for a window, for another client's moves, or for a person."""

from __future__ import annotations

from kafka_reassignment.decisions.throttle import listed_in, needed_replicas, replicas_listed
from kafka_reassignment.errors import overtaken
from kafka_reassignment.model import Batch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.throttling.restore import restore_configs
from kafka_reassignment.steps.throttling.throttle_configs import observe_listed


def clear_idle_throttle(run: RunContext, recorded: RecordView, number: int) -> None:
    """Restore what a throttle replaced that was set for a batch which does not begin or waits, with an audit event of its own.

    Its leaders would stay at the low rate with which copies begin, and its lists name replicas that are there: one that
    restarts meanwhile would come back slowly, and so would the copies of another client that has taken a partition over
    since it was submitted. Nothing is done while anything copies that the journal lists.
    """
    journal = recorded.journal()
    if journal.is_settled:
        return
    listed = listed_in(journal)
    if needed_replicas(listed, observe_listed(run, listed)).copying:
        return
    event, began = AuditDraft(), run.now()
    event.summary = f"nothing copies under the throttle of batch {number}: {restore_configs(run, event)}"
    if event.facts["throttle"]["changes"]:
        run.write_event("clear_idle_throttle", number, began, event)


def refuse_unlisted(run: RunContext, beginning: Batch) -> None:
    """Make sure, right before something is submitted, that no other try has cleared the throttle that was set for it.

    Raises:
        OvertakenError: one has.
    """
    if run.request.throttle_bytes_per_second is None:
        return
    listed = {(r.topic, r.side): frozenset(r.entries) for r in listed_in(run.record.journal())}
    if any(
        not listed.get((r.topic, r.side), frozenset()).issuperset(r.entries) for r in replicas_listed(beginning.steps)
    ):
        raise overtaken(
            f"the throttle of batch {beginning.number} was cleared since it was set; nothing more is submitted"
        )
