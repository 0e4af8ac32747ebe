"""The report's charts, as Vega-Lite; their rows stand in the page once and are shared by name."""

from __future__ import annotations

from typing import Any

import altair as alt

from kafka_reassignment.plan.report.rows import Row

BEFORE, AFTER, OTHER = "#9aa7b5", "#2f7de1", "#e0803a"
"""Colours that can be told apart on white and on black, and by colour-blind people."""

INK, GRID = "currentColor", "rgba(128, 128, 128, 0.25)"

Drawn = alt.Chart | alt.LayerChart | alt.FacetChart

MEASURES = (("bytes", "GB"), ("replicas", "replicas"), ("leaders", "preferred leaders"))

TOOLTIP = [
    alt.Tooltip("broker:N"),
    alt.Tooltip("rack:N"),
    alt.Tooltip("bytes_before:Q", title="GB before", format=",.2f"),
    alt.Tooltip("bytes_after:Q", title="GB after", format=",.2f"),
    alt.Tooltip("share:Q", title="fair share, GB", format=",.2f"),
    alt.Tooltip("replicas_before:Q", title="replicas before", format=",d"),
    alt.Tooltip("replicas_after:Q", title="replicas after", format=",d"),
    alt.Tooltip("leaders_before:Q", title="leaders before", format=",d"),
    alt.Tooltip("leaders_after:Q", title="leaders after", format=",d"),
    alt.Tooltip("received:Q", title="GB received", format=",.2f"),
    alt.Tooltip("sent:Q", title="GB sent", format=",.2f"),
]


def charts(brokers: list[Row], batches: list[Row]) -> dict[str, dict[str, Any]]:
    """Return each chart's specification by its name in the page.

    Args:
        brokers: ``broker_rows``; empty for a plan that undoes another, which looks at no broker.
        batches: ``batch_rows``.
    """
    labels = [str(row["label"]) for row in brokers]
    made: dict[str, Drawn] = {}
    if brokers:
        made = {f"{name}_by_broker": _by_broker(name, title, labels) for name, title in MEASURES}
        made |= {f"{name}_by_rack": _by_rack(name, title) for name, title in MEASURES}
        made["flows"] = _flows(labels)
    if batches:
        made["batch_bytes"] = _batches("gb", "GB to copy", len(batches))
        made["batch_level"] = _batches("level", "busiest ÷ mean", len(batches))
    return {name: _themed(chart).to_dict() for name, chart in made.items()}


def _axis(brokers: list[str]) -> alt.X:
    # Few brokers have their ids below them; of many, the tooltip tells which one it is.
    few = len(brokers) <= 60
    axis = alt.Axis(labels=few, ticks=few, labelAngle=0, title="brokers, rack by rack", grid=False)
    return alt.X("label:N", scale=alt.Scale(domain=brokers), axis=axis)


def _point_size(points: int) -> int:
    return max(8, min(90, 9000 // max(points, 1)))


def _by_broker(measure: str, title: str, brokers: list[str]) -> Drawn:
    """Before and after as points over each other, joined by a line; for bytes, the band of the fair share behind them."""
    base = alt.Chart(alt.NamedData("brokers")).encode(x=_axis(brokers), tooltip=TOOLTIP)
    axis = alt.Axis(title=title)
    layers: list[alt.Chart] = []
    if measure == "bytes":
        width = max(1, 500 // max(len(brokers), 1))
        band = base.mark_rule(strokeWidth=width, opacity=0.18, color=AFTER)
        layers.append(band.encode(y=alt.Y("low:Q", axis=axis), y2="high:Q"))
    rule = base.mark_rule(opacity=0.5, color=BEFORE)
    layers.append(rule.encode(y=alt.Y(f"{measure}_before:Q", axis=axis), y2=f"{measure}_after:Q"))
    for when, colour, filled in (("before", BEFORE, False), ("after", AFTER, True)):
        points = base.mark_point(color=colour, filled=filled, opacity=1, size=_point_size(len(brokers)))
        layers.append(points.encode(y=alt.Y(f"{measure}_{when}:Q", axis=axis)))
    return alt.layer(*layers).properties(width="container", height=230)


def _by_rack(measure: str, title: str) -> Drawn:
    colour = alt.Color(
        "when:N", scale=alt.Scale(domain=["before", "after"], range=[BEFORE, AFTER]), legend=alt.Legend(title=None)
    )
    chart: Drawn = (
        alt.Chart(alt.NamedData("racks"))
        .mark_bar()
        .encode(
            x=alt.X("rack:N", axis=alt.Axis(title=None, labelAngle=0, labelLimit=70)),
            xOffset=alt.XOffset("when:N", sort=["before", "after"]),
            y=alt.Y(f"{measure}:Q", axis=alt.Axis(title=title)),
            color=colour,
            tooltip=["rack:N", "when:N", alt.Tooltip("brokers:Q"), alt.Tooltip(f"{measure}:Q", format=",.2f")],
        )
        .properties(width="container", height=190)
    )
    return chart


def _flows(brokers: list[str]) -> Drawn:
    base = alt.Chart(alt.NamedData("brokers")).encode(x=_axis(brokers), tooltip=TOOLTIP)
    axis = alt.Axis(title="GB received (up), sent (down)")
    received = base.mark_bar(color=AFTER).encode(y=alt.Y("received:Q", axis=axis))
    sent = base.mark_bar(color=OTHER).transform_calculate(down="-datum.sent").encode(y=alt.Y("down:Q", axis=axis))
    return alt.layer(received, sent).properties(width="container", height=200)


def _batches(field: str, title: str, batches: int) -> Drawn:
    chart: Drawn = (
        alt.Chart(alt.NamedData("batches"))
        .mark_point(filled=True, color=AFTER, opacity=0.8, size=_point_size(batches))
        .encode(
            x=alt.X("batch:Q", axis=alt.Axis(title="batch", tickMinStep=1, grid=False)),
            y=alt.Y(f"{field}:Q", axis=alt.Axis(title=title)),
            tooltip=[
                alt.Tooltip("batch:Q"),
                alt.Tooltip("steps:Q"),
                alt.Tooltip("gb:Q", title="GB to copy", format=",.3f"),
                alt.Tooltip("level:Q", title="busiest ÷ mean", format=".2f"),
            ],
        )
        .properties(width="container", height=170)
    )
    return chart


def _themed(chart: Drawn) -> Drawn:
    """Ink of the page's own colour, so that charts follow its light or dark scheme."""
    themed: Drawn = (
        chart.configure(background="transparent", font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK, titleColor=INK, domainColor=GRID, tickColor=GRID, gridColor=GRID, titleFontWeight="normal"
        )
        .configure_legend(labelColor=INK, titleColor=INK, orient="top")
    )
    return themed
