"""What bounds the time of a plan, and what would shorten it, in words for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kafka_reassignment.plan.summary import BrokerSummary, PlanSummary
from kafka_reassignment.request import Job, balances_bytes

NEEDED = 0.98
"""A receiver that needs this part of what it gets to come inside the tolerance could not get much less."""

NEAR = 0.98
"""Ends that copy this part of the busiest one's bytes bound the time as well."""

LONG_CHAIN = 1.05
"""Batches that together take more than this times what the busiest broker needs bound the time themselves."""

ALONE = 0.5
"""Where no other replica can send this part of a sender's bytes, that is the reason."""


@dataclass(frozen=True, slots=True)
class End:
    """One side of a broker: what it sends or what it receives."""

    broker: BrokerSummary
    sends: bool

    @property
    def bytes(self) -> int:
        """Bytes that it copies in the whole plan."""
        return self.broker.bytes_sent if self.sends else self.broker.bytes_received

    def __str__(self) -> str:
        """Name it with its verb: ``broker 3 sends``."""
        return f"broker {self.broker.broker} {'sends' if self.sends else 'receives'}"


def time_bound(plan: PlanSummary, bytes_per_second: int | None) -> tuple[str, ...]:
    """Return sentences: what bounds the time of the copies, why, and what would shorten it; none if nothing is known.

    Args:
        plan: its summary.
        bytes_per_second: the rate that is asked for each broker; None when unthrottled.
    """
    ends = [End(broker, sends) for broker in plan.brokers for sends in (False, True)]
    ends = sorted((end for end in ends if end.bytes), key=lambda end: (-end.bytes, end.sends, end.broker.broker))
    if not ends:
        return ()
    busiest = ends[0]
    return (
        _what(ends, bytes_per_second),
        _why(plan, busiest),
        _shorter(ends, bytes_per_second),
        *_batches(plan, busiest),
    )


def _what(ends: list[End], rate: int | None) -> str:
    busiest, same = ends[0], [end for end in ends if end.sends == ends[0].sends]
    long = f", {_time(busiest.bytes, rate)} at {_rate(rate)}" if rate else ""
    mean = sum(end.bytes for end in same) / len(same)
    return (
        f"The time is bound by what {busiest}: {_gb(busiest.bytes)}{long}. The mean of the {len(same)} brokers that "
        f"{'send' if busiest.sends else 'receive'} is {_gb(mean)}."
    )


def _why(plan: PlanSummary, busiest: End) -> str:
    broker = busiest.broker
    if busiest.sends:
        if broker.bytes_sent_alone >= ALONE * busiest.bytes:
            return (
                f"{_gb(broker.bytes_sent_alone)} of it no other replica can send: the others of these partitions leave, are "
                "down or do not exist."
            )
        return (
            "It leads these partitions. Other replicas that lead first would send in its place, but the whole would not be over earlier, or "
            "too many leaders would change."
        )
    if plan.job is Job.APPLY_JSON:
        return "The reassignment JSON puts these replicas there."
    needs = 0.0 if broker.share_bytes is None else broker.share_bytes * (1 - plan.tolerance) - broker.bytes_before
    if balances_bytes(plan.job, plan.mode) and needs >= NEEDED * busiest.bytes:
        return (
            f"The job asks for it: broker {broker.broker} has to get {_gb(needs)} to come inside the tolerance of "
            f"{plan.tolerance:.0%}. No other plan of this job is over earlier."
        )
    return "Emptier brokers get more, up to twice the mean where racks and space allow it, so that the cluster ends more even."


def _shorter(ends: list[End], rate: int | None) -> str:
    busiest = ends[0]
    near = sum(end.bytes >= NEAR * busiest.bytes for end in ends)
    if near > 1:
        return f"{near} brokers are about as busy: only a higher rate for all of them shortens it."
    if len(ends) == 1:
        return f"A higher rate for broker {busiest.broker.broker} shortens it."
    following = ends[1]
    to = f" to {_time(following.bytes, rate)}" if rate else ""
    much = f" of {_rate(rate * busiest.bytes / following.bytes)}" if rate else ""
    return f"A higher rate{much} for broker {busiest.broker.broker} alone shortens it{to}; then {following} longest."


def _batches(plan: PlanSummary, busiest: End) -> tuple[str, ...]:
    chain = sum(b.busiest_bytes for b in plan.batches) / busiest.bytes
    if chain <= LONG_CHAIN:
        return ()
    text = (
        f"Its batches together take {chain:.2f} times as long, because not every broker is busy in each of them: more "
        "'partition_movements' for each batch shorten that."
    )
    return (text,)


def _time(count: float, rate: int | None) -> str:
    return str(timedelta(seconds=round(count / rate))) if rate else ""


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


def _gb(count: float) -> str:
    return f"{count / 1e9:,.3f} GB"
