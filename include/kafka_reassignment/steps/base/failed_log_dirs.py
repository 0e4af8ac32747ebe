"""Log dirs of live brokers that have failed, and keep replicas out of sync."""

from __future__ import annotations

from itertools import chain

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.samples import sample_of
from kafka_reassignment.decisions.stuck import StuckBroker, stuck_brokers
from kafka_reassignment.model import View
from kafka_reassignment.steps.base.context import RunContext


def to_repair_log_dirs(run: RunContext, seen: View) -> tuple[Correct, ...]:
    """Return the advice about failed log dirs of live brokers, where these keep replicas out of sync: no wait helps.

    Args:
        run: whose cluster it is.
        seen: the partitions all of whose replicas are to be in sync.
    """
    missing = {p: tuple(b for b in s.replicas if b not in s.isr) for p, s in seen.partitions.items()}
    waiting = {p: brokers for p, brokers in missing.items() if brokers}
    live = seen.live_brokers.intersection(chain.from_iterable(waiting.values()))
    if not live:
        return ()
    sample = sample_of(run.cluster.describe_log_dirs(sorted(live), sorted(waiting)), at_seconds=0.0)
    return tuple(Correct(repair(one)) for one in stuck_brokers(waiting, seen, sample))


def repair(one: StuckBroker) -> str:
    """Return the advice about log dirs that have failed, as a clause."""
    return f"repair the log dirs of broker {one.broker} that have failed, {one.failed_in_words}, and restart it"
