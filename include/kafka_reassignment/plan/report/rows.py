"""A plan's summary as the rows of charts and tables. Bytes become GB (decimal)."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_reassignment.plan.summary import BatchSummary, BrokerSummary, LogDirSummary, PlanSummary

Row = dict[str, str | int | float | bool | None]

GB = 1e9

MAX_POINTS = 600
"""Points of the charts over batches; of more batches, several are one point."""

NO_RACK_LABEL = "(none)"


def gb(bytes_: float) -> float:
    """Bytes as GB, rounded to 0.1 MB."""
    return round(bytes_ / GB, 4)


def broker_rows(summary: PlanSummary) -> list[Row]:
    """One row per broker, rack by rack."""
    ordered = sorted(summary.brokers, key=lambda b: (b.rack or NO_RACK_LABEL, b.broker))
    return [_broker_row(broker, summary.tolerance) for broker in ordered]


def _broker_row(broker: BrokerSummary, tolerance: float) -> Row:
    share = None if broker.share_bytes is None else gb(broker.share_bytes)
    return {
        "label": str(broker.broker),
        "broker": broker.broker,
        "rack": broker.rack or NO_RACK_LABEL,
        "alive": broker.alive,
        "share": share,
        "low": None if share is None else round(share * (1 - tolerance), 4),
        "high": None if share is None else round(share * (1 + tolerance), 4),
        "bytes_before": gb(broker.bytes_before),
        "bytes_after": gb(broker.bytes_after),
        "replicas_before": broker.replicas_before,
        "replicas_after": broker.replicas_after,
        "leaders_before": broker.leaders_before,
        "leaders_after": broker.leaders_after,
        "received": gb(broker.bytes_received),
        "sent": gb(broker.bytes_sent),
    }


def rack_rows(summary: PlanSummary) -> list[Row]:
    """Two rows per rack: before and after."""
    racks: dict[str, list[BrokerSummary]] = {}
    for broker in summary.brokers:
        racks.setdefault(broker.rack or NO_RACK_LABEL, []).append(broker)
    rows: list[Row] = []
    for rack, brokers in sorted(racks.items()):
        for when in ("before", "after"):
            sums = {
                what: sum(getattr(broker, f"{what}_{when}") for broker in brokers)
                for what in ("bytes", "replicas", "leaders")
            }
            rows.append(
                {
                    "rack": rack,
                    "when": when,
                    "brokers": len(brokers),
                    "bytes": gb(sums["bytes"]),
                    "replicas": sums["replicas"],
                    "leaders": sums["leaders"],
                }
            )
    return rows


def batch_rows(batches: Iterable[BatchSummary]) -> list[Row]:
    """One row per batch that copies, or per several consecutive ones; ``busiest_gb`` are of the busiest broker of each of them."""
    copying = [b for b in batches if b.bytes_to_copy]
    together = max(1, -(-len(copying) // MAX_POINTS))
    return [
        {
            "batch": some[0].number,
            "steps": sum(b.steps for b in some),
            "gb": gb(sum(b.bytes_to_copy for b in some)),
            "busiest_gb": gb(sum(b.busiest_bytes for b in some)),
        }
        for some in (copying[at : at + together] for at in range(0, len(copying), together))
    ]


def fullest_first(log_dirs: Iterable[LogDirSummary]) -> list[LogDirSummary]:
    """Log dirs by the part of them that is free at the peak, least first; those without reported sizes last."""

    def free_part(log_dir: LogDirSummary) -> tuple[bool, float, int, str]:
        free, total = log_dir.free_at_peak, log_dir.total_bytes
        known = free is not None and total is not None and total > 0
        return not known, (free or 0) / (total or 1), log_dir.broker, log_dir.path

    return sorted(log_dirs, key=free_part)
