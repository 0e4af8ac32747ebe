"""The rate at the admission of a batch: whether it is enough for what producers write, and for what else copies under it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil

from kafka_reassignment.advice import Rerun
from kafka_reassignment.decisions.admission import inbound_bytes_per_second, new_writes
from kafka_reassignment.decisions.auto_rate import at_highest, reachable_rates
from kafka_reassignment.decisions.rate import healthy, rates_to_double, rates_to_reach
from kafka_reassignment.decisions.throttle import NOTHING, Needed, RateChange, Side, listed_in, needed_replicas
from kafka_reassignment.decisions.throttle.wanted import partition_of
from kafka_reassignment.errors import InvalidThrottleError
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples
from kafka_reassignment.steps.rate import to_change
from kafka_reassignment.steps.throttling.throttle_configs import observe_listed

Ends = Mapping[tuple[Side, int], float]
"""Bytes per second of each side of each broker."""


def writes_and_rates(
    run: RunContext, recorded: RecordView, beginning: Batch, view: View, samples: SizeSamples
) -> tuple[Ends, dict[tuple[Side, int], int]]:
    """Return what each side of each broker would have to copy of new writes alone, and the rate that it may reach.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        beginning: what of the batch does not move yet.
        view: of its partitions.
        samples: of their sizes, that of this look included.
    """
    load = new_writes(beginning, view, inbound_bytes_per_second(beginning, view, samples.seen))
    rates = reachable_rates(run.request, recorded.journal(), load)
    return (load, rates) if rates else ({}, {})


def outpaced_too_long(
    run: RunContext, recorded: RecordView, batch: Batch, outpaced: Mapping[tuple[Side, int], str], written: Ends
) -> InvalidThrottleError:
    """Return the error of a batch that waits for producers to write less, which they may never do: a person has to choose."""
    # Half of the rate is left for what is behind. It replaces a slow-down, and is no lower than what was asked for
    # before that.
    needed = {(broker, side): ceil(2 * written[side, broker] / MEGABYTE) * round(MEGABYTE) for side, broker in outpaced}
    return InvalidThrottleError(
        f"Batch {batch.number} waited {run.request.catch_up_timeout_minutes} min in vain: {'; '.join(outpaced.values())}",
        *to_change(run, rates_to_reach(run.request, at_highest(run.request, healthy(recorded.journal())), needed)),
        Rerun("admit", batch=batch.number),
    )


def under_our_throttle(run: RunContext, recorded: RecordView, foreign: Collection[TopicPartition]) -> Needed:
    """Return what copies of other clients' moves under the throttle in place: each took over a partition while this reassignment moved it."""
    listed = listed_in(recorded.journal())
    if run.request.throttle_bytes_per_second is None or not any(
        TopicPartition(r.topic, partition_of(e)) in foreign for r in listed for e in r.entries
    ):
        return NOTHING
    needed = needed_replicas(listed, observe_listed(run, listed))
    return needed.without(p for p in needed.copying if p not in foreign)


def higher_rates(run: RunContext, recorded: RecordView, throttled: Needed) -> tuple[RateChange, ...]:
    """Return twice the rates of what copies: replicas in sync use up a leader's rate as well, so at twice the rate it may end."""
    # Twice a lowered rate would replace the higher one.
    return rates_to_double(run.request, at_highest(run.request, healthy(recorded.journal())), throttled.rates)
