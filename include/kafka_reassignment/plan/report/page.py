"""The page: tables and charts in a template."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from importlib.resources import files

from kafka_reassignment.plan.report.charts import charts
from kafka_reassignment.plan.report.rows import batch_rows, broker_rows, fullest_first, rack_rows
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.plan.time_bound import time_bound
from kafka_reassignment.templates import html_templates

MAX_LOG_DIRS = 30
"""Log dirs in the table, the fullest first."""


def title_of(reassignment_id: str, cluster_id: str) -> str:
    """Return the heading of a report."""
    return f"Plan of reassignment {reassignment_id} of cluster {cluster_id}"


def plan_page(summary: PlanSummary, *, title: str, bytes_per_second: int | None = None, nonce: str = "") -> str:
    """Return the report of a plan as one HTML page that loads nothing.

    Args:
        summary: the plan in numbers.
        title: heading.
        bytes_per_second: the rate of the estimated time; None when unthrottled.
        nonce: of its scripts, where the page is served with a content security policy.
    """
    brokers, batches = broker_rows(summary), batch_rows(summary.batches)
    inflow = [b.bytes_received for b in summary.brokers if b.alive and b.share_bytes is not None]
    leaders = [b.leaders_after for b in summary.brokers if b.alive]
    environment = html_templates("kafka_reassignment.plan.report")
    environment.filters["gb"] = lambda value: f"{value / 1e9:,.3f}"
    return environment.get_template("page.html.j2").render(
        title=title,
        plan=summary,
        duration=None if summary.seconds_at_rate is None else str(timedelta(seconds=summary.seconds_at_rate)),
        rate=bytes_per_second,
        time_bound=time_bound(summary, bytes_per_second),
        racks=rack_rows(summary),
        brokers=brokers,
        log_dirs=fullest_first(summary.log_dirs)[:MAX_LOG_DIRS],
        copying_batches=sum(bool(b.bytes_to_copy) for b in summary.batches),
        chain=_chain(summary),
        busiest_inflow=_busiest(inflow),
        busiest_leader=_busiest(leaders),
        charts=charts(brokers, batches),
        datasets={"brokers": brokers, "racks": rack_rows(summary), "batches": batches},
        script=_vega(),
        nonce=nonce,
    )


@cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed, which draw the charts; without the names of source maps, which are not there."""
    folder = files("kafka_reassignment.plan.report") / "vega"
    texts = (folder.joinpath(f"{name}.min.js").read_text("utf-8") for name in ("vega", "vega-lite", "vega-embed"))
    lines = (line for text in texts for line in text.split("\n"))
    return "\n".join(line for line in lines if not line.startswith("//# sourceMappingURL="))


def _chain(summary: PlanSummary) -> float | None:
    """The bytes of each batch's busiest broker together, over those of the busiest broker of the whole plan; None when unknown."""
    whole = max((max(b.bytes_received, b.bytes_sent) for b in summary.brokers), default=0)
    return sum(b.busiest_bytes for b in summary.batches) / whole if whole else None


def _busiest(numbers: list[int]) -> float | None:
    """Largest over mean; None when all are 0."""
    return max(numbers) * len(numbers) / sum(numbers) if sum(numbers) else None
