"""What helps replicas on live brokers to get on: a rate, or what no rate helps."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_reassignment.advice import CANCEL_DAG_ID, Advice, Correct
from kafka_reassignment.decisions.stuck import StuckBroker
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Replicas, TopicPartition, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.failed_log_dirs import repair
from kafka_reassignment.steps.rate import rates_to_raise


def to_get_on(
    run: RunContext,
    recorded: RecordView,
    waiting: Mapping[TopicPartition, Replicas],
    view: View,
    stuck: Collection[StuckBroker],
    *,
    blocked: Collection[TopicPartition] = (),
) -> tuple[Advice, ...]:
    """Return the advice about rates that are too low, and about replicas that get nowhere at any rate.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        waiting: by partition, the brokers whose replicas are waited for.
        view: what was seen of them.
        stuck: the brokers of which some get nowhere: no rate is raised for these.
        blocked: partitions that something else holds up. No rate of ours is raised for them, but a lower one of another
            client may be what keeps a replica that stays out of sync.
    """
    nowhere = {
        (partition, one.broker)
        for one in stuck
        for partition in one.partitions
        if one.failed_log_dirs or partition not in blocked
    }
    rates = rates_to_raise(run, recorded, waiting, view, blocked=blocked, nowhere=nowhere)
    return (*rates, *map(_to_mend, stuck))


def _to_mend(one: StuckBroker) -> Correct:
    if not one.failed_log_dirs:
        return Correct(
            f"look at the log of broker {one.broker}, whose replicas of {name_some(one.partitions)} do not get into sync: its "
            "log dir may be offline, or it needs a restart"
        )
    return Correct(
        f"{repair(one)}; or trigger {CANCEL_DAG_ID}, and ask again for a plan without broker {one.broker} (in exclude_brokers where it was to get replicas, by the job "
        "decommission where it has them)"
    )
